package reports

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"stagetrace/analysis"
)

//go:embed page/*.tmpl
var pageTemplates embed.FS

//go:embed page/report.css
var pageStyle string

//go:embed page/page.js page/timeline.js page/flame.js
var pageScripts embed.FS

// pageScript is the scripts as one, in the order in which they need each other.
func pageScript() string {
	var b strings.Builder
	for _, name := range []string{"page.js", "timeline.js", "flame.js"} {
		text, err := pageScripts.ReadFile("page/" + name)
		if err != nil {
			panic(err) // it is embedded
		}
		b.Write(text)
	}
	return b.String()
}

// Bounds on what the page lists; the rest is in result.json.
const (
	pageBars      = 600
	pageProcesses = 500
	pageArgs      = 300 // bytes of a process's arguments
	pageSmall     = 50  // hundredths of a percent: stages below are folded away
)

// page is what the template shows. All strings are clean texts; the template
// escapes them for HTML.
type page struct {
	CSP           string
	CSS           template.CSS
	Script        template.JS
	Data          *pageData
	Title         string
	Started, Host string
	Losses        []string
	Warnings      []pageWarning
	Targets       []pageTarget
	Spread        pageSpread // end to end, of all targets
	Pairs         []pagePair // of a matrix
	Processes     []pageProcess
	ProcessesNote string
	Facts         []pageFact
}

type pageWarning struct{ Text, Hint string }

type pageFact struct{ Name, Value string }

type pageTarget struct {
	Name, Ratio                           string
	Interval, TotalInterval               interval
	Median, P95, P99, N                   number
	EndToEnd, Traced, Cold, Largest, Cost string
	Unit, Total                           string
	TotalMedian                           number
	Metrics                               []pageMetric
	Stages, Small                         []pageStage // Small: of little share, folded away
	OffPath                               []pageOff
	Spread                                pageSpread // of the stages that are shown
	Runs                                  []pageRun
	RunsMax, RunsNote, Note, NoStages     string
	RunsWidth                             int
}

type pageStage struct {
	Name, Title, Waits                                    string
	Interval                                              interval
	Share, Median, Running, Runnable, Blocked, Off, Count number
	Run, Queue, BlockAt, Block                            string // of 1000, the largest stage
	Spark                                                 string // path of its time by operation, in run order
}

type pageOff struct {
	Name                      string
	Off, CPU, AfterEnd, Count number
}

type pageMetric struct {
	Name, Interval string
	Median, N      number
}

type pageRun struct{ Class, X, Y, Height, Label string }

type pageProcess struct {
	PID, Parent           int32
	Comm, Role, Exe, Args string
}

// number is a figure of the page: its text, and which value of result.json it is.
type number struct{ Raw, From, Text string }

// figure is the value at a place of result.json (a JSON pointer).
func figure(value float64, text, format string, args ...any) number {
	return number{strconv.FormatFloat(finite(value), 'g', -1, 64), fmt.Sprintf(format, args...), text}
}

// interval is two figures; without texts there is none.
type interval struct{ Lo, Hi number }

// between is the interval of the distribution at a place of result.json.
func between(lo, hi *float64, text func(ns float64) string, at string) interval {
	if lo == nil || hi == nil {
		return interval{}
	}
	return interval{figure(*lo, text(*lo), "%s/lo", at), figure(*hi, text(*hi), "%s/hi", at)}
}

// hashed is the source of a policy that allows just this text.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// policy is the content security policy of a page: its own style, and its own
// script if it has one.
func policy(script string) string {
	p := "default-src 'none'; style-src " + hashed(pageStyle)
	if script != "" {
		p += "; script-src " + hashed(script)
	}
	return p + "; base-uri 'none'; form-action 'none'"
}

// writePage writes a page by one of the templates, all of it or nothing.
func writePage(w io.Writer, name string, p any) error {
	t, err := template.ParseFS(pageTemplates, "page/*.tmpl")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, p); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func pageWarnings(ws []analysis.Warning) (out []pageWarning) {
	for _, x := range ws {
		out = append(out, pageWarning{Clean(x.Text), Clean(x.Hint)})
	}
	return out
}

// writeHTML writes one page that needs nothing else: no network, and a policy
// that allows its own style and script alone. Without scripts it has all tables.
func writeHTML(w io.Writer, in *Input) error {
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	drawn, err := drawings(in, r)
	if err != nil {
		return err
	}
	script := pageScript()
	p := &page{
		CSP: policy(script), CSS: template.CSS(pageStyle), Script: template.JS(script), Data: drawn, Title: title(r, Clean), Started: Clean(r.Started), Host: hostText(r, Clean), Losses: losses(r),
	}
	vs := views(r, true)
	for i := range vs {
		p.Targets = append(p.Targets, pageOfTarget(r, vs, i))
	}
	p.Spread = endToEndSpread(r)
	p.Pairs = pagePairs(pairsOf(r), in.Wide)
	p.Warnings = pageWarnings(r.Warnings)
	p.processes(r)
	p.facts(r)
	return writePage(w, "report.tmpl", p)
}

