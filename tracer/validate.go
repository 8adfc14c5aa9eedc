package tracer

import (
	"errors"
	"fmt"
)

// maxErrors bounds what Validate says about one trace.
const maxErrors = 20

// Validate joins what (*Trace).Validate finds; nil when the trace is sound.
func Validate(t *Trace) error { return errors.Join(t.Validate()...) }

// Validate checks everything that the rest of the program relies on: ids lie
// within their tables, events are in order and use the fields of their kind,
// tasks have leaders that lead, spans nest and operations pair as far as
// nothing was lost. Each error names the event's index and gives its text
// form, or names the task. At most 20 are returned, then one that says so.
func (t *Trace) Validate() []error {
	v := &validator{t: t}
	v.meta()
	v.tables()
	if len(v.errs) > 0 {
		return v.errs // the events would be judged by broken tables
	}
	v.tasks()
	v.events()
	return v.errs
}

// validator collects errors.
type validator struct {
	t    *Trace
	text *textWriter // made when the first event is at fault
	errs []error
}

func (v *validator) full() bool { return len(v.errs) > maxErrors }

func (v *validator) errorf(format string, args ...any) {
	switch {
	case len(v.errs) < maxErrors:
		v.errs = append(v.errs, fmt.Errorf(format, args...))
	case len(v.errs) == maxErrors:
		v.errs = append(v.errs, errors.New("more errors follow"))
	}
}

// eventf is errorf about an event.
func (v *validator) eventf(i int, format string, args ...any) {
	if v.full() {
		return
	}
	if v.text == nil {
		v.text = newTextWriter(v.t)
	}
	e := &v.t.Events[i]
	v.text.next[e.CPU] = e.Seq
	v.errorf("event %d (%s): %s", i, v.text.event(e), fmt.Sprintf(format, args...))
}

func (v *validator) taskf(id TaskID, format string, args ...any) {
	t := &v.t.Tasks[id]
	v.errorf("task %d (tid %d, %q): %s", id, t.TID, t.Comm, fmt.Sprintf(format, args...))
}

func (v *validator) meta() {
	m := &v.t.Meta
	if m.Begin > m.End {
		v.errorf("trace begins at %s, after its end at %s", formatTime(m.Begin), formatTime(m.End))
	}
	if m.CPUs < 1 || m.CPUs > 1<<15 {
		v.errorf("trace has %d cpus, want 1 to 32768", m.CPUs)
	}
}

// tables checks the empty entries and that tables refer to what exists.
func (v *validator) tables() {
	t := v.t
	if len(t.Tasks) == 0 || len(t.Strings) == 0 || len(t.Args) == 0 || len(t.Stacks) == 0 {
		v.errorf("a table lacks its first, empty entry: %d tasks, %d strings, %d args, %d stacks",
			len(t.Tasks), len(t.Strings), len(t.Args), len(t.Stacks))
		return
	}
	if t.Strings[0] != "" || len(t.Args[0]) != 0 || len(t.Stacks[0].Frames) != 0 || t.Stacks[0].Cut {
		v.errorf("the first entry of strings, args and stacks must be empty")
	}
	for i := range t.Args {
		for _, a := range t.Args[i] {
			if ArgKeys[a.Key] == "" {
				v.errorf("args %d: unknown key %q", i, a.Key)
			}
		}
	}
	strings := StringID(len(t.Strings))
	for i, f := range t.Frames {
		if f.Func >= strings || f.Object >= strings || f.BuildID >= strings {
			v.errorf("frame %d refers to a string outside of the table of %d", i, strings)
		}
	}
	for i := range t.Stacks {
		v.stack(i)
	}
}

func (v *validator) stack(i int) {
	user := false
	for _, f := range v.t.Stacks[i].Frames {
		if int(f) >= len(v.t.Frames) {
			v.errorf("stack %d refers to frame %d, there are %d", i, f, len(v.t.Frames))
			return
		}
		if v.t.Frames[f].Kernel && user {
			v.errorf("stack %d has a kernel frame under a user frame", i)
			return
		}
		user = user || !v.t.Frames[f].Kernel
	}
}

func (v *validator) tasks() {
	tasks := v.t.Tasks
	keys := make(map[TaskKey]TaskID, len(tasks))
	if idle := &tasks[Idle]; idle.TID != 0 || idle.Leader != Idle || idle.Parent != NoTask || !idle.Kernel {
		v.taskf(Idle, "the first task is the idle task: tid 0, its own leader, no parent, a kernel thread")
	}
	for i := range tasks {
		id, t := TaskID(i), &tasks[i]
		key := TaskKey{t.TID, t.Start}
		if other, ok := keys[key]; ok {
			v.taskf(id, "same tid and start as task %d", other)
		}
		keys[key] = id
		if id != Idle && (t.TID <= 0 || t.PID <= 0) {
			v.taskf(id, "tid %d and pid %d must be positive", t.TID, t.PID)
		}
		v.relatives(id, t)
		v.images(id, t)
	}
}

