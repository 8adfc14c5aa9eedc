package analysis

import "stagetrace/tracer"

// socketReads pairs what was read from sockets with what was sent on them. A
// connection is a stream, or keeps its datagrams in order: what is read first
// was sent first.
type socketReads struct {
	sent  map[int32]int32 // of an event that read: the event that sent the first byte it read
	reads table[int32]    // events that read, by task
	sends table[int32]    // events that sent, by task
}

// unread is a message that nobody has read to its end.
type unread struct {
	event int32
	left  int64
}

// newSocketReads pairs in one pass. A reader on another CPU can be done before
// the sender's call is: what it read ahead is taken off what comes.
func newSocketReads(tr *tracer.Trace) socketReads {
	reads, sends := make([]int32, len(tr.Tasks)), make([]int32, len(tr.Tasks))
	some := false
	for i := range tr.Events {
		e := &tr.Events[i]
		switch {
		case e.Class != tracer.ClassSocket || e.Task <= 0:
		case e.Kind == tracer.KindRecv:
			reads[e.Task]++
			some = true
		case e.Kind == tracer.KindSend:
			sends[e.Task]++
		}
	}
	m := socketReads{reads: newTable[int32](reads), sends: newTable[int32](sends)}
	if !some {
		return m
	}
	m.sent = map[int32]int32{}
	queues, ahead := map[uint64][]unread{}, map[uint64]int64{}
	for i := range tr.Events {
		e := &tr.Events[i]
		switch {
		case e.Kind == tracer.KindLost: // what was in between is not known
			clear(queues)
			clear(ahead)
		case e.Class != tracer.ClassSocket || e.Task <= 0:
		case e.Kind == tracer.KindSend:
			m.sends.add(e.Task, int32(i))
			left := e.Value - ahead[e.Flow]
			ahead[e.Flow] = max(-left, 0)
			if left > 0 {
				queues[e.Flow] = append(queues[e.Flow], unread{int32(i), left})
			}
		case e.Kind == tracer.KindRecv:
			m.reads.add(e.Task, int32(i))
			q := queues[e.Flow]
			if len(q) > 0 {
				m.sent[int32(i)] = q[0].event
			}
			left := e.Value
			for len(q) > 0 && left > 0 {
				k := min(left, q[0].left)
				q[0].left, left = q[0].left-k, left-k
				if q[0].left == 0 {
					q = q[1:]
				}
			}
			queues[e.Flow] = q
			ahead[e.Flow] += left
		}
	}
	return m
}

// connection is a flow without its direction.
func connection(flow uint64) uint64 { return flow &^ 1 }

// received marks what a message says about who reads it: one from the
// operation sets it to work, one from anybody else takes it away.
func (k *marker) received(i int, e *tracer.Event) {
	id := e.Task
	sent, known := k.a.msgs.sent[int32(i)]
	switch {
	case known && k.sent[sent]:
		if !k.marked(id) {
			at := e.Time
			if t, ok := k.takenAt[int32(i)]; ok {
				at = t
			}
			k.taken(id, at, sent)
		}
	case !known && k.connections[connection(e.Flow)]: // an answer to what the operation sent
	case k.out.owned(id) || k.a.tr.Leader(id) == k.driver:
	default:
		k.end(id, e.Time)
		k.foreign[id] = true
	}
}

// taken begins the episode of a task that reads a message from the operation
// and was not woken by it. One that was awake all the time since it was sent, or
// was woken for something else, had other work: the message lay in a queue.
func (k *marker) taken(id tracer.TaskID, at tracer.Time, sent int32) {
	request := sent
	ep := k.out.episodes[id]
	since := noTime // it last worked for the operation
	if len(ep) > 0 {
		since = ep[len(ep)-1].to
	}
	if w := k.a.wokenBefore(id, at); w != nil && w.Time > max(k.a.tr.Events[sent].Time, since) && k.a.delivers(w) {
		at, request = w.Time, -1 // it slept until the message came
	}
	k.begin(id, at)
	if request >= 0 && k.marked(id) {
		k.requests[id] = request + 1
	}
}

