//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"stagetrace/analysis"
	"stagetrace/analysis/stats"
	"stagetrace/tracer/tracetest"
)

// runtimeTargets are the targets of runtime-start with the feature that CI
// requires, how much of their time may be without a name, and whether they have
// so much to set up that it must be seen.
var runtimeTargets = []struct {
	name, feature string
	most          float64
	heavy         bool
}{{"node", "node", 0.10, true}, {"python", "python", 0.05, true}, {"c", "cc", 0.05, false}, {"go", "go", 0.05, false}, {"ruby", "ruby", 0.05, true},
	{"java", "java", 0.10, true}, {"bun", "bun", 0.10, true}, {"deno", "deno", 0.10, true}}

// TestRealRuntimes starts every runtime that is here: nearly all of its time has
// a name, and its own stages are found.
func TestRealRuntimes(t *testing.T) {
	requireRecording(t)
	for _, c := range runtimeTargets {
		t.Run(c.name, func(t *testing.T) {
			requireTarget(t, "runtime-start", c.name, c.feature)
			r, res := measured(t, "--workload", "runtime-start", "--target", c.name, "--warmup", "1", "--runs", "4", "--untraced", "2")
			checkSums(t, res)
			ops := ofTarget(res)
			checkNamed(t, ops, c.most)
			for _, op := range ops {
				own, _ := stageNs(op, func(name string) bool {
					return slices.Contains([]string{"runtime.init", "runtime.script", "runtime.run", "runtime.exit", "proc.load"}, name)
				})
				if c.heavy && 10*own < op.WallNs {
					t.Errorf("operation %d: %d of %d ns are the runtime's", op.Index, own, op.WallNs)
				}
			}
			r.checkNothingLeft(t)
		})
	}
}

// TestRealRuntimeAgainstHyperfine sets our untraced times beside those of another
// tool, in turns.
func TestRealRuntimeAgainstHyperfine(t *testing.T) {
	requireRecording(t)
	_, err := exec.LookPath("hyperfine")
	tracetest.Require(t, "hyperfine", err)
	dir := t.TempDir()
	script := filepath.Join(dir, "main.py")
	if err := os.WriteFile(script, []byte("print('hello')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	tracetest.Require(t, "python", err)
	program := string(python[:len(python)-1])
	var ours, theirs, ourCPU, theirCPU []float64
	for range 4 {
		_, res := measured(t, "--workload", "runtime-start", "--target", "python", "--warmup", "1", "--runs", "1", "--untraced", "8")
		for _, u := range res.Untraced {
			ours = append(ours, float64(u.WallNs)/1e9)
		}
		ourCPU = append(ourCPU, (metricMedian(res, "user CPU")+metricMedian(res, "system CPU"))/1e9)
		out := filepath.Join(dir, "hyperfine.json")
		if said, err := exec.Command("hyperfine", "-N", "-w", "1", "-r", "8", "--export-json", out, program+" "+script).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var results struct {
			Results []struct {
				Times        []float64
				User, System float64
			}
		}
		if err := json.Unmarshal(text, &results); err != nil || len(results.Results) != 1 {
			t.Fatalf("%v: %s", err, text)
		}
		theirs = append(theirs, results.Results[0].Times...)
		theirCPU = append(theirCPU, results.Results[0].User+results.Results[0].System)
	}
	for _, c := range []struct {
		what         string
		ours, theirs []float64
	}{{"start", ours, theirs}, {"CPU", ourCPU, theirCPU}} {
		a, b := stats.Median(c.ours), stats.Median(c.theirs)
		t.Logf("%s: %.1f ms, hyperfine %.1f ms: %.3fx", c.what, 1e3*a, 1e3*b, a/b)
		if a < b/1.5 || a > b*1.5 { // the machine may be busy for a while
			t.Errorf("%s: %v s, hyperfine has %v s", c.what, a, b)
		}
	}
}

// metricMedian is the median of a metric of the only target.
func metricMedian(res *analysis.Result, name string) float64 {
	for _, m := range res.Summary[0].Metrics {
		if m.Name == name {
			return m.Value.Median
		}
	}
	return 0
}
