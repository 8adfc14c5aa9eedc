package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"stagetrace/analysis"
)

// Names of the two rows that every stage table has: time that no rule claims,
// and time whose cause was not seen.
const (
	otherStage   = analysis.StageOther
	unknownStage = analysis.StageUnknown
)

// foldBelow is the share under which stages are folded into one row, unless
// everything is asked for.
const foldBelow = 0.001

// stageRow is one row of a stage table.
type stageRow struct {
	analysis.StageSummary
	Share  int // hundredths of a percent; those of a table add up to 10000
	At     int // its place in Summary.Stages; -1: it has none
	Folded int // > 0: the row stands for so many small stages, medians are not given
}

// targetView is what table, Markdown and page show of one target.
type targetView struct {
	*analysis.Summary
	Rows  []stageRow
	Small string // the stages of a folded row, by name and mean; "": none
	Total int    // of Share: 10000, or 0 without operations
	Unit  timeUnit
	// Imported says where the figures come from when they are not this run's.
	Imported string
}

func views(r *analysis.Result, all bool) []targetView {
	out := make([]targetView, len(r.Summary))
	for i := range r.Summary {
		out[i] = view(&r.Summary[i], all)
	}
	for _, im := range r.Imported {
		v := view(&analysis.Summary{Target: im.Target + " (imported)", Wall: im.Wall, Untraced: true}, all)
		v.Imported = im.From
		if im.Host != "" {
			v.Imported += ", host " + im.Host
		}
		out = append(out, v)
	}
	return out
}

// sentence begins with a capital letter.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// noStages says why a target has no stage table.
func noStages(v *targetView) string {
	if v.Imported != "" {
		return "measured elsewhere, imported from " + v.Imported + ": no stages"
	}
	return "no stages: no traced operation counts"
}

func view(s *analysis.Summary, all bool) targetView {
	v := targetView{Summary: s, Unit: columnUnit(max(s.Traced.Median, s.Wall.Median))}
	last := [2]stageRow{{At: -1}, {At: -1}}
	last[0].Name, last[1].Name = otherStage, unknownStage
	var folded []analysis.StageSummary
	alone := -1
	for i, st := range s.Stages {
		switch row := (stageRow{StageSummary: st, At: i}); {
		case st.Name == otherStage:
			last[0] = row
		case st.Name == unknownStage:
			last[1] = row
		case !all && st.Share < foldBelow:
			folded, alone = append(folded, st), i
		default:
			v.Rows = append(v.Rows, row)
		}
	}
	if len(folded) == 1 { // a row for one stage says more by its name
		v.Rows, folded = append(v.Rows, stageRow{StageSummary: folded[0], At: alone}), nil
	}
	if len(folded) > 0 {
		v.Rows = append(v.Rows, foldRows(folded))
		v.Small = smallStages(folded, v.Unit)
	}
	v.Rows = append(v.Rows, last[0], last[1])
	fractions := make([]float64, len(v.Rows))
	for i, r := range v.Rows {
		fractions[i] = r.StageSummary.Share
	}
	for i, n := range shares(fractions) {
		v.Rows[i].Share = n
		v.Total += n
	}
	return v
}

func foldRows(small []analysis.StageSummary) stageRow {
	row := stageRow{Folded: len(small), At: -1}
	row.Name = fmt.Sprintf("(%d stages under %s)", len(small), percent(foldBelow))
	for _, st := range small {
		row.StageSummary.Share += st.Share
		row.Mean += st.Mean
		row.RunningNs += st.RunningNs
		row.RunnableNs += st.RunnableNs
		row.BlockedNs += st.BlockedNs
		row.OffPathNs += st.OffPathNs
		row.Count += st.Count
	}
	return row
}

// smallStages names the stages of a folded row: none is lost from sight.
func smallStages(small []analysis.StageSummary, u timeUnit) string {
	names := make([]string, len(small))
	for i, st := range small {
		names[i] = Clean(st.Name) + " " + u.cell(st.Mean)
	}
	return fmt.Sprintf("under %s (mean, %s): %s", percent(foldBelow), u.name, strings.Join(names, ", "))
}

// wait is one reason for being blocked and its share of the stage's time.
type wait struct {
	Reason string
	Share  float64
}