// takes tells of a wake that it asks for nothing: whoever takes a message from a
// socket gives its memory back, and with that wakes the sender, should it wait
// for anything on its own socket (unix_write_space and sock_def_write_space).
// It gives the event that then reads the message.
func (a *traceAnalysis) takes(e *tracer.Event) (int32, bool) {
	read, ok := a.firstAfter(&a.msgs.reads, e.Task, e.Time)
	if !ok || a.tr.Leader(e.Task) == a.tr.Leader(e.Peer) {
		return 0, false
	}
	r := &a.tr.Events[read]
	if s := a.tl.before(e.Task, r.Time); s == nil || s.state != tracer.StateRunning || s.start > e.Time {
		return 0, false
	}
	if sent, ok := a.firstAfter(&a.msgs.sends, e.Task, e.Time); ok && a.tr.Events[sent].Time < r.Time { // it was for what it sent
		return 0, false
	}
	if sent, known := a.msgs.sent[read]; known {
		s := &a.tr.Events[sent]
		return read, s.Time <= e.Time && a.tr.Leader(s.Task) == a.tr.Leader(e.Peer)
	}
	return read, true
}

// firstAfter is the first event of a task's list that is later than t.
func (a *traceAnalysis) firstAfter(list *table[int32], id tracer.TaskID, t tracer.Time) (int32, bool) {
	i := list.search(id, func(n *int32) bool { return a.tr.Events[*n].Time > t })
	if l := list.of(id); i < len(l) {
		return l[i], true
	}
	return 0, false
}

// wokenBefore is the wake that ended a task's last sleep before t.
func (a *traceAnalysis) wokenBefore(id tracer.TaskID, t tracer.Time) *tracer.Event {
	s := a.tl.lastSleep(id, a.tl.before(id, t))
	if s == nil || s.wake < 0 {
		return nil
	}
	return &a.tr.Events[s.wake]
}

// delivers tells that a wake is the arrival of a packet in a softirq that runs
// on somebody else's time (a bystander's, ksoftirqd's).
func (a *traceAnalysis) delivers(w *tracer.Event) bool {
	if w.Ctx == tracer.CtxTask || w.Flags&tracer.FlagInline != 0 {
		return w.Task > 0 && a.tr.Tasks[w.Task].Kernel
	}
	return leafOfInterrupt(a.tr.String(w.Name)) == LeafNetwork
}

// sender finds, for a sleep that a packet's arrival ended, the message that the
// task then read, and who of this machine sent it. Nil: it came from outside,
// or sockets are not recorded here.
func (a *traceAnalysis) sender(th tracer.TaskID, w *tracer.Event) *tracer.Event {
	read, ok := a.firstAfter(&a.msgs.reads, th, w.Time)
	if !ok {
		return nil
	}
	sent, ok := a.msgs.sent[read]
	if !ok {
		return nil
	}
	s := &a.tr.Events[sent]
	if a.wokenBefore(th, a.tr.Events[read].Time) != w || s.Task <= 0 || s.Task == th || s.Time > w.Time {
		return nil
	}
	return s
}

// queued emits what of [lo, hi) a message of the operation lay at a task that
// was busy with somebody else's work until hi, and goes on with its sender.
func (w *walker) queued(th tracer.TaskID, request int32, lo, hi tracer.Time, link int32) (tracer.TaskID, tracer.Time) {
	s := &w.tr.Events[request]
	from := max(min(s.Time, hi), lo)
	if from < hi {
		seg := Segment{Begin: from, End: hi, Task: th, By: th, Link: link, State: tracer.StateBlocked, Leaf: LeafQueueing, Wait: w.waits.leaf[LeafQueueing]}
		if link >= 0 { // it is the waiter's time, not the server's
			seg.Task, seg.Stack = w.path.Links[link].Waiter, w.path.Links[link].Stack
		}
		w.emit(seg)
	}
	return s.Task, from
}
