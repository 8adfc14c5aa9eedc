package analysis

import (
	"testing"

	"pgregory.net/rapid"

	"stagetrace/tracer"
)

// blocker is who ended a sleep.
type blocker struct {
	task     tracer.TaskID
	from, to tracer.Time
	waker    tracer.TaskID
	ctx      tracer.Context
}

// directBlockers reads a trace by the rule of Perfetto's thread_state_tracker.cc,
// in a few lines of its own: a switch-out closes Running and opens the state it
// names, a switch-in closes whatever was open, a waking counts only for a task
// that sleeps, and whoever is current is the waker.
func directBlockers(tr *tracer.Trace) (out []blocker) {
	type last struct {
		state tracer.TaskState
		since tracer.Time
		seen  bool // by a switch
	}
	tasks := make([]last, len(tr.Tasks))
	for _, e := range tr.Events {
		switch e.Kind {
		case tracer.KindStatus:
			tasks[e.Task] = last{state: e.State}
		case tracer.KindSwitch:
			if e.Task > 0 {
				tasks[e.Task] = last{e.State, e.Time, true}
			}
			if e.Peer > 0 {
				tasks[e.Peer] = last{state: tracer.StateRunning}
			}
		case tracer.KindFork:
			tasks[e.Peer] = last{state: tracer.StateRunnable}
		case tracer.KindExec:
			if e.Peer > 0 {
				tasks[e.Task], tasks[e.Peer] = last{state: tracer.StateRunning}, last{state: tracer.StateDead}
			}
		case tracer.KindWake:
			if t := tasks[e.Peer]; t.state == tracer.StateBlocked {
				if t.seen {
					out = append(out, blocker{e.Peer, t.since, e.Time, e.Task, e.Ctx})
				}
				tasks[e.Peer] = last{state: tracer.StateRunnable}
			}
		}
	}
	return out
}

// TestDirectBlockers: where Perfetto's rule tells who ended a sleep, the
// timeline says the same, and it knows of no other.
func TestDirectBlockers(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawWorld(rt).finish()
		a := newTraceAnalysis(tr, set)
		want := map[blocker]bool{}
		for _, b := range directBlockers(tr) {
			want[b] = true
		}
		for id := range tr.Tasks {
			for _, s := range a.tl.iv.of(tracer.TaskID(id)) {
				if s.state != tracer.StateBlocked || s.wake < 0 || s.start == tr.Meta.Begin {
					continue
				}
				e := &tr.Events[s.wake]
				b := blocker{tracer.TaskID(id), s.start, e.Time, e.Task, e.Ctx}
				if !want[b] {
					rt.Fatalf("%+v is none by the other rule", b)
				}
				delete(want, b)
			}
		}
		for b := range want {
			if b.from > tr.Meta.Begin {
				rt.Fatalf("%+v is missing", b)
			}
		}
	})
}
