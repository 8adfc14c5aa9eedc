package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// eachGraph calls f with the graph of every operation of a trace.
func eachGraph(t interface{ Fatal(...any) }, set *stage.Set, tr *tracer.Trace, f func(op *Operation, g *graph)) {
	a := newTraceAnalysis(tr, set)
	for _, p := range operationsOf(tr) {
		op, m, err := a.operation(p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		f(op, a.dependencies(op, m, p))
	}
}

func factors(g *graph, f float64) []float64 {
	return slices.Repeat([]float64{f}, g.rows)
}

// TestReplayOfWorlds: whatever happens, a replay with nothing changed ends when
// the operation did, in every node; time that is taken out shortens it, never by
// more than it took, and the more the more; and what its end depended on adds up.
func TestReplayOfWorlds(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(rt)
		for _, tr := range []*tracer.Trace{w.finish(), w.operations(3)} {
			eachGraph(rt, set, tr, func(op *Operation, g *graph) {
				checkGraph(rt, g)
				same := factors(g, 1)
				last := g.replay(same)
				if last != float64(op.WallNs) {
					rt.Fatalf("operation %d of %d ns: a replay with nothing changed ends after %v", op.Index, op.WallNs, last)
				}
				for i := range g.nodes {
					if g.times[i] != float64(g.nodes[i].at) {
						rt.Fatalf("operation %d: node %d %+v is at %v with nothing changed", op.Index, i, g.nodes[i], g.times[i])
					}
				}
				for range 4 {
					row := rapid.IntRange(0, g.rows-1).Draw(rt, "row")
					same[row] *= rapid.Float64Range(0, 1).Draw(rt, "left")
					now := g.replay(same)
					if now < 0 || now > last {
						rt.Fatalf("operation %d: %v left of %s, and it ends after %v, not %v", op.Index, same[row], rowName(set, row), now, last)
					}
					var sum float64
					for _, ns := range g.critical() {
						sum += ns
					}
					if math.Abs(sum-now) > 1 {
						rt.Fatalf("operation %d: %v adds up to %v of %v", op.Index, g.critical(), sum, now)
					}
					last = now
				}
				checkGains(rt, set, op, g)
			})
		}
	})
}

// checkGraph: a node comes after all that it depends on, and not earlier.
func checkGraph(rt *rapid.T, g *graph) {
	for i := range g.nodes {
		n := &g.nodes[i]
		for _, d := range []int32{n.prev, n.from} {
			if d != noNode && (int(d) >= i || g.nodes[d].at > n.at) {
				rt.Fatalf("node %d %+v depends on node %d %+v", i, *n, d, g.nodes[d])
			}
		}
		if n.row == rowInherit {
			rt.Fatalf("node %d has no name", i)
		}
	}
}

// checkGains: of a stage at most what it takes, of its half at most as much; and
// the parts of a scenario add up.
func checkGains(rt *rapid.T, set *stage.Set, op *Operation, g *graph) {
	sc := &Scenario{factor: factors(g, rapid.Float64Range(0, 1).Draw(rt, "all left"))}
	x := g.whatIf(set, sc)
	if x == nil {
		rt.Fatalf("operation %d: cannot tell", op.Index)
	}
	var before, after int64
	for _, s := range x.Scenario.Stages {
		before, after = before+s.BeforeNs, after+s.AfterNs
	}
	if before != op.WallNs || after != x.Scenario.WallNs {
		rt.Fatalf("operation %d of %d ns: %+v adds up to %d, %d", op.Index, op.WallNs, x.Scenario, before, after)
	}
	for _, s := range x.Stages {
		if s.FreeNs > op.WallNs || s.HalfNs < 0 || s.HalfNs > s.FreeNs || s.FreeNs <= 0 {
			rt.Fatalf("operation %d of %d ns: %+v", op.Index, op.WallNs, s)
		}
	}
}

// TestWhatIfTwice: a second analysis says the same.
func TestWhatIfTwice(t *testing.T) {
	set := linuxSet(t)
	rapid.Check(t, func(rt *rapid.T) {
		tr := drawWorld(rt).operations(3)
		sc, err := ParseScenario(set, fmt.Sprintf("*=%v", rapid.Float64Range(0, 1).Draw(rt, "left")))
		if err != nil {
			rt.Fatal(err)
		}
		var said [2]string
		for i := range said {
			an := New(set, Options{WhatIf: true, Scenario: sc})
			if err := an.Add(tr, nil); err != nil {
				rt.Fatal(err)
			}
			text, err := json.Marshal(an.Result(Result{}))
			if err != nil {
				rt.Fatal(err)
			}
			said[i] = string(text)
		}
		if said[0] != said[1] {
			rt.Fatalf("%s\n%s", said[0], said[1])
		}
	})
}

// TestWhatIfLinear: eight times the events take about eight times as long.
func TestWhatIfLinear(t *testing.T) {
	set := linuxSet(t)
	small, large, opt := bigWorld(50_000), bigWorld(400_000), Options{Settle: 1, WhatIf: true}
	if a, b := perEvent(t, set, opt, small), perEvent(t, set, opt, large); b > 4*a {
		t.Errorf("an event takes %.0f ns among %d, %.0f ns among %d", a, len(small.Events), b, len(large.Events))
	}
}

// BenchmarkWhatIf is what the replays cost beside the paths: compare it with
// BenchmarkAnalysis.
func BenchmarkWhatIf(b *testing.B) {
	set := linuxSet(b)
	tr := bigWorld(1_000_000)
	for b.Loop() {
		if err := New(set, Options{Settle: 1, WhatIf: true}).Add(tr, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(tr.Events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
