package analysis

import (
	"slices"
	"strings"

	"stagetrace/tracer"
)

// functionCalls counts the calls of user functions that an operation's
// processes entered while it went on, and the time in them: of a call that had
// not returned, until the end.
func (a *traceAnalysis) functionCalls(p pair) (out []FunctionResult) {
	if !a.ix.users {
		return nil
	}
	type call struct {
		at tracer.Time
		of int
	}
	number := map[tracer.StringID]int{}
	open := map[tracer.TaskID][]call{}
	end := a.tr.Events[p.end].Time
	for i := p.begin; i <= p.end; i++ {
		e := &a.tr.Events[i]
		if e.Class != tracer.ClassUser || e.Task <= 0 {
			continue
		}
		switch st := open[e.Task]; {
		case e.Kind == tracer.KindBegin:
			n, known := number[e.Name]
			if !known {
				n = len(out)
				number[e.Name] = n
				out = append(out, FunctionResult{Name: a.tr.String(e.Name)})
			}
			out[n].Calls++
			open[e.Task] = append(st, call{e.Time, n})
		case e.Kind == tracer.KindEnd && len(st) > 0:
			last := st[len(st)-1]
			out[last.of].Ns += int64(e.Time - last.at)
			open[e.Task] = st[:len(st)-1]
		}
	}
	for _, st := range open {
		for _, c := range st {
			out[c.of].Ns += int64(end - c.at)
		}
	}
	slices.SortFunc(out, func(a, b FunctionResult) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// functionMetrics makes figures of operations' function calls.
func functionMetrics(ops []OperationResult) (out []MetricResult) {
	for i := range ops {
		op := &ops[i]
		if op.Failed || op.Incomplete {
			continue
		}
		for _, f := range op.Functions {
			row := MetricResult{Target: op.Target, Index: op.Index, Traced: true}
			row.Name, row.Value = "calls of "+f.Name, float64(f.Calls)
			out = append(out, row)
			row.Name, row.Unit, row.Value = "a call of "+f.Name, "ns", float64(f.Ns)/float64(f.Calls)
			out = append(out, row)
		}
	}
	return out
}
