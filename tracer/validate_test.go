package tracer

import (
	"strings"
	"testing"
)

const tasksAB = "meta begin=0 end=100 cpus=2\ntask a tid=10\ntask b tid=11\ntask t tid=12 pid=10\n"

// TestInvalidTexts: what the text form can say and Validate refuses.
func TestInvalidTexts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"5 0 sync\n5 0 sync seq=0", "not after"},
		{"101 0 sync", "outside"},
		{"5 2 sync", "cpu 2, there are 2"},
		{"5 -1 sync", "cpu -1"},
		{"5 0 none", "kind 0"},
		{"5 0 lost value=-1", "negative"},
		{"5 0 sync flags=preempt", "sync has no flag preempt"},
		{"5 0 begin a name=x", "needs a class"},
		{"5 0 fork a", "needs a peer"},
		{"5 0 fork a -> a", "itself"},
		{"5 0 fork idle -> a", "idle task does not"},
		{"5 0 exit -", "needs a task"},
		{"5 0 wake a -> idle", "needs a peer"},
		{"5 0 exec a -> idle", "peer is the idle task"},
		{"5 0 switch a -> a", "switches to the task"},
		{"5 0 switch a -> b state=running", "is not running"},
		{"5 0 switch a -> b flags=preempt state=blocked", "preempted"},
		{"5 0 op-begin a", "numbered from 1"},
		{"5 0 wake a -> b\n6 0 status b", "status of a task"},
		{"5 0 status b\n6 0 status b", "status of a task"},
		{"5 0 switch a -> b state=dead\n6 0 switch b -> a", "dead"},
		{"5 0 begin a class=syscall name=read\n6 0 begin a class=syscall name=write", `inside of syscall "read"`},
		{"5 0 begin a class=func name=f\n6 0 begin a class=func name=g\n7 0 end a class=func name=f", `"g" is open`},
		{"5 0 begin a class=work name=f\n6 0 end a class=work name=g", `ends work "g"`},
		{"5 0 op-end a flow=1", "did not begin"},
		{"5 0 op-begin a flow=1\n6 0 op-begin b flow=1", "begins twice"},
		{"5 0 op-begin a flow=1\n6 0 op-begin a flow=2", "still carrying out operation 1"},
		{"5 0 op-begin a flow=1\n6 0 op-end b flow=1", "begun by task 1"},
		{"5 0 op-begin a flow=1\n6 0 op-end a flow=1\n7 0 op-end a flow=1", "ended before"},
		{"5 0 point a class=func args=color:red", "unknown key"},
		{"meta begin=101", "after its end"},
		{"meta cpus=0", "0 cpus"},
		{"task idle parent=a", "first task is the idle task"},
		{"task x tid=-3", "must be positive"},
		{"task x parent=x", "parent"},
		{"task x leader=t", "is led by"},
		{"task x leader=a", "its leader's is 10"},
		{"task x leader=-\nimage t exe=x", "does not lead"},
		{"image a at=5 exe=x\nimage a at=4 exe=y", "older"},
		{"stack s user=f kernel=g", "kernel frame under a user"},
	} {
		err := Validate(mustParse(t, tasksAB+c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestValidTexts: what looks wrong and is not.
func TestValidTexts(t *testing.T) {
	for name, text := range map[string]string{
		"span older than the trace":     "5 0 end a class=func name=f",
		"span longer than the trace":    "5 0 begin a class=syscall name=read",
		"a class within another":        "5 0 begin a class=func name=f\n6 0 begin a class=syscall name=x\n7 0 end a class=func name=f",
		"two tasks":                     "5 0 begin a class=syscall name=x\n6 0 begin b class=syscall name=y\n7 0 end a class=syscall name=x",
		"interrupts of two CPUs' idles": "5 0 begin idle class=irq name=x\n6 1 begin idle class=irq name=y\n7 0 end idle class=irq name=x",
		"end without a name":            "5 0 begin a class=syscall name=rt_sigreturn\n6 0 end a class=syscall\n7 0 begin a class=syscall name=x",
		"begin lost":                    "5 0 begin a class=syscall name=x\n6 0 begin a class=syscall name=y\n7 1 lost value=1",
		"nothing lost, then lost":       "4 1 lost value=0\n5 1 begin a class=syscall name=x\n6 1 end a class=syscall name=y\n7 1 lost value=2",
		"exit ends all":                 "5 0 begin a class=syscall name=exit_group\n6 0 exit a\n7 0 begin a class=syscall name=x",
		"exec takes the tid over":       "5 0 begin t class=syscall name=execve\n6 0 begin a class=syscall name=read\n7 0 exec a -> t\n8 0 end a class=syscall name=execve\n9 0 begin a class=syscall name=brk",
		"namespace ends elsewhere":      "5 0 begin a class=netns flow=3\n6 0 end b class=netns flow=3",
		"operation cut by the end":      "5 0 op-begin a flow=1",
		"operations of two tasks":       "5 0 op-begin a flow=1\n6 0 op-begin b flow=2\n7 0 op-end a flow=1\n8 0 op-begin a flow=3",
		"to nobody known":               "5 0 switch a -> -\n6 0 switch - -> a",
	} {
		if err := Validate(mustParse(t, tasksAB+text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnusedFields gives each kind, by the table, each field it does not have.
func TestUnusedFields(t *testing.T) {
	set := map[Field]func(*Event){
		HasTask: func(e *Event) { e.Task = 1 }, HasPeer: func(e *Event) { e.Peer = 2 }, HasClass: func(e *Event) { e.Class = ClassIO },
		HasName: func(e *Event) { e.Name = 1 }, HasArgs: func(e *Event) { e.Args = 1 }, HasStack: func(e *Event) { e.Stack = 1 },
		HasState: func(e *Event) { e.State = StateBlocked }, HasCtx: func(e *Event) { e.Ctx = CtxNMI },
		HasFlow: func(e *Event) { e.Flow = 1 }, HasValue: func(e *Event) { e.Value = 1 },
	}
	if len(set) != len(fieldTable) {
		t.Fatalf("%d fields, %d in the table", len(set), len(fieldTable))
	}
	for kind := KindNone + 1; kind < kindCount; kind++ {
		for _, f := range fieldTable {
			trace := mustParse(t, tasksAB+"stack s user=f\n1 0 point a class=func name=x args=fd:1")
			e := Event{Time: 5, Kind: kind, Seq: 9}
			for field, s := range set {
				if Kinds[kind].Fields&field != 0 || field == f.field {
					s(&e)
				}
			}
			trace.Events = append(trace.Events, e)
			err := Validate(trace)
			said := err != nil && strings.Contains(err.Error(), "has no "+f.name)
			if want := Kinds[kind].Fields&f.field == 0; said != want {
				t.Errorf("%s with %s: %v", kind, f.name, err)
			}
		}
	}
}

func TestValidateNamesTheEvent(t *testing.T) {
	errs := mustParse(t, tasksAB+"1 0 sync\n2us 1 wake a -> b flags=preempt").Validate()
	const want = "event 1 (2us 1 wake a -> b flags=preempt): wake has no flag preempt"
	if len(errs) != 2 || !strings.HasPrefix(errs[0].Error(), "event 1 (2us 1 wake a -> b flags=preempt): outside") || errs[1].Error() != want {
		t.Errorf("%q", errs)
	}
}

func TestValidateIsBounded(t *testing.T) {
	if errs := mustParse(t, tasksAB+strings.Repeat("5 0 sync seq=1\n", 1000)).Validate(); len(errs) != maxErrors+1 {
		t.Errorf("%d errors", len(errs))
	}
}

func TestValidateBroken(t *testing.T) {
	for name, spoil := range map[string]func(*Trace){
		"zero":        func(t *Trace) { *t = Trace{} },
		"first entry": func(t *Trace) { t.Strings[0] = "x" },
		"task":        func(t *Trace) { t.Events[2].Task = 99 },
		"kind":        func(t *Trace) { t.Events[2].Kind = 99 },
		"flag":        func(t *Trace) { t.Events[2].Flags = 1 << 15 },
		"frame":       func(t *Trace) { t.Frames[0].Func = 9999 },
		"stack":       func(t *Trace) { t.Stacks[1].Frames[0] = 9999 },
		"leader":      func(t *Trace) { t.Tasks[1].Leader = -3 },
		"no pid":      func(t *Trace) { t.Tasks[3].PID = 0 },
		"no leader":   func(t *Trace) { t.Tasks[1].Leader = NoTask },
		"parent":      func(t *Trace) { t.Tasks[1].Parent = 99 },
		"same key":    func(t *Trace) { t.Tasks[2].TID = t.Tasks[1].TID; t.Tasks[2].Start = t.Tasks[1].Start },
	} {
		trace := mustParse(t, everyKind)
		spoil(trace)
		if err := Validate(trace); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
