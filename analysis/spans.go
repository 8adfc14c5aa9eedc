package analysis

import (
	"slices"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// spanPoint says which spans are open in a task from at on.
type spanPoint struct {
	at    tracer.Time
	spans stage.SpansID
}

// item is one run of a work item by a worker: the unit in which kernel
// workers have causes.
type item struct {
	task       tracer.TaskID
	begin, end tracer.Time
	name       tracer.StringID
	queue      int32    // the event that queued it; -1 not seen
	netns      []uint64 // cookies of the namespaces it tears down
}

// index is what the analysis looks up by task: open spans, work items,
// samples. Built once per trace.
type index struct {
	tr      *tracer.Trace
	points  table[spanPoint]
	items   table[item]
	samples table[int32]    // event numbers
	users   bool            // user functions were probed
	armers  map[int32]int32 // of a wake or a queueing by a timer: the event that armed the timer
}

// table is a list per task in one piece of memory.
type table[T any] struct {
	first []int32
	used  []int32
	hint  []int32 // where the last search ended
	data  []T
}

func newTable[T any](n []int32) table[T] {
	t := table[T]{first: make([]int32, len(n)+1), used: make([]int32, len(n)), hint: make([]int32, len(n))}
	at := int32(0)
	for i, k := range n {
		t.first[i] = at
		at += k
	}
	t.first[len(n)] = at
	t.data = make([]T, at)
	return t
}

func (t *table[T]) add(id tracer.TaskID, v T) *T {
	i := t.first[id] + t.used[id]
	t.data[i] = v
	t.used[id]++
	return &t.data[i]
}

func (t *table[T]) of(id tracer.TaskID) []T {
	if id < 0 || int(id) >= len(t.used) {
		return nil
	}
	return t.data[t.first[id] : t.first[id]+t.used[id]]
}

// search is sort.Search over a task's list: the first element for which f
// holds. It begins where the list's last search ended.
func (t *table[T]) search(id tracer.TaskID, f func(*T) bool) int {
	l := t.of(id)
	if len(l) == 0 {
		return 0
	}
	return near(len(l), &t.hint[id], func(i int) bool { return f(&l[i]) })
}

func newIndex(tr *tracer.Trace, m *stage.Matcher) *index {
	x := &index{tr: tr, armers: map[int32]int32{}}
	spans := make([]int32, len(tr.Tasks))
	items := make([]int32, len(tr.Tasks))
	samples := make([]int32, len(tr.Tasks))
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Task < 0 {
			continue
		}
		switch e.Kind {
		case tracer.KindBegin, tracer.KindEnd:
			spans[e.Task]++
			if e.Kind == tracer.KindBegin {
				spans[e.Task]++ // it may close one whose end was lost
				if e.Class == tracer.ClassWork {
					items[e.Task]++
				}
			}
		case tracer.KindSample:
			samples[e.Task]++
		}
	}
	x.points = newTable[spanPoint](spans)
	x.items = newTable[item](items)
	x.samples = newTable[int32](samples)
	x.fill(m)
	return x
}

// open is a span that has begun and not ended, while the index is filled.
type open struct {
	class tracer.Class
	name  tracer.StringID
	flow  uint64
	outer stage.SpansID // what was open around it
	item  int32         // in items.of(task), -1
}

// endsWith tells whether an End event ends the span. A worker runs one item at
// a time, and the end of a contention names only the lock.
func (o *open) endsWith(e *tracer.Event) bool {
	switch {
	case o.class != e.Class:
		return false
	case e.Class == tracer.ClassWork:
		return true
	case e.Class == tracer.ClassLock:
		return o.flow == e.Flow
	}
	return o.name == e.Name
}

