package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis/stats"
)

// Ids of the warnings about a target that comparisons and headings speak of.
const (
	warnBusy    = "busy-machine"
	warnStorage = "storage-wait"
	warnDrift   = "drift"
)

// Shares of an operation from which waiting for what others use is said.
const (
	busyShare    = 0.1
	storageShare = 0.1
)

// Banner tells that a warning belongs above the figures, not below them: they
// say more about the machine than about what was measured.
func (w *Warning) Banner() bool { return w.ID == warnBusy }

// series is what there is of one target when its warnings are made.
type series struct {
	*Summary
	traced   []*OperationResult // those that count, in run order
	untraced []*UntracedResult
}

// seriesWarnings is the table of what may have to be said of a target.
var seriesWarnings = []func(*Analyzer, *series) (Warning, bool){
	(*Analyzer).coldWarning, (*Analyzer).busyWarning, (*Analyzer).storageWarning,
	(*Analyzer).outlierWarning, (*Analyzer).fewWarning,
}

// warnings says what a reader of the result must know.
func (an *Analyzer) warnings(r *Result) (out []Warning) {
	if r.Totals.LostEvents > 0 {
		out = append(out, Warning{"lost-events", fmt.Sprintf("%d events were lost; the operations in which they were are marked incomplete and left out of the statistics", r.Totals.LostEvents),
			"record less (a higher --sleep-stack, a lower --sample) or end what else floods the machine"})
	}
	if r.Totals.Failed > 0 {
		out = append(out, Warning{"failed-operations", fmt.Sprintf("%d of %d operations failed and are left out of the statistics", r.Totals.Failed, len(r.Operations)+len(r.Untraced)),
			"see exit_code of each in result.json; --show-output lets you see what the command prints"})
	}
	if an.dropped > 0 {
		out = append(out, Warning{"many-processes", fmt.Sprintf("%d processes are not listed", an.dropped), ""})
	}
	all := make([]series, len(r.Summary))
	for i := range r.Summary {
		s := &all[i]
		s.Summary = &r.Summary[i]
		s.traced = counted(r, s.Target)
		for j := range r.Untraced {
			if u := &r.Untraced[j]; u.Target == s.Target && !u.Failed {
				s.untraced = append(s.untraced, u)
			}
		}
		for _, f := range seriesWarnings {
			if w, ok := f(an, s); ok {
				out = append(out, w)
			}
		}
	}
	return append(out, driftWarnings(all)...)
}

func (an *Analyzer) coldWarning(s *series) (Warning, bool) {
	return Warning{"cold-first", fmt.Sprintf("the first operation of %s took %.3g times the median of the rest; it is a cold start and left out of the statistics", s.Target, float64(s.FirstNs)/max(s.Traced.Median, 1)),
		"add warm-up operations (--warmup) if cold starts are not what you measure"}, s.ColdFirst
}

func (an *Analyzer) fewWarning(s *series) (Warning, bool) {
	n := s.Wall.N
	return Warning{"few-operations", fmt.Sprintf("%s: %d operations are too few for an interval of the median", s.Target, n), "--runs 6 or more"}, n > 1 && n < 6
}

// busyWarning: the run queue is a tenth of the operation or more. It names who
// had the CPUs in the meantime.
func (an *Analyzer) busyWarning(s *series) (Warning, bool) {
	share := runnableShare(s.Summary)
	if share <= busyShare {
		return Warning{}, false
	}
	text := fmt.Sprintf("%s waited for a CPU for %.0f %% of its time: the machine is busy, and the times depend on what else ran", s.Target, 100*share)
	if p := an.pressure[s.Target]; p != nil {
		if who := p.preemptors(); who != "" {
			text += "; meanwhile the CPU was had by " + who
		}
	}
	return Warning{warnBusy, text, "measure on an idle machine, or give the workload CPUs of its own"}, true
}

// runnableShare is the part of a target's path spent waiting for a CPU.
func runnableShare(s *Summary) float64 {
	var q float64
	for i := range s.Stages {
		q += s.Stages[i].RunnableNs
	}
	return q / max(s.Traced.Median, 1)
}

// storageWaits are the reasons that say that the path waited for storage.
var storageWaits = []string{"disk", "journal", "writeback"}

