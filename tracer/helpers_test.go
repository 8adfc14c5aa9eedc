package tracer

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func mustParse(t testing.TB, text string) *Trace {
	t.Helper()
	trace, err := ParseText([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func textOf(t testing.TB, trace *Trace) string {
	t.Helper()
	var b strings.Builder
	if err := WriteText(&b, trace); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// resolved is an event with its ids replaced by what they stand for.
type resolved struct {
	Event
	name   string
	args   string
	frames string
}

func resolve(t *Trace, e Event) resolved {
	r := resolved{name: t.String(e.Name), args: fmt.Sprintf("%q", t.Args[e.Args]), frames: resolveStack(t, e.Stack)}
	e.Name, e.Args, e.Stack = 0, 0, 0
	r.Event = e
	return r
}

func resolveStack(t *Trace, id StackID) string {
	s := t.Stacks[id]
	text := fmt.Sprint(s.Cut)
	for _, f := range s.Frames {
		fr := t.Frames[f]
		text += fmt.Sprintf(" %q %q %q %d %v", t.String(fr.Func), t.String(fr.Object), t.String(fr.BuildID), fr.Offset, fr.Kernel)
	}
	return text
}

// difference says how two traces differ besides the numbering of tables.
func difference(a, b *Trace) string {
	if !reflect.DeepEqual(a.Meta, b.Meta) {
		return fmt.Sprintf("meta %+v\n%+v", a.Meta, b.Meta)
	}
	if len(a.Tasks) != len(b.Tasks) || len(a.Events) != len(b.Events) || len(a.Stacks) != len(b.Stacks) {
		return "lengths"
	}
	for i := range a.Tasks {
		if !reflect.DeepEqual(a.Tasks[i], b.Tasks[i]) {
			return fmt.Sprintf("task %d:\n%+v\n%+v", i, a.Tasks[i], b.Tasks[i])
		}
	}
	for i := range a.Stacks {
		if x, y := resolveStack(a, StackID(i)), resolveStack(b, StackID(i)); x != y {
			return fmt.Sprintf("stack %d:\n%s\n%s", i, x, y)
		}
	}
	for i := range a.Events {
		if x, y := resolve(a, a.Events[i]), resolve(b, b.Events[i]); x != y {
			return fmt.Sprintf("event %d:\n%+v\n%+v", i, x, y)
		}
	}
	return ""
}

// hostile are texts that break careless formats.
var hostile = []string{"a", "main.(*T).run", "a b", "a,b;c", `"`, `\`, "#x", "@f1", "k=v", "[x]", "é", "\xff\x00", "\n", "->", "idle", "-", "0"}

func hostileText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(hostile), rapid.StringN(0, 12, 40),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }))
}

// validTrace draws traces that Validate accepts.
func validTrace() *rapid.Generator[*Trace] {
	return rapid.Custom(func(t *rapid.T) *Trace {
		g := traceGen{T: t, b: NewBuilder(), stacks: make([]StackID, 1), args: make([]ArgsID, 1)}
		g.meta()
		g.tables()
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			g.event()
		}
		return g.b.Trace()
	})
}

type traceGen struct {
	*rapid.T
	b      *Builder
	now    Time
	stacks []StackID // [0] is the empty one
	args   []ArgsID  // likewise
	status []TaskID
	ops    []TaskID // tasks that can still carry out an operation
	open   []Event
	flow   uint64
}

func (g *traceGen) text(what string) string { return hostileText().Draw(g.T, what) }

func (g *traceGen) texts(what string) []string {
	if l := rapid.SliceOfN(hostileText(), 0, 3).Draw(g.T, what); len(l) > 0 {
		return l
	}
	return nil
}

func (g *traceGen) meta() {
	g.now = Time(rapid.Int64Range(1, 1e15).Draw(g.T, "begin"))
	g.b.Meta = Meta{Backend: g.text("backend"), Host: g.text("host"), CPUs: 3, Begin: g.now, End: 1 << 60,
		SleepStack: Time(rapid.Int64().Draw(g.T, "sleepstack")), SelfPID: rapid.Int32().Draw(g.T, "self"),
		RunNs: rapid.Int64().Draw(g.T, "run"), Probes: g.texts("probes"), Notes: g.texts("notes")}
	if extra := rapid.MapOfN(hostileText(), hostileText(), 0, 3).Draw(g.T, "extra"); len(extra) > 0 {
		g.b.Meta.Extra = extra
	}
}

func (g *traceGen) tables() {
	n := rapid.IntRange(2, 6).Draw(g.T, "tasks")
	for i := range n {
		id := g.b.Task(TaskKey{TID: int32(i%3 + 1), Start: Time(i / 3 * 10)})
		info := g.b.TaskInfo(id)
		info.PID = info.TID
		if rapid.Bool().Draw(g.T, "thread") {
			info.PID = 1
		}
		info.NSPID = rapid.Int32Range(0, 3).Draw(g.T, "nspid")
		info.Comm, info.Cgroup = g.text("comm"), g.text("cgroup")
		info.Tracer, info.Kernel = rapid.Bool().Draw(g.T, "tracer"), rapid.Bool().Draw(g.T, "kernel")
		if p := TaskID(rapid.IntRange(-1, i).Draw(g.T, "parent")); p != id {
			info.Parent = p
		}
		for at := range rapid.IntRange(0, 2).Draw(g.T, "images") {
			if info.PID == info.TID {
				info.Images = append(info.Images, Image{Time: Time(at * rapid.IntRange(0, 1).Draw(g.T, "at")),
					Exe: g.text("exe"), Comm: g.text("image comm"), Argv: g.texts("argv"), Cut: rapid.Bool().Draw(g.T, "cut")})
				slices.SortFunc(info.Images, func(a, b Image) int { return int(a.Time - b.Time) })
			}
		}
		g.ops, g.status = append(g.ops, id), append(g.status, id)
	}
	for range rapid.IntRange(0, 4).Draw(g.T, "stacks") {
		g.stacks = append(g.stacks, g.stack())
	}
	for range rapid.IntRange(0, 3).Draw(g.T, "args") {
		g.args = append(g.args, g.b.Args(Args{{"path", g.text("path")}, {"flags", g.text("flags")}}))
	}
}

func (g *traceGen) stack() StackID {
	var ids []uint32
	for _, kernel := range []bool{true, false} {
		for range rapid.IntRange(0, 3).Draw(g.T, "frames") {
			f := Frame{Func: g.b.String(g.text("func")), Kernel: kernel}
			if kernel {
				f.Object = g.b.String("[kernel]")
			}
			if rapid.Bool().Draw(g.T, "full") {
				f.Object, f.BuildID, f.Offset = g.b.String(g.text("object")), g.b.String("ab12"), rapid.Uint64().Draw(g.T, "offset")
			}
			ids = append(ids, g.b.Frame(f))
		}
	}
	return g.b.Stack(ids, rapid.Bool().Draw(g.T, "cut"))
}

func (g *traceGen) task(what string) TaskID {
	return TaskID(rapid.IntRange(1, g.b.Tasks()-1).Draw(g.T, what))
}

// event adds one event of any kind that may come now, with every field its
// kind has.
func (g *traceGen) event() {
	e := Event{Kind: Kind(rapid.IntRange(1, int(kindCount)-1).Draw(g.T, "kind")), CPU: int16(rapid.IntRange(0, 2).Draw(g.T, "cpu"))}
	g.now += Time(rapid.Int64Range(1, 1e7).Draw(g.T, "dt"))
	e.Time, e.Seq = g.now, rapid.Uint32().Draw(g.T, "seq")
	fillFields(g, &e)
	switch e.Kind {
	case KindStatus:
		if len(g.status) == 0 {
			return
		}
		e.Task, g.status = g.status[0], g.status[1:]
	case KindOpBegin:
		if len(g.ops) == 0 {
			return
		}
		g.flow++
		e.Task, g.ops, e.Flow = g.ops[0], g.ops[1:], g.flow
		g.open = append(g.open, e)
	case KindOpEnd:
		if len(g.open) == 0 {
			return
		}
		e.Task, e.Flow, g.open = g.open[0].Task, g.open[0].Flow, g.open[1:]
	case KindSwitch:
		e.Flags = FlagIOWait
		if e.State == StateDead {
			e.State = StateBlocked
		}
	}
	if e.Kind != KindStatus { // which must be the first of its task
		g.status = nil
	}
	g.b.Add(e)
}

// fieldSetters draw a value for each field.
var fieldSetters = []struct {
	field Field
	set   func(g *traceGen, e *Event)
}{
	{HasTask, func(g *traceGen, e *Event) { e.Task = g.task("task") }},
	{HasPeer, func(g *traceGen, e *Event) { e.Peer = e.Task%TaskID(g.b.Tasks()-1) + 1 }}, // another one
	{HasClass, func(g *traceGen, e *Event) { e.Class = Class(g.pick(int(classCount)-1, "class") + 1) }},
	{HasName, func(g *traceGen, e *Event) { e.Name = g.b.String(g.text("name")) }},
	{HasArgs, func(g *traceGen, e *Event) { e.Args = g.args[g.pick(len(g.args), "args")] }},
	{HasStack, func(g *traceGen, e *Event) { e.Stack = g.stacks[g.pick(len(g.stacks), "stack")] }},
	{HasState, func(g *traceGen, e *Event) {
		e.State = []TaskState{StateUnknown, StateRunnable, StateBlocked}[g.pick(3, "state")]
	}},
	{HasCtx, func(g *traceGen, e *Event) { e.Ctx = Context(g.pick(int(ctxCount), "ctx")) }},
	{HasFlow, func(g *traceGen, e *Event) { e.Flow = rapid.Uint64().Draw(g.T, "flow") }},
	{HasValue, func(g *traceGen, e *Event) { e.Value = rapid.Int64().Draw(g.T, "value") }},
}

func (g *traceGen) pick(n int, what string) int { return rapid.IntRange(0, n-1).Draw(g.T, what) }

// fillFields gives an event a value in every field of its kind.
func fillFields(g *traceGen, e *Event) {
	for _, s := range fieldSetters {
		if Kinds[e.Kind].Fields&s.field != 0 {
			s.set(g, e)
		}
	}
	if e.Kind == KindLost {
		e.Value = int64(uint64(e.Value) >> 1)
	}
	if e.Kind == KindBegin {
		e.Class = ClassNetns // does not nest
	}
}
