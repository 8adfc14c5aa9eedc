package analysis

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"stagetrace/analysis/stats"
)

// Comparison is two results set side by side: a base and a new one. All times
// are in nanoseconds.
type Comparison struct {
	Schema   int                `json:"schema"`
	Base     ComparedSide       `json:"base"`
	New      ComparedSide       `json:"new"`
	Targets  []TargetComparison `json:"targets"`
	Warnings []Warning          `json:"warnings"`
}

// ComparedSide says where one side comes from.
type ComparedSide struct {
	Label    string   `json:"label"`
	Started  string   `json:"started"`
	Tool     string   `json:"tool"`
	Workload string   `json:"workload"`
	Host     Host     `json:"host"`
	StageSet StageSet `json:"stage_set"`
}

// TargetComparison is one target, or one against another when each side has
// only one.
type TargetComparison struct {
	Base     string  `json:"base"`
	New      string  `json:"new"`
	Untraced bool    `json:"untraced"` // Wall is of untraced operations; else of traced ones
	Wall     Delta   `json:"wall"`
	Traced   Delta   `json:"traced"`   // wall of the traced operations, whose parts the stages are
	Stages   []Delta `json:"stages"`   // of the path; what surely differs first, then by falling absolute difference of the parts
	OffPath  []Delta `json:"off_path"` // what was caused and not waited for; in the same order, by medians
}

// Verdicts of a Delta.
const (
	VerdictUntold = "cannot tell"
	VerdictSame   = "no change shown"
	VerdictSlower = "slower"
	VerdictFaster = "faster"
)

// Delta compares two samples of one quantity.
type Delta struct {
	Name        string       `json:"name"`
	Base        Distribution `json:"base"`
	New         Distribution `json:"new"`
	Difference  float64      `json:"difference_ns"` // of the medians
	Ratio       *float64     `json:"ratio"`         // new median over base median; null when the base's is 0
	RatioLo     *float64     `json:"ratio_lo"`
	RatioHi     *float64     `json:"ratio_hi"`
	PValue      *float64     `json:"p_value"`      // Mann-Whitney; of stages, adjusted for looking at all of them (Holm). Null: cannot be told
	Unadjusted  *float64     `json:"p_unadjusted"` // the same for one that was asked for alone
	Significant bool         `json:"significant"`
	Verdict     string       `json:"verdict"`
	Note        string       `json:"note,omitempty"`
	Part        *Part        `json:"part"` // of a stage and of Traced; null for others
}

// Part is what a stage is of the operations in the middle of each side, where
// medians would not add up: its mean over the middle half of the operations by
// wall time (stats.Table.Middle). The parts of the stages add up to the part of
// Traced in every column, to the nanosecond.
type Part struct {
	BaseNs       int64    `json:"base_ns"`
	NewNs        int64    `json:"new_ns"`
	DifferenceNs int64    `json:"difference_ns"` // new minus base
	Lo           *float64 `json:"lo"`            // interval of the difference; null for fewer than 6 operations a side
	Hi           *float64 `json:"hi"`
}

// alpha is the level below which a difference is called one.
const alpha = 1 - stats.Confidence

// ComparisonSchema is the version of a written Comparison.
const ComparisonSchema = 1

// Compare sets two results side by side: end to end and stage by stage, each
// target with its namesake. A difference is significant when a rank test says
// so; with too few operations it says that it cannot tell, never that there is
// none. Failed, incomplete and lossy operations are left out.
func Compare(base, next *Result) *Comparison {
	c := &Comparison{Schema: ComparisonSchema, Base: side(base), New: side(next), Targets: []TargetComparison{}, Warnings: []Warning{}}
	b, n := collect(base), collect(next)
	c.Warnings = append(c.Warnings, conditions(base, next)...)
	c.Warnings = append(append(c.Warnings, carried("base", base)...), carried("new", next)...)
	pairs, lone := pairTargets(b, n)
	for _, l := range lone {
		c.warn("target-unmatched", fmt.Sprintf("target %q is in one result only and is not compared", l), "")
	}
	for _, p := range pairs {
		c.Targets = append(c.Targets, compareTarget(p[0], p[1]))
	}
	if len(pairs) == 0 {
		c.warn("nothing-to-compare", "the results have no target in common", "record the same targets on both sides")
	}
	return c
}

