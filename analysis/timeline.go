package analysis

import (
	"sort"

	"stagetrace/tracer"
)

// lateWake is how long before a switch-out a waking may lie and still be the
// one that ends that sleep: the waker saw the task on its way to sleep. (The
// race covers 85 % of the sleeps that seem to end by nothing.)
const lateWake tracer.Time = 100_000

// interval is a state of a task from start to the start of the task's next
// interval.
type interval struct {
	start tracer.Time
	wake  int32           // of a blocked one: the event that ended it; of a running one: the exec by which a thread took this task over; -1 none
	by    tracer.TaskID   // of a runnable one: who got the CPU when the task lost it, or had it when the task got it; 0 nobody
	stack tracer.StackID  // of a blocked one: where it slept
	sys   tracer.StringID // system call it was in when it lost the CPU
	flags tracer.Flags
	state tracer.TaskState
}

// timeline is the states of all tasks of a trace. Built in one pass, in
// memory proportional to the events.
type timeline struct {
	tr      *tracer.Trace
	iv      table[interval]
	lost    []loss      // in order of their reports
	longest tracer.Time // of the losses
}

// builder state per task, while the timeline is made.
type taskCursor struct {
	late    int32 // a waking seen while the task ran; -1
	blocked int32 // its last blocked interval; -1
	born    bool
}

func newTimeline(tr *tracer.Trace) *timeline {
	tl := &timeline{tr: tr, iv: newTable[interval](mostIntervals(tr))}
	tl.losses()
	cur := make([]taskCursor, len(tr.Tasks))
	for i := range cur {
		cur[i] = taskCursor{late: -1, blocked: -1}
	}
	for i := range tr.Events {
		e := &tr.Events[i]
		switch e.Kind {
		case tracer.KindSwitch:
			tl.switchOut(e, cur)
			tl.switchIn(e, cur)
		case tracer.KindWake:
			tl.wake(int32(i), e, cur)
		case tracer.KindFork:
			if e.Peer > 0 {
				cur[e.Peer].born = true
				tl.iv.add(e.Peer, interval{start: e.Time, state: tracer.StateRunnable, wake: int32(i)})
			}
		case tracer.KindExec:
			if e.Peer > 0 && e.Peer != e.Task && e.Task > 0 { // a thread took its leader's place
				tl.iv.add(e.Peer, interval{start: e.Time, state: tracer.StateDead, wake: -1})
				tl.iv.add(e.Task, interval{start: e.Time, state: tracer.StateRunning, wake: int32(i)})
			}
		case tracer.KindStatus:
			if e.Task > 0 && tl.iv.used[e.Task] == 0 {
				if e.State == tracer.StateBlocked {
					cur[e.Task].blocked = tl.iv.first[e.Task]
				}
				tl.iv.add(e.Task, interval{start: tr.Meta.Begin, state: e.State, wake: -1, stack: e.Stack, sys: e.Name, flags: e.Flags})
			}
		}
	}
	return tl
}

// mostIntervals counts how many intervals each task can get at most.
func mostIntervals(tr *tracer.Trace) []int32 {
	n := make([]int32, len(tr.Tasks))
	one := func(id tracer.TaskID) {
		if id <= 0 {
			return
		}
		if n[id] == 0 {
			n[id]++ // what it did before its first event
		}
		n[id]++
	}
	for i := range tr.Events {
		switch e := &tr.Events[i]; e.Kind {
		case tracer.KindSwitch, tracer.KindExec:
			one(e.Task)
			one(e.Peer)
		case tracer.KindWake, tracer.KindFork:
			one(e.Peer)
		case tracer.KindStatus:
			one(e.Task)
		}
	}
	return n
}

func (tl *timeline) last(id tracer.TaskID) *interval {
	ivs := tl.iv.of(id)
	if len(ivs) == 0 {
		return nil
	}
	return &ivs[len(ivs)-1]
}

func (tl *timeline) switchOut(e *tracer.Event, cur []taskCursor) {
	if e.Task <= 0 {
		return
	}
	c := &cur[e.Task]
	if tl.iv.used[e.Task] == 0 && !c.born { // it ran when the trace began
		tl.iv.add(e.Task, interval{start: tl.tr.Meta.Begin, state: tracer.StateRunning, wake: -1})
	}
	if e.State == tracer.StateBlocked {
		c.blocked = tl.iv.first[e.Task] + tl.iv.used[e.Task]
	}
	if c.late >= 0 && e.Time-tl.tr.Events[c.late].Time > lateWake {
		c.late = -1
	}
	tl.iv.add(e.Task, interval{start: e.Time, state: e.State, wake: -1, by: e.Peer, sys: e.Name, flags: e.Flags})
}

