//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"stagetrace/analysis"
	"stagetrace/tracer/tracetest"
)

// metricValues are a target's values of a metric, of operations with and
// without recording.
func metricValues(res *analysis.Result, target, name string) (values []float64) {
	for _, m := range res.Metrics {
		if m.Target == target && m.Name == name {
			values = append(values, m.Value)
		}
	}
	slices.Sort(values)
	return values
}

// TestRealHTTP serves with every server. The server's own stages are found, and
// nearly all of the time has a name.
func TestRealHTTP(t *testing.T) {
	requireRecording(t)
	for target, most := range map[string]float64{"go": 0.05, "epoll": 0.05, "python": 0.05, "nginx": 0.05, "node": 0.10, "bun": 0.10, "deno": 0.10} {
		t.Run(target, func(t *testing.T) {
			requireTarget(t, "http-serve", target, target)
			r, res := measured(t, "--workload", "http-serve", "--target", target, "-p", "window=200ms", "--warmup", "1", "--runs", "6", "--untraced", "4")
			checkSums(t, res)
			ops := ofTarget(res)
			if len(ops) != 6 {
				t.Fatalf("%d operations, want 6", len(ops))
			}
			checkNamed(t, ops, most)
			for _, stage := range []string{"client.send", "http.read", "http.handler", "http.write"} {
				with := slices.DeleteFunc(slices.Clone(ops), func(op *analysis.OperationResult) bool {
					on, _ := stageNs(op, func(name string) bool { return name == stage })
					return on == 0
				})
				if len(with) < len(ops)/2 {
					t.Errorf("%s is in %d of %d operations", stage, len(with), len(ops))
				}
			}
			rates, errs := metricValues(res, target, "requests"), metricValues(res, target, "errors")
			if len(rates) == 0 || rates[len(rates)/2] <= 0 {
				t.Errorf("%v requests per second", rates)
			}
			if len(errs) == 0 || errs[len(errs)/2] != 0 {
				t.Errorf("%v errors", errs)
			}
			r.checkNothingLeft(t)
		})
	}
}

// TestRealHTTPLeftovers ends runs early, politely and not: neither the server
// nor a worker nor a file stays.
func TestRealHTTPLeftovers(t *testing.T) {
	requireRecording(t)
	requireTarget(t, "http-serve", "node", "node")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			// The traced blocks are short: most lines of progress are of the time between them.
			r := startRun(t, "settle ", "--workload", "http-serve", "--target", "node", "-p", "mode=multi", "-p", "window=50ms",
				"--warmup", "1", "--runs", "10000", "--untraced", "1")
			<-r.lines.seen
			if err := r.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			r.wait(t)
			awaitProcesses(t, filepath.Join(tmp, "stagetrace-http-"))
			var left []string
			for deadline := time.Now().Add(20 * time.Second); ; {
				var err error
				if left, err = filepath.Glob(filepath.Join(tmp, "stagetrace-http-*")); err != nil {
					t.Fatal(err)
				}
				if len(left) == 0 || time.Now().After(deadline) {
					break
				}
				runtime.Gosched()
			}
			if len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestRealHTTPThroughput sets the rates of one interleaved run side by side:
// our load against wrk's, one process against several, and the loads before
// recorded blocks against those before others. "make http-overhead" prints them;
// what is asked for here is what holds on a busy machine too.
func TestRealHTTPThroughput(t *testing.T) {
	requireRecording(t)
	requireTarget(t, "http-serve", "python", "python")
	_, err := exec.LookPath("wrk")
	tracetest.Require(t, "wrk", err)
	_, res := measured(t, "--workload", "http-serve", "--target", "epoll,python", "-p", "window=500ms", "-p", "mode=single,multi", "-p", "generator=builtin,wrk",
		"--warmup", "1", "--runs", "2", "--untraced", "2")
	medians := map[string]float64{}
	var traced, untraced []float64
	for _, s := range res.Summary {
		values := metricValues(res, s.Target, "requests")
		if len(values) == 0 {
			t.Fatalf("%s: no rates", s.Target)
		}
		medians[s.Target] = values[len(values)/2]
		t.Logf("%-40s median %8.0f requests per second", s.Target, medians[s.Target])
	}
	for _, m := range res.Metrics {
		if m.Name != "requests" {
			continue
		}
		if relative := m.Value / medians[m.Target]; m.Traced {
			traced = append(traced, relative)
		} else {
			untraced = append(untraced, relative)
		}
	}
	slices.Sort(traced)
	slices.Sort(untraced)
	ratio := traced[len(traced)/2] / untraced[len(untraced)/2]
	t.Logf("before recorded blocks %.3fx the rate before others", ratio)
	if ratio < 0.67 || ratio > 1.5 {
		t.Errorf("recording changes the throughput: %.3fx", ratio)
	}
	for a, rate := range medians {
		b := strings.Replace(a, "builtin", "wrk", 1)
		if other := medians[b]; b != a && (rate < other/3 || rate > other*3) {
			t.Errorf("%s: %.0f requests per second, %s %.0f", a, rate, b, other)
		}
	}
	// Python runs on one CPU at a time; faster servers share both with the load.
	gain := 0.0
	for _, generator := range []string{"builtin", "wrk"} {
		gain = max(gain, medians["python/multi/"+generator]/medians["python/single/"+generator])
	}
	t.Logf("python: several processes answer %.2fx as many as one", gain)
	if runtime.NumCPU() > 1 && gain < 1.1 {
		t.Errorf("python: several processes answer %.2fx as many requests as one", gain)
	}
}