func (c *Comparison) warn(id, text, hint string) {
	c.Warnings = append(c.Warnings, Warning{ID: id, Text: text, Hint: hint})
}

// CompareTargets sets two targets of one result side by side. False when the
// result does not have both.
func CompareTargets(r *Result, base, next string) (TargetComparison, bool) {
	var sides [2]*samples
	for _, s := range collect(r) {
		if s.target == base {
			sides[0] = s
		}
		if s.target == next {
			sides[1] = s
		}
	}
	if sides[0] == nil || sides[1] == nil {
		return TargetComparison{}, false
	}
	return compareTarget(sides[0], sides[1]), true
}

func side(r *Result) ComparedSide {
	return ComparedSide{Label: r.Label, Started: r.Started, Tool: r.Tool, Workload: r.Workload, Host: r.Host, StageSet: r.StageSet}
}

// conditions warns about what makes two results hard to compare.
func conditions(base, next *Result) []Warning {
	var out []Warning
	for _, f := range []struct{ id, what, base, next, hint string }{
		{"compare-workload", "workload", base.Workload, next.Workload, "compare results of the same workload"},
		{"compare-command", "command", strings.Join(base.Command, " "), strings.Join(next.Command, " "), "the difference may be theirs"},
		{"compare-params", "parameters", fmt.Sprint(base.Params), fmt.Sprint(next.Params), "the difference may be theirs"},
		{"compare-stages", "stage set", base.StageSet.Name + " " + base.StageSet.Hash, next.StageSet.Name + " " + next.StageSet.Hash, "stages of the same name may mean different things: make both reports again with one stage set"},
		{"compare-tool", "version of trace", base.Tool, next.Tool, "the difference may be that of the analysis: make both reports again with one version"},
		{"compare-host", "host", base.Host.Name, next.Host.Name, "the difference may be the machine's"},
		{"compare-kernel", "kernel", base.Host.Kernel, next.Host.Kernel, "the difference may be the kernel's"},
		{"compare-cpus", "number of CPUs", fmt.Sprint(base.Host.CPUs), fmt.Sprint(next.Host.CPUs), "the difference may be the machine's"},
		{"compare-backend", "backend", base.Recording.Backend, next.Recording.Backend, "compare untraced times only"},
	} {
		if f.base != f.next {
			out = append(out, Warning{ID: f.id, Text: fmt.Sprintf("the results differ in %s: %q and %q", f.what, f.base, f.next), Hint: f.hint})
		}
	}
	return out
}

// carriedIDs are the warnings of a result that a comparison with it repeats.
var carriedIDs = []string{warnBusy, warnStorage, warnDrift}

// carried are the warnings of one side that put its figures into question.
func carried(which string, r *Result) (out []Warning) {
	for _, w := range r.Warnings {
		if slices.Contains(carriedIDs, w.ID) {
			out = append(out, Warning{ID: w.ID, Text: which + ": " + w.Text, Hint: w.Hint})
		}
	}
	return out
}

func compareTarget(base, next *samples) TargetComparison {
	t := TargetComparison{Base: base.target, New: next.target}
	b, n := base.traced, next.traced
	t.Traced = delta("traced", b, n)
	t.Traced.judge(1)
	if len(base.untraced) > 0 && len(next.untraced) > 0 {
		t.Untraced, b, n = true, base.untraced, next.untraced
	}
	t.Wall = delta("end to end", b, n)
	t.Wall.judge(1)
	t.Stages = deltas(base.stages, next.stages, len(base.traced), len(next.traced))
	t.part(base, next)
	judgeTogether(t.Stages)
	slices.SortStableFunc(t.Stages, surelyFirst)
	t.OffPath = deltas(base.offPath, next.offPath, len(base.traced), len(next.traced))
	judgeTogether(t.OffPath)
	slices.SortStableFunc(t.OffPath, surelyFirst)
	return t
}

// surelyFirst puts what surely differs before what may be chance.
func surelyFirst(a, b Delta) int {
	switch {
	case a.Significant == b.Significant:
		return 0
	case a.Significant:
		return -1
	}
	return 1
}

