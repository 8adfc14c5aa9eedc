package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// trackSink is a format for trace viewers: tracks of slices, arrows between
// slices, counters. A track is described before anything is on it, its parent
// before itself. Slices of one track nest.
type trackSink interface {
	track(t *track)
	slice(s *slice)
	counter(t *track, at tracer.Time, value int64)
	close() error // the first error of all
}

// track is a line of a viewer: a process, a thread of one, or a counter.
type track struct {
	id       uint64 // from 1
	parent   *track // the process; nil: none
	name     string
	pid, tid int32  // no two processes and no two threads have the same; pid -1: of no process, tid -1: not a thread's main track
	counter  string // what it counts; "": it has slices
}

// trackKey names a track of a task: its path, its calls, or its work off the
// path (from offLane, as many as overlap).
type trackKey struct {
	task tracer.TaskKey
	lane int
}

const (
	pathLane = iota
	callLane
	offLane
)

// annotation is one named value of a slice: a text, or a number when it has none.
type annotation struct {
	name, text string
	number     int64
}

// slice is one span on a track.
type slice struct {
	track      *track
	begin, end tracer.Time
	name       string
	category   string
	notes      []annotation
	from, to   uint64 // flows that start here and that end here; 0: none
}

// trackWriter tells a sink what the operations of a run were made of.
type trackWriter struct {
	sink       trackSink
	tracks     map[trackKey]*track
	procs      map[tracer.TaskKey]*track
	pids, tids map[int32]bool // taken
	lanes      map[trackKey]tracer.Time
	last       uint64 // id of a track
	flow       uint64
	ops        *track
	told       *tracer.Trace // the trace whose counters are out
	waiting    *track
	lost       *track
	lostCPU    map[int16]*track
	lostSum    int64
	*stacks
}

// writeTracks writes the operations as slices on a track of their own, their
// critical paths as slices (stage by stage) on the tracks of the threads that
// they run through, joined by flows, and the work off the path, the calls
// and work items that were recorded, and counters on tracks beside.
func writeTracks(sink trackSink, in *Input) error {
	each, err := operations(in)
	if err != nil {
		return err
	}
	w := &trackWriter{sink: sink, tracks: map[trackKey]*track{}, procs: map[tracer.TaskKey]*track{}, pids: map[int32]bool{0: true}, tids: map[int32]bool{0: true},
		lanes: map[trackKey]tracer.Time{}, lostCPU: map[int16]*track{}, stacks: newStacks()}
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	w.ops = w.add(track{name: strings.Join(append([]string{"operations: " + title(r, Clean)}, losses(r)...), " "), pid: -1, tid: -1})
	w.waiting = w.add(track{name: "tasks waiting for a CPU", counter: "tasks", pid: -1, tid: -1})
	w.lost = w.add(track{name: "lost events", counter: "events", pid: -1, tid: -1})
	if err := each(w.operation); err != nil {
		return err
	}
	return sink.close()
}

func (w *trackWriter) add(t track) *track {
	w.last++
	t.id = w.last
	w.sink.track(&t)
	return &t
}

// take is a number that no other has: the wanted one, or one that the kernel
// gives to no task (pid_max is 2^22 at most).
func take(taken map[int32]bool, want int32) int32 {
	want = max(want, 0)
	for n := int32(1 << 22); taken[want]; n++ {
		want = n
	}
	taken[want] = true
	return want
}

func taskOf(tr *tracer.Trace, id tracer.TaskID) *tracer.Task {
	if id >= 0 && int(id) < len(tr.Tasks) {
		return &tr.Tasks[id]
	}
	return &tracer.Task{TID: -1, PID: -1}
}

// thread is the track of a task in a lane.
func (w *trackWriter) thread(tr *tracer.Trace, id tracer.TaskID, at tracer.Time, lane int) *track {
	t := taskOf(tr, id)
	key := trackKey{tracer.TaskKey{TID: t.TID, Start: t.Start}, lane}
	if made := w.tracks[key]; made != nil {
		return made
	}
	process, thread := w.names(tr, id, at)
	leader := taskOf(tr, tr.Leader(id))
	of := tracer.TaskKey{TID: leader.TID, Start: leader.Start}
	parent := w.procs[of]
	if parent == nil {
		parent = w.add(track{name: process, pid: take(w.pids, t.PID), tid: -1})
		w.procs[of] = parent
	}
	made := track{parent: parent, name: thread, pid: parent.pid, tid: -1}
	switch {
	case lane == pathLane:
		made.tid = take(w.tids, t.TID)
	case lane == callLane:
		made.name += " calls"
	default:
		made.name += " off the path"
	}
	w.tracks[key] = w.add(made)
	return w.tracks[key]
}

