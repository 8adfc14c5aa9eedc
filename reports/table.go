package reports

import (
	"io"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"

	"stagetrace/analysis"
)

// Terminal wraps the output of a format for a terminal: colours are reduced to
// what it can show, and removed for NO_COLOR, TERM=dumb and everything that
// is no terminal. environ is as in os.Environ.
func Terminal(w io.Writer, environ []string) io.Writer {
	return colorprofile.NewWriter(w, environ)
}

// plainWidth is the layout for pipes and files: one line per stage, nothing
// left out, for people and for grep alike.
const (
	plainWidth = 140
	allWidth   = 180 // with every column
)

// tableWriter renders the stage table. Without a terminal it is plain ASCII
// (names apart).
type tableWriter struct {
	b                        strings.Builder
	width                    int
	all                      bool
	dots, ellipsis           string
	bar                      []string // eighths of a cell; nil: no bars
	bold, dim, warn, barTint *lipgloss.Style
}

func newTableWriter(in *Input) *tableWriter {
	t := &tableWriter{width: in.Width, all: in.Wide, dots: " .. ", ellipsis: ".."}
	if in.Width <= 0 {
		t.width = plainWidth
		if in.Wide {
			t.width = allWidth
		}
		return t
	}
	style := func(s lipgloss.Style) *lipgloss.Style { return &s }
	t.bold = style(lipgloss.NewStyle().Bold(true))
	t.dim = style(lipgloss.NewStyle().Faint(true))
	t.warn = style(lipgloss.NewStyle().Foreground(lipgloss.Yellow))
	t.barTint = style(lipgloss.NewStyle().Foreground(lipgloss.Cyan))
	if in.ASCII {
		t.bar = []string{"", "", "", "", "#"}
	} else {
		t.dots, t.ellipsis = " – ", "…"
		t.bar = []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"}
	}
	return t
}

