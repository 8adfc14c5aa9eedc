package analysis

import (
	"slices"
	"sort"

	"stagetrace/analysis/stats"
)

// schemaVersion is that of result.json.
const schemaVersion = 1

// Result completes a document with what the analysis found. base carries what
// the driver knows: host, workload, parameters, untraced operations, warnings.
func (an *Analyzer) Result(base Result) *Result {
	r := base
	r.Schema = schemaVersion
	r.StageSet = StageSet{Name: an.set.Name, Hash: an.set.Hash}
	an.facts.ProgramRunNs += base.Recording.ProgramRunNs
	an.facts.Notes = union(an.facts.Notes, base.Recording.Notes)
	r.Recording = an.facts
	r.Operations = append([]OperationResult{}, an.ops...)
	sort.SliceStable(r.Operations, func(i, j int) bool { return r.Operations[i].Index < r.Operations[j].Index })
	if r.Untraced == nil {
		r.Untraced = []UntracedResult{}
	}
	an.flagFirst(&r)
	r.Summary = []Summary{}
	metrics := append(slices.Clip(r.Metrics), functionMetrics(r.Operations)...)
	for _, t := range targetsOf(&r) {
		s := an.summarise(&r, t)
		s.Metrics = metricsOf(metrics, t)
		r.Summary = append(r.Summary, s)
	}
	r.Totals = an.total(&r)
	r.Processes = append([]Process{}, an.processes...)
	r.Warnings = append(append([]Warning{}, base.Warnings...), an.warnings(&r)...)
	return &r
}

// targetsOf lists the targets in the order in which they were first run.
func targetsOf(r *Result) []string {
	at := map[string]int{}
	note := func(t string, i int) {
		if j, ok := at[t]; !ok || i < j {
			at[t] = i
		}
	}
	for i := range r.Operations {
		note(r.Operations[i].Target, r.Operations[i].Index)
	}
	for i := range r.Untraced {
		note(r.Untraced[i].Target, r.Untraced[i].Index)
	}
	out := make([]string, 0, len(at))
	for t := range at {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return at[out[i]] < at[out[j]] })
	return out
}

// flagFirst finds each target's very first operation, warm-ups included.
func (an *Analyzer) flagFirst(r *Result) {
	for i := range r.Untraced {
		u := &r.Untraced[i]
		if f, ok := an.first[u.Target]; !ok || u.Index < f.index {
			an.first[u.Target] = firstOp{u.Index, u.WallNs}
		}
	}
	for i := range r.Operations {
		r.Operations[i].First = an.first[r.Operations[i].Target].index == r.Operations[i].Index
	}
	for i := range r.Untraced {
		r.Untraced[i].First = an.first[r.Untraced[i].Target].index == r.Untraced[i].Index
	}
}

// summarise makes the statistics of one target. Failed and incomplete
// operations are left out, and the first one where it is clearly a cold start.
func (an *Analyzer) summarise(r *Result, target string) Summary {
	s := Summary{Target: target, Stages: []StageSummary{}, OffPath: []StageSummary{}}
	first := an.first[target]
	s.FirstNs = first.wall
	var traced, untraced []float64
	var ops []*OperationResult
	for i := range r.Operations {
		if o := &r.Operations[i]; o.Target == target && !o.Failed && !o.Incomplete {
			ops = append(ops, o)
		}
	}
	if len(ops) == 0 { // better marked numbers than none
		for i := range r.Operations {
			if o := &r.Operations[i]; o.Target == target {
				ops = append(ops, o)
			}
		}
	}
	if k := coldFirst(ops); k {
		ops = ops[1:]
		s.ColdFirst = true
	}
	for _, o := range ops {
		traced = append(traced, float64(o.WallNs))
	}
	for i := range r.Untraced {
		if u := &r.Untraced[i]; u.Target == target && !u.Failed {
			untraced = append(untraced, float64(u.WallNs))
		}
	}
	s.N = len(ops)
	s.Traced = describe(traced)
	s.Wall = s.Traced
	if len(untraced) > 0 {
		s.Wall, s.Untraced = describe(untraced), true
		if q, ok := stats.Ratio(traced, untraced); ok {
			s.Overhead = &Overhead{Ratio: q.Ratio, Lo: q.Lo, Hi: q.Hi}
		}
	}
	s.Stages = an.stageRows(ops)
	s.OffPath = an.offPathRows(ops)
	off := map[string]float64{}
	for i := range s.OffPath {
		off[s.OffPath[i].Name] = s.OffPath[i].Median
	}
	for i := range s.Stages {
		s.Stages[i].OffPathNs = off[s.Stages[i].Name]
	}
	s.WhatIf = whatIfOf(ops, an.opt.Scenario)
	return s
}

// coldFirst tells that the first of several operations is the target's very
// first and clearly slower than the rest.
func coldFirst(ops []*OperationResult) bool {
	if len(ops) < 5 || !ops[0].First {
		return false
	}
	rest := make([]float64, 0, len(ops)-1)
	for _, o := range ops[1:] {
		rest = append(rest, float64(o.WallNs))
	}
	return stats.FirstDiffers(float64(ops[0].WallNs), rest)
}

func describe(v []float64) Distribution { return Distribution(stats.Describe(v)) }

