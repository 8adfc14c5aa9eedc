package analysis

import (
	"math/rand/v2"
	"slices"

	"stagetrace/tracer"
)

// world simulates a machine, and records it as a trace: tasks sleep, wake each
// other in and out of interrupts, fork, execute programs, die and leave their
// numbers to others, queue and do work, arm timers, send messages, spin for
// locks and take namespaces apart. What it does is possible; most of it makes no
// sense.
type world struct {
	tr      *tracer.Trace
	rng     *rand.Rand
	run     []tracer.TaskID // per CPU
	tasks   []simTask
	alive   []tracer.TaskID
	now     tracer.Time
	cpu     int // of the last event
	seq     []uint32
	strings map[string]tracer.StringID
	queued  []uint64         // work items
	armed   []uint64         // timers
	unread  map[uint64]int64 // bytes, by connection and direction
	netns   []uint64
	cgroups []uint64
	freed   []int32 // tids of the dead
	flow    uint64  // last one given
	op      uint64  // last operation of the driver, task 1
	inOp    bool
	by      tracer.TaskID // a bystander: see stand; 0 none
}

// simTask is what the world knows of a task.
type simTask struct {
	state   tracer.TaskState
	ready   bool // though blocked, it never left the run queue
	exiting bool
	item    bool // a worker inside of an item
	call    tracer.StringID
	locks   []uint64
	mail    uint64 // the connection on which something has come for it; 0
	slept   tracer.StackID
}

// mostAlive bounds how many tasks live at a time.
const mostAlive = 60

// actions is the table of what can happen next, with how often. Each gets the
// CPU and the task on it; one that does not fit the moment does nothing. What
// happens on top of a bystander as well, or does not concern anybody, is aloof.
var actions = []struct {
	weight int
	do     func(w *world, cpu int, cur tracer.TaskID)
	aloof  bool
}{
	{60, (*world).wake, true}, {40, (*world).switchAway, true}, {4, (*world).fork, false}, {2, (*world).exec, false}, {2, (*world).exit, false},
	{40, (*world).work, false}, {5, (*world).queue, true}, {3, (*world).namespace, false}, {2, (*world).cgroup, false}, {2, (*world).arm, true},
	{12, (*world).message, false}, {6, (*world).sample, true}, {8, (*world).syscall, true}, {4, (*world).lock, true}, {30, (*world).mark, false},
}

var actionWeights = func() (sum int) {
	for _, a := range actions {
		sum += a.weight
	}
	return sum
}()

// sleeps are the stacks at which tasks sleep.
var sleeps = [][]string{
	{"schedule", "futex_do_wait", "__futex_wait", "futex_wait"}, {"schedule", "do_epoll_wait"},
	{"schedule", "do_nanosleep", "hrtimer_nanosleep"}, {"schedule", "wait_for_completion", "rcu_barrier", "netdev_run_todo"},
	{"io_schedule", "folio_wait_bit_common", "ext4_sync_file", "do_fsync"}, {"schedule", "schedule_preempt_disabled", "__mutex_lock.constprop.0"},
	{"schedule", "schedule_timeout", "unix_stream_read_generic"}, {"schedule", "do_wait", "kernel_wait4"}, {"schedule", "anon_pipe_read"},
}

var calls = []string{"read", "write", "futex", "nanosleep", "epoll_wait", "execve", "clone3", "sendto", "mkdir"}

// kernelThreads are the names that every fourth task has.
var kernelThreads = []string{"kworker/0:1", "kworker/u4:2", "rcu_preempt", "kworker/1:0", "ksoftirqd/0", "jbd2/vda-8", "migration/1"}

