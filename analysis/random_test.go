package analysis

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stagetrace/analysis/stage"
	"stagetrace/analysis/stats"
	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// drawWorld simulates a world for a while.
func drawWorld(rt *rapid.T) *world {
	w := newWorld(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 4).Draw(rt, "cpus"), rapid.IntRange(1, 16).Draw(rt, "tasks"))
	for range rapid.SampledFrom([]int{10, 100, 400, 1000}).Draw(rt, "steps") {
		w.step()
	}
	return w
}

// analysed is what one analysis says: each operation, and the result.
type analysed struct {
	ops    []string
	result string
}

// analyseTrace runs the analysis and checks what must hold of every operation.
func analyseTrace(rt *rapid.T, set *stage.Set, tr *tracer.Trace) (out analysed) {
	an := New(set, Options{})
	err := an.Add(tr, func(op *Operation) error {
		if err := checkPath(&op.Path, op.Begin, op.End); err != nil {
			return err
		}
		var sum int64
		for _, s := range op.Stages {
			sum += s.Ns
		}
		if sum != op.WallNs || op.WallNs != int64(op.End-op.Begin) {
			rt.Fatalf("operation %d: stages sum to %d, wall %d", op.Index, sum, op.WallNs)
		}
		checkTaskTime(rt, op)
		out.ops = append(out.ops, describePath(op))
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	text, err := json.Marshal(an.Result(Result{}))
	if err != nil {
		rt.Fatal(err)
	}
	out.result = string(text)
	return out
}

// checkTaskTime: no moment of a task is counted twice, be it on the path and off
// it or in two pieces off it.
func checkTaskTime(rt *rapid.T, op *Operation) {
	type piece struct {
		task       tracer.TaskID
		begin, end tracer.Time
	}
	var all []piece
	for i := range op.Path.Segments {
		s := &op.Path.Segments[i]
		all = append(all, piece{s.Task, s.Begin, s.End})
	}
	for i := range op.Off {
		o := &op.Off[i]
		all = append(all, piece{o.Task, o.Begin, o.End})
	}
	slices.SortFunc(all, func(a, b piece) int {
		if a.task != b.task {
			return int(a.task - b.task)
		}
		return int(a.begin - b.begin)
	})
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.task > 0 && a.task == b.task && a.end > b.begin {
			rt.Fatalf("operation %d: task %d counts twice: %d to %d, and %d to %d\n%s", op.Index, a.task, a.begin, a.end, b.begin, b.end, describePath(op))
		}
	}
}

// TestWorlds: what the worlds record is a sound trace, so that what is shown of
// them says something.
func TestWorlds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		if err := tracer.Validate(w.finish()); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestRandomWorlds: whatever happens, the path of every operation is a
// partition of it, stages sum to the wall, no task's time counts twice, and a
// second analysis gives the same bytes.
func TestRandomWorlds(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		for _, tr := range []*tracer.Trace{w.finish(), w.operations(8)} {
			first := analyseTrace(rt, set, tr)
			if second := analyseTrace(rt, set, tr); !reflect.DeepEqual(first, second) {
				rt.Fatalf("a second analysis differs:\n%s\n%s", strings.Join(first.ops, ""), strings.Join(second.ops, ""))
			}
		}
	})
}

// TestOneOrder: a process with many named threads is listed in the same order by
// every analysis.
func TestOneOrder(t *testing.T) {
	text := "meta begin=0 end=100us selfpid=9\ntask drv tid=9 comm=driver\n"
	events := "0 0 status drv state=running\n0 0 op-begin drv name=t flow=1\n"
	for i := range 12 {
		text += fmt.Sprintf("task t%d tid=%d pid=9 start=1us comm=thread%d parent=drv born=1us leader=drv\n", i, 20+i, i)
		events += fmt.Sprintf("1us 0 fork drv -> t%d value=0x10000\n", i)
	}
	tr := tracetest.Parse(t, text+events+"90us 0 op-end drv name=t flow=1\n")
	var first []Process
	for range 5 {
		an := New(linuxSet(t), Options{})
		if err := an.Add(tr, nil); err != nil {
			t.Fatal(err)
		}
		switch list := an.Result(Result{}).Processes; {
		case len(list) < 12:
			t.Fatalf("%d processes and threads, want more than 12", len(list))
		case first == nil:
			first = list
		case !reflect.DeepEqual(list, first):
			t.Fatalf("%v, then %v", first, list)
		}
	}
}

