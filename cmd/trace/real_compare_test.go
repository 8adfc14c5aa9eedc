//go:build linux

package main

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"stagetrace/analysis"
	"stagetrace/reports"
)

// networkStages are the stages that only a container with a network has: its
// links, addresses and rules, and the kernel's locks and grace periods in them.
var networkStages = []string{"net.*", "hook.network"}

// checkNetworkDifference holds what a run says about two targets, of which only
// next has a network, against what is known: the stages add up to the
// difference, and those of the network are at the top of what surely differs.
func (r *realRun) checkNetworkDifference(t *testing.T, res *analysis.Result, base, next string) {
	c, ok := analysis.CompareTargets(res, base, next)
	if !ok {
		t.Fatalf("%s and %s are not both in the result", base, next)
	}
	checkParts(t, &c)
	var sure, larger []string
	for i := range c.Stages {
		d := &c.Stages[i]
		if d.Part.DifferenceNs <= 0 {
			continue
		}
		larger = append(larger, d.Name)
		if d.Significant {
			sure = append(sure, d.Name)
		}
	}
	if len(sure) == 0 { // too few operations for this machine's noise
		sure = larger
	}
	const top = 5
	network := func(name string) bool {
		return slices.ContainsFunc(networkStages, func(p string) bool { ok, err := path.Match(p, name); return ok && err == nil })
	}
	if !slices.ContainsFunc(sure[:min(len(sure), top)], network) {
		t.Errorf("of %s, which surely take longer with a network, none of the first %d is of the network", strings.Join(sure, ", "), top)
	}
	text := r.stdout.String()
	heading := next + " against " + base + ": "
	_, block, ok := strings.Cut(text, heading)
	if !ok || !strings.Contains(block, " come from ") {
		t.Errorf("the table does not say what makes the difference of %s:\n%s", heading, text)
	}
	block, _, _ = strings.Cut(block, "\n\n  off")
	t.Log("\n" + heading + block)
}

// checkParts: in every column the stages add up to the total, to the
// nanosecond.
func checkParts(t *testing.T, c *analysis.TargetComparison) {
	t.Helper()
	var sum analysis.Part
	for i := range c.Stages {
		p := c.Stages[i].Part
		sum.BaseNs, sum.NewNs, sum.DifferenceNs = sum.BaseNs+p.BaseNs, sum.NewNs+p.NewNs, sum.DifferenceNs+p.DifferenceNs
	}
	if p := c.Traced.Part; sum.BaseNs != p.BaseNs || sum.NewNs != p.NewNs || sum.DifferenceNs != p.DifferenceNs {
		t.Errorf("the stages of %s and %s add up to %+v, the totals are %+v", c.Base, c.New, sum, *p)
	}
}

// checkAgainstItself: a result differs in nothing from itself, and passes a
// gate that allows nothing.
func (r *realRun) checkAgainstItself(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"compare", "--gate", "total=0%,net.link.move_ns=0%", "--format", "json", r.dir, r.dir}, &out, &errs); code != 0 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	if strings.Contains(out.String(), `"significant": true`) {
		t.Error("a result differs from itself")
	}
}

// checkBenchfmt: there is a line for every operation that counts, and for each
// of its target's stages.
func (r *realRun) checkBenchfmt(t *testing.T, res *analysis.Result) {
	var out bytes.Buffer
	f, err := reports.Lookup("benchfmt")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Write(&out, &reports.Input{Result: res}); err != nil {
		t.Fatal(err)
	}
	want := 0
	for i := range res.Summary {
		s := &res.Summary[i]
		ops := ofTarget(res, strings.Split(s.Target, "/")...)
		stages := map[string]bool{}
		for _, op := range ops {
			for j := range op.Stages {
				stages[op.Stages[j].Name] = true
			}
		}
		want += len(ops) * (1 + len(stages))
	}
	for i := range res.Untraced {
		if !res.Untraced[i].Failed {
			want++
		}
	}
	if got := strings.Count(out.String(), "\nBenchmark"); got != want {
		t.Errorf("%d lines, want %d", got, want)
	}
}
