package analysis

import (
	"sort"

	"stagetrace/tracer"
)

// send notes where a task is when it queues work or sends a message.
func (r *replayer) send(i int32, e *tracer.Event, own bool) {
	if !own || e.Class != tracer.ClassWork && e.Class != tracer.ClassSocket {
		return
	}
	if n := r.reach(e.Task, e.Time); n != noNode {
		r.sent[i] = n
	}
}

// receive makes who reads depend on who sent what is read, also where it did
// not have to wait for that. One that has had nothing to do with the operation
// before was busy: the message lay there until it was read.
func (r *replayer) receive(i int32, e *tracer.Event) {
	if e.Task <= 0 || r.clocks[e.Task] == nil || e.Class != tracer.ClassSocket {
		return
	}
	s, known := r.msgs.sent[i]
	n, ok := r.sent[s]
	if !known || !ok {
		return
	}
	c := r.clocks[e.Task]
	if fresh := !c.started && c.scope == e.Time; fresh && r.reach(e.Task, e.Time) != noNode {
		c.node = r.later(n, e.Time, e.Task, rowFixed)
		return
	}
	r.join(e.Task, e.Time, n)
}

// join lets what a task does from t on depend on another node, too.
func (r *replayer) join(id tracer.TaskID, t tracer.Time, from int32) {
	if n := r.reach(id, t); n != noNode && from != noNode && from != n {
		c := r.clocks[id]
		at := max(r.g.nodes[n].at, r.g.nodes[from].at) // earlier than t where the task sleeps
		c.node = r.g.add(node{at: at, prev: n, from: from, row: rowFixed})
	}
}

// work begins an item for a worker: it depends on who queued it, and lay in the
// queue as long as it did.
func (r *replayer) work(e *tracer.Event) {
	if e.Task <= 0 {
		return
	}
	it := r.ix.itemAt(e.Task, e.Time)
	c := r.clocks[e.Task]
	if c == nil || it == nil || it.begin != e.Time {
		return
	}
	r.reach(e.Task, e.Time)
	_, mine := r.marks.shares[it]
	if c.away = !mine && !r.onPath(c, it); c.away || !c.started {
		return
	}
	if q, ok := r.sent[it.queue]; ok && it.queue >= 0 {
		seg := r.workDelay(it, r.tr.Events[it.queue].Time, e.Time, -1, LeafNone)
		c.node = r.later(q, e.Time, e.Task, r.rowBeside(&seg))
	} else if !r.waitedFor(c, e.Time) { // the path has not waited for it to begin
		c.node = r.g.add(node{at: e.Time - r.begin, prev: noNode, from: noNode, row: rowFixed})
	}
}

// onPath tells that some of an item is on the path.
func (r *replayer) onPath(c *clock, it *item) bool {
	s := r.segmentAfter(c, it.begin)
	return s != nil && s.Begin < it.end
}

// waitedFor tells that the path has waited, up to t, for an item to begin, and
// does not know who queued it.
func (r *replayer) waitedFor(c *clock, t tracer.Time) bool {
	s := r.segmentAfter(c, t-1)
	return s != nil && s.End == t && s.Wait == r.waits.work
}

// segmentAfter is the first segment of a task that ends after t.
func (r *replayer) segmentAfter(c *clock, t tracer.Time) *Segment {
	i := sort.Search(len(c.segs), func(i int) bool { return r.path.Segments[c.segs[i]].End > t })
	if i == len(c.segs) {
		return nil
	}
	return &r.path.Segments[c.segs[i]]
}

// reaper lets parents depend on children whose end they did not have to wait
// for: they were dead when they were asked for.
type reaper struct {
	calls tracer.StringID           // the tracepoint of wait4 and its kin
	seen  bool                      // the recording has it
	final map[tracer.TaskID]bool    // tasks that are the last of their process to exit
	dead  map[tracer.TaskID][]int32 // by leader of the parent: ends of children that nobody has asked for
}

// waitPoint is the tracepoint at which a task asks for the end of a child
// (do_wait in kernel/exit.c).
const waitPoint = "sched_process_wait"

func newReaper(a *traceAnalysis) reaper {
	k := reaper{calls: a.stringID(waitPoint), final: map[tracer.TaskID]bool{}, dead: map[tracer.TaskID][]int32{}}
	k.seen = int(k.calls) < len(a.tr.Strings)
	return k
}

// event notes who dies and who asks. A child is dead when it has left its CPU
// for good.
func (k *reaper) event(r *replayer, e *tracer.Event) {
	switch {
	case e.Task <= 0 || r.clocks[e.Task] == nil:
	case e.Kind == tracer.KindExit:
		if e.Flags&tracer.FlagGroup != 0 || len(r.threads[r.tr.Leader(e.Task)]) == 1 {
			k.final[e.Task] = true
		}
		if !k.seen && k.final[e.Task] {
			k.ask(r, e)
		}
	case e.Kind == tracer.KindSwitch && e.State == tracer.StateDead && k.final[e.Task]:
		parent := r.tr.Tasks[r.tr.Leader(e.Task)].Parent
		if n := r.reach(e.Task, e.Time); n != noNode && parent > 0 {
			parent = r.tr.Leader(parent)
			k.dead[parent] = append(k.dead[parent], n)
		}
	case e.Kind == tracer.KindPoint && e.Name == k.calls:
		k.ask(r, e)
	}
}

// ask lets a task depend on the children of its process that are dead.
func (k *reaper) ask(r *replayer, e *tracer.Event) {
	parent := r.tr.Leader(e.Task)
	for _, n := range k.dead[parent] {
		r.join(e.Task, e.Time, n)
	}
	delete(k.dead, parent)
}

// atEnd is ask for the operation's own end, where the recording does not say
// who asks.
func (k *reaper) atEnd(r *replayer) {
	if !k.seen {
		k.ask(r, &tracer.Event{Task: r.root, Time: r.end})
	}
}