// stageRows makes the stage table of a target: every stage that any of its
// operations has, by falling mean.
func (an *Analyzer) stageRows(ops []*OperationResult) []StageSummary {
	type acc struct{ ns, run, runq, blk, count []float64 }
	rows := map[string]*acc{StageOther: nil, StageUnknown: nil}
	waits := map[string]map[string]int64{}
	for _, o := range ops {
		for i := range o.Stages {
			rows[o.Stages[i].Name] = nil
		}
	}
	total := 0.0
	for name := range rows {
		rows[name] = &acc{make([]float64, len(ops)), make([]float64, len(ops)), make([]float64, len(ops)), make([]float64, len(ops)), make([]float64, len(ops))}
	}
	for k, o := range ops {
		total += float64(o.WallNs)
		for i := range o.Stages {
			st := &o.Stages[i]
			a := rows[st.Name]
			a.ns[k], a.run[k], a.runq[k], a.blk[k], a.count[k] = float64(st.Ns), float64(st.RunningNs), float64(st.RunnableNs), float64(st.BlockedNs), float64(st.Count)
			for w, ns := range st.Waits {
				if waits[st.Name] == nil {
					waits[st.Name] = map[string]int64{}
				}
				waits[st.Name][w] += ns
			}
		}
	}
	out := make([]StageSummary, 0, len(rows))
	for name, a := range rows {
		d := stats.Describe(a.ns)
		row := StageSummary{Name: name, Title: an.titles[name], Median: d.Median, Lo: d.Lo, Hi: d.Hi, Mean: d.Mean,
			RunningNs: stats.Median(a.run), RunnableNs: stats.Median(a.runq), BlockedNs: stats.Median(a.blk), Count: stats.Median(a.count)}
		if total > 0 {
			row.Share = sum(a.ns) / total
		}
		for w, ns := range waits[name] {
			if row.Waits == nil {
				row.Waits = map[string]int64{}
			}
			row.Waits[w] = ns / int64(len(ops))
		}
		out = append(out, row)
	}
	sort.Slice(out, func(i, j int) bool { return largerFirst(out[i].Mean, out[j].Mean, out[i].Name, out[j].Name) })
	return out
}

// offPathRows makes the table of what went on beside the path.
func (an *Analyzer) offPathRows(ops []*OperationResult) []StageSummary {
	type acc struct{ ns, cpu, after, count []float64 }
	rows := map[string]*acc{}
	for k, o := range ops {
		for i := range o.OffPath {
			st := &o.OffPath[i]
			a := rows[st.Name]
			if a == nil {
				a = &acc{make([]float64, len(ops)), make([]float64, len(ops)), make([]float64, len(ops)), make([]float64, len(ops))}
				rows[st.Name] = a
			}
			a.ns[k], a.cpu[k], a.after[k], a.count[k] = float64(st.Ns), float64(st.CPUNs), float64(st.AfterEndNs), float64(st.Count)
		}
	}
	out := make([]StageSummary, 0, len(rows))
	for name, a := range rows {
		d := stats.Describe(a.ns)
		out = append(out, StageSummary{Name: name, Title: an.titles[name], Median: d.Median, Lo: d.Lo, Hi: d.Hi, Mean: d.Mean,
			CPUNs: stats.Median(a.cpu), AfterEndNs: stats.Median(a.after), Count: stats.Median(a.count)})
	}
	sort.Slice(out, func(i, j int) bool { return largerFirst(out[i].Mean, out[j].Mean, out[i].Name, out[j].Name) })
	return out
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// total adds up the run.
func (an *Analyzer) total(r *Result) Totals {
	t := an.totals
	t.Incomplete = t.Incomplete || r.Totals.Incomplete
	t.LostStacks += r.Totals.LostStacks
	t.Samples = an.facts.Samples
	if an.frames.all > 0 {
		t.UnknownFramesPct = 100 * float64(an.frames.unknown) / float64(an.frames.all)
	}
	var wall, cpu, runq, blk, off []float64
	last := -1
	code := func(index, exit int, failed bool) {
		if failed {
			t.Failed++
		}
		if index > last {
			last, t.ExitCode = index, exit
		}
	}
	for i := range r.Operations {
		o := &r.Operations[i]
		code(o.Index, o.ExitCode, o.Failed)
		var c, q, b, f float64
		for j := range o.Stages {
			c, q, b = c+float64(o.Stages[j].RunningNs), q+float64(o.Stages[j].RunnableNs), b+float64(o.Stages[j].BlockedNs)
		}
		for j := range o.OffPath {
			f += float64(o.OffPath[j].Ns)
		}
		wall, cpu, runq, blk, off = append(wall, float64(o.WallNs)), append(cpu, c), append(runq, q), append(blk, b), append(off, f)
	}
	for i := range r.Untraced {
		code(r.Untraced[i].Index, r.Untraced[i].ExitCode, r.Untraced[i].Failed)
	}
	t.OnCPUNs, t.RunQueueNs, t.BlockedNs, t.OffPathNs = int64(stats.Median(cpu)), int64(stats.Median(runq)), int64(stats.Median(blk)), int64(stats.Median(off))
	t.WallStddevNs = stats.Describe(wall).Stddev
	return t
}
