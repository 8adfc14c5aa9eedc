package analysis

import (
	"sort"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// episode is a stretch of a task's life, between two sleeps, that the
// operation caused.
type episode struct {
	from, to tracer.Time
	request  int32 // 1 + the event that sent the message with which it began, when that had lain in a queue
}

// marks is the forward pass: everything an operation caused, directly or by
// somebody it woke, forked, queued work to or armed a timer for.
type marks struct {
	episodes map[tracer.TaskID][]episode
	items    []*item // work items done for the operation, in order of begin
	shares   map[*item]int
	forked   map[tracer.TaskID]bool // tasks born of it; true: of a process born of it
	netns    map[uint64]bool
	cgroups  map[uint64]bool
}

// continuing are the waits after which a task goes on with what it was doing,
// whoever ends them. After any other wait it begins something new, and only
// the waker tells for whom.
var continuing = []string{"rcu.expedited", "rcu.barrier", "rcu.normal", "rcu.srcu", "disk", "journal", "memory",
	"lock.mutex", "lock.rwsem", "lock.percpu_rwsem", "stopper", "completion", "vfork", "timer", "device"}

// marker is the state of the forward pass over one operation.
type marker struct {
	a      *traceAnalysis
	root   tracer.TaskID
	driver tracer.TaskID // the root's process, which goes on to the next operation
	ended  bool          // the operation; from now on its late work
	out    *marks
	since  []tracer.Time // per task: its running episode began; noTime: none
	asleep []int32       // per task: 1 + the event at which it went to sleep, while marked; 0: none
	flows  map[uint64]bool
	names  markNames

	sent        map[int32]bool        // events that sent the operation's messages on sockets
	connections map[uint64]bool       // that the operation sent something on
	requests    []int32               // per task: episode.request of the one that has begun
	takenAt     map[int32]tracer.Time // by event that read a message: when that was taken

	touched map[tracer.TaskID]bool // leaders of user processes that the operation has reached
	foreign []bool                 // per task: what it does was asked for by somebody outside of the operation
}

type markNames struct{ create, teardown, cgroupMkdir tracer.StringID }

const noTime tracer.Time = -1 << 62

// mark follows what the operation caused from its begin until until.
func (a *traceAnalysis) mark(root tracer.TaskID, begin, end, until tracer.Time, from int) *marks {
	n := len(a.tr.Tasks)
	k := &marker{a: a, root: root, driver: a.tr.Leader(root), flows: map[uint64]bool{}, touched: map[tracer.TaskID]bool{},
		sent: map[int32]bool{}, takenAt: map[int32]tracer.Time{}, connections: map[uint64]bool{}, requests: make([]int32, n),
		foreign: make([]bool, n), since: make([]tracer.Time, n), asleep: make([]int32, n),
		out: &marks{episodes: map[tracer.TaskID][]episode{}, shares: map[*item]int{}, forked: map[tracer.TaskID]bool{},
			netns: map[uint64]bool{}, cgroups: map[uint64]bool{}}}
	for i := range k.since {
		k.since[i] = noTime
	}
	k.names = markNames{a.stringID("create"), a.stringID("teardown"), a.stringID("cgroup_mkdir")}
	k.begin(root, begin)
	ev := a.tr.Events
	for i := from; i < len(ev) && ev[i].Time <= until; i++ {
		if !k.ended && ev[i].Time >= end {
			k.end(root, end)
			k.ended = true
			clear(k.touched) // whom the next operation asks is not known
		}
		k.event(i, &ev[i])
	}
	for id := range k.since {
		k.end(tracer.TaskID(id), until)
	}
	return k.out
}

func (k *marker) marked(id tracer.TaskID) bool { return id > 0 && k.since[id] != noTime }

func (k *marker) begin(id tracer.TaskID, at tracer.Time) {
	if id <= 0 || k.since[id] != noTime {
		return
	}
	leader := k.a.tr.Leader(id)
	if k.ended && leader == k.driver { // what the driver does next is not the operation's
		return
	}
	k.since[id], k.foreign[id] = at, false
	if !k.a.tr.Tasks[id].Kernel && !k.ended && leader != k.driver { // the driver has other things to do beside it
		k.touched[leader] = true
	}
}

// ours tells that what a task does is done for the operation: it is marked, of
// a process that the operation created, or a thread of a process that the
// operation has reached and of which nobody else is known to have asked
// anything since it last slept. The last covers runtimes that hand work from
// thread to thread without a wake-up (a Go thread that spins takes a goroutine
// that another made ready).
func (k *marker) ours(id tracer.TaskID) bool {
	return id > 0 && (k.since[id] != noTime || k.out.owned(id) || k.touched[k.a.tr.Leader(id)] && !k.foreign[id])
}

// wake marks whom the operation wakes. A thread that is only taken for the
// operation's own marks other processes, but no thread of its own one.
func (k *marker) wake(e *tracer.Event, own bool) {
	if e.Peer <= 0 {
		return
	}
	if own && e.Task > 0 {
		if read, ok := k.a.takes(e); ok {
			k.takenAt[read] = e.Time
			return
		}
	}
	switch outside := e.Task <= 0 || k.a.tr.Leader(e.Task) != k.a.tr.Leader(e.Peer); {
	case !own:
		if e.Flow != 0 && k.flows[e.Flow] {
			k.begin(e.Peer, e.Time)
		}
	case isInfrastructure(&k.a.tr.Tasks[e.Peer]), k.goesOn(e): // asked by many at once, or for nothing
	case k.marked(e.Task), outside && k.ours(e.Task):
		k.begin(e.Peer, e.Time)
	case outside:
		k.foreign[e.Peer] = true
	default:
		k.foreign[e.Peer] = k.foreign[e.Task]
	}
}

func (k *marker) end(id tracer.TaskID, at tracer.Time) {
	if id > 0 && k.since[id] != noTime {
		k.out.episodes[id] = append(k.out.episodes[id], episode{k.since[id], at, k.requests[id]})
		k.since[id], k.requests[id] = noTime, 0
	}
}

// goesOn tells that who is woken goes on with what it was doing: a lock that is
// handed over asks for nothing.
func (k *marker) goesOn(e *tracer.Event) bool {
	if k.out.owned(e.Peer) {
		return false
	}
	s := k.a.tl.before(e.Peer, e.Time)
	if s == nil || s.state != tracer.StateBlocked {
		return false
	}
	w := k.a.match.Wait(s.stack, s.sys, k.a.ix.spansAt(e.Peer, e.Time), s.flags)
	return k.a.goesOnAfter(w)
}

func (k *marker) event(i int, e *tracer.Event) {
	own := e.Ctx == tracer.CtxTask || e.Flags&tracer.FlagInline != 0
	switch e.Kind {
	case tracer.KindWake:
		k.wake(e, own)
	case tracer.KindSwitch:
		k.switched(i, e)
	case tracer.KindFork:
		k.fork(e)
	case tracer.KindExec:
		if e.Peer > 0 && e.Peer != e.Task && k.marked(e.Peer) {
			k.end(e.Peer, e.Time)
			k.begin(e.Task, e.Time)
		}
	case tracer.KindSend:
		if own && k.ours(e.Task) {
			k.send(i, e)
		} else if arm, ok := k.a.ix.armers[int32(i)]; ok && k.flows[k.a.tr.Events[arm].Flow] {
			k.flows[e.Flow] = true // a delayed work item, by the operation's timer
		}
	case tracer.KindRecv:
		if e.Class == tracer.ClassSocket && e.Task > 0 {
			k.received(i, e)
		}
	case tracer.KindPoint:
		k.point(e)
	case tracer.KindBegin, tracer.KindEnd:
		if e.Class == tracer.ClassWork {
			k.work(e)
		}
	}
}

// send notes what a marked task queues, arms, issues or says.
func (k *marker) send(i int, e *tracer.Event) {
	if e.Class != tracer.ClassSocket {
		k.flows[e.Flow] = true
		return
	}
	k.sent[int32(i)], k.connections[connection(e.Flow)] = true, true
}

// fork marks the child. A new process is the operation's own for as long as it
// lives, whoever wakes it; a new thread of an older one is not.
func (k *marker) fork(e *tracer.Event) {
	if e.Peer <= 0 || !k.ours(e.Task) {
		return
	}
	k.begin(e.Peer, e.Time)
	k.out.forked[e.Peer] = k.a.tr.Leader(e.Peer) == e.Peer || k.out.forked[k.a.tr.Leader(e.Peer)]
}

// owned tells that a task belongs to a process that the operation created.
func (m *marks) owned(id tracer.TaskID) bool { return m.forked[id] }

func (k *marker) switched(i int, e *tracer.Event) {
	if k.marked(e.Task) && (e.Task != k.root || k.ended) && (e.State == tracer.StateBlocked || e.State == tracer.StateDead) {
		k.end(e.Task, e.Time)
		k.asleep[e.Task] = int32(i) + 1
	}
	if p := e.Peer; p > 0 && k.asleep[p] != 0 {
		out := &k.a.tr.Events[k.asleep[p]-1]
		if k.since[p] == noTime {
			w := k.a.match.Wait(e.Stack, out.Name, k.a.ix.spansAt(p, e.Time), out.Flags)
			if k.a.goesOnAfter(w) || k.out.owned(p) {
				k.begin(p, e.Time)
			}
		}
		k.asleep[p] = 0
	}
}

func (k *marker) point(e *tracer.Event) {
	switch {
	case e.Class == tracer.ClassNetns && e.Name == k.names.create:
		if k.ours(e.Task) {
			k.out.netns[e.Flow] = true
		}
	case e.Class == tracer.ClassNetns && e.Name == k.names.teardown:
		if k.out.netns[e.Flow] {
			if it := k.a.ix.itemAt(e.Task, e.Time); it != nil {
				k.addItem(it)
			}
		}
	case e.Class == tracer.ClassTracepoint && e.Name == k.names.cgroupMkdir && e.Flow != 0:
		if k.ours(e.Task) {
			k.out.cgroups[e.Flow] = true
		}
	}
}

func (k *marker) work(e *tracer.Event) {
	if e.Kind == tracer.KindEnd {
		k.end(e.Task, e.Time)
		return
	}
	if !k.flows[e.Flow] && !(e.Value != 0 && k.out.cgroups[uint64(e.Value)]) {
		return
	}
	delete(k.flows, e.Flow)
	if it := k.a.ix.itemAt(e.Task, e.Time); it != nil {
		k.addItem(it)
	}
	k.begin(e.Task, e.Time)
}

// addItem notes a work item; one that tears down several namespaces is shared
// by how many there are.
func (k *marker) addItem(it *item) {
	if _, ok := k.out.shares[it]; ok {
		return
	}
	n := map[uint64]bool{}
	for _, c := range it.netns {
		n[c] = true
	}
	k.out.shares[it] = max(1, len(n))
	k.out.items = append(k.out.items, it)
}

// at tells whether the operation caused what a task did just before t.
func (m *marks) at(id tracer.TaskID, t tracer.Time) bool {
	ep := m.episodes[id]
	i := sort.Search(len(ep), func(i int) bool { return ep[i].from >= t })
	return i > 0 && ep[i-1].to >= t
}

// during tells whether a task did anything for the operation in [lo, hi].
func (m *marks) during(id tracer.TaskID, lo, hi tracer.Time) bool {
	if m.owned(id) {
		return true
	}
	ep := m.episodes[id]
	i := sort.Search(len(ep), func(i int) bool { return ep[i].to >= lo })
	return i < len(ep) && ep[i].from <= hi
}

// takenUp is the message with which a task took the operation's work up at t,
// coming from other work: the event that sent it, -1 for none.
func (m *marks) takenUp(id tracer.TaskID, t tracer.Time) int32 {
	ep := m.episodes[id]
	i := sort.Search(len(ep), func(i int) bool { return ep[i].from >= t })
	if i < len(ep) && ep[i].from == t {
		return ep[i].request - 1
	}
	return -1
}

// queuedIn is when a task took the operation's work up in (lo, hi), coming
// from other work; lo if it did not.
func (m *marks) queuedIn(id tracer.TaskID, lo, hi tracer.Time) tracer.Time {
	ep := m.episodes[id]
	i := sort.Search(len(ep), func(i int) bool { return ep[i].from >= hi })
	if i > 0 && ep[i-1].request > 0 && ep[i-1].from > lo {
		return ep[i-1].from
	}
	return lo
}

// lastBefore is the end of the last marked stretch of a task in (lo, hi], or
// noTime.
func (m *marks) lastBefore(id tracer.TaskID, lo, hi tracer.Time) tracer.Time {
	ep := m.episodes[id]
	i := sort.Search(len(ep), func(i int) bool { return ep[i].from >= hi })
	if i == 0 || ep[i-1].to <= lo {
		return noTime
	}
	return min(ep[i-1].to, hi)
}

// goesOnAfter tells that a task goes on with its own work after a wait.
func (a *traceAnalysis) goesOnAfter(w stage.WaitID) bool { return w >= 0 && a.continues[w] }

// waitIDs marks, per wait reason of a set, whether it is one of names.
func waitIDs(set *stage.Set, names []string) []bool {
	out := make([]bool, len(set.Waits))
	for _, n := range names {
		if w := set.WaitNamed(n); w >= 0 {
			out[w] = true
		}
	}
	return out
}