func (w *trackWriter) operation(op *analysis.Operation) error {
	w.use(op.Trace)
	w.recorded(op.Trace)
	notes := []annotation{{name: "wall_ns", number: op.WallNs}, {name: "exit_code", number: int64(op.ExitCode)}}
	name := fmt.Sprintf("%s #%d", orNone(Clean(op.Target)), op.Index)
	if l := baseLabels(op); l.doubt != "" {
		notes = append(notes, annotation{name: "doubt", text: l.doubt}, annotation{name: "lost_events", number: int64(op.LostEvents)})
		name += " (" + l.doubt + ")"
	}
	w.sink.slice(&slice{track: w.ops, begin: op.Begin, end: op.Begin + tracer.Time(op.WallNs), name: name, category: "operation", notes: notes})
	w.path(op)
	w.off(op)
	w.calls(op)
	return nil
}

// path writes the segments; where the path goes from one task to another, the
// two are joined by a flow.
func (w *trackWriter) path(op *analysis.Operation) {
	segs := op.Path.Segments
	var arriving uint64
	for i := range segs {
		seg := &segs[i]
		s := &slice{track: w.thread(op.Trace, seg.Task, seg.Begin, pathLane), begin: seg.Begin, end: seg.End, name: Clean(op.StageName(seg)), category: "path", notes: w.segment(op, seg), to: arriving}
		arriving = 0
		if i+1 < len(segs) && segs[i+1].Task != seg.Task {
			w.flow++
			s.from, arriving = w.flow, w.flow
		}
		w.sink.slice(s)
	}
}

func (w *trackWriter) segment(op *analysis.Operation, seg *analysis.Segment) []annotation {
	notes := []annotation{{name: "state", text: seg.State.String()}}
	if seg.State == tracer.StateBlocked {
		notes = append(notes, annotation{name: "wait", text: Clean(op.WaitName(seg))})
	}
	if name := op.Trace.String(seg.Syscall); name != "" {
		notes = append(notes, annotation{name: "system call", text: Clean(name)})
	}
	if int(seg.Stack) < len(op.Trace.Stacks) && len(op.Trace.Stacks[seg.Stack].Frames) > 0 {
		var names []string
		for _, f := range op.Trace.Stacks[seg.Stack].Frames {
			names = append(names, w.frames[w.traceFrame(f)].name)
		}
		notes = append(notes, annotation{name: "stack", text: strings.Join(names, " < ")})
	}
	return append(notes, annotation{name: "operation", number: int64(op.Index)})
}

// off writes work off the path; pieces of one task that overlap (one item that
// two operations caused) go to lanes of their own, as slices must nest.
func (w *trackWriter) off(op *analysis.Operation) {
	pieces := slices.Clone(op.Off)
	slices.SortStableFunc(pieces, func(a, b analysis.OffPath) int { return cmp.Compare(a.Begin, b.Begin) })
	for i := range pieces {
		o := &pieces[i]
		if o.End <= o.Begin || o.Task < 0 || int(o.Task) >= len(op.Trace.Tasks) {
			continue
		}
		t := &op.Trace.Tasks[o.Task]
		key := trackKey{tracer.TaskKey{TID: t.TID, Start: t.Start}, offLane}
		for w.lanes[key] > o.Begin {
			key.lane++
		}
		w.lanes[key] = o.End
		w.sink.slice(&slice{track: w.thread(op.Trace, o.Task, o.Begin, key.lane), begin: o.Begin, end: o.End, name: Clean(op.StageName(&analysis.Segment{Stage: o.Stage})), category: "off path",
			notes: []annotation{{name: "work", text: orNone(Clean(o.Name))}, {name: "cpu_ns", number: int64(o.CPU)}, {name: "operation", number: int64(op.Index)}}})
	}
}
