package analysis

import (
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// maxDepth bounds the chain of waits: deeper ones end as unknown.
const maxDepth = 256

// walker makes the path of one operation: segments in falling time order
// that touch and cover [begin, end] exactly, because every step emits what it
// leaves and continues where it stopped. After critical-path.md, section 6.
type walker struct {
	*traceAnalysis
	marks *marks
	root  tracer.TaskID
	path  Path
	lo    tracer.Time // where the next segment must end
}

// walk covers [lo, hi) of what th was doing. link says why the operation
// depends on th. The root's own task always comes back to itself after a wait;
// another task only if the operation had caused what it did before.
func (w *walker) walk(th tracer.TaskID, lo, hi tracer.Time, root bool, link int32, depth int) {
	hops := 0 // steps to another task without getting earlier
	for at := hi; hi > lo; hops++ {
		if hi < at {
			at, hops = hi, 0
		}
		if it := w.ix.itemAt(th, hi); it != nil && it.begin < hi {
			th, hi, link = w.workItem(it, lo, hi, link, depth)
			root = false
			continue
		}
		if request := w.marks.takenUp(th, hi); request >= 0 && !root {
			th, hi = w.queued(th, request, lo, hi, link)
			continue
		}
		s := w.tl.before(th, hi)
		if s == nil {
			th, hi = w.birth(th, lo, hi, link)
			continue
		}
		a := max(s.start, lo)
		if !root {
			a = w.marks.queuedIn(th, a, hi)
		}
		switch s.state {
		case tracer.StateRunning:
			w.running(th, a, hi, link)
			hi = a
			if s.wake >= 0 && a == s.start { // before its exec this task was another thread
				th = w.tr.Events[s.wake].Peer
			}
		case tracer.StateRunnable:
			w.emit(w.runnable(th, s, a, hi, link))
			hi = a
		case tracer.StateBlocked:
			th, hi, link, root = w.blocked(th, s, a, hi, root, link, depth+hops)
		default: // dead or unknown: its life is not known here
			th, hi = w.birth(th, lo, hi, link)
		}
	}
}

// birth continues on the parent of a task that was not alive before hi.
func (w *walker) birth(th tracer.TaskID, lo, hi tracer.Time, link int32) (tracer.TaskID, tracer.Time) {
	t := &w.tr.Tasks[max(th, 0)]
	if th > 0 && t.Born > lo && t.Born >= hi && t.Parent > 0 && t.Start <= t.Born && t.Parent != th {
		return t.Parent, hi
	}
	if th > 0 && t.Born > lo && t.Born < hi && t.Parent > 0 { // between birth and its first known state
		w.emit(Segment{Begin: t.Born, End: hi, Task: th, Link: link, State: tracer.StateRunnable, Wait: stage.NoWait})
		return t.Parent, t.Born
	}
	leaf := LeafBefore
	if w.tl.lostIn(lo, hi) > 0 {
		leaf = LeafLost
	}
	w.emit(Segment{Begin: lo, End: hi, Task: th, Link: link, State: tracer.StateUnknown, Leaf: leaf, Wait: w.waits.unknown})
	return th, lo
}

// blocked handles a sleep of th in [a, hi): a leaf that is charged to the
// sleeper, or a step to whoever ended it.
func (w *walker) blocked(th tracer.TaskID, s *interval, a, hi tracer.Time, root bool, link int32, depth int) (tracer.TaskID, tracer.Time, int32, bool) {
	seg := Segment{Begin: a, End: hi, Task: th, Link: link, State: tracer.StateBlocked, Stack: s.stack, Syscall: s.sys, Spans: w.ix.spansAt(th, hi)}
	seg.Wait = w.match.Wait(s.stack, s.sys, seg.Spans, s.flags)
	to, leaf := w.cause(th, s, &seg)
	if leaf == LeafNone && depth >= maxDepth {
		leaf, seg.Wait = LeafUnknown, w.waits.unknown
	}
	if leaf == LeafTimer && !root {
		if sib, x := w.sibling(th, a, hi); sib > 0 {
			if x < hi {
				rest := seg
				rest.Begin, rest.Leaf = x, leaf
				w.emit(rest)
			}
			return sib, x, w.link(link, th, s, seg), false
		}
	}
	if m := w.origin(th, s, leaf); m != nil {
		seg.Leaf = leaf
		w.delivery(th, s, seg, m, link, depth)
		return th, a, link, root
	}
	if leaf != LeafNone {
		seg.Leaf = leaf
		w.emit(seg)
		return th, a, link, root
	}
	down := w.link(link, th, s, seg)
	if root || w.marks.at(th, s.start) && !w.idled(th, s, to) {
		w.walk(to, a, hi, false, down, depth+1)
		return th, a, link, root
	}
	return to, hi, down, false
}

// origin is what a task of this machine did, some time before, to end the sleep
// of another: it sent a message, or armed a timer. Nil: nobody here did.
func (w *walker) origin(th tracer.TaskID, s *interval, leaf Leaf) *tracer.Event {
	switch {
	case s.wake < 0:
		return nil
	case leaf == LeafNetwork:
		return w.sender(th, &w.tr.Events[s.wake])
	case leaf == LeafTimer:
		return w.armer(s.wake, th)
	}
	return nil
}

// delivery covers a sleep that an event from a task of this machine ended:
// the network's or the timer's part since then, and before that what the task did.
func (w *walker) delivery(th tracer.TaskID, s *interval, seg Segment, m *tracer.Event, link int32, depth int) {
	lo, x := seg.Begin, min(max(m.Time, seg.Begin), seg.End) // the window may end before it was sent
	seg.Begin = x
	if x < seg.End {
		w.emit(seg)
	}
	if lo < x {
		w.walk(m.Task, lo, x, false, w.link(link, th, s, seg), depth+1)
	}
}

// cause says who ended a sleep, or why nobody is to be followed. It may name
// the wait better than the sleeper's stack did.
func (w *walker) cause(th tracer.TaskID, s *interval, seg *Segment) (tracer.TaskID, Leaf) {
	if f := s.flags & (tracer.FlagStopped | tracer.FlagTraced | tracer.FlagFrozen); f != 0 {
		seg.Wait = w.waits.held[f]
		return 0, LeafHeld
	}
	if seg.Wait >= 0 && w.set.Waits[seg.Wait].Terminal {
		if seg.Wait == w.waits.leaf[LeafTimer] {
			return 0, LeafTimer
		}
		return 0, LeafTerminal
	}
	if s.wake < 0 {
		if w.tl.lostIn(s.start, seg.End) > 0 {
			seg.Wait = w.waits.lost
			return 0, LeafLost
		}
		seg.Wait = w.waits.unknown
		return 0, LeafUnknown
	}
	e := &w.tr.Events[s.wake]
	if e.Ctx != tracer.CtxTask && e.Flags&tracer.FlagInline == 0 {
		return 0, w.interrupt(e, seg)
	}
	return w.follow(th, e, seg)
}

// follow decides whether a waker in task context is a cause.
func (w *walker) follow(th tracer.TaskID, e *tracer.Event, seg *Segment) (tracer.TaskID, Leaf) {
	if e.Task <= 0 || e.Task == th {
		seg.Wait = w.waits.unknown
		return 0, LeafUnknown
	}
	t := &w.tr.Tasks[e.Task]
	if !t.Kernel {
		return e.Task, LeafNone
	}
	if it := w.ix.itemAt(e.Task, e.Time); it != nil {
		return e.Task, LeafNone
	}
	if !isInfrastructure(t) {
		return e.Task, LeafNone
	}
	if w.generic(seg.Wait) {
		seg.Wait = w.waits.infrastructure
	}
	return 0, LeafInfrastructure
}

func isInfrastructure(t *tracer.Task) bool {
	return t.Kernel && slices.ContainsFunc(infrastructure, func(p string) bool { return strings.HasPrefix(t.Comm, p) })
}

// infrastructure are kernel threads that carry out what others ask for and
// never are the reason: their own waits say nothing about the operation.
// A kworker outside of a work item is one, too.
var infrastructure = []string{"migration/", "ksoftirqd/", "kthreadd", "rcu_", "rcuc/", "rcuog/", "rcuos/", "rcuop/", "cpuhp/",
	"kworker/", "swapper", "irq/", "ktimers/", "pool_workqueue"}

// interrupt names a wake that came from interrupt context: what happened to
// run below it is a bystander.
func (w *walker) interrupt(e *tracer.Event, seg *Segment) Leaf {
	if leaf := leafOfInterrupt(w.tr.String(e.Name)); leaf != LeafNone {
		if w.generic(seg.Wait) || leaf == LeafTimer {
			seg.Wait = w.waits.leaf[leaf]
		}
		return leaf
	}
	leaf := LeafInterrupt
	if e.Ctx == tracer.CtxHardirq {
		leaf = LeafDevice
	}
	if w.generic(seg.Wait) {
		seg.Wait = w.waits.leaf[leaf]
	}
	return leaf
}

// leafOfInterrupt looks a name up in interruptLeaves.
func leafOfInterrupt(name string) Leaf {
	for _, r := range interruptLeaves {
		if strings.Contains(name, r.part) {
			return r.leaf
		}
	}
	return LeafNone
}

// interruptLeaves is the table of what wakes from interrupt context mean, by
// what ran: softirq vectors, timer functions, inter-processor interrupts.
var interruptLeaves = []struct {
	part string
	leaf Leaf
}{
	{"hrtimer", LeafTimer}, {"timer", LeafTimer}, {"TIMER", LeafTimer}, {"process_timeout", LeafTimer},
	{"NET_RX", LeafNetwork}, {"NET_TX", LeafNetwork},
	{"BLOCK", LeafDevice}, {"IRQ_POLL", LeafDevice},
	{"RCU", LeafInterrupt}, {"SCHED", LeafInterrupt}, {"TASKLET", LeafInterrupt}, {"HI", LeafInterrupt},
	{"ipi", LeafInterrupt}, {"irq_work", LeafInterrupt}, {"resched", LeafInterrupt}, {"call_function", LeafInterrupt},
}

// generics are the wait reasons that say only that a task waited for something
// to happen: what ended the wait names it better.
var generics = []string{"futex", "epoll", "poll", "completion", "signal", "eventfd", "iouring", "socket", "pipe", "unknown"}

func (a *traceAnalysis) generic(id stage.WaitID) bool { return id < 0 || a.generics[id] }

// sibling finds, when th slept on a timer of its own, a thread of the same
// process that the operation had set to work in [a, hi): runtimes wake idle
// threads from a monitor thread, while the work is a sibling's. It returns the
// thread and when it was last active.
func (w *walker) sibling(th tracer.TaskID, a, hi tracer.Time) (tracer.TaskID, tracer.Time) {
	best, at := tracer.NoTask, noTime
	for _, id := range w.threads[w.tr.Leader(th)] {
		if id == th {
			continue
		}
		if x := w.marks.lastBefore(id, a, hi); x > at {
			if s := w.tl.before(id, x); s != nil && s.state != tracer.StateBlocked && !w.selfWoken(id, s) {
				best, at = id, x
			}
		}
	}
	return best, at
}

// lookAround is how long an idle thread may look for work, and find none:
// runtimes let it spin for some tens of microseconds.
const lookAround = 200_000

// idled tells that a thread whose sleep s a sibling ended had nothing to do
// before: a monitor, or an idle thread that a monitor had woken, looked around.
// Its past says nothing about the operation, its waker's does.
func (w *walker) idled(th tracer.TaskID, s *interval, by tracer.TaskID) bool {
	if w.tr.Leader(th) != w.tr.Leader(by) {
		return false
	}
	z := w.tl.lastSleep(th, w.tl.before(th, s.start))
	if z == nil || z.wake < 0 {
		return false
	}
	e := &w.tr.Events[z.wake]
	if w.tl.running(th, e.Time, s.start) > lookAround {
		return false
	}
	return w.ownTimer(z) || e.Ctx == tracer.CtxTask && w.tr.Leader(e.Task) == w.tr.Leader(th) && w.selfWoken(e.Task, w.tl.before(e.Task, e.Time))
}

// selfWoken tells that what a task did up to the interval s began when a timer
// of its own ended: it is a monitor, which nobody set to work.
func (w *walker) selfWoken(id tracer.TaskID, s *interval) bool {
	s = w.tl.lastSleep(id, s)
	return s != nil && w.ownTimer(s)
}

// ownTimer tells that a timer of the sleeper's own ended a sleep.
func (w *walker) ownTimer(s *interval) bool {
	return s.wake >= 0 && w.match.Wait(s.stack, s.sys, 0, s.flags) == w.waits.leaf[LeafTimer]
}

// workItem covers [.., hi) of a worker that runs an item: the item's own time
// down to its start, the delay in the queue, and then whoever queued it.
func (w *walker) workItem(it *item, lo, hi tracer.Time, link int32, depth int) (tracer.TaskID, tracer.Time, int32) {
	a := max(it.begin, lo)
	w.walkInside(it, a, hi, link, depth)
	if a > it.begin || a <= lo {
		return it.task, a, link
	}
	if it.queue < 0 {
		w.emit(w.workDelay(it, lo, a, link, LeafInfrastructure))
		return it.task, lo, link
	}
	q := &w.tr.Events[it.queue]
	by, from := q, max(q.Time, lo)
	if q.Ctx != tracer.CtxTask && q.Flags&tracer.FlagInline == 0 || q.Task <= 0 {
		if by = w.armer(it.queue, it.task); by == nil {
			w.emit(w.workDelay(it, lo, a, link, LeafInterrupt))
			return it.task, lo, link
		}
	}
	if from < a {
		w.emit(w.workDelay(it, from, a, link, LeafNone))
	}
	armed := max(by.Time, lo)
	if armed < from { // until its timer put it into the queue
		delay := w.workDelay(it, armed, from, link, LeafTimer)
		delay.State, delay.Wait = tracer.StateBlocked, w.waits.leaf[LeafTimer]
		w.emit(delay)
	}
	return by.Task, armed, link
}

// armer is who armed the timer that woke th, or queued an item that th runs,
// for the operation. Nil where the recording does not tell, or th did itself.
func (w *walker) armer(event int32, th tracer.TaskID) *tracer.Event {
	i, ok := w.ix.armers[event]
	if !ok {
		return nil
	}
	arm := &w.tr.Events[i]
	if arm.Ctx != tracer.CtxTask || arm.Task <= 0 || arm.Task == th || !w.marks.during(arm.Task, arm.Time, arm.Time) && arm.Task != w.root {
		return nil
	}
	return arm
}

// workDelay is the time a work item lay in its queue.
func (w *walker) workDelay(it *item, a, b tracer.Time, link int32, leaf Leaf) Segment {
	return Segment{Begin: a, End: b, Task: it.task, Link: link, State: tracer.StateRunnable, Leaf: leaf, Wait: w.waits.work,
		Spans: w.match.Spans(0, tracer.ClassWork, it.name, 0)}
}

// walkInside is walk within one work item, where the worker is a task like
// any other.
func (w *walker) walkInside(it *item, lo, hi tracer.Time, link int32, depth int) {
	for hi > lo {
		s := w.tl.before(it.task, hi)
		if s == nil {
			w.emit(Segment{Begin: lo, End: hi, Task: it.task, Link: link, State: tracer.StateUnknown, Leaf: LeafBefore, Wait: w.waits.unknown})
			return
		}
		a := max(s.start, lo)
		switch s.state {
		case tracer.StateRunning:
			w.running(it.task, a, hi, link)
		case tracer.StateRunnable:
			w.emit(w.runnable(it.task, s, a, hi, link))
		case tracer.StateBlocked:
			w.blocked(it.task, s, a, hi, true, link, depth)
		default:
			w.emit(Segment{Begin: a, End: hi, Task: it.task, Link: link, State: tracer.StateUnknown, Leaf: LeafBefore, Wait: w.waits.unknown})
		}
		hi = a
	}
}

// runnable is a wait for a CPU: after a wake, or after being preempted. Whoever
// had that CPU says whose contention it is.
func (w *walker) runnable(th tracer.TaskID, s *interval, a, hi tracer.Time, link int32) Segment {
	seg := Segment{Begin: a, End: hi, Task: th, Link: link, State: tracer.StateRunnable, Wait: w.waits.runqueue, Spans: w.ix.spansAt(th, hi), Syscall: s.sys}
	seg.By = s.by
	switch {
	case s.by <= 0:
	case w.tr.Tasks[s.by].Tracer:
		seg.Wait = w.waits.tracer
	case w.tr.Leader(s.by) != w.tr.Leader(th) && !w.marks.during(s.by, s.start, hi):
		seg.Wait = w.waits.interference
	}
	return seg
}

func (w *walker) link(parent int32, waiter tracer.TaskID, s *interval, seg Segment) int32 {
	st := w.stageOf(&seg)
	if st == stage.NoStage && parent >= 0 {
		st = w.path.Links[parent].Stage
	}
	w.path.Links = append(w.path.Links, Link{Parent: parent, Waiter: waiter, Stack: s.stack, Stage: st})
	return int32(len(w.path.Links) - 1)
}

// emit adds the next segment, which must end where the last one began.
func (w *walker) emit(seg Segment) {
	if seg.End != w.lo {
		panic(fmt.Sprintf("path has a hole: segment ends at %d, the next one begins at %d", seg.End, w.lo))
	}
	w.lo = seg.Begin
	seg.Stage = w.stageOf(&seg)
	if seg.Stage == stage.NoStage && seg.Link >= 0 {
		seg.Stage = w.path.Links[seg.Link].Stage
	}
	w.path.Segments = append(w.path.Segments, seg)
}
