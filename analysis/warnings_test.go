package analysis

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"stagetrace/tracer/tracetest"
)

// warningsOf makes a result of operations that take the given times in ms, and
// gives the text of its warning id; "" without one.
func warningsOf(t *testing.T, id string, traced, untraced []int64) string {
	t.Helper()
	an := New(linuxSet(t), Options{})
	base := Result{}
	n := 0
	for _, w := range traced {
		n++
		an.ops = append(an.ops, OperationResult{Target: "t", Index: n, WallNs: w * 1e6, Stages: []StageResult{
			{Name: "proc.exec", Ns: 10e6, RunningNs: 10e6}, {Name: "io.fsync", Ns: w*1e6 - 10e6, RunningNs: w*1e6 - 10e6}}})
	}
	for _, w := range untraced {
		n++
		base.Untraced = append(base.Untraced, UntracedResult{Target: "t", Index: n, WallNs: w * 1e6})
	}
	for _, w := range an.Result(base).Warnings {
		if w.ID == id {
			return w.Text
		}
	}
	return ""
}

func TestSeriesWarnings(t *testing.T) {
	steady := []int64{20, 21, 19, 22, 20, 21, 20, 19, 22, 21, 20, 21}
	rising := []int64{20, 22, 21, 24, 26, 25, 28, 30, 29, 33, 35, 36}
	peak := slices.Clone(steady)
	peak[4] = 400
	for _, c := range []struct {
		name, id         string
		traced, untraced []int64
		want             string // part of the text; "": no such warning
	}{
		{"steady", "drift", steady, nil, ""},
		{"rising", "drift", rising, nil, "t drifts: its median went from 21.5 ms in the first third of the run to 34 ms in the last"},
		{"five rising", "drift", rising[1:6], nil, ""},
		{"five in order", "drift", []int64{40, 35, 30, 28, 25}, nil, "from 40 ms"},
		{"untraced ones count", "drift", rising, steady, ""},
		{"untraced rising", "drift", steady, rising, "t drifts"},
		{"no outliers", "outliers", steady, steady, ""},
		{"an outlier", "outliers", peak, nil, "operation 5 (19x, 100 % of the excess in io.fsync)"},
		{"an untraced outlier", "outliers", steady, peak, "operation 17 (19x, untraced)"},
		{"few", "few-operations", steady[:3], nil, "3 operations are too few"},
		{"one", "few-operations", steady[:1], nil, ""},
	} {
		got := warningsOf(t, c.id, c.traced, c.untraced)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// An outlier is named and stays in the statistics; a cold start is named and
// does not.
func TestOutlierStays(t *testing.T) {
	an := New(linuxSet(t), Options{})
	for i, w := range []int64{20, 21, 19, 400, 20, 21, 20} {
		an.ops = append(an.ops, OperationResult{Target: "t", Index: i + 1, WallNs: w * 1e6})
	}
	if s := an.Result(Result{}).Summary[0]; s.N != 7 || s.Wall.Max != 400e6 {
		t.Errorf("%d operations, the longest of %v ns", s.N, s.Wall.Max)
	}
}

// The driver waits for a CPU that a stranger has, who writes, as does a worker;
// then it waits for a disk.
const pressureTrace = `meta begin=0 end=100us selfpid=9
task drv tid=9 comm=driver
task by  tid=30 comm=bystander
task wb  tid=40 comm=kworker/u4:1 kernel

0      0 status drv state=running
0      1 status by state=runnable
0      0 op-begin drv name=t flow=1
10us   0 switch drv -> by state=runnable flags=preempt
20us   0 point by class=io name=write value=8192
30us   0 switch by -> wb state=runnable flags=preempt
30us   0 begin wb class=work name=wb_workfn flow=7
35us   0 point wb class=io name=write value=4000000
36us   0 point wb class=io name=flush value=0
37us   0 point wb class=io name=other value=99
38us   0 end wb class=work name=wb_workfn flow=7
40us   0 switch wb -> drv state=blocked
50us   0 switch drv -> idle state=blocked flags=iowait,uninterruptible
80us   0 wake by -> drv ctx=hardirq name=irq9 value=9
80us   0 switch idle -> drv
90us   0 op-end drv name=t flow=1
`

func TestPressure(t *testing.T) {
	an := New(linuxSet(t), Options{})
	if err := an.Add(tracetest.Parse(t, pressureTrace), nil); err != nil {
		t.Fatal(err)
	}
	p := an.pressure["t"]
	if got, want := p.preemptors(), "bystander 100 %"; got != want {
		t.Errorf("the CPU was had by %q, want %q", got, want)
	}
	if got, want := p.diskUsers(), "kworker:wb_workfn wrote 4.0 MB in 1.0 parts, bystander wrote 8.2 kB in 1.0 parts, kworker:wb_workfn flushed in 1.0 parts"; got != want {
		t.Errorf("the disk was used by %q, want %q", got, want)
	}
	r := an.Result(Result{})
	for id, want := range map[string]string{warnBusy: "bystander 100 %", warnStorage: "kworker:wb_workfn wrote"} {
		i := slices.IndexFunc(r.Warnings, func(w Warning) bool { return w.ID == id })
		if i < 0 || !strings.Contains(r.Warnings[i].Text, want) || r.Warnings[i].Banner() != (id == warnBusy) {
			t.Errorf("%s: %+v", id, r.Warnings)
		}
	}
}

// TestParts: in every column the stages add up to the total exactly, and the
// differences are the differences of the columns.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Result{}
		n := rapid.IntRange(1, 30).Draw(t, "n")
		for i := range n {
			op := OperationResult{Target: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "target"), Index: i + 1}
			for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z", "other"}), 1, 4, rapid.ID[string]).Draw(t, "stages") {
				ns := rapid.Int64Range(0, 1e12).Draw(t, "ns")
				op.WallNs += ns
				op.Stages = append(op.Stages, StageResult{Name: name, Ns: ns})
			}
			r.Operations = append(r.Operations, op)
		}
		c, ok := CompareTargets(&r, "a", "b")
		if !ok {
			return
		}
		var base, next, diff int64
		for i := range c.Stages {
			p := c.Stages[i].Part
			base, next, diff = base+p.BaseNs, next+p.NewNs, diff+p.DifferenceNs
			if p.DifferenceNs != p.NewNs-p.BaseNs {
				t.Fatalf("%+v", p)
			}
			if p.Lo != nil && (*p.Lo > float64(p.DifferenceNs)+1 || *p.Hi < float64(p.DifferenceNs)-1) {
				t.Fatalf("%d lies outside of %v .. %v", p.DifferenceNs, *p.Lo, *p.Hi)
			}
		}
		if total := c.Traced.Part; base != total.BaseNs || next != total.NewNs || diff != total.DifferenceNs {
			t.Fatalf("stages add up to %d, %d, %d; total %+v", base, next, diff, total)
		}
	})
}

