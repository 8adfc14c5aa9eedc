package analysis

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stagetrace/tracer"
)

// world simulates a machine whose tasks sleep, wake each other, queue work
// and are interrupted, and records it as a trace.
type world struct {
	tr    *tracer.Trace
	rng   *rand.Rand
	run   []tracer.TaskID // per CPU
	state []tracer.TaskState
	now   tracer.Time
	seq   []uint32
}

func newWorld(seed uint64, cpus, tasks int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), run: make([]tracer.TaskID, cpus), seq: make([]uint32, cpus), state: make([]tracer.TaskState, tasks+1)}
	w.tr = &tracer.Trace{Strings: []string{"", "op", "read", "futex", "nanosleep", "hrtimer:hrtimer_wakeup", "NET_RX", "linkwatch_event"},
		Args: []tracer.Args{nil}, Stacks: []tracer.Stack{{}}, Tasks: []tracer.Task{{Leader: 0, Parent: tracer.NoTask}}}
	for i := 1; i <= tasks; i++ {
		kernel := i%7 == 0
		t := tracer.Task{TID: int32(100 + i), PID: int32(100 + i), Leader: tracer.TaskID(i), Parent: tracer.NoTask, Comm: "task", Kernel: kernel}
		if kernel {
			t.Comm = "kworker/0:1"
		}
		w.tr.Tasks = append(w.tr.Tasks, t)
		w.state[i] = tracer.StateBlocked
		w.event(tracer.Event{Kind: tracer.KindStatus, Task: tracer.TaskID(i), State: tracer.StateBlocked, Name: 3}, 0)
	}
	return w
}

func (w *world) event(e tracer.Event, cpu int) {
	e.Time, e.CPU, e.Seq = w.now, int16(cpu), w.seq[cpu]
	w.seq[cpu]++
	w.tr.Events = append(w.tr.Events, e)
}

// step does one random thing on one CPU.
func (w *world) step() {
	w.now += tracer.Time(1 + w.rng.IntN(2000))
	cpu := w.rng.IntN(len(w.run))
	cur := w.run[cpu]
	switch r := w.rng.IntN(10); {
	case r < 4:
		w.wake(cpu, cur)
	case r < 5 && cur > 0 && w.tr.Tasks[cur].Kernel:
		w.event(tracer.Event{Kind: tracer.KindBegin, Class: tracer.ClassWork, Task: cur, Name: 7, Flow: uint64(w.rng.IntN(5))}, cpu)
	case r < 6 && cur > 0 && w.tr.Tasks[cur].Kernel:
		w.event(tracer.Event{Kind: tracer.KindEnd, Class: tracer.ClassWork, Task: cur, Name: 7}, cpu)
	case r < 6 && cur > 0:
		w.event(tracer.Event{Kind: tracer.KindSend, Class: tracer.ClassWork, Task: cur, Name: 7, Flow: uint64(w.rng.IntN(5))}, cpu)
	default:
		w.switchTo(cpu, cur)
	}
}

func (w *world) wake(cpu int, cur tracer.TaskID) {
	p := tracer.TaskID(1 + w.rng.IntN(len(w.tr.Tasks)-1))
	if w.state[p] != tracer.StateBlocked {
		return
	}
	w.state[p] = tracer.StateRunnable
	e := tracer.Event{Kind: tracer.KindWake, Task: cur, Peer: p}
	switch w.rng.IntN(4) {
	case 0:
		e.Ctx, e.Name = tracer.CtxHardirq, 5
	case 1:
		e.Ctx, e.Name = tracer.CtxSoftirq, 6
		if cur > 0 && w.rng.IntN(2) == 0 {
			e.Flags = tracer.FlagInline
		}
	}
	w.event(e, cpu)
}

