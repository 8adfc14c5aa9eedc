package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/perf/benchfmt"

	"stagetrace/analysis"
)

// writeBenchfmt writes one line per operation and per stage of it, so that
// benchstat can compare runs:
//
//	BenchmarkContainerStart/target=docker/mode=untraced 1 0.412 sec/op
//	BenchmarkContainerStart/target=docker/mode=traced/stage=ns.net 1 0.0123 sec/op 0.004 running-sec/op ...
//
// A stage that only some operations of a target have is 0 in the others, as in
// the table. Failed operations and those that lost events are no measurements.
// How many those were, and where it was measured, stands in comments:
// benchstat compares only what has the same configuration.
func writeBenchfmt(w io.Writer, in *Input) error {
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	if err := benchComments(w, r); err != nil {
		return err
	}
	out := benchfmt.NewWriter(w)
	config := benchConfig(r)
	name := camel(r.Workload)
	write := func(sub string, values ...benchfmt.Value) error {
		return out.Write(&benchfmt.Result{Config: config, Name: benchfmt.Name(name + sub), Iters: 1, Values: values})
	}
	for i := range r.Untraced {
		u := &r.Untraced[i]
		if u.Failed {
			continue
		}
		if err := write("/target="+benchWord(u.Target)+"/mode=untraced", seconds(u.WallNs, "sec/op")); err != nil {
			return err
		}
	}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		mode := "/mode=untraced"
		if m.Traced {
			mode = "/mode=traced"
		}
		if err := write("/target="+benchWord(m.Target)+mode+"/metric="+benchWord(m.Name), metricValue(m)); err != nil {
			return err
		}
	}
	stages := stagesOfTargets(r)
	for i := range r.Operations {
		op := &r.Operations[i]
		if !measures(op) {
			continue
		}
		sub := "/target=" + benchWord(op.Target) + "/mode=traced"
		if err := write(sub, seconds(op.WallNs, "sec/op")); err != nil {
			return err
		}
		for _, s := range withAbsent(op, stages[op.Target]) {
			if err := write(sub+"/stage="+benchWord(s.Name), seconds(s.Ns, "sec/op"), seconds(s.RunningNs, "running-sec/op"),
				seconds(s.RunnableNs, "runnable-sec/op"), seconds(s.BlockedNs, "blocked-sec/op")); err != nil {
				return err
			}
		}
	}
	return nil
}

func seconds(ns int64, unit string) benchfmt.Value {
	return benchfmt.Value{Value: float64(ns) / 1e9, Unit: unit}
}

// metricValue is a metric in benchfmt's units: seconds, and a name for every unit.
func metricValue(m *analysis.MetricResult) benchfmt.Value {
	switch m.Unit {
	case "ns":
		return benchfmt.Value{Value: finite(m.Value) / 1e9, Unit: "sec"}
	case "":
		return benchfmt.Value{Value: finite(m.Value), Unit: "count"}
	}
	return benchfmt.Value{Value: finite(m.Value), Unit: benchUnit(m.Unit)}
}

// benchUnit is a unit without the bytes that would end it.
func benchUnit(s string) string {
	return strings.Map(func(c rune) rune {
		if c <= ' ' || c >= 0x7f || c == '"' {
			return '_'
		}
		return c
	}, s)
}

func measures(op *analysis.OperationResult) bool {
	return !op.Failed && !op.Incomplete && op.LostEvents == 0
}

// stagesOfTargets lists the stages of each target's operations, in the order
// in which they are met.
func stagesOfTargets(r *analysis.Result) map[string][]string {
	out, seen := map[string][]string{}, map[[2]string]bool{}
	for i := range r.Operations {
		op := &r.Operations[i]
		if !measures(op) {
			continue
		}
		for j := range op.Stages {
			name := op.Stages[j].Name
			if k := [2]string{op.Target, name}; !seen[k] {
				seen[k] = true
				out[op.Target] = append(out[op.Target], name)
			}
		}
	}
	return out
}

// withAbsent is an operation's stages and, of those named, those it has not.
func withAbsent(op *analysis.OperationResult, names []string) []analysis.StageResult {
	out := slices.Clone(op.Stages)
	for _, name := range names {
		if !slices.ContainsFunc(op.Stages, func(s analysis.StageResult) bool { return s.Name == name }) {
			out = append(out, analysis.StageResult{Name: name})
		}
	}
	return out
}

// benchConfig is what must be the same where figures are set side by side.
func benchConfig(r *analysis.Result) []benchfmt.Config {
	var out []benchfmt.Config
	for _, c := range []struct{ key, value string }{{"goarch", r.Host.Machine}, {"cpu", r.Host.CPU}} {
		if c.value != "" {
			out = append(out, benchfmt.Config{Key: c.key, Value: []byte(Clean(c.value)), File: true})
		}
	}
	return out
}

// benchComments writes what else is to be known of a result.
func benchComments(w io.Writer, r *analysis.Result) error {
	left := 0
	for i := range r.Operations {
		if op := &r.Operations[i]; op.Incomplete || op.LostEvents > 0 {
			left++
		}
	}
	for _, c := range []struct{ key, value string }{
		{"tool", r.Tool}, {"label", r.Label}, {"workload", r.Workload}, {"host", r.Host.Name}, {"kernel", r.Host.Kernel},
		{"stage-set", strings.TrimSpace(r.StageSet.Name + " " + r.StageSet.Hash)}, {"backend", r.Recording.Backend},
		{"failed-operations", fmt.Sprint(r.Totals.Failed)}, {"lost-events", fmt.Sprint(r.Totals.LostEvents)},
		{"operations-left-out", fmt.Sprint(left)}, {"incomplete", fmt.Sprint(r.Totals.Incomplete)},
	} {
		if c.value == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "# %s: %s\n", c.key, Clean(c.value)); err != nil {
			return err
		}
	}
	return nil
}

// camel makes a benchmark's name: container-start -> ContainerStart.
func camel(s string) string {
	var b strings.Builder
	up := true
	for _, c := range s {
		switch {
		case c == '-' || c == '.' || c == ' ' || c == '_':
			up = true
		case c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c)):
			if up {
				c = unicode.ToUpper(c)
			}
			up = false
			b.WriteRune(c)
		}
	}
	if b.Len() == 0 {
		return "Operation"
	}
	return b.String()
}

// benchWord makes one value of a benchmark's name: bytes that the format gives a
// meaning to become %XX, and so does a dash before a number at the end, which
// would be read as GOMAXPROCS.
func benchWord(s string) string {
	var b strings.Builder
	digitsFrom := len(strings.TrimRight(s, "0123456789"))
	for i := 0; i < len(s); i++ {
		c := s[i]
		plain := c > ' ' && c < 0x7f && !strings.ContainsRune("/=%\"", rune(c))
		if plain && !(c == '-' && i == digitsFrom-1 && digitsFrom < len(s)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}
