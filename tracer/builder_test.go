package tracer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBuilderInterns(t *testing.T) {
	b := NewBuilder()
	read := b.String("read")
	if b.Bytes([]byte("read")) != read || b.String("") != 0 || b.Text(read) != "read" || b.String("write") == read {
		t.Error("strings")
	}
	args := Args{{"path", "/a"}, {"flags", "X"}}
	id := b.Args(args)
	args[0].Value = "changed" // the caller's slice is the caller's
	if b.RawArgs([]RawArg{{"path", []byte("/a")}, {"flags", []byte("X")}}) != id || b.Args(nil) != 0 {
		t.Error("args")
	}
	if b.Args(Args{{"path", "/"}, {"flags", "aX"}}) == b.Args(Args{{"path", "/a"}, {"flags", "X"}}) {
		t.Error("args that differ are one")
	}
	f, g := b.Frame(Frame{Func: read}), b.Frame(Frame{Func: read, Offset: 1})
	frames := []uint32{f, g}
	s := b.Stack(frames, false)
	frames[0] = 77
	if f == g || b.Stack([]uint32{f, g}, false) != s || b.Stack([]uint32{f, g}, true) == s || b.Stack(nil, false) != 0 || b.Stack(nil, true) == 0 {
		t.Error("stacks")
	}
	a := b.Task(TaskKey{5, 1})
	if b.Task(TaskKey{5, 2}) == a || b.Task(TaskKey{5, 1}) != a || b.Task(TaskKey{}) != Idle {
		t.Error("tasks")
	}
	if _, ok := b.Lookup(TaskKey{6, 1}); ok || b.Tasks() != 3 {
		t.Error("lookup adds")
	}
	trace := b.Trace()
	if trace.Arg(id, "path") != "/a" || trace.Stacks[s].Frames[0] != f {
		t.Error("interned things changed")
	}
	if err := Validate(trace); err != nil {
		t.Error(err)
	}
	if b.Tasks() != 1 || b.Len() != 0 || b.String("other") != 1 {
		t.Error("the builder is not empty")
	}
}

func TestBuilderLookupAllocatesNothing(t *testing.T) {
	b := NewBuilder()
	name, args, frames := []byte("read"), []RawArg{{"path", []byte("/a")}}, []uint32{b.Frame(Frame{Func: 0})}
	known := func() {
		b.Bytes(name)
		b.RawArgs(args)
		b.Stack(frames, false)
		b.Task(TaskKey{1, 1})
		b.Frame(Frame{Func: 0})
	}
	known()
	if n := testing.AllocsPerRun(100, known); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b.Grow(2000)
	if n := testing.AllocsPerRun(1000, func() { b.Add(Event{Kind: KindSync}) }); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func TestTaskDefaults(t *testing.T) {
	b := NewBuilder()
	old := b.Task(TaskKey{10, 100})    // a process
	thread := b.Task(TaskKey{11, 150}) // of it
	again := b.Task(TaskKey{10, 200})  // the pid was used again
	young := b.Task(TaskKey{12, 250})  // a thread of that one
	orphan := b.Task(TaskKey{13, 300}) // its leader was not seen
	lone := b.Task(TaskKey{14, 300})   // nothing is known of it
	for id, pid := range map[TaskID]int32{old: 10, thread: 10, again: 10, young: 10, orphan: 99} {
		b.TaskInfo(id).PID = pid
	}
	b.TaskInfo(young).Parent = orphan
	b.Add(Event{Time: 50, Kind: KindFork, Task: old, Peer: thread})
	b.Add(Event{Time: 60, Kind: KindFork, Task: old, Peer: young})
	trace := b.Trace()
	for id, want := range map[TaskID]Task{
		old: {Leader: old, Parent: NoTask, PID: 10}, thread: {Leader: old, Parent: old, Born: 50, PID: 10},
		again: {Leader: again, Parent: NoTask, PID: 10}, young: {Leader: again, Parent: orphan, Born: 60, PID: 10},
		orphan: {Leader: orphan, Parent: NoTask, PID: 99}, lone: {Leader: lone, Parent: NoTask, PID: 14},
	} {
		got := trace.Tasks[id]
		if got.Leader != want.Leader || got.Parent != want.Parent || got.Born != want.Born || got.PID != want.PID {
			t.Errorf("task %d: %+v, want %+v", id, got, want)
		}
	}
}

func TestSortEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 300).Draw(t, "n")
		spread := rapid.Int64Range(0, 1000).Draw(t, "spread")
		events := make([]Event, n)
		for i := range events {
			at := int64(i)*rapid.Int64Range(0, 3).Draw(t, "step") + rapid.Int64Range(-spread, spread).Draw(t, "jitter")
			events[i] = Event{Time: Time(at), CPU: rapid.Int16Range(-1, 3).Draw(t, "cpu"), Seq: rapid.Uint32Range(0, 3).Draw(t, "seq"), Value: int64(i)}
		}
		want, merged := slices.Clone(events), slices.Clone(events)
		slices.SortStableFunc(want, compareEvents)
		mergeCPUs(merged)
		if !slices.Equal(merged, want) {
			t.Fatal("merge")
		}
		late := slices.Clone(events)
		sorted := rapid.IntRange(0, n).Draw(t, "sorted")
		slices.SortStableFunc(late[:sorted], compareEvents)
		insertLate(late, sorted)
		if !slices.Equal(late, want) {
			t.Fatal("late ones")
		}
		sortEvents(events)
		if !slices.Equal(events, want) {
			t.Fatal("sort")
		}
	})
}