func (w *world) switchTo(cpu int, cur tracer.TaskID) {
	next := tracer.Idle
	for range 8 {
		p := tracer.TaskID(1 + w.rng.IntN(len(w.tr.Tasks)-1))
		if w.state[p] == tracer.StateRunnable && p != cur {
			next = p
			break
		}
	}
	if next == cur {
		return
	}
	e := tracer.Event{Kind: tracer.KindSwitch, Task: cur, Peer: next, Name: tracer.StringID(2 + w.rng.IntN(3)), State: tracer.StateRunnable}
	if cur > 0 {
		e.State = tracer.StateBlocked
		if w.rng.IntN(5) == 0 {
			e.State = tracer.StateRunnable
		}
		w.state[cur] = e.State
	} else {
		e.Name = 0
	}
	if next > 0 {
		w.state[next] = tracer.StateRunning
	}
	w.run[cpu] = next
	w.event(e, cpu)
}

// operations lays random operations over what was simulated.
func (w *world) operations(n int) *tracer.Trace {
	ev := w.tr.Events
	end := w.now
	for i := range n {
		b := tracer.Time(w.rng.Int64N(int64(end) + 1))
		e := min(end, b+1+tracer.Time(w.rng.Int64N(int64(end)/4+1)))
		root := tracer.TaskID(1 + w.rng.IntN(len(w.tr.Tasks)-1))
		ev = append(ev, tracer.Event{Kind: tracer.KindOpBegin, Time: b, Task: root, Name: 1, Flow: uint64(i + 1), Seq: 1 << 30},
			tracer.Event{Kind: tracer.KindOpEnd, Time: e, Task: root, Name: 1, Flow: uint64(i + 1), Seq: 1<<30 + 1})
	}
	w.tr.Events = ev
	sortEvents(ev)
	w.tr.Meta.End = end
	return w.tr
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

// TestRandomWorlds: whatever happens, the path of every operation is a
// partition of it, stages sum to the wall, and a second analysis agrees.
func TestRandomWorlds(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 4).Draw(rt, "cpus"), rapid.IntRange(1, 12).Draw(rt, "tasks"))
		for range rapid.IntRange(1, 400).Draw(rt, "steps") {
			w.step()
		}
		tr := w.operations(3)
		var first [][]Segment
		for round := range 2 {
			an := New(set, Options{})
			i := 0
			err := an.Add(tr, func(op *Operation) error {
				if err := checkPath(&op.Path, op.Begin, op.End); err != nil {
					return err
				}
				var sum int64
				for _, s := range op.Stages {
					sum += s.Ns
				}
				if sum != op.WallNs {
					rt.Fatalf("stages sum to %d, wall %d", sum, op.WallNs)
				}
				if round == 0 {
					first = append(first, append([]Segment{}, op.Path.Segments...))
				} else if !reflect.DeepEqual(first[i], op.Path.Segments) {
					rt.Fatalf("operation %d: a second analysis gives another path", op.Index)
				}
				i++
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// BenchmarkAnalysis reports events per second; sizes show that it is linear.
func BenchmarkAnalysis(b *testing.B) {
	set := linuxSet(b)
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(sizeName(n), func(b *testing.B) {
			w := newWorld(1, 2, 60)
			for len(w.tr.Events) < n {
				w.step()
			}
			end := w.now
			for i := range 10 {
				at := tracer.Time(i) * (end / 10)
				w.tr.Events = append(w.tr.Events, tracer.Event{Kind: tracer.KindOpBegin, Time: at + 1, Task: 1, Name: 1, Flow: uint64(i + 1), Seq: 1 << 30},
					tracer.Event{Kind: tracer.KindOpEnd, Time: at + end/10, Task: 1, Name: 1, Flow: uint64(i + 1), Seq: 1<<30 + 1})
			}
			sortEvents(w.tr.Events)
			w.tr.Meta.End = end
			b.ResetTimer()
			for b.Loop() {
				if err := New(set, Options{Settle: 1}).Add(w.tr, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(w.tr.Events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func sizeName(n int) string {
	return map[int]string{100_000: "100k", 1_000_000: "1M", 10_000_000: "10M"}[n]
}