func writeTable(w io.Writer, in *Input) error {
	t := newTableWriter(in)
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	vs := views(r, t.all)
	t.text(title(r, Clean), t.bold, "", "  ")
	t.warnings(warningsWhere(r, true))
	for _, l := range losses(r) {
		t.text(l, t.warn, "", "  ")
	}
	if len(vs) == 0 {
		t.text("no operation was measured", nil, "", "")
	}
	if len(vs) > 1 {
		t.b.WriteString("\n")
		t.targets(r, vs)
		t.differences(r)
	}
	for i := range vs {
		t.b.WriteString("\n")
		t.target(&vs[i])
	}
	t.footer(r)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// text writes a paragraph, wrapped, with first and rest as indents.
func (t *tableWriter) text(s string, style *lipgloss.Style, first, rest string) {
	indent := first
	for _, l := range wrap(s, max(t.width-max(len(first), len(rest)), 10)) {
		t.b.WriteString(indent + styled(style, l) + "\n")
		indent = rest
	}
}

// targets is the list of several targets, side by side.
func (t *tableWriter) targets(r *analysis.Result, vs []targetView) {
	var widest float64
	for i := range vs {
		widest = max(widest, vs[i].Wall.Median)
	}
	u := columnUnit(widest)
	g := t.grid(
		column{head: "target", limit: max(8, t.width/3)}, column{head: "median " + u.name, right: true},
		column{head: "95 % interval", right: true, optional: true}, column{head: "n", right: true, optional: true}, column{head: "ratio", right: true},
		column{head: "95 % interval", right: true, optional: true}, column{head: "p", right: true, optional: true})
	ratios := ratiosToFirst(r)
	for i := range vs {
		d := &vs[i].Wall
		ratio := ratioToFirst(vs, i)
		if i == 0 {
			ratio = "1"
		}
		cells := []string{Clean(vs[i].Target), u.cell(d.Median), u.interval(d.Lo, d.Hi, t.dots), count(float64(d.N)), ratio, "", ""}
		if c := ratios[vs[i].Target]; c != nil {
			cells[5], cells[6] = ratioInterval(c, t.dots), pValue(c)
		}
		g.lines = append(g.lines, line{cells: cells})
	}
	g.fitTo(t.width)
	g.write(&t.b, t.dim, t.dim)
}

func (t *tableWriter) grid(cols ...column) *grid {
	return &grid{cols: cols, indent: "  ", gap: "  ", ellipsis: t.ellipsis}
}

func (t *tableWriter) target(v *targetView) {
	name := Clean(v.Target)
	if name == "" {
		name = "(no name)"
	}
	t.text(fit(name, max(t.width/2, 12), t.ellipsis)+": "+endToEnd(&v.Wall, v.Untraced, t.dots), t.bold, "", "  ")
	t.text(ofTraced(v.Summary, t.dots), t.dim, "  ", "  ")
	t.text(coldStart(v.Summary), t.warn, "  ", "  ")
	if v.N == 0 {
		t.text(Clean(noStages(v)), nil, "  ", "  ")
		t.metrics(v)
		return
	}
	t.b.WriteString("\n")
	t.stages(v)
	t.text(v.Small, t.dim, "  ", "    ")
	t.text(medianNote, t.dim, "  ", "  ")
	for _, note := range gainNotes(v, Clean) {
		t.text(note, t.dim, "  ", "    ")
	}
	for _, answer := range scenarioText(v, t.dots, Clean) {
		t.text(answer, nil, "  ", "    ")
	}
	t.offPath(v)
	t.metrics(v)
	t.b.WriteString("\n")
	t.text("tracing: "+tracingCost(v.Summary, t.dots), t.dim, "  ", "    ")
}

// stages picks the widest layout that fits: everything on one line, details
// on a second one, or only the essentials.
func (t *tableWriter) stages(v *targetView) {
	for _, layout := range []func(*targetView) *grid{t.wide, t.gainless, t.narrow, t.tiny} {
		if g := layout(v); g.width() <= t.width {
			g.write(&t.b, t.dim, t.dim)
			return
		}
	}
	t.tiny(v).write(&t.b, t.dim, t.dim)
}

func (t *tableWriter) numbers(v *targetView, row *stageRow) (median, interval, running, runnable, blocked, off string) {
	u := v.Unit
	if row.Folded == 0 {
		median, interval = u.cell(row.Median), u.interval(row.Lo, row.Hi, t.dots)
	}
	return median, interval, u.cell(row.RunningNs), u.cell(row.RunnableNs), u.cell(row.BlockedNs), u.cell(row.OffPathNs)
}

func (t *tableWriter) wide(v *targetView) *grid {
	waits := t.width - 118
	if t.bar != nil {
		waits -= 12
	}
	if v.hasGains() {
		waits -= 9
	}
	waits = max(24, waits)
	g := t.grid(column{head: "share %", right: true}, column{head: "stage", limit: 28}, column{head: "median " + v.Unit.name, right: true},
		column{head: "95 % interval", right: true}, column{head: "running", right: true}, column{head: "runnable", right: true},
		column{head: "blocked", right: true}, column{head: gainHead, right: true}, column{head: "off path", right: true},
		column{head: "count", right: true}, column{head: "blocked on", limit: waits})
	if t.bar != nil {
		g.cols = append(g.cols[:1], append([]column{{head: "", limit: 10}}, g.cols[1:]...)...)
	}
	add := func(cells []string, bar string, style *lipgloss.Style) {
		if t.bar != nil {
			cells = append(cells[:1], append([]string{bar}, cells[1:]...)...)
		}
		g.lines = append(g.lines, line{cells: cells, style: style})
	}
	for i := range v.Rows {
		row := &v.Rows[i]
		m, iv, run, rq, bl, off := t.numbers(v, row)
		add([]string{hundredths(row.Share), Clean(row.Name), m, iv, run, rq, bl, v.gain(row), off, count(row.Count), waitText(&row.StageSummary, 3, Clean)}, styled(t.barTint, t.bars(row.Share, 10)), nil)
	}
	add([]string{hundredths(v.Total), "total", v.Unit.cell(v.Traced.Median), v.Unit.interval(v.Traced.Lo, v.Traced.Hi, t.dots), "", "", "", "", "", "", ""}, "", t.bold)
	if !v.hasGains() {
		return g.without(gainHead)
	}
	return g
}

// gainless is wide without the column that is least missed.
func (t *tableWriter) gainless(v *targetView) *grid { return t.wide(v).without(gainHead) }

func (t *tableWriter) narrow(v *targetView) *grid {
	g := t.grid(column{head: "share %", right: true}, column{head: "stage", limit: 22}, column{head: v.Unit.name, right: true},
		column{head: "95 % interval", right: true}, column{head: "running", right: true}, column{head: "runnable", right: true}, column{head: "blocked", right: true})
	g.gap = " "
	for i := range v.Rows {
		row := &v.Rows[i]
		m, iv, run, rq, bl, off := t.numbers(v, row)
		var more []string
		if w := waitText(&row.StageSummary, 2, Clean); w != "" {
			more = append(more, "on "+w)
		}
		if gain := v.gain(row); strings.HasPrefix(gain, "-") {
			more = append(more, "if free "+gain)
		}
		if row.OffPathNs > 0 {
			more = append(more, "off path "+off)
		}
		detail := ""
		if len(more) > 0 {
			if row.Count > 1 {
				more = append(more, count(row.Count)+"x")
			}
			detail = fit(detailIndent+strings.Join(more, "; "), t.width-2, t.ellipsis)
		}
		g.lines = append(g.lines, line{cells: []string{hundredths(row.Share), Clean(row.Name), m, iv, run, rq, bl}, detail: detail})
	}
	g.lines = append(g.lines, line{style: t.bold, cells: []string{hundredths(v.Total), "total", v.Unit.cell(v.Traced.Median), v.Unit.interval(v.Traced.Lo, v.Traced.Hi, t.dots), "", "", ""}})
	t.addBars(g, v)
	return g
}

// addBars draws the shares at the end of the lines, if there is room, else
// under their numbers.
func (t *tableWriter) addBars(g *grid, v *targetView) {
	if t.bar == nil {
		return
	}
	room := min(t.width-g.width()-len(g.gap), 12)
	if room < 5 {
		for i := range v.Rows {
			bar, l := t.bars(v.Rows[i].Share, len(detailIndent)-1), &g.lines[i]
			under := strings.TrimPrefix(l.detail, detailIndent)
			if under != "" || lipgloss.Width(bar) > 1 { // a little one needs no line of its own
				l.detail = strings.TrimRight(bar+strings.Repeat(" ", len(detailIndent)-lipgloss.Width(bar))+under, " ")
			}
		}
		return
	}
	g.cols = append(g.cols, column{limit: room})
	for i := range g.lines {
		bar := ""
		if i < len(v.Rows) {
			bar = styled(t.barTint, t.bars(v.Rows[i].Share, room))
		}
		g.lines[i].cells = append(g.lines[i].cells, bar)
	}
}

// detailIndent is how far the text under a row is moved in: the share's column.
const detailIndent = "        "

func (t *tableWriter) tiny(v *targetView) *grid {
	g := t.grid(column{head: "share %", right: true}, column{head: "stage", limit: max(8, t.width-22)}, column{head: v.Unit.name, right: true})
	g.gap, g.indent = " ", ""
	for i := range v.Rows {
		row := &v.Rows[i]
		m, _, _, _, _, _ := t.numbers(v, row)
		g.lines = append(g.lines, line{cells: []string{hundredths(row.Share), Clean(row.Name), m}})
	}
	g.lines = append(g.lines, line{style: t.bold, cells: []string{hundredths(v.Total), "total", v.Unit.cell(v.Traced.Median)}})
	return g
}

// bars draws a share (hundredths of a percent) in cells.
func (t *tableWriter) bars(share, cells int) string {
	if t.bar == nil || cells == 0 || share <= 0 {
		return ""
	}
	steps := len(t.bar) - 1
	n := (share*cells*steps + 5000) / 10000
	return strings.Repeat(t.bar[steps], n/steps) + t.bar[n%steps]
}

// offPath is what the operation caused and did not wait for.
func (t *tableWriter) offPath(v *targetView) {
	rows := v.offRows(t.all)
	if len(rows) == 0 {
		return
	}
	u := v.Unit
	g := t.grid(column{head: "off the path", limit: max(8, min(32, t.width-44))}, column{head: u.name, right: true}, column{head: "CPU", right: true, optional: true},
		column{head: "after end", right: true, optional: true}, column{head: "count", right: true, optional: true})
	for i := range rows {
		st := &rows[i]
		g.lines = append(g.lines, line{cells: []string{Clean(st.Name), u.cell(offPathNs(st)), u.cell(st.CPUNs), u.cell(st.AfterEndNs), count(st.Count)}})
	}
	g.fitTo(t.width)
	t.b.WriteString("\n")
	g.write(&t.b, t.dim, t.dim)
}

// metrics is what is known of the operations beside their time.
func (t *tableWriter) metrics(v *targetView) {
	if len(v.Metrics) == 0 {
		return
	}
	g := t.grid(column{head: "beside time", limit: max(8, min(32, t.width-44))}, column{head: "median", right: true, limit: 20},
		column{head: "95 % interval", right: true, optional: true, limit: 42}, column{head: "n", right: true, optional: true})
	for i := range v.Metrics {
		m := &v.Metrics[i]
		g.lines = append(g.lines, line{cells: []string{Clean(m.Name), Clean(quantity(m.Value.Median, m.Unit)), Clean(metricInterval(m, t.dots)), count(float64(m.Value.N))}})
	}
	g.fitTo(t.width)
	t.b.WriteString("\n")
	g.write(&t.b, t.dim, t.dim)
}

func (t *tableWriter) footer(r *analysis.Result) {
	t.b.WriteString("\n")
	if r.Recording.Events > 0 || r.Recording.Backend != "" {
		t.text("recorded by "+orNone(Clean(r.Recording.Backend))+": "+recordingCost(r), t.dim, "", "  ")
	}
	if h := hostText(r, Clean); h != "" {
		t.text("on "+h, t.dim, "", "  ")
	}
	t.warnings(warningsWhere(r, false))
}

func (t *tableWriter) warnings(ws []analysis.Warning) {
	for _, w := range ws {
		t.text(Clean(w.Text), t.warn, "! ", "  ")
		if w.Hint != "" {
			t.text(Clean(w.Hint), nil, "  > ", "    ")
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "(unknown)"
	}
	return s
}
