package reports

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// nestedClasses are the classes whose spans lie inside of each other within a
// task. A block request, for example, ends in whatever task the interrupt found.
var nestedClasses = map[tracer.Class]bool{tracer.ClassSyscall: true, tracer.ClassFunc: true, tracer.ClassUser: true, tracer.ClassIRQ: true,
	tracer.ClassSoftirq: true, tracer.ClassWork: true, tracer.ClassTimer: true, tracer.ClassLock: true}

// calls writes the spans that were recorded of the operation's tasks while it
// ran, and of those it left behind until they were done.
func (w *trackWriter) calls(op *analysis.Operation) {
	ev := op.Trace.Events
	sc := newScope(op)
	c := spanCollector{tr: op.Trace, end: op.End, open: map[tracer.TaskID][]openSpan{}}
	for i := sort.Search(len(ev), func(i int) bool { return ev[i].Time >= op.Begin }); i < len(ev); i++ {
		e := &ev[i]
		if e.Time >= op.End && e.Kind == tracer.KindOpBegin {
			break // what is caused from here on is the next operation's
		}
		c.end = max(c.end, e.Time)
		switch {
		case e.Kind != tracer.KindBegin && e.Kind != tracer.KindEnd || !nestedClasses[e.Class]:
		case e.Kind == tracer.KindEnd:
			c.leave(e)
		case sc.has(e.Task, e.Time):
			c.enter(e)
		}
	}
	for _, s := range c.finish() {
		w.sink.slice(&slice{track: w.thread(op.Trace, s.task, s.begin, callLane), begin: s.begin, end: s.end, name: s.name(op.Trace), category: s.class.String(), notes: s.notes(op)})
	}
}

// openSpan is a span, complete when end is set.
type openSpan struct {
	begin, end tracer.Time
	task       tracer.TaskID
	class      tracer.Class
	what       tracer.StringID
	flow       uint64
	args       tracer.ArgsID
	value      int64
	cut        bool // its end was not seen
}

func (s *openSpan) name(tr *tracer.Trace) string {
	if s.class == tracer.ClassSyscall || s.class == tracer.ClassFunc || s.class == tracer.ClassUser {
		return orNone(Clean(tr.String(s.what)))
	}
	return Clean("[" + s.class.String() + "] " + tr.String(s.what))
}

func (s *openSpan) notes(op *analysis.Operation) []annotation {
	var notes []annotation
	if int(s.args) < len(op.Trace.Args) {
		for _, a := range op.Trace.Args[s.args] {
			notes = append(notes, annotation{name: Clean(a.Key), text: orNone(Clean(a.Value))})
		}
	}
	switch {
	case s.cut:
		notes = append(notes, annotation{name: "incomplete", text: "its end was not seen"})
	case s.class == tracer.ClassSyscall:
		notes = append(notes, annotation{name: "returned", number: s.value})
	}
	return append(notes, annotation{name: "operation", number: int64(op.Index)})
}

// spanCollector pairs begins with ends, task by task.
type spanCollector struct {
	tr   *tracer.Trace
	end  tracer.Time // of what was looked at, and so of what has not ended by then
	open map[tracer.TaskID][]openSpan
	done []openSpan
}

func (c *spanCollector) enter(e *tracer.Event) {
	c.open[e.Task] = append(c.open[e.Task], openSpan{begin: e.Time, task: e.Task, class: e.Class, what: e.Name, flow: e.Flow, args: e.Args})
}

// leave ends the innermost span that the event can be the end of, and with it
// those inside of it, whose own ends were lost.
func (c *spanCollector) leave(e *tracer.Event) {
	st := c.open[e.Task]
	i := len(st) - 1
	for ; i >= 0; i-- {
		if o := &st[i]; o.class == e.Class && (o.what == e.Name || e.Class == tracer.ClassWork || e.Class == tracer.ClassLock && o.flow == e.Flow) {
			break
		}
	}
	if i < 0 {
		return // it began before the operation
	}
	c.shut(st[i+1:], e.Time)
	o := st[i]
	o.end, o.value = e.Time, e.Value
	if e.Args != 0 {
		o.args = e.Args
	}
	c.done = append(c.done, o)
	c.open[e.Task] = st[:i]
}

