package reports

import (
	"fmt"
	"io"
	"strings"

	"stagetrace/analysis"
)

// markdownWriter renders tables in GitHub's Markdown.
type markdownWriter struct{ b strings.Builder }

func writeMarkdown(w io.Writer, in *Input) error {
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	m := &markdownWriter{}
	vs := views(r, in.Wide)
	m.line("## %s", title(r, cleanMarkdown))
	m.line("")
	for _, l := range losses(r) {
		m.line("> **%s**", l)
		m.line("")
	}
	m.warnings(warningsWhere(r, true))
	m.endToEnd(vs)
	m.comparisons(pairsOf(r), in.Wide)
	for i := range vs {
		m.target(&vs[i])
	}
	m.footer(r)
	_, err := io.WriteString(w, m.b.String())
	return err
}

func (m *markdownWriter) line(format string, args ...any) {
	fmt.Fprintf(&m.b, format+"\n", args...)
}

func (m *markdownWriter) row(cells ...string) {
	m.line("| %s |", strings.Join(cells, " | "))
}

func (m *markdownWriter) endToEnd(vs []targetView) {
	if len(vs) == 0 {
		m.line("No operation was measured.")
		m.line("")
		return
	}
	m.row("target", "median", "95 % interval", "p95", "p99", "n", "measured", "ratio")
	m.row(":--", "--:", ":-:", "--:", "--:", "--:", ":--", "--:")
	for i := range vs {
		d, how, ratio := &vs[i].Wall, "traced", ratioToFirst(vs, i)
		if vs[i].Untraced {
			how = "untraced"
		}
		if vs[i].Imported != "" {
			how = "imported"
		}
		if i == 0 {
			ratio = "1"
		}
		name := orNone(cleanMarkdown(vs[i].Target))
		if d.N == 0 {
			m.row(name, "", "", "", "", "0", how, "")
			continue
		}
		m.row(name, duration(d.Median), durationInterval(d.Lo, d.Hi, " .. "), tail(d.P95, d.N, 20), tail(d.P99, d.N, 100), count(float64(d.N)), how, ratio)
	}
	m.line("")
}

func (m *markdownWriter) target(v *targetView) {
	m.line("### %s", orNone(cleanMarkdown(v.Target)))
	m.line("")
	if v.N == 0 {
		m.line("%s.", sentence(cleanMarkdown(noStages(v))))
		m.line("")
		m.metrics(v)
		return
	}
	for _, l := range []string{ofTraced(v.Summary, " .. "), coldStart(v.Summary)} {
		if l != "" {
			m.line("%s", l)
			m.line("")
		}
	}
	u := v.Unit
	m.row("share", "stage", "median "+u.name, "95 % interval", "running", "runnable", "blocked", gainHead, "off path", "count", "blocked on")
	m.row("--:", ":--", "--:", ":-:", "--:", "--:", "--:", "--:", "--:", "--:", ":--")
	for i := range v.Rows {
		r := &v.Rows[i]
		median, interval := "", ""
		if r.Folded == 0 {
			median, interval = u.cell(r.Median), u.interval(r.Lo, r.Hi, " .. ")
		}
		m.row(hundredths(r.Share)+" %", cleanMarkdown(r.Name), htmlLess(median), interval, htmlLess(u.cell(r.RunningNs)), htmlLess(u.cell(r.RunnableNs)),
			htmlLess(u.cell(r.BlockedNs)), htmlLess(v.gain(r)), htmlLess(u.cell(r.OffPathNs)), count(r.Count), htmlLess(waitText(&r.StageSummary, 3, cleanMarkdown)))
	}
	m.row("**"+hundredths(v.Total)+" %**", "**total**", "**"+u.cell(v.Traced.Median)+"**", u.interval(v.Traced.Lo, v.Traced.Hi, " .. "), "", "", "", "", "", "", "")
	m.line("")
	if v.Small != "" {
		m.line("%s", cleanMarkdown(v.Small))
		m.line("")
	}
	for _, l := range append(gainNotes(v, cleanMarkdown), scenarioText(v, " .. ", cleanMarkdown)...) {
		m.line("%s.", sentence(l))
		m.line("")
	}
	m.offPath(v)
	m.metrics(v)
	m.line("Tracing: %s.", tracingCost(v.Summary, " .. "))
	m.line("")
}

func (m *markdownWriter) offPath(v *targetView) {
	rows := v.offRows(false)
	if len(rows) == 0 {
		return
	}
	u := v.Unit
	m.row("off the path", u.name, "CPU", "after end", "count")
	m.row(":--", "--:", "--:", "--:", "--:")
	for i := range rows {
		s := &rows[i]
		m.row(cleanMarkdown(s.Name), htmlLess(u.cell(offPathNs(s))), htmlLess(u.cell(s.CPUNs)), htmlLess(u.cell(s.AfterEndNs)), count(s.Count))
	}
	m.line("")
}

func (m *markdownWriter) metrics(v *targetView) {
	if len(v.Metrics) == 0 {
		return
	}
	m.row("beside time", "median", "95 % interval", "n")
	m.row(":--", "--:", ":-:", "--:")
	for i := range v.Metrics {
		s := &v.Metrics[i]
		m.row(cleanMarkdown(s.Name), cleanMarkdown(quantity(s.Value.Median, s.Unit)), cleanMarkdown(metricInterval(s, " .. ")), count(float64(s.Value.N)))
	}
	m.line("")
}

func (m *markdownWriter) warnings(ws []analysis.Warning) {
	for _, w := range ws {
		text := "- **Warning:** " + cleanMarkdown(w.Text)
		if w.Hint != "" {
			text += " *" + cleanMarkdown(w.Hint) + "*"
		}
		m.line("%s", text)
	}
	if len(ws) > 0 {
		m.line("")
	}
}

func (m *markdownWriter) footer(r *analysis.Result) {
	m.warnings(warningsWhere(r, false))
	if r.Recording.Backend != "" || r.Recording.Events > 0 {
		m.line("Recorded by %s: %s.", orNone(cleanMarkdown(r.Recording.Backend)), recordingCost(r))
	}
	if h := hostText(r, cleanMarkdown); h != "" {
		m.line("On %s.", h)
	}
	if r.StageSet.Name != "" {
		m.line("Stage set %s %s.", cleanMarkdown(r.StageSet.Name), cleanMarkdown(r.StageSet.Hash))
	}
}

// htmlLess writes our own "<" (too small to show) as text.
func htmlLess(s string) string { return strings.ReplaceAll(s, "<", "&lt;") }
