//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/analysis"
	"stagetrace/tracer/tracetest"
)

// TestRealUprobe counts calls of a program's functions, one of which is
// left by longjmp, and refuses what cannot be probed.
func TestRealUprobe(t *testing.T) {
	requireRecording(t)
	_, err := exec.LookPath("cc")
	tracetest.Require(t, "cc", err)
	program := filepath.Join(t.TempDir(), "calls")
	if out, err := exec.Command("cc", "-O1", "-Wall", "-Werror", "-o", program, "testdata/uprobe.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, res := measured(t, "--warmup", "0", "--runs", "2", "--untraced", "2", "--uprobe", program+":leaf", "--uprobe", program+":oute*", "--", program)
	checkSums(t, res)
	for i := range res.Operations {
		op := &res.Operations[i]
		if len(op.Functions) != 2 {
			t.Fatalf("functions are %+v", op.Functions)
		}
		leaf, outer := op.Functions[0], op.Functions[1]
		if leaf.Name != "leaf" || outer.Name != "outer" || leaf.Calls != 1000 || outer.Calls != 1000 || outer.Ns <= leaf.Ns || outer.Ns > op.WallNs {
			t.Errorf("functions are %+v, wall time %d", op.Functions, op.WallNs)
		}
		if on, _ := stageNs(op, func(name string) bool { return strings.HasPrefix(name, "user.") }); on == 0 {
			t.Error("no time in the functions")
		}
	}
	var calls *analysis.MetricSummary
	for i := range res.Summary[0].Metrics {
		if m := &res.Summary[0].Metrics[i]; m.Name == "calls of leaf" {
			calls = m
		}
	}
	if calls == nil || calls.Value.Median != 1000 {
		t.Errorf("calls of leaf are %+v", calls)
	}

	stripped := program + "-stripped"
	if out, err := exec.Command("cc", "-O1", "-s", "-o", stripped, "testdata/uprobe.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for given, want := range map[string]string{
		program + ":leave":   "is called leave",
		program + ":":        "want FILE:FUNCTION",
		program + ".no:leaf": "want FILE:FUNCTION",
		stripped + ":leaf":   "there is no function leaf",
		binary + ":main.run": "is a Go program",
	} {
		out, err := exec.Command(binary, "run", "--out", filepath.Join(t.TempDir(), "o"), "--uprobe", given, "--", program).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", given, err, out)
		}
	}
}