// storageWarning: waits for storage are a tenth of the operation or more. It
// names who used the block devices at the time.
func (an *Analyzer) storageWarning(s *series) (Warning, bool) {
	var waited, wall float64
	for _, o := range s.traced {
		wall += float64(o.WallNs)
		for i := range o.Stages {
			for _, w := range storageWaits {
				waited += float64(o.Stages[i].Waits[w])
			}
		}
	}
	if wall == 0 || waited <= storageShare*wall {
		return Warning{}, false
	}
	text := fmt.Sprintf("%s waited for storage for %.0f %% of its time", s.Target, 100*waited/wall)
	if p := an.pressure[s.Target]; p != nil {
		if who := p.diskUsers(); who != "" {
			text += "; meanwhile, per operation, " + who
		}
	}
	return Warning{warnStorage, text, "what others write is in the way of an operation's own flushes: use a device of its own, or a file system in memory, if storage is not what you measure"}, true
}

// timed is one operation of a series, traced or not.
type timed struct {
	index int
	wall  float64
	op    *OperationResult // nil: untraced
}

// walls are the operations that Summary.Wall is of, in run order.
func (s *series) walls() (out []timed) {
	if s.Untraced {
		for _, u := range s.untraced {
			out = append(out, timed{u.Index, float64(u.WallNs), nil})
		}
	} else {
		for _, o := range s.traced {
			out = append(out, timed{o.Index, float64(o.WallNs), o})
		}
	}
	slices.SortFunc(out, func(a, b timed) int { return cmp.Compare(a.index, b.index) })
	return out
}

func values(list []timed) []float64 {
	out := make([]float64, len(list))
	for i := range list {
		out[i] = list[i].wall
	}
	return out
}

// maxOutliers is how many operations a warning names.
const maxOutliers = 5

// outlierWarning names the operations that are far from the others of their
// kind; of a traced one also the stage that took most of what it took more.
func (an *Analyzer) outlierWarning(s *series) (Warning, bool) {
	kinds := [][]timed{s.walls()}
	if s.Untraced {
		var traced []timed
		for _, o := range s.traced {
			traced = append(traced, timed{o.Index, float64(o.WallNs), o})
		}
		kinds = append(kinds, traced)
	}
	var found []timed
	for _, list := range kinds {
		for _, i := range stats.Outliers(values(list)) {
			found = append(found, list[i])
		}
	}
	if len(found) == 0 {
		return Warning{}, false
	}
	slices.SortFunc(found, func(a, b timed) int { return cmp.Compare(a.index, b.index) })
	names := make([]string, 0, maxOutliers+1)
	for _, f := range found[:min(len(found), maxOutliers)] {
		names = append(names, s.outlier(&f))
	}
	if more := len(found) - maxOutliers; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return Warning{"outliers", fmt.Sprintf("%s: far from the median, and kept in the statistics: %s", s.Target, strings.Join(names, ", ")),
		"medians hardly follow them, means and p99 do; see operations in result.json"}, true
}

func (s *series) outlier(t *timed) string {
	if t.op == nil {
		return fmt.Sprintf("operation %d (%.3gx, untraced)", t.index, t.wall/max(s.Wall.Median, 1))
	}
	typical := map[string]float64{}
	for i := range s.Stages {
		typical[s.Stages[i].Name] = s.Stages[i].Median
	}
	name, most, over := "", 0.0, t.wall-s.Traced.Median
	for i := range t.op.Stages {
		st := &t.op.Stages[i]
		if d := float64(st.Ns) - typical[st.Name]; d > most {
			name, most = st.Name, d
		}
	}
	text := fmt.Sprintf("operation %d (%.3gx", t.index, t.wall/max(s.Traced.Median, 1))
	if over > 0 && name != "" {
		text += fmt.Sprintf(", %.0f %% of the excess in %s", 100*min(most/over, 1), name)
	}
	return text + ")"
}

// driftWarnings says which series rise or fall while they are measured: their
// medians are of no one state. The p-values are adjusted for looking at every
// target.
func driftWarnings(all []series) (out []Warning) {
	ps, taus := make([]*float64, len(all)), make([]float64, len(all))
	for i := range all {
		if p, tau, ok := stats.Trend(values(all[i].walls())); ok {
			ps[i], taus[i] = &p, tau
		}
	}
	for i, p := range stats.Holm(ps) {
		if p == nil || *p >= alpha {
			continue
		}
		v := values(all[i].walls())
		third := max(len(v)/3, 1)
		before, after := stats.Median(v[:third]), stats.Median(v[len(v)-third:])
		if (after > before) != (taus[i] > 0) { // it rises and falls
			continue
		}
		out = append(out, Warning{warnDrift, fmt.Sprintf("%s drifts: its median went from %.3g ms in the first third of the run to %.3g ms in the last (Mann-Kendall p = %.2g)",
			all[i].Target, before/1e6, after/1e6, *p), "the figures depend on how long was measured: warm up longer, or find out what fills up, heats up or leaks"})
	}
	return out
}
