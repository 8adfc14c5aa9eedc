package analysis

import (
	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// clock is how far the graph has come with one task.
type clock struct {
	id      tracer.TaskID
	scope   tracer.Time // when it has to do with the operation for the first time
	started bool
	still   bool        // it sleeps until another task ends that: time passes by itself
	timed   bool        // it sleeps until a timer of its own ends
	slept   int32       // the node at which its sleep began; noNode: it is awake
	rest    stretch     // its sleeps that timers of its own ended, while nobody has asked what it did since
	away    bool        // it does something that the operation has nothing to do with
	iv      int32       // the interval of its timeline that it is in; -1: none yet
	node    int32       // its last node
	at      tracer.Time // where the graph has come to
	row     int16       // the stage of the sleep it is in
	waking  int32       // the last event that made it run; -1
	waker   int32       // the node of who did; noNode: a stranger
	pieces  []piece     // what is left of its interval
	segs    []int32     // its segments of the path
	seg     int         // the first of them that lies ahead
}

// replayer makes the graph of an operation, in one pass over its events. Every
// task that the operation has caused to do something, and every one on its path,
// has a clock. Who has none is a stranger: a wait for him keeps its length, as he
// would be met at another moment, in which he is as likely to be as busy.
type replayer struct {
	walker // to name what is not on the path
	path   *Path
	begin  tracer.Time
	end    tracer.Time
	clocks []*clock        // per task
	sent   map[int32]int32 // event that queued work or sent a message: the node
	dead   reaper
	asked  int32 // who sent the message that lies in a queue on the path
	g      graph
}

// dependencies makes the graph of an operation whose path is known.
func (a *traceAnalysis) dependencies(op *Operation, m *marks, p pair) *graph {
	r := &replayer{walker: walker{traceAnalysis: a, marks: m, root: op.Root}, path: &op.Path, begin: op.Begin, end: op.End,
		clocks: make([]*clock, len(a.tr.Tasks)), sent: map[int32]int32{}}
	r.dead = newReaper(a)
	n := len(a.set.Stages)
	r.g = graph{wall: op.End - op.Begin, rows: n + 2, other: int16(n)}
	r.scopes()
	r.reach(op.Root, op.Begin)
	next := 0 // segment of the path whose begin is still to come
	for i := p.begin; i <= p.end; i++ {
		e := &a.tr.Events[i]
		next = r.enterUntil(next, e.Time)
		r.event(int32(i), e)
	}
	r.enterUntil(next, op.End)
	r.dead.atEnd(r)
	at := r.reach(op.Root, op.End)
	r.g.end = r.later(at, op.End, op.Root, r.clocks[op.Root].row) // it may be asleep
	r.g.complete(r.name)
	return &r.g
}

// scopes finds who has a clock, from when on.
func (r *replayer) scopes() {
	note := func(id tracer.TaskID, at tracer.Time) *clock {
		c := r.clocks[id]
		if c == nil {
			c = &clock{id: id, scope: at, node: noNode, slept: noNode, waking: -1, waker: noNode, iv: -1, row: rowFixed}
			r.clocks[id] = c
		}
		c.scope = min(c.scope, at)
		return c
	}
	note(r.root, r.begin)
	for id, eps := range r.marks.episodes {
		if len(eps) == 0 || eps[0].from >= r.end {
			continue
		}
		note(id, max(eps[0].from, r.begin))
	}
	for i := range r.path.Segments {
		if s := &r.path.Segments[i]; s.Task > 0 {
			c := note(s.Task, s.Begin)
			c.segs = append(c.segs, int32(i))
		}
	}
}

// event takes in what carries a cause from one task to another.
func (r *replayer) event(i int32, e *tracer.Event) {
	own := e.Ctx == tracer.CtxTask || e.Flags&tracer.FlagInline != 0
	switch e.Kind {
	case tracer.KindWake:
		r.woken(i, e, own)
	case tracer.KindFork:
		r.woken(i, e, true)
	case tracer.KindExec:
		if e.Peer > 0 && e.Peer != e.Task {
			r.made(i, e.Task, e.Peer, e.Time)
		}
	case tracer.KindSend:
		r.send(i, e, own)
	case tracer.KindRecv:
		r.receive(i, e)
	case tracer.KindBegin:
		if e.Class == tracer.ClassWork {
			r.work(e)
		}
	case tracer.KindExit, tracer.KindSwitch, tracer.KindPoint:
		r.dead.event(r, e)
	}
}

func (r *replayer) woken(i int32, e *tracer.Event, own bool) {
	if own {
		r.made(i, e.Peer, e.Task, e.Time)
	} else {
		r.made(i, e.Peer, tracer.NoTask, e.Time)
	}
}

// made notes that event i let a task run, and who did.
func (r *replayer) made(i int32, id, by tracer.TaskID, at tracer.Time) {
	if id <= 0 || r.clocks[id] == nil {
		return
	}
	c := r.clocks[id]
	if c.started { // a waking that came too early for its sleep is used up before
		r.present(id, at-1)
	}
	waker := r.reach(by, at)
	if waker != noNode { // it may not have been seen running
		waker = r.later(waker, at, by, rowFixed)
	}
	c.waking, c.waker = i, waker
	r.present(id, at)
}

// reach gives the node of a task at the present: what it did last. noNode: it
// is a stranger, as yet.
func (r *replayer) reach(id tracer.TaskID, t tracer.Time) int32 {
	if !r.present(id, t) {
		return noNode
	}
	c := r.clocks[id]
	if c.rest.to != 0 {
		r.relieve(c, t)
	}
	return c.node
}

// present brings the clock of a task to t; false if it is a stranger then.
func (r *replayer) present(id tracer.TaskID, t tracer.Time) bool {
	if id <= 0 || r.clocks[id] == nil {
		return false
	}
	c := r.clocks[id]
	if !c.started {
		if c.scope > t {
			return false
		}
		r.start(id, c)
	}
	r.advance(id, c, t)
	return !c.away || id == r.root
}

// advance brings a task to the present.
func (r *replayer) advance(id tracer.TaskID, c *clock, t tracer.Time) {
	ivs := r.tl.iv.of(id)
	for int(c.iv)+1 < len(ivs) && ivs[c.iv+1].start <= t {
		r.pass(c, ivs[c.iv+1].start)
		c.iv++
		r.turn(id, c, &ivs[c.iv])
	}
	r.pass(c, t)
}

// later gives a node of a task at t that comes after n; n itself if it is there.
func (r *replayer) later(n int32, t tracer.Time, id tracer.TaskID, row int16) int32 {
	if d := t - r.begin - r.g.nodes[n].at; d > 0 {
		return r.g.add(node{at: t - r.begin, len: d, prev: n, from: noNode, task: id, row: row})
	}
	return n
}

// start begins a clock: with what made the task run, or, in the middle of what
// it does, at the recorded time.
func (r *replayer) start(id tracer.TaskID, c *clock) {
	c.started, c.at = true, c.scope
	ivs := r.tl.iv.of(id)
	k := r.tl.iv.search(id, func(iv *interval) bool { return iv.start > c.scope }) - 1
	c.iv = int32(k)
	if k >= 0 && ivs[k].start == c.scope && ivs[k].wake >= 0 && runs(&ivs[k]) {
		c.iv--
		return
	}
	c.node = r.g.add(node{at: c.at - r.begin, prev: noNode, from: noNode, row: rowFixed})
	if k < 0 {
		r.fill(id, c, &interval{start: c.at, wake: -1})
		return
	}
	r.fill(id, c, &ivs[k])
}

func runs(iv *interval) bool {
	return iv.state == tracer.StateRunning || iv.state == tracer.StateRunnable
}

// turn brings a task into the next interval of its timeline.
func (r *replayer) turn(id tracer.TaskID, c *clock, iv *interval) {
	if c.timed && id != r.root {
		if c.rest.to == 0 {
			c.rest.from = r.tl.iv.of(id)[c.iv-1].start
		}
		c.rest.to = iv.start
	}
	if iv.wake >= 0 && runs(iv) {
		e := &r.tr.Events[iv.wake]
		n := node{at: iv.start - r.begin, prev: c.node, from: noNode, task: id, row: c.row}
		if c.waking == iv.wake {
			n.from = c.waker
		}
		switch {
		case e.Kind == tracer.KindFork, e.Kind == tracer.KindExec, c.node == noNode, c.away && id != r.root && n.from != noNode:
			n.prev, n.row, c.rest = noNode, rowFixed, stretch{}
			if n.from != noNode && r.g.nodes[n.from].at < n.at { // it was woken on its way to sleep
				n.prev, n.from, n.len = n.from, noNode, n.at-r.g.nodes[n.from].at
			}
			c.node = r.g.add(n)
		case c.still && n.from == noNode:
			c.node = r.later(c.node, iv.start, id, c.row)
		case c.still, n.from != noNode && e.Time < iv.start && r.causes(id, e): // woken on its way to sleep
			c.node = r.g.add(n)
		}
	}
	r.fill(id, c, iv)
}

// relieve lets a thread whose own timer ended its sleep go on with the work of
// a sibling: see walker.sibling. Monitors wake often and do little, so it is
// looked for when somebody depends on what the thread did.
func (r *replayer) relieve(c *clock, t tracer.Time) {
	rest := c.rest
	c.rest = stretch{}
	sib, _ := r.sibling(c.id, rest.from, rest.to)
	if sib <= 0 {
		return
	}
	n := r.reach(sib, t)
	if s := r.clocks[sib]; s != nil && s.slept != noNode {
		n = s.slept
	}
	if n != noNode {
		c.node = r.later(r.later(n, rest.to, c.id, rowUnnamed), t, c.id, rowUnnamed)
	}
}

// causes tells that a waking in task context is followed.
func (r *replayer) causes(id tracer.TaskID, e *tracer.Event) bool {
	seg := Segment{Wait: stage.NoWait}
	_, leaf := r.follow(id, e, &seg)
	return leaf == LeafNone
}

// pass lets a task do what it did until t.
func (r *replayer) pass(c *clock, t tracer.Time) {
	for c.at < t {
		end, row := t, rowFixed
		if len(c.pieces) > 0 {
			p := &c.pieces[0]
			end, row = min(p.end, t), p.row
			if p.end <= t {
				c.pieces = c.pieces[1:]
			}
		} else if c.still {
			c.at = t
			return
		}
		if end > c.at {
			c.node = r.g.add(node{at: end - r.begin, len: end - c.at, prev: c.node, from: noNode, task: c.id, row: row})
			c.at = end
		}
	}
}

// enterUntil makes the path's steps from one task to another that lie before t.
func (r *replayer) enterUntil(next int, t tracer.Time) int {
	for ; next < len(r.path.Segments) && r.path.Segments[next].Begin < t; next++ {
		s := &r.path.Segments[next]
		if s.Task > 0 && (next == 0 || r.path.Segments[next-1].Task != s.Task || s.Leaf == LeafQueueing) {
			r.enter(next)
		}
	}
	return next
}

// enter makes a step of the path to a task in the middle of what it was doing
// a dependency, where the graph has none: of what a task of the operation did
// before, only its own clock tells. Anybody else is taken to have worked for
// the operation from then on: a thread of a runtime has got its work by a way
// that was not seen, and a stranger is one who is waited for.
func (r *replayer) enter(i int) {
	s := &r.path.Segments[i]
	r.present(s.Task, s.Begin)
	var last *Segment
	before, row := noNode, rowFixed
	if i > 0 {
		last = &r.path.Segments[i-1]
		before = r.reach(last.Task, s.Begin)
	}
	switch c := r.clocks[s.Task]; {
	case s.Leaf == LeafQueueing:
		r.asked = before
		return
	case last != nil && last.Leaf == LeafQueueing:
		before, row = r.asked, r.rowOf(last)
	case s.Task == r.root, s.Wait == r.waits.work && s.Leaf == LeafNone:
		return
	case r.known(s.Task, c, last):
		return
	}
	if before == noNode {
		before = r.g.add(node{at: s.Begin - r.begin, prev: noNode, from: noNode, row: rowFixed})
	}
	r.clocks[s.Task].node = r.later(before, s.Begin, s.Task, row)
	r.clocks[s.Task].away, r.clocks[s.Task].rest = false, stretch{}
}

// known tells that the graph says where a task that the path comes to got its
// work from: it is the operation's, or the one before on the path made it run.
func (r *replayer) known(id tracer.TaskID, c *clock, last *Segment) bool {
	ivs := r.tl.iv.of(id)
	if c.iv < 0 {
		return false
	}
	iv := &ivs[c.iv]
	if iv.start == c.at && iv.wake >= 0 && runs(iv) && last != nil {
		if e := &r.tr.Events[iv.wake]; e.Task == last.Task || e.Peer == last.Task {
			return true
		}
	}
	return r.marks.during(id, iv.start, r.endOf(id, c.iv))
}
