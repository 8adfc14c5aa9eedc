package reports

import (
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"stagetrace/analysis"
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
		{"md", "the same for GitHub", writeComparisonMarkdown},
		{"html", "one self-contained page", writeComparisonHTML},
		{"json", "everything, with p-values", writeComparisonJSON},
	}
}

func writeComparisonJSON(w io.Writer, c *analysis.Comparison, _ *Input) error {
	clean := plainValue(reflect.ValueOf(c)).Interface().(*analysis.Comparison)
	text, err := json.MarshalIndent(clean, "", " ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(escapeJSON(text), '\n'))
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

// pairName says what is compared with what.
func pairName(c *analysis.TargetComparison) string {
	if c.New == c.Base {
		return c.New
	}
	return c.New + " against " + c.Base
}

// medians is the sentence on the wall times.
func medians(c *analysis.TargetComparison) string {
	d, how := &c.Wall, "traced"
	if c.Untraced {
		how = "untraced"
	}
	return "median " + duration(d.New.Median) + ", base " + duration(d.Base.Median) + "; n = " + strconv.Itoa(d.New.N) + " and " + strconv.Itoa(d.Base.N) + ", " + how + pText(d)
}

// comparison writes one target: the verdict in a sentence, then its stages.
func (t *tableWriter) comparison(c *analysis.TargetComparison) {
	d := &c.Wall
	t.text(Clean(pairName(c))+": "+d.Verdict+ratioText(d, t.dots), t.bold, "", "  ")
	t.text(medians(c), nil, "  ", "  ")
	if d.Note != "" {
		t.text(d.Note, t.warn, "  ", "  ")
	}
	t.text(Clean(makes(c)), nil, "  ", "    ")
	t.parts(c)
	t.offPathDeltas(c)
}

// parts is the table of what makes the difference. Its columns add up as they
// are printed.
func (t *tableWriter) parts(c *analysis.TargetComparison) {
	u, rows := partRows(c, t.all)
	if len(rows) == 0 {
		return
	}
	g := t.grid(column{head: "stage", limit: max(8, min(28, t.width-50))}, column{head: "base " + u.name, right: true}, column{head: "new " + u.name, right: true},
		column{head: "difference", right: true}, column{head: "95 % interval", right: true, optional: true},
		column{head: "p", right: true, optional: true}, column{head: "verdict", optional: true})
	for i := range rows {
		l := line{cells: append([]string{Clean(rows[i].name)}, rows[i].cells(u, t.dots)...)}
		if i == len(rows)-1 {
			l.style = t.bold
		}
		g.lines = append(g.lines, l)
	}
	g.fitTo(t.width)
	t.b.WriteString("\n")
	g.write(&t.b, t.dim, t.dim)
}

const partsNote = "stages and totals are means over the middle half of the traced operations by wall time, so that they add up; p is adjusted for the number of stages (Holm)"

// partsNote says what the figures of differences are of.
func (t *tableWriter) partsNote(cs []analysis.TargetComparison) {
	if slices.ContainsFunc(cs, func(c analysis.TargetComparison) bool { return c.Traced.Part != nil }) {
		t.b.WriteString("\n")
		t.text(partsNote, t.dim, "", "")
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