func (tl *timeline) switchIn(e *tracer.Event, cur []taskCursor) {
	if e.Peer <= 0 {
		return
	}
	c := &cur[e.Peer]
	if c.blocked >= 0 && e.Stack != 0 {
		tl.iv.data[c.blocked].stack = e.Stack
	}
	if p := tl.last(e.Peer); p != nil && p.state == tracer.StateBlocked && p.wake < 0 {
		switch {
		case c.late >= 0:
			// The waker found it on its way to sleep: it was runnable again at once.
			p.wake, p.state = c.late, tracer.StateRunnable
		case tl.lostIn(p.start, e.Time) == 0 && p.start > tl.tr.Meta.Begin:
			// Nothing woke it and nothing was lost: it never left the run
			// queue (a signal was pending, the condition already held).
			p.state = tracer.StateRunnable
		}
	}
	if p := tl.last(e.Peer); p != nil && p.state == tracer.StateRunnable && p.by <= 0 {
		p.by = e.Task
	}
	c.late, c.blocked = -1, -1
	tl.iv.add(e.Peer, interval{start: e.Time, state: tracer.StateRunning, wake: -1})
}

func (tl *timeline) wake(i int32, e *tracer.Event, cur []taskCursor) {
	if e.Peer <= 0 {
		return
	}
	p := tl.last(e.Peer)
	if p == nil && !cur[e.Peer].born {
		cur[e.Peer].blocked = tl.iv.first[e.Peer]
		tl.iv.add(e.Peer, interval{start: tl.tr.Meta.Begin, state: tracer.StateBlocked, wake: -1})
		p = tl.last(e.Peer)
	}
	if p == nil {
		return
	}
	switch p.state {
	case tracer.StateBlocked, tracer.StateUnknown:
		p.wake = i
		tl.iv.add(e.Peer, interval{start: e.Time, state: tracer.StateRunnable, wake: i})
	case tracer.StateRunning:
		cur[e.Peer].late = i
	}
}

// near is sort.Search that begins where the last search of a list ended, and
// notes where it ends: walks go step by step, in either direction.
func near(n int, hint *int32, f func(int) bool) int {
	lo, hi := 0, n // f is false before lo and true from hi on
	i := min(int(*hint), n)
	if i < n && !f(i) {
		lo = i + 1
		for step := 1; lo+step <= n; step *= 2 {
			if f(lo + step - 1) {
				hi = lo + step - 1
				break
			}
			lo += step
		}
	} else {
		hi = i
		for step := 1; hi-step >= 0; step *= 2 {
			if !f(hi - step) {
				lo = hi - step + 1
				break
			}
			hi -= step
		}
	}
	for lo < hi {
		if mid := (lo + hi) / 2; f(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	*hint = int32(lo)
	return lo
}

// loss is a number of events that a CPU could not record between two that it
// did.
type loss struct {
	since, until tracer.Time
	n            uint64
}

// losses finds when events were lost. A report speaks of the time since the
// CPU's event before it; marks come from the driver, not from a CPU.
func (tl *timeline) losses() {
	seen := map[int16]tracer.Time{}
	begin := tl.tr.Meta.Begin
	for i := range tl.tr.Events {
		e := &tl.tr.Events[i]
		if e.Kind == tracer.KindLost {
			l := loss{since: max(seen[e.CPU], begin), until: e.Time, n: uint64(e.Value)}
			tl.lost = append(tl.lost, l)
			tl.longest = max(tl.longest, l.until-l.since)
		}
		if e.Kind != tracer.KindOpBegin && e.Kind != tracer.KindOpEnd && e.Kind != tracer.KindSync {
			seen[e.CPU] = e.Time
		}
	}
}

// lostIn counts the events that may have been lost in [a, b].
func (tl *timeline) lostIn(a, b tracer.Time) (n uint64) {
	i := sort.Search(len(tl.lost), func(i int) bool { return tl.lost[i].until >= a })
	for ; i < len(tl.lost) && tl.lost[i].until-tl.longest <= b; i++ {
		if tl.lost[i].since <= b {
			n += tl.lost[i].n
		}
	}
	return n
}

// before finds the interval of a task that holds just before t: the last one
// that starts earlier. Nil when the task is not known to have lived then.
func (tl *timeline) before(id tracer.TaskID, t tracer.Time) *interval {
	i := tl.iv.search(id, func(iv *interval) bool { return iv.start >= t })
	if i == 0 {
		return nil
	}
	return &tl.iv.of(id)[i-1]
}

// lastSleep finds the sleep that an interval of a task comes after, or is. Nil:
// none was seen.
func (tl *timeline) lastSleep(id tracer.TaskID, s *interval) *interval {
	for s != nil && s.state != tracer.StateBlocked {
		s = tl.before(id, s.start)
	}
	return s
}

// running adds up how long a task was on a CPU in [a, b).
func (tl *timeline) running(id tracer.TaskID, a, b tracer.Time) (sum tracer.Time) {
	tl.each(id, a, b, func(iv *interval, s, e tracer.Time) {
		if iv.state == tracer.StateRunning {
			sum += e - s
		}
	})
	return sum
}

// each calls f for every interval of a task that overlaps [a, b), cut to it.
func (tl *timeline) each(id tracer.TaskID, a, b tracer.Time, f func(iv *interval, s, e tracer.Time)) {
	ivs := tl.iv.of(id)
	i := tl.iv.search(id, func(iv *interval) bool { return iv.start > a })
	if i > 0 {
		i--
	}
	for ; i < len(ivs) && ivs[i].start < b; i++ {
		s, e := max(ivs[i].start, a), b
		if i+1 < len(ivs) {
			e = min(e, ivs[i+1].start)
		}
		if e > s {
			f(&ivs[i], s, e)
		}
	}
}
