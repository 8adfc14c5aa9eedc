//go:build linux

package ebpf

import (
	"fmt"

	"golang.org/x/sys/unix"

	"stagetrace/bpf"
	"stagetrace/tracer"
)

// Bits of task->__state (include/linux/sched.h), the same since 4.14.
const (
	taskInterruptible   = 0x1
	taskUninterruptible = 0x2
	taskStopped         = 0x4
	taskTraced          = 0x8
	taskDead            = 0x80
	taskNoLoad          = 0x400
	taskFrozen          = 0x8000
)

// decodeState is what a task that was switched away does, by its state.
func decodeState(state uint32, flags uint8) (s tracer.TaskState, f tracer.Flags) {
	switch {
	case flags&swPreempt != 0 || state == 0:
		if flags&swPreempt != 0 {
			f = tracer.FlagPreempt
		}
		return tracer.StateRunnable, f
	case state&(taskDead|0x10|0x20) != 0: // and, should it be exit_state, EXIT_DEAD and EXIT_ZOMBIE
		return tracer.StateDead, 0
	}
	if flags&swIOWait != 0 {
		f |= tracer.FlagIOWait
	}
	switch {
	case state&taskStopped != 0:
		f |= tracer.FlagStopped
	case state&taskTraced != 0:
		f |= tracer.FlagTraced
	case state&taskFrozen != 0:
		f |= tracer.FlagFrozen
	case state&(taskUninterruptible|taskNoLoad) == taskUninterruptible|taskNoLoad:
		f |= tracer.FlagIdle
	case state&taskUninterruptible != 0:
		f |= tracer.FlagUninterruptible
	}
	return tracer.StateBlocked, f
}

func (d *decoder) switched(r *bpf.TraceRecSwitch, rest []byte) {
	prev, next := d.resolve(r.Prev), d.resolve(r.Next)
	state, flags := decodeState(uint32(r.State), r.H.Flags)
	if prev == tracer.Idle {
		state, flags = tracer.StateRunnable, 0
	}
	call := d.call(r.Nr)
	d.repair(&r.H, prev)
	stack := d.kernelStack(rest, int(r.Nstack), r.Nstack == sleepDepth)
	if r.H.Flags&swNoStack != 0 {
		d.counts.noStack++
	}
	if prev > tracer.Idle {
		p := d.info(prev)
		p.running, p.state, p.flags, p.call, p.stack = false, state, flags&^tracer.FlagPreempt, call, 0
		p.dead = state == tracer.StateDead
		p.exists = p.exists && !p.dead
	}
	if next > tracer.Idle {
		n := d.info(next)
		n.running, n.flags, n.call, n.stack = true, 0, 0, 0
		n.exists = n.exists || !d.begun
	}
	*d.cpu(r.H.Cpu) = cpuInfo{running: next, known: true}
	if prev == next {
		return
	}
	if prev > tracer.Idle && d.info(prev).tracer {
		flags |= tracer.FlagTracer
	}
	d.add(&r.H, tracer.Event{Kind: tracer.KindSwitch, Task: prev, Peer: next, State: state, Flags: flags, Name: call, Stack: stack}, subEvent)
}

// repair puts in the switch that must have been missed when another task than
// the one seen last is switched away: the kernel skips a program now and then
// (0.1 to 0.2 % of switches).
func (d *decoder) repair(h *bpf.TraceHead, prev tracer.TaskID) {
	c := d.cpu(h.Cpu)
	if !c.known || c.running == prev {
		return
	}
	d.counts.repaired++
	state := tracer.StateUnknown
	if c.running == tracer.Idle {
		state = tracer.StateRunnable
	} else {
		in := d.info(c.running)
		in.running, in.state, in.flags = false, tracer.StateUnknown, 0
	}
	d.add(h, tracer.Event{Kind: tracer.KindSwitch, Task: c.running, Peer: prev, State: state}, subFirst)
}

func (d *decoder) wake(r *bpf.TraceRecWake, _ []byte) {
	d.addWake(&r.H, d.resolve(r.Cur), r.Wakee, tracer.Event{})
}