func (v *validator) relatives(id TaskID, t *Task) {
	n := TaskID(len(v.t.Tasks))
	if t.Parent < NoTask || t.Parent >= n || t.Parent == id {
		v.taskf(id, "parent %d is not another task of %d", t.Parent, n)
	}
	switch {
	case id == Idle:
	case t.Leader <= Idle || t.Leader >= n:
		v.taskf(id, "leader %d is not a task of %d", t.Leader, n)
	case v.t.Tasks[t.Leader].Leader != t.Leader:
		v.taskf(id, "leader %d is led by %d itself", t.Leader, v.t.Tasks[t.Leader].Leader)
	case v.t.Tasks[t.Leader].PID != t.PID:
		v.taskf(id, "pid %d, but its leader's is %d", t.PID, v.t.Tasks[t.Leader].PID)
	}
}

func (v *validator) images(id TaskID, t *Task) {
	if len(t.Images) > 0 && id != Idle && t.Leader != id {
		v.taskf(id, "has images, but does not lead its process")
	}
	for i := 1; i < len(t.Images); i++ {
		if t.Images[i].Time < t.Images[i-1].Time {
			v.taskf(id, "image %d (%q) is older than the one before it", i, t.Images[i].Exe)
		}
	}
}

// events checks each event by itself, the order, and what spans events.
func (v *validator) events() {
	t := v.t
	pairs := newPairing(v)
	for i := range t.Events {
		if v.full() {
			return
		}
		e := &t.Events[i]
		if !v.event(i, e) {
			continue
		}
		if i > 0 && !t.Events[i-1].Less(e) {
			v.eventf(i, "not after the event before it by (time, cpu, seq)")
		}
		pairs.event(i, e)
	}
}

// event checks one event by itself. It reports whether its ids can be used.
func (v *validator) event(i int, e *Event) bool {
	if e.Kind == KindNone || e.Kind >= kindCount {
		v.eventf(i, "kind %d", e.Kind)
		return false
	}
	if msg := boundsError(v.t, e); msg != "" {
		v.eventf(i, "%s", msg)
		return false
	}
	if e.Time < v.t.Meta.Begin || e.Time > v.t.Meta.End {
		v.eventf(i, "outside of the trace, which is %s to %s", formatTime(v.t.Meta.Begin), formatTime(v.t.Meta.End))
	}
	if e.CPU < 0 || int(e.CPU) >= v.t.Meta.CPUs {
		v.eventf(i, "cpu %d, there are %d", e.CPU, v.t.Meta.CPUs)
	}
	fields := Kinds[e.Kind].Fields
	for _, f := range fieldTable {
		if fields&f.field == 0 && !f.zero(e) {
			v.eventf(i, "%s has no %s", e.Kind, f.name)
		}
	}
	for bit := range flagKinds {
		if e.Flags&(1<<bit) != 0 && flagKinds[bit]&(1<<e.Kind) == 0 {
			v.eventf(i, "%s has no flag %s", e.Kind, FlagNames[bit])
		}
	}
	if e.Flags>>flagCount != 0 {
		v.eventf(i, "unknown flag bits %#x", uint16(e.Flags>>flagCount<<flagCount))
	}
	v.sense(i, e)
	return true
}

// sense checks that what a kind needs is there.
func (v *validator) sense(i int, e *Event) {
	for _, r := range senseRules {
		if r.kinds&(1<<e.Kind) != 0 && r.broken(e) {
			v.eventf(i, "%s", r.msg)
		}
	}
}

// kindSet is a bit per kind.
type kindSet uint32

