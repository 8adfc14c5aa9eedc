package stage

import (
	"testing"

	"stagetrace/tracer"
)

// mine binds a small set of its own.
func mine(t *testing.T, rules string, build func(w *world)) (*Set, *Matcher) {
	t.Helper()
	f, err := Parse("x", []byte("set: x\nroles: [{role: db, when: [{exe: '**/mydb'}]}]\nwaits: [{wait: disk, title: D}, {wait: lock.a, title: A}]\nstages:\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compose(nil, []*File{f})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	build(w)
	return s, s.Bind(w.Trace())
}

// Each term alone, with a situation that meets it and one that does not.
func TestTerms(t *testing.T) {
	var db, other tracer.TaskID
	var read, write, ns tracer.StringID
	var a, b, path, flags tracer.ArgsID
	var fg, gf, userStack, sched tracer.StackID
	build := func(w *world) {
		db, other = w.process("mydb:worker", "", "/opt/mydb mydb"), w.process("other", "", "/bin/other other")
		w.TaskInfo(db).Cgroup = "/system.slice/mydb.service"
		read, write, ns = w.String("read"), w.String("write"), w.String("unshare")
		a, b = w.Args(tracer.Args{{Key: "fstype", Value: "overlay"}}), w.Args(tracer.Args{{Key: "fstype", Value: "tmpfs"}})
		path = w.Args(tracer.Args{{Key: "path", Value: "/src"}, {Key: "target", Value: "/var/lib/x"}})
		flags = w.Args(tracer.Args{{Key: "flags", Value: "CLONE_NEWNS|CLONE_NEWNET"}})
		fg, gf = w.kernelStack("f.isra.0", "g+0x10"), w.kernelStack("g", "f")
		sched = w.kernelStack("schedule", "io_schedule", "f", "g")
		userStack = w.Stack([]uint32{w.Frame(tracer.Frame{Func: w.String("main.work"), Object: w.String("/opt/mydb")})}, false)
	}
	for _, c := range []struct {
		rule    string
		yes, no func(m *Matcher, s *Situation)
	}{
		{"syscall: read", func(_ *Matcher, s *Situation) { s.Syscall = read }, func(_ *Matcher, s *Situation) { s.Syscall = write }},
		{"syscall: read", func(m *Matcher, s *Situation) {
			s.Spans = m.Spans(m.Spans(0, tracer.ClassSyscall, read, 0), tracer.ClassWork, write, 0)
		},
			func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassFunc, read, 0) }},
		{"syscall: none", func(_ *Matcher, s *Situation) {}, func(_ *Matcher, s *Situation) { s.Syscall = read }},
		{"{syscall: unshare, fstype: overlay}", func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassSyscall, ns, a) },
			func(m *Matcher, s *Situation) { s.Syscall, s.Spans = ns, m.Spans(0, tracer.ClassSyscall, ns, b) }},
		{"{syscall: unshare, path: '/var/**'}", func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassSyscall, ns, path) },
			func(m *Matcher, s *Situation) { s.Syscall = ns }},
		{"{syscall: unshare, flags: [CLONE_NEWUSER, CLONE_NEWNET]}", func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassSyscall, ns, flags) },
			func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassSyscall, ns, path) }},
		{"{syscall: unshare, flags: CLONE_NEWNE}", nil, func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassSyscall, ns, flags) }},
		{"{func: f, under: g}", func(_ *Matcher, s *Situation) { s.Stack = fg }, func(_ *Matcher, s *Situation) { s.Stack = gf }},
		{"func: 'f*'", func(_ *Matcher, s *Situation) { s.Stack = gf }, func(_ *Matcher, s *Situation) { s.Stack = userStack }},
		{"func: read", func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassFunc, read, 0) }, func(_ *Matcher, s *Situation) { s.Syscall = read }},
		{"leaf: f", func(_ *Matcher, s *Situation) { s.Stack = sched }, func(_ *Matcher, s *Situation) { s.Stack = gf }},
		{"{user: 'main.*', object: /opt/*}", func(_ *Matcher, s *Situation) { s.Stack = userStack }, func(_ *Matcher, s *Situation) { s.Stack = fg }},
		{"work: read", func(m *Matcher, s *Situation) { s.Spans = m.Spans(0, tracer.ClassWork, read, 0) }, func(_ *Matcher, s *Situation) {}},
		{"task: 'mydb*'", func(m *Matcher, s *Situation) { s.Actor = m.Actor(db, 1) }, func(m *Matcher, s *Situation) { s.Actor = m.Actor(other, 1) }},
		{"exe: /opt/**", func(m *Matcher, s *Situation) { s.Actor = m.Actor(db, 1) }, func(m *Matcher, s *Situation) { s.Actor = m.Actor(other, 1) }},
		{"cgroup: '**/mydb.service'", func(m *Matcher, s *Situation) { s.Actor = m.Actor(db, 1) }, func(m *Matcher, s *Situation) { s.Actor = m.Actor(other, 1) }},
		{"role: db", func(m *Matcher, s *Situation) { s.Actor = m.Actor(db, 1) }, func(m *Matcher, s *Situation) { s.Actor = 0 }},
		{"not-role: db", func(m *Matcher, s *Situation) { s.Actor = m.Actor(other, 1) }, func(m *Matcher, s *Situation) { s.Actor = m.Actor(db, 1) }},
		{"state: [blocked, runnable]", func(_ *Matcher, s *Situation) { s.State = tracer.StateBlocked }, func(_ *Matcher, s *Situation) { s.State = tracer.StateRunning }},
		{"wait: 'lock.*'", func(_ *Matcher, s *Situation) { s.Wait = 1 }, func(_ *Matcher, s *Situation) { s.Wait = 0 }},
		{"phase: exiting", func(_ *Matcher, s *Situation) { s.Phase = PhaseExiting }, func(_ *Matcher, s *Situation) { s.Phase = PhaseRunning }},
		{"phase: before-exec", func(_ *Matcher, s *Situation) { s.Phase = PhaseBeforeExec }, func(_ *Matcher, s *Situation) {}},
	} {
		rule := c.rule
		if rule[0] != '{' {
			rule = "{" + rule + "}"
		}
		_, m := mine(t, "  - {stage: a.b, title: T, when: ["+rule+"]}\n", build)
		for want, f := range map[ID]func(*Matcher, *Situation){0: c.yes, NoStage: c.no} {
			if f == nil {
				continue
			}
			s := Situation{Wait: NoWait}
			f(m, &s)
			if got := m.Stage(&s); got != want {
				t.Errorf("%s: %d for %+v, want %d", c.rule, got, s, want)
			}
		}
	}
}

