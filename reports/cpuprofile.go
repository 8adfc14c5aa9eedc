package reports

import (
	"cmp"
	"io"
	"slices"
	"sort"

	"github.com/google/pprof/profile"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

var cpuTypes = []*profile.ValueType{
	{Type: "samples", Unit: "count"},
	{Type: "cpu", Unit: "nanoseconds"},
}

// writeCPUProfile writes the CPU samples of everything that took part in the
// operations: tasks on a path while the operation ran, and what the operation
// started or caused until it was over, also after its end.
func writeCPUProfile(w io.Writer, in *Input) error {
	each, err := operations(in)
	if err != nil {
		return err
	}
	s := newSampler(len(cpuTypes))
	var period tracer.Time
	var wall int64
	err = each(func(op *analysis.Operation) error {
		period = max(period, op.Trace.Meta.SamplePeriod)
		wall += op.WallNs
		s.addSamples(op)
		return nil
	})
	if err != nil {
		return err
	}
	p := s.profile(in.Result, cpuTypes, "cpu")
	p.DurationNanos = wall
	p.PeriodType, p.Period = &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, int64(period)
	return writeProfile(w, p)
}

func (s *sampler) addSamples(op *analysis.Operation) {
	s.use(op.Trace)
	sc := newScope(op)
	base := baseLabels(op)
	root := []uint32{s.operation(op)}
	ev := op.Trace.Events
	for i := sort.Search(len(ev), func(i int) bool { return ev[i].Time >= op.Begin }); i < len(ev); i++ {
		e := &ev[i]
		if e.Time >= op.End && e.Kind == tracer.KindOpBegin {
			break // what is caused from here on is the next operation's
		}
		if e.Kind != tracer.KindSample || !sc.has(e.Task, e.Time) {
			continue
		}
		l := base
		seg, off := sc.segment(e.Task, e.Time), sc.off(e.Task, e.Time)
		switch {
		case seg != nil:
			l.stage, l.path = Clean(op.StageName(seg)), "on"
		case off != nil:
			l.stage, l.path = Clean(op.StageName(&analysis.Segment{Stage: off.Stage})), "off"
		default:
			l.path = "off"
		}
		l.state = tracer.StateRunning.String()
		l.process, l.thread = s.names(op.Trace, e.Task, e.Time)
		stack := s.task(root[:1:1], op, moment{e.Task, e.Time, e.Stack, e.Name, seg})
		v := s.at(shorten(stack), l)
		v[0]++
		v[1] += e.Value
	}
}

// scope is which tasks belong to an operation, and to which part of it.
type scope struct {
	op      *analysis.Operation
	on      map[tracer.TaskID]bool
	offs    map[tracer.TaskID][]*analysis.OffPath // by begin
	descend map[tracer.TaskID]bool                // memo of descends
}

func newScope(op *analysis.Operation) *scope {
	s := &scope{op: op, on: map[tracer.TaskID]bool{}, offs: map[tracer.TaskID][]*analysis.OffPath{}, descend: map[tracer.TaskID]bool{op.Root: true}}
	for i := range op.Path.Segments {
		s.on[op.Path.Segments[i].Task] = true
	}
	for i := range op.Off {
		o := &op.Off[i]
		s.offs[o.Task] = append(s.offs[o.Task], o)
	}
	for _, l := range s.offs {
		slices.SortFunc(l, func(a, b *analysis.OffPath) int { return cmp.Compare(a.Begin, b.Begin) })
	}
	return s
}

// has reports whether a task's time at a moment counts. After the operation's
// end only what it left behind does, not the driver or a daemon that goes on.
func (s *scope) has(id tracer.TaskID, at tracer.Time) bool {
	if id <= 0 || int(id) >= len(s.op.Trace.Tasks) || s.op.Trace.Tasks[id].Tracer {
		return false
	}
	if at < s.op.End && (s.on[id] || s.op.Root == id) {
		return true
	}
	return s.off(id, at) != nil || id != s.op.Root && s.descends(id)
}

// descends reports whether the operation's root task started a task, or one
// that did, since the operation began.
func (s *scope) descends(id tracer.TaskID) bool {
	if got, ok := s.descend[id]; ok {
		return got
	}
	if id <= 0 || int(id) >= len(s.op.Trace.Tasks) {
		return false
	}
	s.descend[id] = false // breaks cycles of a damaged trace
	t := &s.op.Trace.Tasks[id]
	got := t.Born >= s.op.Begin && t.Born > 0 && t.Born < s.op.End && s.descends(t.Parent)
	if t.Born >= s.op.End { // born of a task that the operation left behind
		got = t.Parent != s.op.Root && s.descends(t.Parent)
	}
	s.descend[id] = got
	return got
}

// segment is the piece of the path that a task is on at a moment.
func (s *scope) segment(id tracer.TaskID, at tracer.Time) *analysis.Segment {
	segs := s.op.Path.Segments
	i := sort.Search(len(segs), func(i int) bool { return segs[i].End > at })
	if i < len(segs) && segs[i].Begin <= at && segs[i].Task == id {
		return &segs[i]
	}
	return nil
}

func (s *scope) off(id tracer.TaskID, at tracer.Time) *analysis.OffPath {
	l := s.offs[id]
	i := sort.Search(len(l), func(i int) bool { return l[i].Begin > at }) - 1
	if i >= 0 && at < l[i].End {
		return l[i]
	}
	return nil
}