func kindBits(kinds ...Kind) (s kindSet) {
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// withField is the set of kinds that have a field.
func withField(f Field) (s kindSet) {
	for k := range Kinds {
		if Kinds[k].Fields&f != 0 {
			s |= 1 << k
		}
	}
	return s
}

// flagKinds says which kinds a flag belongs to, by bit number; it repeats the
// comments at the flags.
var flagKinds = [flagCount]kindSet{
	kindBits(KindSwitch),                    // preempt
	kindBits(KindSwitch, KindStatus),        // iowait
	kindBits(KindSwitch, KindStatus),        // uninterruptible
	kindBits(KindSwitch, KindStatus),        // stopped
	kindBits(KindSwitch, KindStatus),        // traced
	kindBits(KindSwitch, KindStatus),        // frozen
	kindBits(KindSwitch, KindStatus),        // idle
	kindBits(KindWake, KindSend, KindBegin), // inline
	kindBits(KindEnd, KindExit, KindOpEnd),  // failed
	kindBits(KindWake, KindSwitch),          // tracer
	kindBits(KindOpBegin, KindOpEnd),        // warmup
	kindBits(KindExit),                      // group
	kindBits(KindWake),                      // spurious
}

// fieldTable tells for each field whether an event leaves it unset.
var fieldTable = []struct {
	field Field
	name  string
	zero  func(*Event) bool
}{
	{HasTask, "task", func(e *Event) bool { return e.Task == 0 }},
	{HasPeer, "peer", func(e *Event) bool { return e.Peer == 0 }},
	{HasClass, "class", func(e *Event) bool { return e.Class == ClassNone }},
	{HasName, "name", func(e *Event) bool { return e.Name == 0 }},
	{HasArgs, "args", func(e *Event) bool { return e.Args == 0 }},
	{HasStack, "stack", func(e *Event) bool { return e.Stack == 0 }},
	{HasState, "state", func(e *Event) bool { return e.State == StateUnknown }},
	{HasCtx, "ctx", func(e *Event) bool { return e.Ctx == CtxTask }},
	{HasFlow, "flow", func(e *Event) bool { return e.Flow == 0 }},
	{HasValue, "value", func(e *Event) bool { return e.Value == 0 }},
}

// senseRules are what an event of some kinds must not be.
var senseRules = []struct {
	kinds  kindSet
	broken func(*Event) bool
	msg    string
}{
	{withField(HasClass), func(e *Event) bool { return e.Class == ClassNone }, "needs a class"},
	{kindBits(KindLost), func(e *Event) bool { return e.Value < 0 }, "lost a negative number of events"},
	{kindBits(KindStatus, KindFork, KindExec, KindExit, KindOpBegin, KindOpEnd),
		func(e *Event) bool { return e.Task == Idle }, "the idle task does not do this"},
	{kindBits(KindStatus, KindExit, KindExec, KindOpBegin, KindOpEnd),
		func(e *Event) bool { return e.Task == NoTask }, "needs a task"},
	{kindBits(KindWake, KindFork), func(e *Event) bool { return e.Peer <= Idle }, "needs a peer that is a task"},
	{kindBits(KindExec), func(e *Event) bool { return e.Peer == Idle }, "peer is the idle task; for none it is NoTask"},
	{kindBits(KindFork, KindExec), func(e *Event) bool { return e.Peer == e.Task }, "peer is the task itself"},
	{kindBits(KindSwitch), func(e *Event) bool { return e.Peer == e.Task && e.Task != NoTask }, "switches to the task that it stops"},
	{kindBits(KindSwitch), func(e *Event) bool { return e.State == StateRunning }, "a task that the CPU stops is not running"},
	{kindBits(KindSwitch), func(e *Event) bool { return e.Flags&FlagPreempt != 0 && e.State != StateRunnable },
		"a preempted task is runnable"},
	{kindBits(KindOpBegin, KindOpEnd), func(e *Event) bool { return e.Flow == 0 }, "operations are numbered from 1"},
}

// boundsError says which id of an event lies outside of its table or range;
// "" when none does. The recorded file's reader uses it too, so that nothing
// read from a file can index out of range.
func boundsError(t *Trace, e *Event) string {
	n := TaskID(len(t.Tasks))
	switch {
	case e.Kind >= kindCount:
		return fmt.Sprintf("kind %d is unknown", e.Kind)
	case e.Task < NoTask || e.Task >= n:
		return fmt.Sprintf("task %d, there are %d", e.Task, n)
	case e.Peer < NoTask || e.Peer >= n:
		return fmt.Sprintf("peer %d, there are %d", e.Peer, n)
	case int(e.Name) >= len(t.Strings):
		return fmt.Sprintf("string %d, there are %d", e.Name, len(t.Strings))
	case int(e.Args) >= len(t.Args):
		return fmt.Sprintf("args %d, there are %d", e.Args, len(t.Args))
	case int(e.Stack) >= len(t.Stacks):
		return fmt.Sprintf("stack %d, there are %d", e.Stack, len(t.Stacks))
	case e.Class >= classCount:
		return fmt.Sprintf("class %d is unknown", e.Class)
	case e.State >= stateCount:
		return fmt.Sprintf("state %d is unknown", e.State)
	case e.Ctx >= ctxCount:
		return fmt.Sprintf("context %d is unknown", e.Ctx)
	}
	return ""
}
