//go:build linux

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"stagetrace/tracer/tracetest"
)

// measuring is in the progress lines of a run whose warm-up is over.
const measuring = "traced "

// TestRealSignals stops runs in the middle: what was measured is kept, and
// nothing of what was running stays.
func TestRealSignals(t *testing.T) {
	requireRecording(t)
	signals := []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}}
	for _, target := range []string{"builtin", "docker"} {
		for _, s := range signals {
			t.Run(target+" "+s.signal.String(), func(t *testing.T) {
				if target == "docker" {
					tracetest.RequireDocker(t)
					_, err := exec.LookPath("docker")
					tracetest.Require(t, "docker", err)
				}
				r := startRun(t, measuring, "--workload", "container-start", "--target", target, "--warmup", "1", "--runs", "10000", "--untraced", "2")
				<-r.lines.seen
				if err := r.cmd.Process.Signal(s.signal); err != nil {
					t.Fatal(err)
				}
				if code := r.wait(t); code != s.code {
					t.Errorf("exit code %d, want %d\n%s", code, s.code, r.stderr())
				}
				res := r.result(t)
				checkSums(t, res)
				if !res.Totals.Incomplete || len(res.Operations) == 0 {
					t.Errorf("incomplete %v with %d operations", res.Totals.Incomplete, len(res.Operations))
				}
				warned := false
				for _, w := range res.Warnings {
					warned = warned || w.ID == warnInterrupted
				}
				if !warned {
					t.Errorf("no warning %s: %v", warnInterrupted, res.Warnings)
				}
				t.Logf("%d operations kept", len(res.Operations))
				r.checkNothingLeft(t)
			})
		}
	}
}

// TestRealKilled kills a run that can do nothing about it: the next one takes
// away what is left.
func TestRealKilled(t *testing.T) {
	requireRecording(t)
	killed := startRun(t, measuring, "--workload", "container-start", "--target", "builtin", "-p", "network=bridge", "--warmup", "1", "--runs", "10000")
	<-killed.lines.seen
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := killed.wait(t); code != -1 {
		t.Fatalf("exit code %d", code)
	}
	left := killed.leftBehind(t)
	if len(left) == 0 {
		t.Error("nothing is left of a run that was killed: there is nothing to remove")
	}
	t.Logf("left:\n%s", strings.Join(left, "\n"))
	next, res := measured(t, "--workload", "container-start", "--target", "builtin", "-p", "network=bridge", "--warmup", "0", "--runs", "1", "--untraced", "1")
	checkSums(t, res)
	killed.checkNothingLeft(t)
	next.checkNothingLeft(t)
}
