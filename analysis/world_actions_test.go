package analysis

import (
	"slices"

	"stagetrace/tracer"
)

// interrupts are the contexts outside of a task from which wakes and queued
// work come, with what the recorder calls them.
var interrupts = []struct {
	ctx  tracer.Context
	name string
}{
	{tracer.CtxHardirq, "virtio3-input"}, {tracer.CtxHardirq, "hrtimer:hrtimer_wakeup"}, {tracer.CtxHardirq, "ipi:call_function_single"},
	{tracer.CtxSoftirq, "timer:process_timeout"}, {tracer.CtxSoftirq, "NET_RX"}, {tracer.CtxSoftirq, "BLOCK"}, {tracer.CtxSoftirq, "SCHED"},
	{tracer.CtxNMI, "irq_work"}, {tracer.CtxIdle, ""},
}

// context gives an event that may come from an interrupt its context: always
// one where the CPU is idle.
func (w *world) context(e *tracer.Event, cur tracer.TaskID) {
	own := cur > 0 && cur != w.by
	if own && w.rng.IntN(3) > 0 {
		return
	}
	irq := interrupts[w.rng.IntN(len(interrupts))]
	if irq.ctx == tracer.CtxIdle && cur > 0 {
		irq = interrupts[0]
	}
	e.Ctx = irq.ctx
	if irq.name != "" && e.Kind == tracer.KindWake {
		e.Name = w.str(irq.name)
	}
	if irq.ctx == tracer.CtxSoftirq && own && w.rng.IntN(2) == 0 {
		e.Flags |= tracer.FlagInline
	}
}

func (w *world) wake(cpu int, cur tracer.TaskID) {
	p := w.anyTask()
	if w.tasks[max(cur, 0)].item && w.rng.IntN(2) == 0 { // a worker does something for somebody
		p = 1
	}
	t := &w.tasks[p]
	switch {
	case p == cur, p == w.by, t.state == tracer.StateRunnable, t.ready:
		return
	case t.state == tracer.StateRunning: // on its way to sleep, perhaps
		t.ready = true
	default:
		t.state = tracer.StateRunnable
	}
	e := tracer.Event{Kind: tracer.KindWake, Task: cur, Peer: p}
	w.context(&e, cur)
	if e.Ctx != tracer.CtxTask && w.rng.IntN(3) == 0 {
		e.Flow, _ = w.pick(&w.armed)
	}
	w.event(e, cpu)
}

// next chooses who gets the CPU; the idle task does if nobody is found.
func (w *world) next(cur tracer.TaskID) tracer.TaskID {
	for range 20 {
		p := w.anyTask()
		if t := &w.tasks[p]; p != cur && (t.state == tracer.StateRunnable || t.state == tracer.StateBlocked && t.ready) {
			return p
		}
	}
	return tracer.Idle
}

func (w *world) switchAway(cpu int, cur tracer.TaskID) {
	next := w.next(cur)
	if next == cur {
		return
	}
	e := tracer.Event{Kind: tracer.KindSwitch, Task: cur, Peer: next, State: tracer.StateRunnable}
	if cur > 0 {
		w.leave(&e, &w.tasks[cur])
		if e.State == tracer.StateDead {
			w.die(cur)
		}
	}
	if next > 0 {
		t := &w.tasks[next]
		e.Stack, t.slept = t.slept, 0
		t.state, t.ready = tracer.StateRunning, false
	}
	w.run[cpu] = next
	w.event(e, cpu)
}

// sleepFlags refine some sleeps.
var sleepFlags = []tracer.Flags{0, tracer.FlagUninterruptible, tracer.FlagUninterruptible | tracer.FlagIOWait, tracer.FlagIdle, tracer.FlagStopped,
	tracer.FlagTraced, tracer.FlagFrozen}

// leave says how a task gives its CPU up.
func (w *world) leave(e *tracer.Event, t *simTask) {
	e.Name = t.call
	if e.Name == 0 && w.rng.IntN(2) == 0 {
		e.Name = w.anyCall()
	}
	switch r := w.rng.IntN(20); {
	case t.exiting:
		e.State = tracer.StateDead
	case r < 4, e.Task == w.by:
		e.Flags = tracer.FlagPreempt
	case r < 5: // it yields
	default:
		e.State = tracer.StateBlocked
		t.slept, t.ready = w.anySleep(), t.ready || r == 19
		e.Flags = sleepFlags[max(0, w.rng.IntN(16)-16+len(sleepFlags))]
	}
	if e.State != tracer.StateBlocked {
		t.ready = false
	}
	t.state = e.State
}

