package reports

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"stagetrace/analysis"
	"stagetrace/analysis/stats"
)

// partRow is a row of the table of what makes a difference.
type partRow struct {
	name string
	printedPart
	delta *analysis.Delta // nil for stages taken together
}

// partRows are the stages worth showing, the rest of them in one row, and the
// total, with their unit. None where there is nothing to take apart.
func partRows(c *analysis.TargetComparison, all bool) (timeUnit, []partRow) {
	total := c.Traced.Part
	if total == nil {
		return timeUnit{}, nil
	}
	u := columnUnit(float64(max(total.BaseNs, total.NewNs)))
	var rows []partRow
	var rest, sum printedPart
	n := 0
	for i, p := range printedParts(c.Stages, u) {
		sum.add(p)
		if !all && !worthShowing(&c.Stages[i], total) {
			n++
			rest.add(p)
			continue
		}
		rows = append(rows, partRow{c.Stages[i].Name, p, &c.Stages[i]})
	}
	if n > 0 {
		rows = append(rows, partRow{"(" + plural(n, "more stage", "more stages") + ")", rest, nil})
	}
	return u, append(rows, partRow{"total", sum, &c.Traced})
}

// cells are base, new, difference, interval, p and verdict.
func (r *partRow) cells(u timeUnit, dots string) []string {
	cells := []string{fixed(r.base), fixed(r.next), plus(fixed(r.next - r.base)), "", "", ""}
	if r.delta != nil {
		cells[3], cells[4], cells[5] = plusInterval(u, r.delta.Part, dots), pValue(r.delta), r.delta.Verdict
	}
	return cells
}

// printedPart is a part in hundredths of the table's unit.
type printedPart struct{ base, next int64 }

func (p *printedPart) add(q printedPart) { p.base, p.next = p.base+q.base, p.next+q.next }

func printedParts(stages []analysis.Delta, u timeUnit) []printedPart {
	base, next := make([]float64, len(stages)), make([]float64, len(stages))
	for i := range stages {
		base[i], next[i] = 100*float64(stages[i].Part.BaseNs)/u.ns, 100*float64(stages[i].Part.NewNs)/u.ns
	}
	b, n := stats.Apportion(base), stats.Apportion(next)
	out := make([]printedPart, len(stages))
	for i := range out {
		out[i] = printedPart{b[i], n[i]}
	}
	return out
}

// worthShowing leaves out what neither changed surely nor is much of the change.
func worthShowing(d *analysis.Delta, total *analysis.Part) bool {
	least := max(0.02*math.Abs(float64(total.DifferenceNs)), 0.001*float64(max(total.BaseNs, total.NewNs)))
	return math.Abs(float64(d.Part.DifferenceNs)) >= least
}

// fixed prints hundredths.
func fixed(n int64) string { return strconv.FormatFloat(float64(n)/100, 'f', 2, 64) }

// plus gives a number that is above 0 its sign.
func plus(s string) string {
	if strings.HasPrefix(s, "-") || strings.Trim(s, "0.") == "" {
		return s
	}
	return "+" + s
}

func plusInterval(u timeUnit, p *analysis.Part, dots string) string {
	if p.Lo == nil || p.Hi == nil {
		return ""
	}
	return plus(digits(*p.Lo/u.ns)) + dots + plus(digits(*p.Hi/u.ns))
}

// makes says which stages make a difference: those that changed surely, the
// largest first. "" when none did.
func makes(c *analysis.TargetComparison) string {
	const most = 6
	var parts []string
	var sum int64
	for i := range c.Stages {
		d := &c.Stages[i]
		if !d.Significant || !worthShowing(d, c.Traced.Part) || len(parts) == most {
			continue
		}
		sum += d.Part.DifferenceNs
		parts = append(parts, fmt.Sprintf("%s (%s)", d.Name, plus(duration(float64(d.Part.DifferenceNs)))))
	}
	if len(parts) == 0 {
		return ""
	}
	total := float64(c.Traced.Part.DifferenceNs)
	text := fmt.Sprintf("of the traced difference of %s, %s come from %s", plus(duration(total)), plus(duration(float64(sum))), strings.Join(parts, ", "))
	if math.Abs(total-float64(sum)) > 0.1*math.Abs(total) {
		text += "; what else differs may be chance"
	}
	return text
}