// topWaits are the n largest wait reasons of a stage of at least 5 % of it.
func topWaits(st *analysis.StageSummary, n int) []wait {
	if st.Mean <= 0 {
		return nil
	}
	keys := slices.SortedFunc(maps.Keys(st.Waits), func(a, b string) int {
		return cmp.Or(cmp.Compare(st.Waits[b], st.Waits[a]), cmp.Compare(a, b))
	})
	var out []wait
	for _, k := range keys {
		share := min(float64(st.Waits[k])/st.Mean, 1)
		if len(out) == n || share < 0.05 {
			break
		}
		out = append(out, wait{k, share})
	}
	return out
}

func waitText(st *analysis.StageSummary, n int, clean func(string) string) string {
	parts := []string{}
	for _, w := range topWaits(st, n) {
		parts = append(parts, clean(w.Reason)+" "+percent(w.Share))
	}
	return strings.Join(parts, ", ")
}

// endToEnd is the answer in words: median, interval, tail and count.
func endToEnd(d *analysis.Distribution, untraced bool, dots string) string {
	how := "traced"
	if untraced {
		how = "untraced"
	}
	if d.N == 0 {
		return "no operation that counts"
	}
	s := "median " + duration(d.Median)
	if iv := durationInterval(d.Lo, d.Hi, dots); iv != "" {
		s += " (" + iv + ")"
	}
	switch {
	case d.N == 1:
		s = duration(d.Median) + ", n = 1"
	case d.N < 20:
		s += fmt.Sprintf(", p95 and p99 %s (= max, n = %d)", duration(d.Max), d.N)
	case d.N < 100:
		s += fmt.Sprintf(", p95 %s, p99 %s", duration(d.P95), tail(d.P99, d.N, 100))
	default:
		s += fmt.Sprintf(", p95 %s, p99 %s, n = %d", duration(d.P95), duration(d.P99), d.N)
	}
	return s + ", " + how
}

// ofTraced says what the stages add up to when the answer is of other operations.
func ofTraced(s *analysis.Summary, dots string) string {
	if !s.Untraced || s.Traced.N == 0 {
		return ""
	}
	text := fmt.Sprintf("stages are of %s: median %s", plural(s.Traced.N, "traced operation", "traced operations"), duration(s.Traced.Median))
	if iv := durationInterval(s.Traced.Lo, s.Traced.Hi, dots); iv != "" {
		text += " (" + iv + ")"
	}
	return text
}

// coldStart is the sentence about a first operation that is apart from the rest.
func coldStart(s *analysis.Summary) string {
	if !s.ColdFirst {
		return ""
	}
	return fmt.Sprintf("the first operation took %s: a cold start, not in the statistics", duration(float64(s.FirstNs)))
}

// tail says when a percentile is nothing but the largest value seen.
func tail(v float64, n, need int) string {
	if n >= need {
		return duration(v)
	}
	return fmt.Sprintf("%s (= max, n = %d)", duration(v), n)
}

func durationInterval(lo, hi *float64, dots string) string {
	if lo == nil || hi == nil {
		return ""
	}
	return duration(*lo) + dots + duration(*hi)
}

// losses are the sentences about what is missing in a result; every format
// shows them.
func losses(r *analysis.Result) []string {
	var out []string
	n := len(r.Operations)
	if r.Totals.Incomplete {
		out = append(out, "Incomplete: the run or its recording did not come to its end; figures cover what was recorded.")
	}
	tainted := 0
	for i := range r.Operations {
		if r.Operations[i].LostEvents > 0 || r.Operations[i].Incomplete {
			tainted++
		}
	}
	if r.Totals.LostEvents > 0 || tainted > 0 {
		out = append(out, fmt.Sprintf("Lost: %d events; of %[3]d traced operations %[2]s incomplete, and left out of the statistics where there are others.", r.Totals.LostEvents, verb(tainted), n))
	}
	if r.Totals.Failed > 0 {
		out = append(out, fmt.Sprintf("Failed: %d of %d operations%s.", r.Totals.Failed, n+len(r.Untraced), failedCodes(r)))
	}
	return out
}

// failedCodes names the exit codes of failed operations that have one.
func failedCodes(r *analysis.Result) string {
	codes := map[int]bool{}
	for i := range r.Operations {
		codes[r.Operations[i].ExitCode] = true
	}
	for i := range r.Untraced {
		codes[r.Untraced[i].ExitCode] = true
	}
	delete(codes, 0)
	if len(codes) == 0 {
		return ""
	}
	var texts []string
	for _, c := range slices.Sorted(maps.Keys(codes)) {
		texts = append(texts, strconv.Itoa(c))
	}
	const most = 5
	if more := len(texts) - most; more > 0 {
		texts = append(texts[:most], fmt.Sprintf("%d more", more))
	}
	return " (exit code " + strings.Join(texts, ", ") + ")"
}