func pageOfTarget(r *analysis.Result, vs []targetView, i int) pageTarget {
	v := &vs[i]
	d, u := &v.Wall, v.Unit
	at := fmt.Sprintf("/summary/%d", i)
	t := pageTarget{Name: orNone(Clean(v.Target)), N: figure(float64(d.N), strconv.Itoa(d.N), "%s/wall/n", at), Ratio: ratioToFirst(vs, i), EndToEnd: endToEnd(d, v.Untraced, " – "),
		Cost: tracingCost(v.Summary, " – "), Cold: coldStart(v.Summary), Unit: u.name, Note: strings.TrimSpace(v.Small + " " + medianNote), Total: hundredths(v.Total)}
	if i == 0 {
		t.Ratio = "1"
	}
	if d.N > 0 {
		t.Median, t.Interval = figure(d.Median, duration(d.Median), "%s/wall/median", at), between(d.Lo, d.Hi, duration, at+"/wall")
		t.P95, t.P99 = figure(d.P95, tail(d.P95, d.N, 20), "%s/wall/p95", at), figure(d.P99, tail(d.P99, d.N, 100), "%s/wall/p99", at)
	}
	if v.Imported != "" { // it is not in the summary
		for _, n := range []*number{&t.N, &t.Median, &t.P95, &t.P99, &t.Interval.Lo, &t.Interval.Hi} {
			n.From = ""
		}
	}
	t.runs(r, v.Target)
	t.beside(v, at)
	if v.N == 0 {
		t.NoStages = sentence(Clean(noStages(v)))
		return t
	}
	t.Traced = ofTraced(v.Summary, " – ")
	t.TotalMedian, t.TotalInterval = figure(v.Traced.Median, u.cell(v.Traced.Median), "%s/traced/median", at), between(v.Traced.Lo, v.Traced.Hi, u.exact, at+"/traced")
	t.stages(r, v, at)
	t.Spread = stageSpread(r, v.Summary, at, t.Stages)
	return t
}

// beside lists what there is beside the path: work off it, and metrics.
func (t *pageTarget) beside(v *targetView, at string) {
	u := v.Unit
	for i := range v.OffPath {
		s := &v.OffPath[i]
		if !worthARow(s) {
			continue
		}
		off, field := offPathNs(s), "median"
		if off != s.Median {
			field = "mean"
		}
		t.OffPath = append(t.OffPath, pageOff{Clean(s.Name), figure(off, u.cell(off), "%s/off_path/%d/%s", at, i, field), figure(s.CPUNs, u.cell(s.CPUNs), "%s/off_path/%d/cpu_ns", at, i),
			figure(s.AfterEndNs, u.cell(s.AfterEndNs), "%s/off_path/%d/after_end_ns", at, i), figure(s.Count, count(s.Count), "%s/off_path/%d/count", at, i)})
	}
	for i := range v.Metrics {
		m := &v.Metrics[i]
		t.Metrics = append(t.Metrics, pageMetric{Clean(m.Name), Clean(metricInterval(m, " – ")),
			figure(m.Value.Median, Clean(quantity(m.Value.Median, m.Unit)), "%s/metrics/%d/value/median", at, i), figure(float64(m.Value.N), strconv.Itoa(m.Value.N), "%s/metrics/%d/value/n", at, i)})
	}
}

func (t *pageTarget) stages(r *analysis.Result, v *targetView, at string) {
	var largest int
	for i := range v.Rows {
		largest = max(largest, v.Rows[i].Share)
	}
	u := v.Unit
	sparks := sparklines(r, v.Target)
	var names []string
	for i := range v.Rows {
		row := &v.Rows[i]
		cell := func(ns float64, text, field string) number {
			if row.At < 0 { // other and unknown stand in every table
				return number{Text: text}
			}
			return figure(ns, text, "%s/stages/%d/%s", at, row.At, field)
		}
		s := pageStage{Name: Clean(row.Name), Title: Clean(row.Title), Share: cell(row.StageSummary.Share, hundredths(row.Share), "share"), Median: cell(row.Median, u.cell(row.Median), "median"),
			Interval: between(row.Lo, row.Hi, u.exact, fmt.Sprintf("%s/stages/%d", at, row.At)), Running: cell(row.RunningNs, u.cell(row.RunningNs), "running_ns"), Runnable: cell(row.RunnableNs, u.cell(row.RunnableNs), "runnable_ns"),
			Blocked: cell(row.BlockedNs, u.cell(row.BlockedNs), "blocked_ns"), Waits: waitText(&row.StageSummary, 3, Clean), Off: cell(row.OffPathNs, u.cell(row.OffPathNs), "off_path_ns"),
			Count: cell(row.Count, count(row.Count), "count"), Spark: sparks[row.Name]}
		s.bar(row, largest)
		if row.Share < pageSmall && len(v.Rows) > 12 && row.Name != otherStage && row.Name != unknownStage {
			t.Small = append(t.Small, s)
		} else {
			t.Stages = append(t.Stages, s)
		}
		if len(names) < 3 && row.Share >= 500 && row.Name != otherStage && row.Name != unknownStage {
			names = append(names, s.Name+" "+percent(float64(row.Share)/1e4))
		}
	}
	t.Largest = strings.Join(names, ", ")
}