func newWorld(seed uint64, cpus, tasks int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), run: make([]tracer.TaskID, cpus), seq: make([]uint32, cpus), strings: map[string]tracer.StringID{}, unread: map[uint64]int64{}}
	w.tr = &tracer.Trace{Strings: []string{""}, Args: []tracer.Args{nil}, Stacks: []tracer.Stack{{}},
		Tasks: []tracer.Task{{Leader: tracer.Idle, Parent: tracer.NoTask, Kernel: true}}}
	w.tr.Meta.CPUs = cpus
	w.tasks = make([]simTask, 1, tasks+1)
	for _, names := range sleeps {
		var s tracer.Stack
		for _, n := range names {
			w.tr.Frames = append(w.tr.Frames, tracer.Frame{Func: w.str(n), Kernel: true})
			s.Frames = append(s.Frames, uint32(len(w.tr.Frames)-1))
		}
		w.tr.Stacks = append(w.tr.Stacks, s)
	}
	for i := 1; i <= tasks; i++ {
		t := tracer.Task{TID: int32(100 + i), PID: int32(100 + i), Leader: tracer.TaskID(i), Parent: tracer.NoTask, Comm: "task"}
		if i%4 == 0 {
			t.Kernel, t.Comm = true, kernelThreads[i/4%len(kernelThreads)]
		} else if i > 1 && i%3 == 0 { // a thread of the task before it, or of that one's process
			t.Leader = w.tr.Tasks[i-1].Leader
			t.PID = w.tr.Tasks[t.Leader].PID
			if w.tr.Tasks[t.Leader].Kernel {
				t.Leader, t.PID = tracer.TaskID(i), t.TID
			}
		}
		w.add(t, simTask{})
		w.snapshot(tracer.TaskID(i))
	}
	return w
}

func (w *world) add(t tracer.Task, s simTask) {
	w.alive = append(w.alive, tracer.TaskID(len(w.tasks)))
	w.tr.Tasks = append(w.tr.Tasks, t)
	w.tasks = append(w.tasks, s)
}

func (w *world) die(id tracer.TaskID) {
	i := slices.Index(w.alive, id)
	w.alive = slices.Delete(w.alive, i, i+1)
	w.tasks[id].state = tracer.StateDead
}

// stand makes a bystander of task 2: it computes, whatever interrupts come on top
// of it, and neither asks anybody for anything nor is asked.
func (w *world) stand() {
	w.by = 2
	if t := &w.tasks[w.by]; t.state == tracer.StateBlocked {
		t.state = tracer.StateRunnable
		w.event(tracer.Event{Kind: tracer.KindWake, Task: w.run[0], Peer: w.by, Ctx: tracer.CtxHardirq, Name: w.str("virtio3-input")}, 0)
	}
}

// snapshot gives a task the state in which the trace finds it.
func (w *world) snapshot(id tracer.TaskID) {
	t := &w.tasks[id]
	cpu := int(id) - 1
	switch r := w.rng.IntN(10); {
	case cpu < len(w.run) && r < 7:
		t.state, w.run[cpu] = tracer.StateRunning, id
	case r == 9:
		t.state = tracer.StateRunnable
	default:
		t.state, t.slept = tracer.StateBlocked, w.anySleep()
	}
	if w.rng.IntN(8) > 0 { // else it was not listed
		w.event(tracer.Event{Kind: tracer.KindStatus, Task: id, State: t.state, Name: w.anyCall(), Stack: t.slept}, 0)
	}
}

func (w *world) str(s string) tracer.StringID {
	id, ok := w.strings[s]
	if !ok {
		id = tracer.StringID(len(w.tr.Strings))
		w.tr.Strings = append(w.tr.Strings, s)
		w.strings[s] = id
	}
	return id
}

// anySleep is a stack, or that of a sleep too short for one.
func (w *world) anySleep() tracer.StackID {
	return tracer.StackID(max(0, w.rng.IntN(2*len(sleeps)+1)-len(sleeps)))
}

func (w *world) anyCall() tracer.StringID { return w.str(calls[w.rng.IntN(len(calls))]) }

// anyTask is a living task, more often the driver than another one.
func (w *world) anyTask() tracer.TaskID {
	if w.rng.IntN(6) == 0 {
		return 1
	}
	return w.alive[w.rng.IntN(len(w.alive))]
}

