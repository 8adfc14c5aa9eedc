package reports

import (
	"cmp"
	"encoding/csv"
	"io"
	"maps"
	"slices"
	"strconv"

	"stagetrace/analysis"
)

// csvHeader: kind is "path" (a stage on the critical path; ns of one
// operation's rows add up to wall_ns), "off_path" (work it did not wait for),
// "if_free" and "if_half" (ns: how much shorter it would be if the stage took no
// time, or half), "what_if" (a stage of the path in the scenario that was asked
// for; ns of one operation's rows add up to the wall time it would have),
// "untraced" (an operation measured with nothing attached, no stage), "metric" (a
// figure of an operation beside its time: its name for a stage, value, unit) or "run"
// (the last row: whether anything failed, was lost or is missing in all of it).
var csvHeader = []string{
	"target", "operation", "kind", "stage", "ns", "running_ns", "runnable_ns", "blocked_ns", "cpu_ns", "after_end_ns", "count",
	"top_wait", "top_wait_ns", "wall_ns", "units", "failed", "exit_code", "lost_events", "incomplete", "first", "value", "unit",
}

func writeCSV(w io.Writer, in *Input) error {
	out := csv.NewWriter(w)
	rows := [][]string{csvHeader}
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	for i := range r.Operations {
		rows = append(rows, operationRows(&r.Operations[i])...)
	}
	for i := range r.Untraced {
		u := &r.Untraced[i]
		rows = append(rows, []string{cleanCSV(u.Target), strconv.Itoa(u.Index), "untraced", "", "", "", "", "", "", "", "", "", "",
			integer(u.WallNs), "", strconv.FormatBool(u.Failed), strconv.Itoa(u.ExitCode), "0", "false", strconv.FormatBool(u.First), "", ""})
	}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		rows = append(rows, []string{cleanCSV(m.Target), strconv.Itoa(m.Index), "metric", cleanCSV(m.Name), "", "", "", "", "", "", "", "", "",
			"", "", "", "", "", "", "", strconv.FormatFloat(finite(m.Value), 'g', -1, 64), cleanCSV(m.Unit)})
	}
	t := &r.Totals
	rows = append(rows, []string{"", "", "run", "", "", "", "", "", "", "", "", "", "", "", "",
		strconv.FormatBool(t.Failed > 0), strconv.Itoa(t.ExitCode), strconv.FormatUint(t.LostEvents, 10), strconv.FormatBool(t.Incomplete), "", "", ""})
	if err := out.WriteAll(rows); err != nil {
		return err
	}
	return out.Error()
}

func operationRows(op *analysis.OperationResult) (rows [][]string) {
	tail := []string{integer(op.WallNs), strconv.Itoa(op.Units), strconv.FormatBool(op.Failed), strconv.Itoa(op.ExitCode),
		strconv.FormatUint(op.LostEvents, 10), strconv.FormatBool(op.Incomplete), strconv.FormatBool(op.First), "", ""}
	add := func(cells ...string) {
		row := append([]string{cleanCSV(op.Target), strconv.Itoa(op.Index)}, cells...)
		rows = append(rows, append(row, tail...))
	}
	for i := range op.Stages {
		s := &op.Stages[i]
		reason, ns := topWait(s.Waits)
		top := ""
		if reason != "" {
			top = integer(ns)
		}
		add("path", cleanCSV(s.Name), integer(s.Ns), integer(s.RunningNs), integer(s.RunnableNs), integer(s.BlockedNs), "", "", integer(s.Count), cleanCSV(reason), top)
	}
	if len(op.Stages) == 0 { // it is there, though nothing is known of it
		add("path", "", "", "", "", "", "", "", "", "", "")
	}
	for i := range op.OffPath {
		s := &op.OffPath[i]
		add("off_path", cleanCSV(s.Name), integer(s.Ns), "", "", "", integer(s.CPUNs), integer(s.AfterEndNs), integer(s.Count), "", "")
	}
	if op.WhatIf == nil {
		return rows
	}
	only := func(kind, stage string, ns int64) {
		add(kind, cleanCSV(stage), integer(ns), "", "", "", "", "", "", "", "")
	}
	for _, s := range op.WhatIf.Stages {
		only("if_free", s.Name, s.FreeNs)
		only("if_half", s.Name, s.HalfNs)
	}
	if sc := op.WhatIf.Scenario; sc != nil {
		for _, s := range sc.Stages {
			only("what_if", s.Name, s.AfterNs)
		}
	}
	return rows
}

func topWait(waits map[string]int64) (string, int64) {
	keys := slices.SortedFunc(maps.Keys(waits), func(a, b string) int {
		return cmp.Or(cmp.Compare(waits[b], waits[a]), cmp.Compare(a, b))
	})
	if len(keys) == 0 {
		return "", 0
	}
	return keys[0], waits[keys[0]]
}

func integer(n int64) string { return strconv.FormatInt(n, 10) }