// bar splits the stage's share by state.
func (s *pageStage) bar(row *stageRow, largest int) {
	states := finite(row.RunningNs) + finite(row.RunnableNs) + finite(row.BlockedNs)
	if largest <= 0 || states <= 0 {
		s.Run, s.Queue, s.BlockAt, s.Block = "0", "0", "0", "0"
		return
	}
	width := 1000 * float64(row.Share) / float64(largest)
	part := func(ns float64) float64 { return width * finite(ns) / states }
	run, queue := part(row.RunningNs), part(row.RunnableNs)
	s.Run, s.Queue, s.BlockAt, s.Block = coordinate(run), coordinate(queue), coordinate(run+queue), coordinate(part(row.BlockedNs))
}

// sparklines draws each stage's time by operation, in run order, as an SVG path
// in a box of 100 by 20.
func sparklines(r *analysis.Result, target string) map[string]string {
	var ops []*analysis.OperationResult
	for i := range r.Operations {
		if op := &r.Operations[i]; op.Target == target && len(ops) < pageBars {
			ops = append(ops, op)
		}
	}
	paths := map[string]string{}
	if len(ops) < 2 {
		return paths
	}
	times := map[string][]int64{}
	for i, op := range ops {
		for k := range op.Stages {
			name := op.Stages[k].Name
			if times[name] == nil {
				times[name] = make([]int64, len(ops))
			}
			times[name][i] = op.Stages[k].Ns
		}
	}
	for name, ns := range times {
		var b strings.Builder
		most := float64(max(slices.Max(ns), 1))
		for i, v := range ns {
			fmt.Fprintf(&b, "%c%s %s", "ML"[min(i, 1)], coordinate(100*float64(i)/float64(len(ns)-1)), coordinate(19-18*float64(v)/most))
		}
		paths[name] = b.String()
	}
	return paths
}

func coordinate(f float64) string { return strconv.FormatFloat(finite(f), 'f', 1, 64) }

// bar of one operation before it is drawn.
type runBar struct {
	index int
	wall  int64
	class string
	label string
}

// runs draws the operations of a target in the order in which they ran; of
// more than pageBars, the slowest of each group.
func (t *pageTarget) runs(r *analysis.Result, target string) {
	bars := runBars(r, target)
	if group := (len(bars) + pageBars - 1) / pageBars; group > 1 {
		var kept []runBar
		for i := 0; i < len(bars); i += group {
			slowest := bars[i]
			for _, b := range bars[i:min(i+group, len(bars))] {
				if b.wall > slowest.wall {
					slowest = b
				}
			}
			kept = append(kept, slowest)
		}
		bars, t.RunsNote = kept, fmt.Sprintf("each bar is the slowest of %d", group)
	}
	var highest int64
	for _, b := range bars {
		highest = max(highest, b.wall)
	}
	t.RunsMax, t.RunsWidth = duration(float64(highest)), 10*len(bars)
	for i, b := range bars {
		h := 0.0
		if highest > 0 {
			h = 100 * float64(max(b.wall, 0)) / float64(highest)
		}
		t.Runs = append(t.Runs, pageRun{b.class, strconv.Itoa(10*i + 1), coordinate(100 - h), coordinate(h), b.label})
	}
}

func runBars(r *analysis.Result, target string) []runBar {
	var bars []runBar
	for i := range r.Operations {
		op := &r.Operations[i]
		if op.Target != target {
			continue
		}
		b := runBar{op.Index, op.WallNs, "block", fmt.Sprintf("operation %d, traced: %s", op.Index, duration(float64(op.WallNs)))}
		switch {
		case op.LostEvents > 0:
			b.class, b.label = "doubt", b.label+fmt.Sprintf(", %d events lost", op.LostEvents)
		case op.Incomplete:
			b.class, b.label = "doubt", b.label+", incomplete"
		case op.Failed:
			b.class, b.label = "doubt", b.label+fmt.Sprintf(", failed with exit code %d", op.ExitCode)
		}
		bars = append(bars, b)
	}
	for i := range r.Untraced {
		u := &r.Untraced[i]
		if u.Target != target {
			continue
		}
		b := runBar{u.Index, u.WallNs, "run", fmt.Sprintf("operation %d, untraced: %s", u.Index, duration(float64(u.WallNs)))}
		if u.Failed {
			b.class, b.label = "doubt", b.label+fmt.Sprintf(", failed with exit code %d", u.ExitCode)
		}
		bars = append(bars, b)
	}
	return sortedBars(bars)
}
