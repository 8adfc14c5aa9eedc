package analysis

import (
	"cmp"
	"fmt"
	"math"
	"slices"

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
	Stages   []Delta `json:"stages"` // by falling absolute difference
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
	PValue      *float64     `json:"p_value"` // Mann-Whitney; of stages, adjusted for looking at all of them (Holm). Null: cannot be told
	Significant bool         `json:"significant"`
	Verdict     string       `json:"verdict"`
	Note        string       `json:"note,omitempty"`
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

// Exceeds lists the targets that became slower by more than limit (0.05 is
// 5 %), by a difference that is significant.
func (c *Comparison) Exceeds(limit float64) []TargetComparison {
	var out []TargetComparison
	for _, t := range c.Targets {
		if t.Wall.Significant && t.Wall.Ratio != nil && *t.Wall.Ratio > 1+limit {
			out = append(out, t)
		}
	}
	return out
}

func side(r *Result) ComparedSide {
	return ComparedSide{Label: r.Label, Started: r.Started, Tool: r.Tool, Workload: r.Workload, Host: r.Host, StageSet: r.StageSet}
}

// conditions warns about what makes two results hard to compare.
func conditions(base, next *Result) []Warning {
	var out []Warning
	for _, f := range []struct{ id, what, base, next, hint string }{
		{"compare-workload", "workload", base.Workload, next.Workload, "compare results of the same workload"},
		{"compare-params", "parameters", fmt.Sprint(base.Params), fmt.Sprint(next.Params), "the difference may be theirs"},
		{"compare-stages", "stage set", base.StageSet.Name + " " + base.StageSet.Hash, next.StageSet.Name + " " + next.StageSet.Hash, "stages of the same name may mean different things: make both reports again with one stage set"},
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

// samples are the values of one target.
type samples struct {
	target   string
	untraced []float64
	traced   []float64
	stages   map[string][]float64 // as long as traced: 0 where an operation has no such stage
}

// collect gathers what counts, by target in order of appearance.
func collect(r *Result) []*samples {
	var out []*samples
	for _, target := range targetsOf(r) {
		s := &samples{target: target, stages: map[string][]float64{}}
		ops := counted(r, target)
		for k, op := range ops {
			s.traced = append(s.traced, float64(op.WallNs))
			for _, st := range op.Stages {
				if s.stages[st.Name] == nil {
					s.stages[st.Name] = make([]float64, len(ops))
				}
				s.stages[st.Name][k] += float64(st.Ns)
			}
		}
		for i := range r.Untraced {
			if u := &r.Untraced[i]; u.Target == target && !u.Failed {
				s.untraced = append(s.untraced, float64(u.WallNs))
			}
		}
		out = append(out, s)
	}
	return out
}

// counted are the traced operations of a target that can stand for it: the
// rule of the summary, but never failed or incomplete ones for want of others.
func counted(r *Result, target string) []*OperationResult {
	var ops []*OperationResult
	for i := range r.Operations {
		if op := &r.Operations[i]; op.Target == target && !op.Failed && !op.Incomplete && op.LostEvents == 0 {
			ops = append(ops, op)
		}
	}
	if coldFirst(ops) {
		ops = ops[1:]
	}
	return ops
}

// pairTargets matches by name; a single target on each side is compared
// whatever they are called.
func pairTargets(base, next []*samples) (pairs [][2]*samples, lone []string) {
	if len(base) == 1 && len(next) == 1 {
		return [][2]*samples{{base[0], next[0]}}, nil
	}
	matched := map[string]bool{}
	for _, b := range base {
		i := slices.IndexFunc(next, func(n *samples) bool { return n.target == b.target })
		if i < 0 {
			lone = append(lone, b.target)
			continue
		}
		matched[b.target] = true
		pairs = append(pairs, [2]*samples{b, next[i]})
	}
	for _, n := range next {
		if !matched[n.target] {
			lone = append(lone, n.target)
		}
	}
	return pairs, lone
}

func compareTarget(base, next *samples) TargetComparison {
	t := TargetComparison{Base: base.target, New: next.target, Stages: []Delta{}}
	b, n := base.traced, next.traced
	if len(base.untraced) > 0 && len(next.untraced) > 0 {
		t.Untraced, b, n = true, base.untraced, next.untraced
	}
	t.Wall = delta("end to end", b, n)
	t.Wall.judge()
	names := map[string]bool{}
	for name := range base.stages {
		names[name] = true
	}
	for name := range next.stages {
		names[name] = true
	}
	for name := range names {
		t.Stages = append(t.Stages, delta(name, padded(base, name), padded(next, name)))
	}
	slices.SortFunc(t.Stages, func(a, b Delta) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)), cmp.Compare(a.Name, b.Name))
	})
	ps := make([]*float64, len(t.Stages))
	for i := range t.Stages {
		ps[i] = t.Stages[i].PValue
	}
	for i, p := range stats.Holm(ps) {
		t.Stages[i].PValue = p
		t.Stages[i].judge()
	}
	return t
}

// padded is a stage's values, 0 for operations that never entered it.
func padded(s *samples, name string) []float64 {
	if v, ok := s.stages[name]; ok {
		return v
	}
	return make([]float64, len(s.traced))
}

func delta(name string, base, next []float64) Delta {
	d := Delta{Name: name, Base: describe(base), New: describe(next), PValue: stats.Test(base, next)}
	d.Difference = d.New.Median - d.Base.Median
	if r, ok := stats.Ratio(next, base); ok {
		d.Ratio, d.RatioLo, d.RatioHi = &r.Ratio, r.Lo, r.Hi
	}
	return d
}

// judge says in words what the p-value allows to say.
func (d *Delta) judge() {
	switch {
	case d.PValue == nil:
		d.Verdict = VerdictUntold
		d.Note = fmt.Sprintf("%d and %d operations are too few: at least %d on each side are needed", d.Base.N, d.New.N, stats.MinCompare)
	case *d.PValue >= alpha || d.Difference == 0:
		d.Verdict = VerdictSame
	case d.Difference > 0:
		d.Verdict, d.Significant = VerdictSlower, true
	default:
		d.Verdict, d.Significant = VerdictFaster, true
	}
}
