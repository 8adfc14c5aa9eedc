package analysis

import (
	"math"

	"stagetrace/analysis/stats"
)

// GateTotal is the name that stands for the wall time in a Limit.
const GateTotal = "total"

// Limit is by how much a quantity may grow: Share 0.05 allows 5 %.
type Limit struct {
	Name  string // GateTotal, or a stage: on the path or, where no path has it, off it
	Share float64
}

// Gated is what a limit says about one target.
type Gated struct {
	Target string
	Limit  Limit
	Growth float64  // of the median: 0.1 for a tenth more; +Inf where there was nothing before
	PValue *float64 // adjusted for the number of limits and targets (Holm); nil: cannot be told
	Untold bool     // too few operations, whatever they took
	Absent bool     // no target has it, on either side; Target is ""
	Failed bool     // it grew by more than the limit, and not by chance
}

// Gate holds a comparison against limits. They were named before anybody
// looked, so their p-values are adjusted for one another and not for all the
// stages there are.
func (c *Comparison) Gate(limits []Limit) []Gated {
	var out, absent []Gated
	var ps []*float64
	var deltas []*Delta
	for _, l := range limits {
		found := false
		for i := range c.Targets {
			d := c.Targets[i].named(l.Name)
			if d == nil {
				continue
			}
			found = true
			out = append(out, Gated{Target: c.Targets[i].New, Limit: l, Growth: d.growth()})
			ps, deltas = append(ps, d.Unadjusted), append(deltas, d)
		}
		if !found {
			absent = append(absent, Gated{Limit: l, Absent: true})
		}
	}
	for i, p := range stats.Holm(ps) {
		g := &out[i]
		g.PValue = p
		g.Untold = p == nil || stats.SmallestP(deltas[i].Base.N, deltas[i].New.N)*float64(len(out)) >= alpha
		g.Failed = !g.Untold && *p < alpha && g.Growth > g.Limit.Share
	}
	return append(out, absent...)
}

// named finds what a limit is about; nil when the target does not have it.
func (t *TargetComparison) named(name string) *Delta {
	if name == GateTotal {
		return &t.Wall
	}
	for _, list := range [][]Delta{t.Stages, t.OffPath} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (d *Delta) growth() float64 {
	switch {
	case d.Difference == 0:
		return 0
	case d.Base.Median == 0:
		return math.Inf(1)
	}
	return d.Difference / d.Base.Median
}