func TestCompareTargetsMissing(t *testing.T) {
	if _, ok := CompareTargets(runOf(0.5, 1, 2), "t", "u"); ok {
		t.Error("a target that is not there was compared")
	}
}

// With five against five there are differences that a test of one stage can
// tell and a look at ten cannot: then nothing can be told.
func TestTooFewForSoManyStages(t *testing.T) {
	make10 := func(extra int64) *Result {
		r := runOf(0.5, 1000, 1010, 1020, 1030, 1040)
		for i := range r.Operations {
			for _, name := range strings.Split("c d e f g h i j", " ") {
				r.Operations[i].Stages = append(r.Operations[i].Stages, StageResult{Name: name, Ns: extra})
			}
		}
		return r
	}
	c := Compare(make10(10), make10(20))
	for _, d := range c.Targets[0].Stages {
		if d.Verdict != VerdictUntold || d.Note == "" || d.Significant {
			t.Errorf("%+v", d)
		}
	}
	// Asked for alone, it can be told.
	g := c.Gate([]Limit{{Name: "c", Share: 0.5}})
	if len(g) != 1 || !g[0].Failed || g[0].Growth != 1 {
		t.Errorf("%+v", g)
	}
}

func TestGate(t *testing.T) {
	base := runOf(0.5, 1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070)
	next := runOf(0.5, 1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070)
	for i := range next.Operations {
		op := &next.Operations[i]
		op.WallNs += 100
		op.Stages[1].Ns += 100
		op.OffPath = []OffPathStage{{Name: "late", Ns: 50}}
	}
	c := Compare(base, next)
	got := c.Gate([]Limit{{GateTotal, 0.05}, {"a", 0.05}, {"b", 0.5}, {"late", 10}, {"nowhere", 0.05}})
	for i, want := range []Gated{{Failed: true}, {}, {}, {Failed: true}, {Absent: true}} {
		if g := got[i]; g.Failed != want.Failed || g.Untold || g.Absent != want.Absent {
			t.Errorf("%+v", g)
		}
	}
	if got := Compare(runOf(0.5, 1), runOf(0.5, 2)).Gate([]Limit{{GateTotal, 0.05}}); !got[0].Untold || got[0].Failed {
		t.Errorf("one against one: %+v", got)
	}
}
