package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stagetrace/analysis"
)

func TestParseGate(t *testing.T) {
	total := func(v float64) []analysis.Limit { return []analysis.Limit{{Name: "total", Share: v}} }
	for text, want := range map[string][]analysis.Limit{
		"5%": total(0.05), "0.1": total(0.1), "0": total(0), "": nil, "total=5%": total(0.05),
		"total=5%,netns.cleanup=10%": {{Name: "total", Share: 0.05}, {Name: "netns.cleanup", Share: 0.1}},
	} {
		got, err := parseGate(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v, %v", text, err, diff)
		}
	}
	for _, bad := range []string{"-1", "x", "%", "NaN", "Inf", "=5%", "total=", "5%,total=6%", "5%,"} {
		if _, err := parseGate(bad); exitCode(err) != exitUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// keep writes a result whose operations take the given times, half of it in
// the stages a and b each; extra goes to b.
func keep(t *testing.T, extra int64, walls ...int64) string {
	t.Helper()
	r := analysis.Result{Schema: 1, Workload: "command", Operations: []analysis.OperationResult{}, Untraced: []analysis.UntracedResult{}}
	for i, w := range walls {
		r.Operations = append(r.Operations, analysis.OperationResult{Target: "t", Index: i + 1, WallNs: w + extra,
			Stages: []analysis.StageResult{{Name: "a", Ns: w / 2}, {Name: "b", Ns: w - w/2 + extra}}})
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, resultFile), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCompareGate(t *testing.T) {
	many := []int64{1000, 1010, 1020, 1030, 1040, 1050, 1060, 1070, 1080, 1090}
	base, slower := keep(t, 0, many...), keep(t, 300, many...)
	one, oneSlower := keep(t, 0, 1000), keep(t, 300, 1000)
	for _, c := range []struct {
		name       string
		args       []string
		code       int
		says, errs string
	}{
		{"no gate", []string{base, slower}, 0, "slower", ""},
		{"itself", []string{base, base, "--gate", "0%"}, 0, "no change shown", ""},
		{"total over", []string{base, slower, "--gate", "5%"}, 1, "come from b", "total of t grew by"},
		{"total under", []string{base, slower, "--gate", "50%"}, 0, "", ""},
		{"a stage over", []string{base, slower, "--gate", "total=50%,b=10%"}, 1, "", "b of t grew by"},
		{"another stage", []string{base, slower, "--gate", "a=10%"}, 0, "", ""},
		{"faster", []string{slower, base, "--gate", "5%"}, 0, "faster", ""},
		{"too few", []string{one, oneSlower, "--gate", "5%"}, 0, "cannot tell", "gate: cannot tell"},
		{"no such stage", []string{base, slower, "--gate", "c=5%"}, 0, "", "neither result has a stage c"},
		{"not a gate", []string{base, slower, "--gate", "b="}, 2, "", "not a limit"},
		{"missing", []string{base, filepath.Join(base, "missing")}, 1, "", "missing"},
	} {
		var out, errs bytes.Buffer
		code := run(context.Background(), append([]string{"compare"}, c.args...), &out, &errs)
		if code != c.code || !strings.Contains(out.String(), c.says) || !strings.Contains(errs.String(), c.errs) {
			t.Errorf("%s: exit code %d\n%s%s", c.name, code, out.String(), errs.String())
		}
	}
}