// TestEventOrder: by which way the events came, and whether by the text form,
// makes no difference; those of the same nanosecond are in order of CPU and
// number.
func TestEventOrder(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawWorld(rt).finish()
		want := analyseTrace(rt, set, tr)
		other := *tr
		other.Events = slices.Clone(tr.Events)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "order"), 1)).Shuffle(len(other.Events), func(i, j int) {
			other.Events[i], other.Events[j] = other.Events[j], other.Events[i]
		})
		sortEvents(other.Events)
		if got := analyseTrace(rt, set, &other); !reflect.DeepEqual(got, want) {
			rt.Fatalf("in another order:\n%s\nwant\n%s", strings.Join(got.ops, ""), strings.Join(want.ops, ""))
		}
		if got := analyseTrace(rt, set, tracetest.Parse(t, tracetest.Text(t, tr))); !reflect.DeepEqual(got.ops, want.ops) {
			rt.Fatalf("by the text form:\n%s\nwant\n%s", strings.Join(got.ops, ""), strings.Join(want.ops, ""))
		}
	})
}

// TestBystander: who only computes is never blamed, whatever interrupts on top of
// it do to others.
func TestBystander(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 4).Draw(rt, "cpus"), rapid.IntRange(2, 16).Draw(rt, "tasks"))
		w.stand()
		for range rapid.SampledFrom([]int{1000, 400, 100}).Draw(rt, "steps") {
			w.step()
		}
		for _, tr := range []*tracer.Trace{w.finish(), w.operations(8)} {
			err := New(set, Options{}).Add(tr, func(op *Operation) error {
				on := slices.ContainsFunc(op.Path.Segments, func(s Segment) bool { return s.Task == w.by })
				off := slices.ContainsFunc(op.Off, func(o OffPath) bool { return o.Task == w.by })
				if op.Root != w.by && (on || off) {
					rt.Fatalf("operation %d blames task %d\n%s", op.Index, w.by, describePath(op))
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

// disjoint are rules of which no two hold for the same segment.
var disjoint = []string{"{wait: timer}", "{wait: disk}", "{wait: runqueue}", "{wait: network}", "{wait: device}", "{wait: irq}", "{wait: work}",
	"{wait: unknown}", "{wait: rcu.barrier}", "{wait: infrastructure}", "{state: running, task: kid}", "{state: running, task: task}",
	"{state: running, task: \"kworker*\"}"}

// TestStagesThatNeverMeet: in which order stages stand that never match the same
// segment makes no difference.
func TestStagesThatNeverMeet(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var sets []*stage.Set
	for range 6 {
		sets = append(sets, ruleSet(t, rng.Perm(len(disjoint))))
	}
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawWorld(rt).operations(4)
		want := stageSums(rt, sets[0], tr)
		for _, set := range sets[1:] {
			if got := stageSums(rt, set, tr); !reflect.DeepEqual(got, want) {
				rt.Fatalf("%v, in another order %v", want, got)
			}
		}
	})
}

// ruleSet is a set with a stage for each disjoint rule, in an order of its own.
func ruleSet(t *testing.T, order []int) *stage.Set {
	text := "set: rules\ntitle: Rules\nuse: [linux]\nstages:\n"
	for _, i := range order {
		text += fmt.Sprintf("  - stage: rule.%c\n    title: A rule\n    when: [%s]\n", 'a'+i, disjoint[i])
	}
	path := filepath.Join(t.TempDir(), "rules.stages.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := stage.Load(nil, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// stageSums is how much of a trace's operations each stage takes.
func stageSums(rt *rapid.T, set *stage.Set, tr *tracer.Trace) map[string]int64 {
	sums := map[string]int64{}
	err := New(set, Options{}).Add(tr, func(op *Operation) error {
		for _, s := range op.Stages {
			sums[s.Name] += s.Ns
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	return sums
}

// TestLosses: an operation is tainted by what was lost in it, or may have been,
// and by nothing else.
func TestLosses(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		dropped := map[int]bool{}
		for range rapid.IntRange(1, 3).Draw(rt, "losses") {
			from := rapid.IntRange(0, len(w.tr.Events)).Draw(rt, "from")
			for i := range rapid.IntRange(1, 20).Draw(rt, "events") {
				dropped[from+i*len(w.run)] = true
			}
		}
		lost := w.lose(dropped)
		tr := w.finish()
		err := New(set, Options{}).Add(tr, func(op *Operation) error {
			var want uint64
			for _, l := range lost {
				if l.until >= op.Begin && l.since <= op.End {
					want += l.n
				}
			}
			if op.LostEvents != want || op.Incomplete != (want > 0) {
				rt.Fatalf("operation %d of [%d, %d] lost %d (incomplete %v), want %d of %v", op.Index, op.Begin, op.End, op.LostEvents, op.Incomplete, want, lost)
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		analyseTrace(rt, set, tr)
		analyseTrace(rt, set, w.operations(4))
	})
}

// bigWorld simulates n events with ten operations of the driver after one
// another.
func bigWorld(n int) *tracer.Trace {
	w := newWorld(1, 2, 60)
	for len(w.tr.Events) < n {
		w.step()
	}
	w.operations(0)
	end := w.now
	for i := range 10 {
		at := tracer.Time(i) * (end / 10)
		w.tr.Events = append(w.tr.Events, tracer.Event{Kind: tracer.KindOpBegin, Time: at + 1, Task: 1, Name: w.str("op"), Flow: uint64(i + 1), Seq: 1 << 30},
			tracer.Event{Kind: tracer.KindOpEnd, Time: at + end/10, Task: 1, Name: w.str("op"), Flow: uint64(i + 1), Seq: 1<<30 + 1})
	}
	sortEvents(w.tr.Events)
	return w.finish()
}

// perEvent is how long the analysis of a trace takes in ns an event: the median
// of five, of a large one of one.
func perEvent(t *testing.T, set *stage.Set, opt Options, tr *tracer.Trace) float64 {
	t.Helper()
	var took []float64
	for range max(1, min(5, 5_000_000/len(tr.Events))) {
		begin := time.Now()
		if err := New(set, opt).Add(tr, nil); err != nil {
			t.Fatal(err)
		}
		took = append(took, float64(time.Since(begin))/float64(len(tr.Events)))
	}
	return stats.Median(took)
}

// TestLinear: an event takes as long among many as among few; were any part
// quadratic, it would take eight times as long. Where no test may be left out,
// ten million events are analysed besides.
func TestLinear(t *testing.T) {
	set := linuxSet(t)
	sizes := []int{400_000}
	if os.Getenv(tracetest.RequireEnv) != "" {
		sizes = append(sizes, 10_000_000)
	}
	small := perEvent(t, set, Options{Settle: 1}, bigWorld(50_000))
	for _, n := range sizes {
		large := perEvent(t, set, Options{Settle: 1}, bigWorld(n))
		t.Logf("an event takes %.0f ns among 50,000, %.0f ns among %d", small, large, n)
		if large > 4*small {
			t.Errorf("%.1f times as long per event among %d", large/small, n)
		}
	}
}

// BenchmarkAnalysis reports events per second; sizes show that it is linear.
func BenchmarkAnalysis(b *testing.B) {
	set := linuxSet(b)
	for _, size := range []struct {
		name string
		n    int
	}{{"100k", 100_000}, {"1M", 1_000_000}, {"10M", 10_000_000}} {
		b.Run(size.name, func(b *testing.B) {
			tr := bigWorld(size.n)
			for b.Loop() {
				if err := New(set, Options{Settle: 1}).Add(tr, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(tr.Events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