// pick takes any element out of a list.
func (w *world) pick(list *[]uint64) (v uint64, ok bool) {
	if len(*list) == 0 {
		return 0, false
	}
	i := w.rng.IntN(len(*list))
	v = (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return v, true
}

func (w *world) give(list *[]uint64) uint64 {
	w.flow++
	if *list = append(*list, w.flow); len(*list) > 16 {
		*list = (*list)[1:]
	}
	return w.flow
}

func (w *world) event(e tracer.Event, cpu int) {
	e.Time, e.CPU, e.Seq = w.now, int16(cpu), w.seq[cpu]
	w.seq[cpu]++
	w.cpu = cpu
	w.tr.Events = append(w.tr.Events, e)
}

// step does one random thing on one CPU, now and then in the same nanosecond as
// another one on a CPU before it.
func (w *world) step() {
	cpu := w.rng.IntN(len(w.run))
	if w.rng.IntN(8) > 0 || cpu < w.cpu {
		w.now += tracer.Time(1 + w.rng.IntN(2000))
	}
	r := w.rng.IntN(actionWeights)
	for i := range actions {
		if r -= actions[i].weight; r < 0 {
			if cur := w.run[cpu]; cur != w.by || cur == tracer.Idle || actions[i].aloof {
				actions[i].do(w, cpu, cur)
			}
			return
		}
	}
}

// finish ends the trace.
func (w *world) finish() *tracer.Trace {
	w.tr.Meta.End = w.now
	return w.tr
}

// operations lays random operations over what was simulated, instead of the
// driver's: of any task, at any time, whether it lives or not.
func (w *world) operations(n int) *tracer.Trace {
	end := w.now
	ev := slices.DeleteFunc(w.tr.Events, func(e tracer.Event) bool { return e.Kind == tracer.KindOpBegin || e.Kind == tracer.KindOpEnd })
	for i := range n {
		b := tracer.Time(w.rng.Int64N(int64(end) + 1))
		e := min(end, b+1+tracer.Time(w.rng.Int64N(int64(end)/2+1)))
		root := tracer.TaskID(1)
		if i%2 > 0 {
			root += tracer.TaskID(w.rng.IntN(len(w.tasks) - 1))
		}
		ev = append(ev, tracer.Event{Kind: tracer.KindOpBegin, Time: b, Task: root, Name: w.str("op"), Flow: uint64(i + 1), Seq: 1 << 30},
			tracer.Event{Kind: tracer.KindOpEnd, Time: e, Task: root, Name: w.str("op"), Flow: uint64(i + 1), Seq: 1<<30 + 1})
	}
	w.tr.Events = ev
	sortEvents(ev)
	return w.finish()
}

// lose takes events out, by their number, as when a CPU's buffer is full: the CPU
// reports them as soon as it can record again. Marks are never lost. It returns
// where the losses may lie.
func (w *world) lose(dropped map[int]bool) (lost []loss) {
	all := w.tr.Events
	w.tr.Events = nil
	clear(w.seq)
	since, pending := make([]tracer.Time, len(w.run)), make([]uint64, len(w.run))
	report := func(cpu int) {
		if n := pending[cpu]; n > 0 {
			w.event(tracer.Event{Kind: tracer.KindLost, Value: int64(n)}, cpu)
			lost = append(lost, loss{since[cpu], w.now, n})
			pending[cpu], since[cpu] = 0, w.now
		}
	}
	end := w.now
	for i, e := range all {
		cpu, mark := int(e.CPU), e.Kind == tracer.KindOpBegin || e.Kind == tracer.KindOpEnd
		w.now = e.Time
		switch {
		case mark:
			w.event(e, cpu)
		case dropped[i]:
			pending[cpu]++
		default:
			report(cpu)
			w.event(e, cpu)
			since[cpu] = e.Time
		}
	}
	w.now = end
	for cpu := range pending {
		report(cpu)
	}
	return lost
}

func sortEvents(ev []tracer.Event) {
	slices.SortFunc(ev, func(a, b tracer.Event) int {
		switch {
		case a.Less(&b):
			return -1
		case b.Less(&a):
			return 1
		}
		return 0
	})
}
