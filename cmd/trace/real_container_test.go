//go:build linux

package main

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"stagetrace/analysis"
	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

func TestRealBuiltin(t *testing.T) {
	requireRecording(t)
	r, res := measured(t, "--workload", "container-start", "--target", "builtin", "-p", "network=none,bridge,host",
		"--warmup", "2", "--runs", "5", "--untraced", "2")
	checkSums(t, res)
	for _, network := range []string{"none", "bridge", "host"} {
		ops := ofTarget(res, network)
		if len(ops) != 5 {
			t.Fatalf("%s: %d operations", network, len(ops))
		}
		checkNamed(t, ops, 0.03)
	}
	r.checkPaths(t, "container")
	r.checkNothingLeft(t)
}

func TestRealRunc(t *testing.T) {
	requireRecording(t)
	tracetest.RequireRunc(t)
	r, res := measured(t, "--workload", "container-start", "--target", "runc", "-p", "network=none",
		"--warmup", "2", "--runs", "5", "--untraced", "2")
	checkSums(t, res)
	if len(res.Operations) != 5 {
		t.Fatalf("%d operations", len(res.Operations))
	}
	checkNamed(t, ofTarget(res), 0.05)
	r.checkPaths(t, "container")
	r.checkNothingLeft(t)
}

// TestRealDocker measures the Engine API and the CLI, without and with a
// network, in one run; what is said of a start with the CLI on a bridge is
// looked for in it.
func TestRealDocker(t *testing.T) {
	requireRecording(t)
	tracetest.RequireDocker(t)
	_, err := exec.LookPath("docker")
	tracetest.Require(t, "docker", err)
	r, res := measured(t, "--workload", "container-start", "--target", "docker", "-p", "path=api,cli", "-p", "network=none,bridge",
		"--warmup", "2", "--runs", "10", "--untraced", "2")
	checkSums(t, res)
	for _, p := range []string{"api", "cli"} {
		for _, network := range []string{"none", "bridge"} {
			ops := ofTarget(res, p, network)
			if len(ops) != 10 {
				t.Fatalf("%s, %s: %d operations", p, network, len(ops))
			}
			checkNamed(t, ops, 0.05)
		}
	}
	t.Run("stages", func(t *testing.T) { checkContainerStages(t, ofTarget(res, "cli", "bridge")) })
	t.Run("grace periods", func(t *testing.T) { checkGracePeriods(t, ofTarget(res, "cli", "bridge")) })
	t.Run("bridge against none", func(t *testing.T) { r.checkNetworkDifference(t, res, "docker/cli/none", "docker/cli/bridge") })
	t.Run("orders", func(t *testing.T) {
		checkDearer(t, res, "docker/api/none", "docker/cli/none")
		checkDearer(t, res, "docker/api/bridge", "docker/cli/bridge")
		checkDearer(t, res, "docker/api/none", "docker/api/bridge")
		checkDearer(t, res, "docker/cli/none", "docker/cli/bridge")
	})
	t.Run("itself", func(t *testing.T) { r.checkAgainstItself(t) })
	t.Run("benchfmt", func(t *testing.T) { r.checkBenchfmt(t, res) })
	t.Run("paths", func(t *testing.T) { r.checkPaths(t, "container") })
	t.Run("pprof", func(t *testing.T) { r.checkProfiles(t, res) })
	t.Run("symbols", func(t *testing.T) { r.checkSymbols(t) })
	t.Run("nothing left", func(t *testing.T) { r.checkNothingLeft(t) })
}

// containerSteps are the steps of a container start that must have names: the
// patterns of their stages. A container's program that only exits ends while
// the daemon is still at work on its start: it may be off the path.
var containerSteps = []struct {
	step    string
	stages  []string
	onPath  bool
	offPath bool
}{
	{"client start", []string{"client.start"}, true, false},
	{"api", []string{"api.request"}, true, false},
	{"rootfs and snapshot", []string{"rootfs.prepare"}, true, false},
	{"state persist", []string{"state.persist"}, true, false},
	{"shim spawn", []string{"shim.start"}, true, false},
	{"runtime exec", []string{"runtime.start"}, true, false},
	{"namespace set-up", []string{"ns.*"}, true, false},
	{"cgroup set-up", []string{"cgroup.create", "cgroup.attach", "cgroup.config"}, true, false},
	{"mounts and pivot", []string{"mount.new", "mount.pivot", "mount.umount", "mount.overlay"}, true, false},
	{"network set-up", []string{"hook.network"}, true, false},
	{"security", []string{"security.*"}, true, false},
	{"container process", []string{"container.run"}, false, false},
	{"exit notice", []string{"exit.notice"}, true, false},
	{"runtime delete", []string{"runtime.delete"}, true, false},
	{"veth teardown", []string{"net.link.delete"}, true, false},
	{"rootfs removal", []string{"rootfs.remove"}, true, false},
	{"client exit", []string{"client.exit"}, true, false},
	{"netns cleanup", []string{"netns.cleanup"}, false, true},
}

