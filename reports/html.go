package reports

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"stagetrace/analysis"
)

//go:embed page/report.tmpl
var pageTemplate string

//go:embed page/report.css
var pageStyle string

// Bounds on what the page lists; the rest is in result.json.
const (
	pageBars      = 600
	pageProcesses = 500
	pageArgs      = 300 // bytes of a process's arguments
)

// page is what the template shows. All strings are clean texts; the template
// escapes them for HTML.
type page struct {
	CSP           string
	CSS           template.CSS
	Title         string
	Started, Host string
	Losses        []string
	Warnings      []pageWarning
	Targets       []pageTarget
	Processes     []pageProcess
	ProcessesNote string
	Facts         []pageFact
}

type pageWarning struct{ Text, Hint string }

type pageFact struct{ Name, Value string }

type pageTarget struct {
	Name, Median, Interval, P95, P99, N, Ratio string
	EndToEnd, Traced, Cold, Largest, Cost      string
	Unit, Total, TotalMedian, TotalInterval    string
	Stages                                     []pageStage
	OffPath                                    []pageOff
	Runs                                       []pageRun
	RunsMax, RunsNote, Note, NoStages          string
	RunsWidth                                  int
}

type pageStage struct {
	Name, Title, Share, Median, Interval, Running, Runnable, Blocked, Waits, Off, Count string
	Run, Queue, BlockAt, Block                                                          string // of 1000, the largest stage
}

type pageOff struct{ Name, Off, CPU, AfterEnd, Count string }

type pageRun struct{ Class, X, Y, Height, Label string }

type pageProcess struct {
	PID, Parent           int32
	Comm, Role, Exe, Args string
}

// writeHTML writes one page that needs nothing else: no script, no network,
// and a policy that would refuse both.
func writeHTML(w io.Writer, in *Input) error {
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	t, err := template.New("report").Parse(pageTemplate)
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(pageStyle))
	p := &page{
		CSP: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
		CSS: template.CSS(pageStyle), Title: title(r, Clean), Started: Clean(r.Started), Host: hostText(r, Clean), Losses: losses(r),
	}
	vs := views(r, true)
	for i := range vs {
		p.Targets = append(p.Targets, pageOfTarget(r, vs, i))
	}
	for _, x := range r.Warnings {
		p.Warnings = append(p.Warnings, pageWarning{Clean(x.Text), Clean(x.Hint)})
	}
	p.processes(r)
	p.facts(r)
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func pageOfTarget(r *analysis.Result, vs []targetView, i int) pageTarget {
	v := &vs[i]
	d, u := &v.Wall, v.Unit
	t := pageTarget{Name: orNone(Clean(v.Target)), N: strconv.Itoa(d.N), Ratio: ratioToFirst(vs, i), EndToEnd: endToEnd(d, v.Untraced, " – "),
		Cost: tracingCost(v.Summary, " – "), Cold: coldStart(v.Summary), Unit: u.name, Note: strings.TrimSpace(v.Small + " " + medianNote), Total: hundredths(v.Total)}
	if i == 0 {
		t.Ratio = "1"
	}
	if d.N > 0 {
		t.Median, t.Interval = duration(d.Median), durationInterval(d.Lo, d.Hi, " – ")
		t.P95, t.P99 = tail(d.P95, d.N, 20), tail(d.P99, d.N, 100)
	}
	t.runs(r, v.Target)
	for i := range v.OffPath {
		s := &v.OffPath[i]
		t.OffPath = append(t.OffPath, pageOff{Clean(s.Name), u.cell(offPathNs(s)), u.cell(s.CPUNs), u.cell(s.AfterEndNs), count(s.Count)})
	}
	if v.N == 0 {
		t.NoStages = sentence(Clean(noStages(v)))
		return t
	}
	t.Traced = ofTraced(v.Summary, " – ")
	t.TotalMedian, t.TotalInterval = u.cell(v.Traced.Median), u.interval(v.Traced.Lo, v.Traced.Hi, " – ")
	t.stages(v)
	return t
}

func (t *pageTarget) stages(v *targetView) {
	var largest int
	for i := range v.Rows {
		largest = max(largest, v.Rows[i].Share)
	}
	u := v.Unit
	var names []string
	for i := range v.Rows {
		row := &v.Rows[i]
		s := pageStage{Name: Clean(row.Name), Title: Clean(row.Title), Share: hundredths(row.Share), Median: u.cell(row.Median), Interval: u.interval(row.Lo, row.Hi, " – "),
			Running: u.cell(row.RunningNs), Runnable: u.cell(row.RunnableNs), Blocked: u.cell(row.BlockedNs), Waits: waitText(&row.StageSummary, 3, Clean), Off: u.cell(row.OffPathNs), Count: count(row.Count)}
		s.bar(row, largest)
		t.Stages = append(t.Stages, s)
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