func (d *decoder) wakeIRQ(r *bpf.TraceRecWakeIrq, _ []byte) {
	task, e := d.context(&r.Ctx)
	e.Flow = r.Ctx.Flow
	e.Value = int64(r.Ctx.Num)
	d.addWake(&r.H, task, r.Wakee, e)
}

func (d *decoder) addWake(h *bpf.TraceHead, task tracer.TaskID, wakee uint32, e tracer.Event) {
	peer := d.resolve(wakee)
	if peer <= tracer.Idle {
		return
	}
	e.Kind, e.Task, e.Peer = tracer.KindWake, task, peer
	if h.Flags&wakeSpurious != 0 {
		e.Flags |= tracer.FlagSpurious
	} else if in := d.info(peer); in.state == tracer.StateBlocked && !in.running {
		in.state, in.flags, in.stack, in.call = tracer.StateRunnable, 0, 0, 0
	}
	if d.info(peer).tracer {
		e.Flags |= tracer.FlagTracer
	}
	d.add(h, e, subEvent)
}

// softirqNames is by vector (include/linux/interrupt.h).
var softirqNames = [16]string{"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"}

// whatNames is by TraceCtxWhat; those with a number or function are named by it.
var whatNames = [16]string{
	bpf.TraceCtxWhatWHAT_LOCAL_TIMER:          "local_timer",
	bpf.TraceCtxWhatWHAT_IRQ_WORK:             "irq_work",
	bpf.TraceCtxWhatWHAT_RESCHEDULE:           "ipi:reschedule",
	bpf.TraceCtxWhatWHAT_CALL_FUNCTION:        "ipi:call_function",
	bpf.TraceCtxWhatWHAT_CALL_FUNCTION_SINGLE: "ipi:call_function_single",
	bpf.TraceCtxWhatWHAT_PLATFORM_IPI:         "ipi:platform",
}

// context is who did something: the current task, and Ctx, Name and Flags of
// the event.
func (d *decoder) context(c *bpf.TraceContext) (task tracer.TaskID, e tracer.Event) {
	e.Ctx = tracer.Context(min(c.Kind, uint8(tracer.CtxIdle)))
	if c.IsInline != 0 {
		e.Flags |= tracer.FlagInline
	}
	switch bpf.TraceCtxWhat(c.What) {
	case bpf.TraceCtxWhatWHAT_NONE:
	case bpf.TraceCtxWhatWHAT_IRQ:
		e.Name = d.irq(uint32(c.Num))
	case bpf.TraceCtxWhatWHAT_SOFTIRQ:
		e.Name = d.names.softirqs[c.Num&15]
	case bpf.TraceCtxWhatWHAT_HRTIMER:
		e.Name = d.fn(d.names.hrtimers, "hrtimer:", c.Fn)
	case bpf.TraceCtxWhatWHAT_TIMER:
		e.Name = d.fn(d.names.timers, "timer:", c.Fn)
	default:
		e.Name = d.names.whats[c.What&15]
	}
	return d.resolve(c.Cur), e
}

func (d *decoder) irq(num uint32) tracer.StringID {
	id, ok := d.names.irqs[num]
	if !ok {
		id = d.b.String(fmt.Sprintf("irq%d", num))
		d.names.irqs[num] = id
	}
	return id
}

func (d *decoder) irqName(r *bpf.TraceRecIrqName, _ []byte) {
	if name := cString(int8s(r.Name[:])); len(name) > 0 {
		d.names.irqs[r.Num] = d.b.Bytes(name)
	}
}

// Functions whose items are told with the object they are about.
const (
	fnCleanupNet = "cleanup_net"
	fnFqdirWork  = "fqdir_work_fn"
)