// orders are the orders in which backends deliver n events of some CPUs.
func orders(n int) map[string][]Event {
	sorted := make([]Event, n)
	seq := [8]uint32{}
	rnd := rand.New(rand.NewPCG(3, 4))
	for i := range sorted {
		cpu := rnd.IntN(len(seq))
		sorted[i] = Event{Time: Time(i * 500), CPU: int16(cpu), Seq: seq[cpu], Kind: KindSwitch}
		seq[cpu]++
	}
	nearly := slices.Clone(sorted)
	for i := range nearly[:n-9] {
		if rnd.IntN(20) == 0 {
			j := i + rnd.IntN(8)
			nearly[i], nearly[j] = nearly[j], nearly[i]
		}
	}
	byCPU := slices.Clone(sorted)
	slices.SortStableFunc(byCPU, func(a, b Event) int { return int(a.CPU) - int(b.CPU) })
	late := append(slices.Clone(sorted[n/1000:]), sorted[:n/1000]...)
	reversed := slices.Clone(sorted)
	slices.Reverse(reversed)
	return map[string][]Event{"sorted": sorted, "nearly": nearly, "by cpu": byCPU, "late": late, "reversed": reversed}
}

func TestSortOrders(t *testing.T) {
	all := orders(20000)
	for name, events := range all {
		got := slices.Clone(events)
		sortEvents(got)
		if !slices.Equal(got, all["sorted"]) {
			t.Errorf("%s: not sorted", name)
		}
	}
	if nearly := all["nearly"]; insertNearlySorted(nearly) < len(nearly) {
		t.Error("nearly sorted events take the long way")
	}
}

func BenchmarkSort(b *testing.B) {
	for _, n := range []int{1e5, 1e6} {
		for name, events := range orders(n) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				work := make([]Event, n)
				for b.Loop() {
					copy(work, events)
					sortEvents(work)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(n), "ns/event")
			})
		}
	}
}

func BenchmarkBuilder(b *testing.B) {
	name := []byte("read")
	for _, n := range []int{1e6, 1e7} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				builder := NewBuilder()
				for i := range n {
					task := builder.Task(TaskKey{int32(i%100 + 1), 0})
					builder.Add(Event{Time: Time(i), Seq: uint32(i), Kind: KindSwitch, Task: task, Peer: Idle, Name: builder.Bytes(name)})
				}
				if len(builder.Trace().Events) != n {
					b.Fatal("lost some")
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(n), "ns/event")
		})
	}
}