// Rules are evaluated once per different situation, whatever the number of
// questions, also while the memo grows.
func TestMemo(t *testing.T) {
	s := mustLoad(t, "container")
	w := newWorld()
	stack := w.kernelStack("do_fsync")
	task := roleFixtures["daemon"](w)
	m := s.Bind(w.Trace())
	sit := Situation{Actor: m.Actor(task, 1), Wait: NoWait, Phase: PhaseRunning}
	want := s.StageNamed("state.persist")
	const n = 5000
	for range 3 {
		for i := range n {
			sit.Stack, sit.State = stack, tracer.TaskState(1+i%3)
			sit.Windows, sit.Syscall = uint64(i)<<40, tracer.StringID(i)
			if got := m.Stage(&sit); got != want {
				t.Fatalf("situation %d: %s", i, s.text(got))
			}
		}
	}
	if m.evals != n {
		t.Errorf("rules were evaluated %d times for %d situations", m.evals, n)
	}
}

func TestSpans(t *testing.T) {
	m := mustLoad(t, "linux").Bind(newWorld().Trace())
	a := m.Spans(0, tracer.ClassSyscall, 1, 2)
	b := m.Spans(a, tracer.ClassWork, 3, 0)
	if a == b || a == 0 || m.Spans(0, tracer.ClassSyscall, 1, 2) != a || m.Spans(a, tracer.ClassWork, 3, 0) != b {
		t.Error("spans are not interned")
	}
	if class, name, args, parent := m.SpansTop(b); class != tracer.ClassWork || name != 3 || args != 0 || parent != a {
		t.Error("the innermost span is", class, name, args, parent)
	}
	if class, _, _, parent := m.SpansTop(0); class != tracer.ClassNone || parent != 0 {
		t.Error("there is a span where none is open")
	}
}

// Ids that a damaged trace may hold.
func TestOutOfRange(t *testing.T) {
	w := newWorld()
	id := w.process("x", "")
	w.TaskInfo(id).Parent = 99
	tr := w.Trace()
	tr.Stacks = append(tr.Stacks, tracer.Stack{Frames: []uint32{77}})
	m := mustLoad(t, "container").Bind(tr)
	for _, s := range []Situation{{Actor: 99}, {Spans: 99}, {Stack: 1}, {Stack: 99}, {Syscall: 99}, {Wait: 999}, {State: 9}} {
		m.Stage(&s)
	}
	m.Actor(99, 1)
	m.Actor(id, 1)
	m.SpansTop(99)
	m.Wait(99, 99, 99, ^tracer.Flags(0))
	m.Windows(99, 0, 1, []Moment{{Waker: 99}})
}

func BenchmarkStageHit(b *testing.B) {
	s := mustLoad(b, "container")
	w := newWorld()
	stack := w.kernelStack("io_schedule", "folio_wait_writeback", "ext4_sync_file", "do_fsync")
	task := roleFixtures["daemon"](w)
	m := s.Bind(w.Trace())
	sits := make([]Situation, 1024)
	for i := range sits {
		sits[i] = Situation{Actor: m.Actor(task, 1), Stack: stack, Syscall: tracer.StringID(i), State: tracer.StateBlocked, Wait: NoWait}
		m.Stage(&sits[i])
	}
	for i := 0; b.Loop(); i++ {
		m.Stage(&sits[i&1023])
	}
}

func BenchmarkStageMiss(b *testing.B) {
	s := mustLoad(b, "container")
	w := newWorld()
	stack := w.kernelStack("io_schedule", "folio_wait_writeback", "ext4_sync_file", "do_fsync")
	task := roleFixtures["daemon"](w)
	m := s.Bind(w.Trace())
	sit := Situation{Actor: m.Actor(task, 1), Stack: stack, State: tracer.StateBlocked, Wait: NoWait}
	for b.Loop() {
		m.evals++
		q := question{s: &sit, actor: m.actor(sit.Actor), stack: m.frames.bits(sit.Stack)}
		m.first(&q, 0, -1)
	}
}

func BenchmarkActor(b *testing.B) {
	w := newWorld()
	task := roleFixtures["daemon"](w)
	m := mustLoad(b, "container").Bind(w.Trace())
	for b.Loop() {
		m.Actor(task, 1)
	}
}