// warningsWhere are the warnings that stand above the figures, or those below.
func warningsWhere(r *analysis.Result, above bool) (out []analysis.Warning) {
	for _, w := range r.Warnings {
		if w.Banner() == above {
			out = append(out, w)
		}
	}
	return out
}

func verb(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// tracingCost is the sentence on what measuring cost one target.
func tracingCost(s *analysis.Summary, dots string) string {
	if s.Overhead == nil {
		return "not measured: there are no untraced operations to compare with"
	}
	o := s.Overhead
	text := fmt.Sprintf("traced operations took %sx the untraced time", digits(o.Ratio))
	if o.Lo != nil && o.Hi != nil {
		text += fmt.Sprintf(" (%s%s%s)", digits(*o.Lo), dots, digits(*o.Hi))
	}
	return text
}

// recordingCost is the sentence on the recording as a whole.
func recordingCost(r *analysis.Result) string {
	f := &r.Recording
	parts := []string{plural(int(f.Events), "event", "events")}
	if f.Samples > 0 {
		parts = append(parts, plural(int(f.Samples), "CPU sample", "CPU samples"))
	}
	if r.Totals.LostEvents == 0 {
		parts = append(parts, "none lost")
	} else {
		parts = append(parts, fmt.Sprintf("%d lost", r.Totals.LostEvents))
	}
	if f.ProgramRunNs > 0 {
		parts = append(parts, "kernel programs ran "+duration(float64(f.ProgramRunNs)))
		if f.RecordedNs > 0 {
			parts[len(parts)-1] += " of " + duration(float64(f.RecordedNs)) + " recorded"
		}
	}
	return strings.Join(parts, ", ")
}

// title says what was measured.
func title(r *analysis.Result, clean func(string) string) string {
	t := clean(r.Workload)
	if t == "" {
		t = "run"
	}
	if len(r.Command) > 0 {
		t += ": " + clean(fit(Clean(strings.Join(r.Command, " ")), 200, "..."))
	}
	var ps []string
	for _, k := range slices.Sorted(maps.Keys(r.Params)) {
		ps = append(ps, clean(k)+"="+clean(r.Params[k]))
	}
	if len(ps) > 0 {
		t += "  (" + strings.Join(ps, ", ") + ")"
	}
	if r.Label != "" {
		t += "  [" + clean(r.Label) + "]"
	}
	return t
}

func hostText(r *analysis.Result, clean func(string) string) string {
	h := &r.Host
	parts := []string{}
	for _, p := range []string{h.Name, h.OS, h.Kernel, h.Machine, h.CPU} {
		if p != "" {
			parts = append(parts, clean(p))
		}
	}
	if h.CPUs > 0 {
		parts = append(parts, plural(h.CPUs, "CPU", "CPUs"))
	}
	if h.Memory > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB", float64(h.Memory)/(1<<30)))
	}
	return strings.Join(parts, ", ")
}

// offPathNs is the time of a row of Summary.OffPath: its median, or what the
// row says apart.
func offPathNs(st *analysis.StageSummary) float64 {
	return max(st.Median, st.OffPathNs)
}

// offRows are the rows of work off the path that show something: most
// operations caused some of it.
func (v *targetView) offRows(all bool) []analysis.StageSummary {
	var out []analysis.StageSummary
	for _, st := range v.OffPath {
		if all || worthARow(&st) {
			out = append(out, st)
		}
	}
	return out
}

// worthARow tells that work off the path took any time.
func worthARow(s *analysis.StageSummary) bool {
	return offPathNs(s) > 0 || s.CPUNs > 0 || s.AfterEndNs > 0
}

// medianNote explains why times of a table do not add up and shares do.
const medianNote = "shares are of the time of all operations, times are medians over operations, which need not add up"

// ratioToFirst is a target's median over the first one's; "" when there is none.
func ratioToFirst(vs []targetView, i int) string {
	first := vs[0].Wall.Median
	if i == 0 || first <= 0 || vs[i].Wall.N == 0 || vs[0].Wall.N == 0 {
		return ""
	}
	return digits(vs[i].Wall.Median/first) + "x"
}