// user tells that a task is a user's, and lives.
func (w *world) user(id tracer.TaskID) bool {
	return id > 0 && !w.tr.Tasks[id].Kernel && !w.tasks[id].exiting
}

func (w *world) fork(cpu int, cur tracer.TaskID) {
	if !w.user(cur) || len(w.alive) >= mostAlive {
		return
	}
	id := tracer.TaskID(len(w.tasks))
	t := tracer.Task{TID: int32(1000 + id), Start: w.now, Born: w.now, Parent: cur, Leader: id, Comm: "kid"}
	if n := len(w.freed); n > 0 && w.now > 0 { // a number is used again
		t.TID, w.freed = w.freed[n-1], w.freed[:n-1]
	}
	t.PID = t.TID
	if w.rng.IntN(2) == 0 {
		t.Leader = w.tr.Tasks[cur].Leader
		t.PID = w.tr.Tasks[t.Leader].PID
	}
	w.add(t, simTask{state: tracer.StateRunnable})
	w.event(tracer.Event{Kind: tracer.KindFork, Task: cur, Peer: id, Value: 0x11}, cpu)
}

// exec runs a new program; a thread takes its leader's place for that.
func (w *world) exec(cpu int, cur tracer.TaskID) {
	if !w.user(cur) {
		return
	}
	l := w.tr.Tasks[cur].Leader
	e := tracer.Event{Kind: tracer.KindExec, Task: l, Peer: tracer.NoTask, Name: w.str("/bin/program")}
	if l != cur {
		if s := w.tasks[l].state; s != tracer.StateBlocked && s != tracer.StateRunnable || w.tasks[l].exiting || l == 1 || l == w.by {
			return
		}
		e.Peer = cur
		w.tasks[l] = simTask{state: tracer.StateRunning}
		w.die(cur)
		w.run[cpu] = l
	}
	w.tr.Tasks[l].Images = append(w.tr.Tasks[l].Images, tracer.Image{Time: w.now, Exe: "/bin/program", Comm: "program"})
	w.event(e, cpu)
}

func (w *world) exit(cpu int, cur tracer.TaskID) {
	if !w.user(cur) || cur == 1 {
		return
	}
	w.tasks[cur].exiting = true
	if t := &w.tr.Tasks[cur]; t.Start < w.now && t.Leader == cur {
		w.freed = append(w.freed, t.TID)
	}
	w.event(tracer.Event{Kind: tracer.KindExit, Task: cur}, cpu)
}

// work lets a worker begin an item, one that was queued or one from before the
// trace, or end it, or take a namespace apart in it.
func (w *world) work(cpu int, cur tracer.TaskID) {
	if cur <= 0 || !w.tr.Tasks[cur].Kernel || w.tr.Tasks[cur].Comm[0] != 'k' {
		return
	}
	e := tracer.Event{Kind: tracer.KindBegin, Class: tracer.ClassWork, Task: cur, Name: w.str("cleanup_net")}
	switch t := &w.tasks[cur]; {
	case t.item && len(w.netns) > 0 && w.rng.IntN(2) == 0:
		net, _ := w.pick(&w.netns)
		e = tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassNetns, Task: cur, Name: w.str("teardown"), Flow: net}
	case t.item:
		e.Kind, t.item = tracer.KindEnd, false
	default:
		t.item = true
		e.Flow, _ = w.pick(&w.queued)
		if w.rng.IntN(4) == 0 {
			cg, _ := w.pick(&w.cgroups)
			e.Value = int64(cg)
		}
	}
	w.event(e, cpu)
}

func (w *world) queue(cpu int, cur tracer.TaskID) {
	e := tracer.Event{Kind: tracer.KindSend, Class: tracer.ClassWork, Task: cur, Name: w.str("cleanup_net"), Flow: w.give(&w.queued)}
	w.context(&e, cur)
	w.event(e, cpu)
}