func (d *decoder) workQueue(r *bpf.TraceRecWork, _ []byte) {
	task, e := d.context(&r.Ctx)
	fn := d.fn(d.names.fns, "", r.Fn)
	e.Kind, e.Class, e.Task, e.Name, e.Flow = tracer.KindSend, tracer.ClassWork, task, fn, r.Work
	e.Value = int64(r.Value)
	d.add(&r.H, e, subEvent)
	// A namespace's fragment queue is released in its teardown: this says
	// whose cleanup the item is at.
	if r.Value != 0 && !d.torn[r.Value] && task > 0 && d.b.Text(fn) == fnFqdirWork && d.b.Text(d.info(task).work.fn) == fnCleanupNet {
		d.add(&r.H, tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassNetns, Name: d.b.String("teardown"), Task: task, Flow: r.Value}, subLast)
		d.torn[r.Value] = true // one for each protocol follows
	}
}

func (d *decoder) workStart(r *bpf.TraceRecWork, _ []byte) {
	id := d.resolve(r.Ctx.Cur)
	if id <= tracer.Idle {
		return
	}
	if open := d.info(id).work; open.work != 0 {
		d.counts.ended++
		d.add(&r.H, tracer.Event{Kind: tracer.KindEnd, Class: tracer.ClassWork, Task: id, Name: open.fn, Flow: open.work}, subFirst)
	}
	w := openWork{r.Work, r.Value, d.fn(d.names.fns, "", r.Fn)}
	d.info(id).work = w
	d.add(&r.H, tracer.Event{Kind: tracer.KindBegin, Class: tracer.ClassWork, Task: id, Name: w.fn, Flow: w.work, Value: int64(w.value)}, subEvent)
}

func (d *decoder) workEnd(r *bpf.TraceRecWork, _ []byte) {
	id := d.resolve(r.Ctx.Cur)
	if id <= tracer.Idle {
		return
	}
	w := &d.info(id).work
	if w.work != r.Work {
		return // begun before the trace, or its begin was lost
	}
	d.add(&r.H, tracer.Event{Kind: tracer.KindEnd, Class: tracer.ClassWork, Task: id, Name: w.fn, Flow: w.work}, subEvent)
	*w = openWork{}
}

func (d *decoder) timer(r *bpf.TraceRecTimer, _ []byte) {
	cache, prefix := d.names.timers, "timer:"
	if bpf.TraceCtxWhat(r.What) == bpf.TraceCtxWhatWHAT_HRTIMER {
		cache, prefix = d.names.hrtimers, "hrtimer:"
	}
	d.add(&r.H, tracer.Event{Kind: tracer.KindSend, Class: tracer.ClassTimer, Task: d.resolve(r.Tid), Name: d.fn(cache, prefix, r.Fn),
		Flow: r.Timer}, subEvent)
}

// blockOps is by REQ_OP (include/linux/blk_types.h).
var blockOps = map[uint32]string{0: "read", 1: "write", 2: "flush", 3: "discard", 5: "secure-erase", 7: "zone-append", 9: "write-zeroes"}

func (d *decoder) blockOp(flags uint32) tracer.StringID {
	if name, ok := blockOps[flags&0xff]; ok {
		return d.b.String(name)
	}
	return d.b.String("other")
}

func (d *decoder) bio(r *bpf.TraceRecBio, _ []byte) {
	d.add(&r.H, tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassIO, Task: d.resolve(r.Tid), Name: d.blockOp(r.Op), Value: int64(r.Bytes)}, subEvent)
}

func (d *decoder) block(r *bpf.TraceRecBlock, kind tracer.Kind) {
	task, e := d.context(&r.Ctx)
	e.Kind, e.Class, e.Task, e.Name, e.Flow, e.Value = kind, tracer.ClassIO, task, d.blockOp(r.Op), r.Rq, int64(r.Bytes)
	if kind != tracer.KindSend {
		e.Flags = 0
	}
	d.add(&r.H, e, subEvent)
}

func (d *decoder) blockIssue(r *bpf.TraceRecBlock, _ []byte) { d.block(r, tracer.KindSend) }
func (d *decoder) blockDone(r *bpf.TraceRecBlock, _ []byte)  { d.block(r, tracer.KindRecv) }

