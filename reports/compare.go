package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"stagetrace/analysis"
	"stagetrace/analysis/stats"
)

// CompareFormat is one row of CompareFormats.
type CompareFormat struct {
	Name    string
	Summary string
	Write   func(w io.Writer, c *analysis.Comparison, in *Input) error // in: Width, ASCII and Wide only
}

// CompareFormats is the table of what a comparison can be written as.
func CompareFormats() []CompareFormat {
	return []CompareFormat{
		{"table", "end to end and stage by stage", writeComparison},
		{"json", "everything, with p-values", writeComparisonJSON},
	}
}

func writeComparisonJSON(w io.Writer, c *analysis.Comparison, _ *Input) error {
	clean := plainValue(reflect.ValueOf(c)).Interface().(*analysis.Comparison)
	text, err := json.MarshalIndent(clean, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func writeComparison(w io.Writer, c *analysis.Comparison, in *Input) error {
	t := newTableWriter(in)
	t.text("base: "+sideText(&c.Base), nil, "", "  ")
	t.text("new:  "+sideText(&c.New), nil, "", "  ")
	for i := range c.Targets {
		t.b.WriteString("\n")
		t.comparison(&c.Targets[i])
	}
	t.partsNote(c.Targets)
	if len(c.Warnings) > 0 {
		t.b.WriteString("\n")
	}
	t.warnings(c.Warnings)
	_, err := io.WriteString(w, t.b.String())
	return err
}

func sideText(s *analysis.ComparedSide) string {
	parts := []string{}
	for _, p := range []string{s.Label, s.Workload, s.Started, s.Host.Name, s.Host.Kernel} {
		if p != "" {
			parts = append(parts, Clean(p))
		}
	}
	return strings.Join(parts, ", ")
}

// comparison writes one target: the verdict in a sentence, then its stages.
func (t *tableWriter) comparison(c *analysis.TargetComparison) {
	name := Clean(c.New)
	if c.New != c.Base {
		name += " against " + Clean(c.Base)
	}
	how := "traced"
	if c.Untraced {
		how = "untraced"
	}
	d := &c.Wall
	t.text(name+": "+d.Verdict+ratioText(d, t.dots), t.bold, "", "  ")
	t.text("median "+duration(d.New.Median)+", base "+duration(d.Base.Median)+"; n = "+strconv.Itoa(d.New.N)+" and "+strconv.Itoa(d.Base.N)+", "+how+pText(d), nil, "  ", "  ")
	if d.Note != "" {
		t.text(d.Note, t.warn, "  ", "  ")
	}
	t.text(makes(c), nil, "  ", "    ")
	t.parts(c)
	t.offPathDeltas(c)
}

// parts is the table of what makes the difference. Its columns add up as they
// are printed: they are in whole hundredths of the unit.
func (t *tableWriter) parts(c *analysis.TargetComparison) {
	total := c.Traced.Part
	if total == nil {
		return
	}
	u := columnUnit(float64(max(total.BaseNs, total.NewNs)))
	rows := printedParts(c.Stages, u)
	g := t.grid(column{head: "stage", limit: max(8, min(28, t.width-50))}, column{head: "base " + u.name, right: true}, column{head: "new " + u.name, right: true},
		column{head: "difference", right: true}, column{head: "95 % interval", right: true, optional: true},
		column{head: "p", right: true, optional: true}, column{head: "verdict", optional: true})
	add := func(name string, p printedPart, d *analysis.Delta, style *lipgloss.Style) {
		cells := []string{name, fixed(p.base), fixed(p.next), plus(fixed(p.next - p.base)), "", "", ""}
		if d != nil {
			cells[4], cells[5], cells[6] = plusInterval(u, d.Part, t.dots), pValue(d), d.Verdict
		}
		g.lines = append(g.lines, line{cells: cells, style: style})
	}
	var hidden, all printedPart
	n := 0
	for i := range c.Stages {
		d := &c.Stages[i]
		all.add(rows[i])
		if !t.all && !worthShowing(d, total) {
			n++
			hidden.add(rows[i])
			continue
		}
		add(Clean(d.Name), rows[i], d, nil)
	}
	if n > 0 {
		add("("+plural(n, "more stage", "more stages")+")", hidden, nil, nil)
	}
	add("total", all, &c.Traced, t.bold)
	g.fitTo(t.width)
	t.b.WriteString("\n")
	g.write(&t.b, t.dim, t.dim)
}

// partsNote says what the figures of differences are of.
func (t *tableWriter) partsNote(cs []analysis.TargetComparison) {
	if slices.ContainsFunc(cs, func(c analysis.TargetComparison) bool { return c.Traced.Part != nil }) {
		t.b.WriteString("\n")
		t.text("stages and totals are means over the middle half of the traced operations by wall time, so that they add up; p is adjusted for the number of stages (Holm)", t.dim, "", "")
	}
}

// offPathDeltas are the late and parallel costs that changed.
func (t *tableWriter) offPathDeltas(c *analysis.TargetComparison) {
	var list []*analysis.Delta
	var widest float64
	for i := range c.OffPath {
		if d := &c.OffPath[i]; d.Significant || t.all {
			list = append(list, d)
			widest = max(widest, d.Base.Median, d.New.Median)
		}
	}
	if len(list) == 0 {
		return
	}
	u := columnUnit(widest)
	g := t.grid(column{head: "off the path (medians)", limit: max(8, min(28, t.width-50))}, column{head: "base " + u.name, right: true}, column{head: "new " + u.name, right: true},
		column{head: "difference", right: true}, column{head: "p", right: true, optional: true}, column{head: "verdict", optional: true})
	for _, d := range list {
		g.lines = append(g.lines, line{cells: []string{Clean(d.Name), u.cell(d.Base.Median), u.cell(d.New.Median), plus(digits(d.Difference / u.ns)), pValue(d), d.Verdict}})
	}
	g.fitTo(t.width)
	t.b.WriteString("\n")
	g.write(&t.b, t.dim, t.dim)
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
// largest first, up to most of the change. "" when none did.
func makes(c *analysis.TargetComparison) string {
	if c.Traced.Part == nil || c.Traced.Part.DifferenceNs == 0 {
		return ""
	}
	total := float64(c.Traced.Part.DifferenceNs)
	var parts []string
	var explained float64
	for i := range c.Stages {
		d := &c.Stages[i]
		share := float64(d.Part.DifferenceNs) / total
		if !d.Significant || share < 0.03 || len(parts) == 6 || explained > 0.9 {
			continue
		}
		explained += share
		parts = append(parts, fmt.Sprintf("%s %s", Clean(d.Name), plus(duration(float64(d.Part.DifferenceNs)))))
	}
	if len(parts) == 0 {
		return ""
	}
	text := fmt.Sprintf("the traced difference of %s is made by %s: %s of it", plus(duration(total)), strings.Join(parts, ", "), percent(explained))
	if explained < 0.9 {
		text += "; what else differs may be chance"
	}
	return text
}

func ratioText(d *analysis.Delta, dots string) string {
	if d.Ratio == nil {
		return ""
	}
	s := ", " + digits(*d.Ratio) + "x"
	if iv := ratioInterval(d, dots); iv != "" {
		s += " (" + iv + ")"
	}
	return s
}

// ratioInterval is the interval of a ratio; "" when there is none.
func ratioInterval(d *analysis.Delta, dots string) string {
	if d.RatioLo == nil || d.RatioHi == nil {
		return ""
	}
	return digits(*d.RatioLo) + dots + digits(*d.RatioHi)
}

func pText(d *analysis.Delta) string {
	if d.PValue == nil {
		return ""
	}
	if p := pValue(d); strings.HasPrefix(p, "<") {
		return "; p " + p
	}
	return "; p = " + pValue(d)
}

func pValue(d *analysis.Delta) string {
	switch {
	case d.PValue == nil:
		return ""
	case *d.PValue < 0.001:
		return "<0.001"
	}
	return strconv.FormatFloat(finite(*d.PValue), 'f', 3, 64)
}