func (w *world) arm(cpu int, cur tracer.TaskID) {
	e := tracer.Event{Kind: tracer.KindSend, Class: tracer.ClassTimer, Task: cur, Name: w.str("hrtimer_wakeup"), Flow: w.give(&w.armed)}
	w.context(&e, cur)
	w.event(e, cpu)
}

// message reads what has come, or sends on one direction of a connection; now and
// then that ends a sleep of whoever waits at the other end, on the sender's time
// or on a bystander's.
func (w *world) message(cpu int, cur tracer.TaskID) {
	if !w.user(cur) {
		return
	}
	t := &w.tasks[cur]
	if t.mail != 0 && w.unread[t.mail] > 0 {
		n := 1 + w.rng.Int64N(w.unread[t.mail])
		w.unread[t.mail] -= n
		w.event(tracer.Event{Kind: tracer.KindRecv, Class: tracer.ClassSocket, Task: cur, Flow: t.mail, Value: n}, cpu)
		return
	}
	flow, n := uint64(2+w.rng.IntN(8)), 1+w.rng.Int64N(100)
	w.unread[flow] += n
	w.event(tracer.Event{Kind: tracer.KindSend, Class: tracer.ClassSocket, Task: cur, Flow: flow, Value: n}, cpu)
	p := w.anyTask()
	to := &w.tasks[p]
	if !w.user(p) || p == cur || p == w.by || to.state == tracer.StateDead {
		return
	}
	to.mail = flow
	if to.state == tracer.StateBlocked && !to.ready {
		to.state = tracer.StateRunnable
		e := tracer.Event{Kind: tracer.KindWake, Task: cur, Peer: p}
		if r := w.rng.IntN(4); r > 0 {
			e.Ctx, e.Name = tracer.CtxSoftirq, w.str("NET_RX")
			if r > 1 {
				e.Flags = tracer.FlagInline
			}
		}
		w.event(e, cpu)
	}
}

func (w *world) namespace(cpu int, cur tracer.TaskID) {
	if w.user(cur) {
		w.event(tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassNetns, Task: cur, Name: w.str("create"), Flow: w.give(&w.netns)}, cpu)
	}
}

func (w *world) cgroup(cpu int, cur tracer.TaskID) {
	if w.user(cur) {
		w.event(tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassTracepoint, Task: cur, Name: w.str("cgroup_mkdir"), Flow: w.give(&w.cgroups)}, cpu)
	}
}

func (w *world) sample(cpu int, cur tracer.TaskID) {
	if cur > 0 {
		w.event(tracer.Event{Kind: tracer.KindSample, Task: cur, Name: w.tasks[cur].call, Stack: w.anySleep(), Value: 1_000_000}, cpu)
	}
}

func (w *world) syscall(cpu int, cur tracer.TaskID) {
	if !w.user(cur) {
		return
	}
	t := &w.tasks[cur]
	e := tracer.Event{Kind: tracer.KindEnd, Class: tracer.ClassSyscall, Task: cur, Name: t.call}
	if t.call == 0 {
		t.call = w.anyCall()
		e.Kind, e.Name = tracer.KindBegin, t.call
	} else {
		t.call = 0
	}
	w.event(e, cpu)
}

func (w *world) lock(cpu int, cur tracer.TaskID) {
	if cur <= 0 {
		return
	}
	t := &w.tasks[cur]
	e := tracer.Event{Kind: tracer.KindBegin, Class: tracer.ClassLock, Task: cur, Name: w.str("mutex")}
	if n := len(t.locks); n > 2 || n > 0 && w.rng.IntN(2) == 0 {
		e.Kind, e.Name, e.Flow = tracer.KindEnd, 0, t.locks[n-1]
		t.locks = slices.Delete(t.locks, n-1, n)
	} else {
		w.flow++
		e.Flow = w.flow
		t.locks = append(t.locks, w.flow)
	}
	w.event(e, cpu)
}

// mark lets the driver begin and end operations.
func (w *world) mark(cpu int, cur tracer.TaskID) {
	if cur != 1 {
		return
	}
	e := tracer.Event{Kind: tracer.KindOpEnd, Task: cur, Name: w.str("op"), Flow: w.op}
	switch {
	case !w.inOp:
		w.inOp = true
		w.op++
		e.Kind, e.Flow = tracer.KindOpBegin, w.op
	case w.rng.IntN(8) > 0:
		return
	default:
		w.inOp = false
	}
	w.event(e, cpu)
}
