package reports

import (
	"fmt"
	"io"
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
// Failed operations and those that lost events are no measurements; they are
// counted in the configuration lines.
func writeBenchfmt(w io.Writer, in *Input) error {
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
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
	for i := range r.Operations {
		op := &r.Operations[i]
		if op.Failed || op.Incomplete || op.LostEvents > 0 {
			continue
		}
		sub := "/target=" + benchWord(op.Target) + "/mode=traced"
		if err := write(sub, seconds(op.WallNs, "sec/op")); err != nil {
			return err
		}
		for j := range op.Stages {
			s := &op.Stages[j]
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

func benchConfig(r *analysis.Result) []benchfmt.Config {
	var out []benchfmt.Config
	add := func(key, value string) {
		if value != "" {
			out = append(out, benchfmt.Config{Key: key, Value: []byte(Clean(value)), File: true})
		}
	}
	left := 0
	for i := range r.Operations {
		if op := &r.Operations[i]; op.Incomplete || op.LostEvents > 0 {
			left++
		}
	}
	add("tool", r.Tool)
	add("label", r.Label)
	add("workload", r.Workload)
	add("host", r.Host.Name)
	add("goarch", r.Host.Machine)
	add("kernel", r.Host.Kernel)
	add("cpu", r.Host.CPU)
	add("stage-set", strings.TrimSpace(r.StageSet.Name+" "+r.StageSet.Hash))
	add("backend", r.Recording.Backend)
	add("failed-operations", fmt.Sprint(r.Totals.Failed))
	add("lost-events", fmt.Sprint(r.Totals.LostEvents))
	add("operations-left-out", fmt.Sprint(left))
	add("incomplete", fmt.Sprint(r.Totals.Incomplete))
	return out
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