// message is what a task sent on a connection or read from one.
func (d *decoder) message(r *bpf.TraceRecMessage, kind tracer.Kind) {
	name := "unix"
	if r.Family != unix.AF_UNIX {
		name = "inet"
		if p, ok := protocols[r.Protocol]; ok {
			name = p
		}
	}
	d.add(&r.H, tracer.Event{Kind: kind, Class: tracer.ClassSocket, Task: d.resolve(r.Tid), Name: d.b.String(name), Flow: r.Flow, Value: int64(r.Bytes)}, subEvent)
}

var protocols = map[uint16]string{unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp"}

func (d *decoder) messageSent(r *bpf.TraceRecMessage, _ []byte) { d.message(r, tracer.KindSend) }
func (d *decoder) messageRead(r *bpf.TraceRecMessage, _ []byte) { d.message(r, tracer.KindRecv) }

// lockKinds are the flags of contention_begin (include/trace/events/lock.h),
// most telling first.
var lockKinds = []struct {
	bit  uint32
	name string
}{{32, "mutex"}, {16, "percpu-rwsem"}, {8, "rt-mutex"}, {1, "spinlock"}, {2, "rwsem-read"}, {4, "rwsem-write"}}

func (d *decoder) lockBegin(r *bpf.TraceRecLock, _ []byte) {
	name := "lock"
	for _, k := range lockKinds {
		if r.How&k.bit != 0 {
			name = k.name
			break
		}
	}
	d.add(&r.H, tracer.Event{Kind: tracer.KindBegin, Class: tracer.ClassLock, Task: d.resolve(r.Tid), Name: d.b.String(name), Flow: r.Lock}, subEvent)
}

func (d *decoder) lockEnd(r *bpf.TraceRecLock, _ []byte) {
	d.add(&r.H, tracer.Event{Kind: tracer.KindEnd, Class: tracer.ClassLock, Task: d.resolve(r.Tid), Flow: r.Lock, Value: int64(int32(r.How))}, subEvent)
}

// pointNames is by TracePointId: the tracepoints' names.
var pointNames = [...]string{
	bpf.TracePointIdPOINT_CGROUP_MKDIR:   "cgroup_mkdir",
	bpf.TracePointIdPOINT_CGROUP_RMDIR:   "cgroup_rmdir",
	bpf.TracePointIdPOINT_CGROUP_RELEASE: "cgroup_release",
	bpf.TracePointIdPOINT_CGROUP_ATTACH:  "cgroup_attach_task",
	bpf.TracePointIdPOINT_EXIT_MMAP:      "exit_mmap",
	bpf.TracePointIdPOINT_WAIT:           "sched_process_wait",
}

func (d *decoder) point(r *bpf.TraceRecPoint, rest []byte) {
	if int(r.Id) >= len(pointNames) || pointNames[r.Id] == "" {
		d.counts.malformed++
		return
	}
	e := tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassTracepoint, Name: d.b.String(pointNames[r.Id]), Task: d.resolve(r.Tid),
		Flow: r.Flow, Value: r.Value}
	if p := cString(take(&rest, int(r.Len))); len(p) > 0 {
		d.args.reset()
		d.args.put("path", func(buf []byte) []byte { return append(buf, p...) })
		e.Args = d.args.intern(d.b)
		if bpf.TracePointId(r.Id) == bpf.TracePointIdPOINT_CGROUP_ATTACH {
			if id := d.resolve(uint32(r.Value)); id > 0 {
				d.b.TaskInfo(id).Cgroup = string(p)
			}
		}
	}
	d.add(&r.H, e, subEvent)
}

func (d *decoder) sample(r *bpf.TraceRecSample, rest []byte) {
	id := d.resolve(r.Tid)
	if id <= tracer.Idle {
		return
	}
	stack := d.sampleStack(id, tracer.Time(r.H.Ts), rest, int(r.Nkernel), int(r.Nuser))
	d.add(&r.H, tracer.Event{Kind: tracer.KindSample, Task: id, Name: d.call(r.Nr), Stack: stack,
		Ctx: tracer.Context(min(r.Kind, uint8(tracer.CtxIdle))), Value: int64(d.period)}, subEvent)
}