func (x *index) fill(m *stage.Matcher) {
	args := x.argsAtEnd()
	queued := map[uint64]int32{}
	armed := map[uint64]int32{} // timers
	stacks := make([][]open, len(x.tr.Tasks))
	spansNow := make([]stage.SpansID, len(x.tr.Tasks))
	for i := range x.tr.Events {
		e := &x.tr.Events[i]
		if e.Task < 0 {
			continue
		}
		switch e.Kind {
		case tracer.KindSample:
			x.samples.add(e.Task, int32(i))
		case tracer.KindSend:
			switch e.Class {
			case tracer.ClassWork:
				queued[e.Flow] = int32(i)
				if e.Ctx != tracer.CtxTask {
					if by, ok := timerOfWork(armed, e); ok {
						x.armers[int32(i)] = by
					}
				}
			case tracer.ClassTimer:
				armed[e.Flow] = int32(i)
			}
		case tracer.KindWake:
			if by, ok := armed[e.Flow]; ok && e.Flow != 0 {
				x.armers[int32(i)] = by
			}
		case tracer.KindPoint:
			if e.Class == tracer.ClassNetns && x.tr.String(e.Name) == "teardown" {
				if it := x.openItem(stacks[e.Task], e.Task); it != nil {
					it.netns = append(it.netns, e.Flow)
				}
			}
		case tracer.KindBegin:
			x.users = x.users || e.Class == tracer.ClassUser
			st := stacks[e.Task]
			if e.Class == tracer.ClassSyscall || e.Class == tracer.ClassWork { // a task is in one at a time: the end of another was lost
				if j := slices.IndexFunc(st, func(o open) bool { return o.class == e.Class }); j >= 0 {
					st = x.close(e, st, spansNow, j)
				}
			}
			o := open{class: e.Class, name: e.Name, flow: e.Flow, outer: spansNow[e.Task], item: -1}
			if e.Class == tracer.ClassWork {
				q, ok := queued[e.Flow]
				if !ok {
					q = -1
				}
				delete(queued, e.Flow)
				o.item = x.items.used[e.Task]
				x.items.add(e.Task, item{task: e.Task, begin: e.Time, end: x.tr.Meta.End, name: e.Name, queue: q})
			}
			a := e.Args
			if a == 0 {
				a = args[int32(i)]
			}
			spansNow[e.Task] = m.Spans(spansNow[e.Task], e.Class, e.Name, a)
			x.points.add(e.Task, spanPoint{e.Time, spansNow[e.Task]})
			stacks[e.Task] = append(st, o)
		case tracer.KindEnd:
			st := stacks[e.Task]
			for j := len(st) - 1; j >= 0; j-- {
				if !st[j].endsWith(e) {
					continue
				}
				for e.Class == tracer.ClassLock && j > 0 && st[j-1].endsWith(e) { // it spun, then slept: one end for both
					j--
				}
				stacks[e.Task] = x.close(e, st, spansNow, j)
				break
			}
		}
	}
}

// timerOfWork finds who armed the timer of a delayed work item: struct
// delayed_work (include/linux/workqueue.h) has it shortly behind its work.
func timerOfWork(armed map[uint64]int32, e *tracer.Event) (int32, bool) {
	const word, furthest = 8, 256
	if len(armed) == 0 {
		return 0, false
	}
	for at := e.Flow + word; at <= e.Flow+furthest; at += word {
		if i, ok := armed[at]; ok {
			return i, true
		}
	}
	return 0, false
}

// argsAtEnd gives, for every Begin event whose arguments are known only at
// its End, those arguments.
func (x *index) argsAtEnd() map[int32]tracer.ArgsID {
	args := map[int32]tracer.ArgsID{}
	if len(x.tr.Args) <= 1 {
		return args
	}
	begun := map[tracer.TaskID][]int32{}
	for i := range x.tr.Events {
		e := &x.tr.Events[i]
		switch {
		case e.Kind == tracer.KindBegin && e.Class != tracer.ClassWork && e.Args == 0:
			begun[e.Task] = append(begun[e.Task], int32(i))
		case e.Kind == tracer.KindEnd && e.Args != 0:
			st := begun[e.Task]
			for j := len(st) - 1; j >= 0; j-- {
				if b := &x.tr.Events[st[j]]; b.Class == e.Class && b.Name == e.Name {
					args[st[j]] = e.Args
					begun[e.Task] = st[:j]
					break
				}
			}
		case e.Kind == tracer.KindExit:
			delete(begun, e.Task)
		}
	}
	return args
}

// close ends the open spans of a task from number j up, at event e.
func (x *index) close(e *tracer.Event, st []open, now []stage.SpansID, j int) []open {
	for k := len(st) - 1; k >= j; k-- {
		if st[k].item >= 0 {
			x.items.of(e.Task)[st[k].item].end = e.Time
		}
	}
	now[e.Task] = st[j].outer
	x.points.add(e.Task, spanPoint{e.Time, st[j].outer})
	return st[:j]
}

func (x *index) openItem(st []open, id tracer.TaskID) *item {
	for j := len(st) - 1; j >= 0; j-- {
		if st[j].item >= 0 {
			return &x.items.of(id)[st[j].item]
		}
	}
	return nil
}

// spansAt is what is open in a task just before t.
func (x *index) spansAt(id tracer.TaskID, t tracer.Time) stage.SpansID {
	i := x.points.search(id, func(p *spanPoint) bool { return p.at >= t })
	if i == 0 {
		return 0
	}
	return x.points.of(id)[i-1].spans
}

// itemAt is the work item that a worker runs at t, counting its begin and its
// end in; nil outside of one.
func (x *index) itemAt(id tracer.TaskID, t tracer.Time) *item {
	i := x.items.search(id, func(it *item) bool { return it.begin > t })
	if i == 0 {
		return nil
	}
	if it := &x.items.of(id)[i-1]; it.end >= t {
		return it
	}
	return nil
}

// samplesIn gives the CPU samples of a task in [a, b).
func (x *index) samplesIn(id tracer.TaskID, a, b tracer.Time) []int32 {
	s := x.samples.of(id)
	i := x.samples.search(id, func(n *int32) bool { return x.tr.Events[*n].Time >= a })
	j := i
	for j < len(s) && x.tr.Events[s[j]].Time < b {
		j++
	}
	return s[i:j]
}
