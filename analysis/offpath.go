package analysis

import (
	"sort"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// stretch is time of a task.
type stretch struct{ from, to tracer.Time }

// offPath collects what the operation caused beside its path: work items as
// a whole, other tasks by their time on a CPU.
func (w *walker) offPath(end, until tracer.Time) []OffPath {
	busy := w.busy()
	var out []OffPath
	inItems := map[tracer.TaskID]bool{}
	for _, it := range w.marks.items {
		inItems[it.task] = true
		out = append(out, w.offItem(it, busy[it.task], until)...)
	}
	ids := make([]tracer.TaskID, 0, len(w.marks.episodes))
	for id := range w.marks.episodes {
		if !inItems[id] {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	for _, id := range ids {
		for _, ep := range w.marks.episodes[id] {
			w.tl.each(id, ep.from, min(ep.to, until), func(iv *interval, s, e tracer.Time) {
				if iv.state == tracer.StateRunning {
					gaps(s, e, busy[id], func(a, b tracer.Time) {
						out = append(out, OffPath{Begin: a, End: b, CPU: b - a, Task: id, Name: w.tr.Tasks[id].Comm, Stage: w.offStage(id, a, b)})
					})
				}
			})
		}
	}
	return out
}

// offItem is the part of a work item that is not on the path.
func (w *walker) offItem(it *item, busy []stretch, until tracer.Time) []OffPath {
	var out []OffPath
	share := tracer.Time(w.marks.shares[it])
	gaps(it.begin, min(it.end, until), busy, func(a, b tracer.Time) {
		seg := Segment{Begin: a, End: b, Task: it.task, State: tracer.StateRunning, Wait: stage.NoWait,
			Spans: w.match.Spans(0, tracer.ClassWork, it.name, 0)}
		out = append(out, OffPath{Begin: a, End: a + max((b-a)/share, 1), CPU: w.tl.running(it.task, a, b) / share, Task: it.task,
			Stage: w.stageOf(&seg), Name: w.tr.String(it.name)})
	})
	return out
}

// offStage is the stage of a piece of running time off the path.
func (w *walker) offStage(id tracer.TaskID, a, b tracer.Time) stage.ID {
	seg := Segment{Begin: a, End: b, Task: id, State: tracer.StateRunning, Wait: stage.NoWait, Spans: w.ix.spansAt(id, b)}
	seg.Syscall = w.openSyscall(seg.Spans)
	if ss := w.ix.samplesIn(id, a, b); len(ss) > 0 {
		e := &w.tr.Events[ss[len(ss)/2]]
		seg.Stack, seg.Syscall = e.Stack, e.Name
	}
	return w.stageOf(&seg)
}

// busy is, per task, when it was on the path, in order.
func (w *walker) busy() map[tracer.TaskID][]stretch {
	out := map[tracer.TaskID][]stretch{}
	for i := range w.path.Segments {
		s := &w.path.Segments[i]
		l := out[s.Task]
		if n := len(l); n > 0 && l[n-1].to == s.Begin {
			l[n-1].to = s.End
			continue
		}
		out[s.Task] = append(l, stretch{s.Begin, s.End})
	}
	return out
}

// gaps calls f for the parts of [a, b) that no stretch covers.
func gaps(a, b tracer.Time, busy []stretch, f func(a, b tracer.Time)) {
	i := sort.Search(len(busy), func(i int) bool { return busy[i].to > a })
	for ; i < len(busy) && busy[i].from < b; i++ {
		if busy[i].from > a {
			f(a, busy[i].from)
		}
		a = max(a, busy[i].to)
	}
	if b > a {
		f(a, b)
	}
}

// sumOffPath sums pieces by stage.
func sumOffPath(set *stage.Set, off []OffPath, end tracer.Time) []OffPathStage {
	rows := map[string]*OffPathStage{}
	for i := range off {
		o := &off[i]
		name := stageName(set, o.Stage, LeafNone)
		r := rows[name]
		if r == nil {
			r = &OffPathStage{Name: name}
			rows[name] = r
		}
		r.Ns += int64(o.End - o.Begin)
		r.CPUNs += int64(o.CPU)
		r.Count++
		if o.End > end {
			r.AfterEndNs += int64(o.End - max(o.Begin, end))
		}
	}
	out := make([]OffPathStage, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	sort.Slice(out, func(i, j int) bool { return largerFirst(out[i].Ns, out[j].Ns, out[i].Name, out[j].Name) })
	return out
}