func checkContainerStages(t *testing.T, ops []*analysis.OperationResult) {
	t.Logf("%-20s %-14s %-16s", "", "on the path", "off the path")
	for _, s := range containerSteps {
		is := func(name string) bool {
			return slices.ContainsFunc(s.stages, func(p string) bool { ok, err := path.Match(p, name); return ok && err == nil })
		}
		var on, off []int64
		for _, op := range ops {
			x, y := stageNs(op, is)
			if x > 0 {
				on = append(on, x)
			}
			if y > 0 {
				off = append(off, y)
			}
		}
		largest := func(v []int64) float64 { return float64(slices.Max(append(v, 0))) / 1e6 }
		t.Logf("%-20s %2d  %8.3f ms %2d  %8.3f ms", s.step, len(on), largest(on), len(off), largest(off))
		if len(on) == 0 && (s.onPath || len(off) == 0 && !s.offPath) {
			t.Errorf("%s: none of %d operations has %v", s.step, len(ops), s.stages)
		}
		if s.offPath && len(off) == 0 {
			t.Errorf("%s: none of %d operations has %v off the path", s.step, len(ops), s.stages)
		}
	}
}

// checkGracePeriods wants waits for RCU under the names of what the waiter
// did, and only there.
func checkGracePeriods(t *testing.T, ops []*analysis.OperationResult) {
	waited := map[string]int64{}
	for _, op := range ops {
		for _, s := range op.Stages {
			for w, ns := range s.Waits {
				if !strings.HasPrefix(w, "rcu.") {
					continue
				}
				waited[s.Name] += ns
				if s.Name == "rcu.worker" || s.Name == analysis.StageOther || s.Name == analysis.StageUnknown {
					t.Errorf("operation %d: %d ns of %s are part of %s", op.Index, ns, w, s.Name)
				}
			}
		}
	}
	t.Logf("ns waited for grace periods, by stage: %v", waited)
	for _, stage := range []string{"net.link.delete", "net.link.move_ns"} {
		if waited[stage] == 0 {
			t.Errorf("%s never waited for a grace period", stage)
		}
	}
}

// checkPaths holds what is true of every path against the events behind it.
func (r *realRun) checkPaths(t *testing.T, set string) {
	t.Helper()
	followed := 0
	r.eachOperation(t, set, func(op *analysis.Operation) {
		for i := range op.Path.Segments {
			s := &op.Path.Segments[i]
			if s.Task > 0 && strings.HasPrefix(op.Trace.Tasks[s.Task].Comm, "rcu_") {
				t.Errorf("operation %d: %s at +%d us is on the path for %d us", op.Index, op.Trace.Tasks[s.Task].Comm, (s.Begin-op.Begin)/1000, (s.End-s.Begin)/1000)
			}
		}
		followed += checkFollowed(t, op)
	})
	if followed == 0 {
		t.Error("no step of any path goes from a sleeper to who woke it")
	}
	t.Logf("%d steps to wakers", followed)
}

// checkFollowed wants that every step from a sleeper to another task goes to
// one that woke it itself, or whose softirq ran inline: a task that was only
// interrupted did not. Who sleeps on a timer of its own while other threads of
// the same process work (a runtime's monitor) is left for one of those, which
// may well be what the timer's interrupt met. It gives the number of steps that
// end at a wake.
func checkFollowed(t *testing.T, op *analysis.Operation) (n int) {
	t.Helper()
	last := map[int32]*analysis.Segment{} // of each link: the segment that its wake ended
	for i := range op.Path.Segments {
		if s := &op.Path.Segments[i]; s.Link >= 0 {
			last[s.Link] = s
		}
	}
	type wake struct {
		at     tracer.Time
		waiter tracer.TaskID
		waker  tracer.TaskID
	}
	real, bystander := map[wake]bool{}, map[wake]bool{}
	for i := range op.Trace.Events {
		e := &op.Trace.Events[i]
		if e.Kind != tracer.KindWake || e.Time < op.Begin || e.Time > op.End {
			continue
		}
		w := wake{e.Time, e.Peer, e.Task}
		if e.Ctx == tracer.CtxTask || e.Flags&tracer.FlagInline != 0 {
			real[w] = true
		} else {
			bystander[w] = true
		}
	}
	for link, s := range last {
		w := wake{s.End, op.Path.Links[link].Waiter, s.Task}
		if bystander[w] && !real[w] && op.Trace.Leader(w.waiter) != op.Trace.Leader(w.waker) {
			t.Errorf("operation %d: at +%d us %s woke %s while an interrupt ran on top of it, and is followed", op.Index,
				(s.End-op.Begin)/1000, op.Trace.Tasks[s.Task].Comm, op.Trace.Tasks[w.waiter].Comm)
		}
		if real[w] {
			n++
		}
	}
	return n
}

// checkDearer wants an order that holds on every machine: the dearer target is
// never surely the cheaper one.
func checkDearer(t *testing.T, res *analysis.Result, cheap, dear string) {
	t.Helper()
	c, ok := analysis.CompareTargets(res, cheap, dear)
	if !ok {
		t.Fatalf("%s and %s are not both in the result", cheap, dear)
	}
	t.Logf("%s against %s: %+.1f ms, %s", dear, cheap, c.Wall.Difference/1e6, c.Wall.Verdict)
	if c.Wall.Significant && c.Wall.Difference < 0 {
		t.Errorf("%s is the cheaper one", dear)
	}
}
