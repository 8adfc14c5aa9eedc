package reports

import (
	"encoding/json"
	"io"
	"math"
	"reflect"
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
	name := Clean(c.Base)
	if c.New != c.Base {
		name += " against " + Clean(c.New)
	}
	how := "traced"
	if c.Untraced {
		how = "untraced"
	}
	d := &c.Wall
	t.text(name+": "+d.Verdict+ratioText(d, t.dots), t.bold, "", "  ")
	t.text("median "+duration(d.Base.Median)+" before, "+duration(d.New.Median)+" now; n = "+strconv.Itoa(d.Base.N)+" and "+strconv.Itoa(d.New.N)+", "+how+pText(d), nil, "  ", "  ")
	if d.Note != "" {
		t.text(d.Note, t.warn, "  ", "  ")
	}
	if len(c.Stages) == 0 {
		return
	}
	var widest float64
	for i := range c.Stages {
		widest = max(widest, c.Stages[i].Base.Median, c.Stages[i].New.Median)
	}
	u := columnUnit(widest)
	g := t.grid(column{head: "stage", limit: max(8, min(28, t.width-50))}, column{head: "base " + u.name, right: true}, column{head: "new " + u.name, right: true},
		column{head: "change", right: true}, column{head: "p", right: true}, column{head: "verdict"})
	hidden := 0
	for i := range c.Stages {
		d := &c.Stages[i]
		if !t.all && !d.Significant && math.Abs(d.Difference) < 0.001*max(c.Wall.Base.Median, c.Wall.New.Median) {
			hidden++
			continue
		}
		g.lines = append(g.lines, line{cells: []string{Clean(d.Name), u.cell(d.Base.Median), u.cell(d.New.Median), signed(u, d.Difference), pValue(d), d.Verdict}})
	}
	if len(g.lines) > 0 {
		t.b.WriteString("\n")
		g.write(&t.b, t.dim, t.dim)
	}
	if hidden > 0 {
		t.text(plural(hidden, "stage", "stages")+" without a difference worth showing", t.dim, "  ", "  ")
	}
}

func signed(u timeUnit, ns float64) string {
	s := digits(ns / u.ns)
	if s != "0" && ns > 0 {
		return "+" + s
	}
	return s
}

func ratioText(d *analysis.Delta, dots string) string {
	if d.Ratio == nil {
		return ""
	}
	s := ", " + digits(*d.Ratio) + "x"
	if d.RatioLo != nil && d.RatioHi != nil {
		s += " (" + digits(*d.RatioLo) + dots + digits(*d.RatioHi) + ")"
	}
	return s
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