// deltas compares every stage that either side has; nb and nn are the numbers
// of operations.
func deltas(base, next stageValues, nb, nn int) []Delta {
	out := []Delta{}
	for _, name := range union(slices.Sorted(maps.Keys(base)), slices.Sorted(maps.Keys(next))) {
		out = append(out, delta(name, base.of(name, nb), next.of(name, nn)))
	}
	slices.SortStableFunc(out, func(a, b Delta) int { return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)) })
	return out
}

// part takes the difference of the traced operations apart into the stages'.
func (t *TargetComparison) part(base, next *samples) {
	if len(base.traced) == 0 || len(next.traced) == 0 {
		return
	}
	b, n := stats.Table{Total: base.traced}, stats.Table{Total: next.traced}
	for i := range t.Stages {
		b.Parts = append(b.Parts, base.stages.of(t.Stages[i].Name, len(base.traced)))
		n.Parts = append(n.Parts, next.stages.of(t.Stages[i].Name, len(next.traced)))
	}
	_, bs := b.Middle()
	_, ns := n.Middle()
	b.Parts, n.Parts = append(b.Parts, b.Total), append(n.Parts, n.Total)
	intervals := stats.PartIntervals(&b, &n)
	t.Traced.Part = &Part{}
	before, after := stats.Apportion(bs), stats.Apportion(ns)
	for i := range t.Stages {
		p := newPart(before[i], after[i], intervals, i)
		t.Stages[i].Part = p
		t.Traced.Part.BaseNs += p.BaseNs
		t.Traced.Part.NewNs += p.NewNs
	}
	t.Traced.Part = newPart(t.Traced.Part.BaseNs, t.Traced.Part.NewNs, intervals, len(t.Stages))
	slices.SortStableFunc(t.Stages, func(a, b Delta) int {
		return cmp.Or(cmp.Compare(abs(b.Part.DifferenceNs), abs(a.Part.DifferenceNs)), cmp.Compare(a.Name, b.Name))
	})
}

func newPart(before, after int64, intervals []stats.Interval, i int) *Part {
	p := &Part{BaseNs: before, NewNs: after, DifferenceNs: after - before}
	if intervals != nil {
		p.Lo, p.Hi = &intervals[i].Lo, &intervals[i].Hi
	}
	return p
}

func abs(n int64) int64 { return max(n, -n) }

func delta(name string, base, next []float64) Delta {
	d := Delta{Name: name, Base: describe(base), New: describe(next), PValue: stats.Test(base, next)}
	d.Unadjusted = d.PValue
	d.Difference = d.New.Median - d.Base.Median
	if r, ok := stats.Ratio(next, base); ok {
		d.Ratio, d.RatioLo, d.RatioHi = &r.Ratio, r.Lo, r.Hi
	}
	return d
}

// judgeTogether judges deltas that are looked at together.
func judgeTogether(ds []Delta) {
	ps := make([]*float64, len(ds))
	tested := 0
	for i := range ds {
		if ps[i] = ds[i].PValue; ps[i] != nil {
			tested++
		}
	}
	for i, p := range stats.Holm(ps) {
		ds[i].PValue = p
		ds[i].judge(tested)
	}
}

// judge says in words what the p-value allows to say, of one among so many
// deltas. Where even samples that do not overlap could not pass for a
// difference, nothing can be told.
func (d *Delta) judge(among int) {
	switch {
	case d.PValue == nil:
		d.Verdict = VerdictUntold
		d.Note = fmt.Sprintf("%d and %d operations are too few: at least %d on each side are needed", d.Base.N, d.New.N, stats.MinCompare)
	case stats.SmallestP(d.Base.N, d.New.N)*float64(among) >= alpha:
		d.Verdict = VerdictUntold
		d.Note = fmt.Sprintf("%d and %d operations are too few to look at %d stages", d.Base.N, d.New.N, among)
	case *d.PValue >= alpha || d.Difference == 0:
		d.Verdict = VerdictSame
	case d.Difference > 0:
		d.Verdict, d.Significant = VerdictSlower, true
	default:
		d.Verdict, d.Significant = VerdictFaster, true
	}
}