func (c *spanCollector) shut(st []openSpan, at tracer.Time) {
	for _, o := range st {
		o.end, o.cut = max(at, o.begin), true
		c.done = append(c.done, o)
	}
}

// finish gives all spans, outer ones before inner ones.
func (c *spanCollector) finish() []openSpan {
	for _, st := range c.open {
		c.shut(st, c.end)
	}
	slices.SortStableFunc(c.done, func(a, b openSpan) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.task, b.task), cmp.Compare(b.end, a.end))
	})
	return c.done
}

// recorded writes, once per trace, what is of the whole system: how many tasks
// waited for a CPU while operations ran, and where events were lost.
func (w *trackWriter) recorded(tr *tracer.Trace) {
	if w.told == tr {
		return
	}
	w.told = tr
	w.sink.counter(w.lost, tr.Meta.Begin, w.lostSum)
	q := runQueue{states: make([]queueState, len(tr.Tasks))}
	since := map[int16]tracer.Time{}
	last, inside := -1, false
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Kind == tracer.KindLost {
			w.loss(e, max(since[e.CPU], tr.Meta.Begin))
			since[e.CPU] = e.Time
			continue
		}
		q.step(e)
		if e.Kind == tracer.KindOpBegin || e.Kind == tracer.KindOpEnd {
			inside, last = e.Kind == tracer.KindOpBegin, -1
		} else if !inside {
			continue
		}
		if q.waiting != last && (i+1 == len(tr.Events) || tr.Events[i+1].Time != e.Time) {
			last = q.waiting
			w.sink.counter(w.waiting, e.Time, int64(last))
		}
	}
}

// loss writes a stretch of time in which events of a CPU were lost.
func (w *trackWriter) loss(e *tracer.Event, since tracer.Time) {
	if e.Value <= 0 {
		return
	}
	t := w.lostCPU[e.CPU]
	if t == nil {
		t = w.add(track{name: fmt.Sprintf("lost events of CPU %d", e.CPU), pid: -1, tid: -1})
		w.lostCPU[e.CPU] = t
	}
	w.lostSum += e.Value
	w.sink.slice(&slice{track: t, begin: since, end: max(e.Time, since), name: plural(int(e.Value), "event lost", "events lost"), category: "lost", notes: []annotation{{name: "events", number: e.Value}}})
	w.sink.counter(w.lost, e.Time, w.lostSum)
}

// queueState is what the counter must know of a task.
type queueState uint8

const (
	queueAway  queueState = iota // blocked, dead, or never seen
	queueOnCPU                   // running
	queueWoken                   // running, and woken on its way to sleep: it goes on at once
	queueWaits                   // waiting for a CPU
)

// queueStates is what a task that was there when the trace began is, by its state.
var queueStates = map[tracer.TaskState]queueState{tracer.StateRunnable: queueWaits, tracer.StateRunning: queueOnCPU}

// runQueue counts the tasks that wait for a CPU.
type runQueue struct {
	states  []queueState
	waiting int
}

func (q *runQueue) set(id tracer.TaskID, s queueState) {
	if id <= 0 || int(id) >= len(q.states) {
		return
	}
	if q.states[id] == queueWaits {
		q.waiting--
	}
	if s == queueWaits {
		q.waiting++
	}
	q.states[id] = s
}

func (q *runQueue) get(id tracer.TaskID) queueState {
	if id <= 0 || int(id) >= len(q.states) {
		return queueAway
	}
	return q.states[id]
}

func (q *runQueue) step(e *tracer.Event) {
	switch e.Kind {
	case tracer.KindStatus:
		q.set(e.Task, queueStates[e.State])
	case tracer.KindSwitch:
		next := queueAway
		if e.State == tracer.StateRunnable || e.State == tracer.StateBlocked && q.get(e.Task) == queueWoken {
			next = queueWaits
		}
		q.set(e.Task, next)
		q.set(e.Peer, queueOnCPU)
	case tracer.KindWake:
		switch q.get(e.Peer) {
		case queueAway:
			q.set(e.Peer, queueWaits)
		case queueOnCPU:
			q.set(e.Peer, queueWoken)
		}
	case tracer.KindFork:
		q.set(e.Peer, queueWaits)
	}
}
