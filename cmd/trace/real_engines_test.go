//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"stagetrace/analysis"
	"stagetrace/tracer/tracetest"
	"stagetrace/workloads"
)

// requireTargets asks that targets of container-start can run here, or skips
// the test. Podman gets folders of the test's own.
func requireTargets(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if n == "podman" {
			podmanOfItsOwn(t)
		}
		requireTarget(t, "container-start", n, n)
	}
}

// requireTarget asks that a target can run here, which a feature stands for, or
// skips the test.
func requireTarget(t *testing.T, workload, name, feature string) {
	t.Helper()
	w, _ := workloads.Lookup(workload)
	target, ok := w.LookupTarget(name)
	if !ok {
		t.Fatalf("%s has no target %s", workload, name)
	}
	var err error
	if f := target.Find(t.Context()); !f.OK {
		err = missingTarget(target, f)
	}
	tracetest.Require(t, feature, err)
}

// podmanOfItsOwn has podman keep everything in folders of the test. Podman
// refuses a runroot of more than 50 characters, hence none of t.TempDir.
func podmanOfItsOwn(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "stp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		awaitProcesses(t, dir)
		// Podman may leave its graph mounted over itself. Whether more is left
		// shows in the removal.
		_ = exec.Command("umount", filepath.Join(dir, "graph/overlay")).Run()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	conf := filepath.Join(dir, "storage.conf")
	text := "[storage]\ndriver = \"overlay\"\ngraphroot = \"" + dir + "/graph\"\nrunroot = \"" + dir + "/run\"\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_STORAGE_CONF", conf)
}

// awaitProcesses waits until no process is at work in a folder: conmon has
// podman clean up after a container when it has long been reported as ended.
func awaitProcesses(t *testing.T, dir string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		busy := slices.ContainsFunc(files, func(f string) bool {
			b, err := os.ReadFile(f)
			return err == nil && bytes.Contains(b, []byte(dir))
		})
		if !busy {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes are still at work in %s", dir)
			return
		}
	}
}

// checkNamedAll wants a name for nearly all of the time of every row.
func checkNamedAll(t *testing.T, res *analysis.Result, want int) {
	t.Helper()
	checkSums(t, res)
	if len(res.Summary) == 0 {
		t.Fatal("nothing was measured")
	}
	for _, s := range res.Summary {
		ops := slices.DeleteFunc(ofTarget(res), func(op *analysis.OperationResult) bool { return op.Target != s.Target })
		if len(ops) != want {
			t.Fatalf("%s: %d operations, want %d", s.Target, len(ops), want)
		}
		checkNamed(t, ops, 0.05)
	}
}

// TestRealEngines starts containers with the engines and runtimes that have no
// test of their own, all with the same image.
func TestRealEngines(t *testing.T) {
	requireRecording(t)
	names := []string{"crun", "podman", "containerd"}
	requireTargets(t, names...)
	r, res := measured(t, "--workload", "container-start", "--target", strings.Join(names, ","), "-p", "network=none", "-p", "path=cli",
		"--warmup", "1", "--runs", "3", "--untraced", "1")
	checkNamedAll(t, res, 3)
	for target, stages := range map[string][]string{
		"crun":       {"runtime.start", "cgroup.attach"},
		"podman":     {"engine.compute", "runtime.start", "runtime.init"},
		"containerd": {"client.start", "shim.start", "runtime.start", "runtime.init"},
	} {
		for _, want := range stages {
			total := int64(0)
			for _, op := range ofTarget(res, target) {
				on, _ := stageNs(op, func(name string) bool { return name == want })
				total += on
			}
			if total == 0 {
				t.Errorf("%s: no time in %s", target, want)
			}
		}
	}
	r.checkPaths(t, "container")
	r.checkNothingLeft(t)
}

// TestRealExecAndPause enters and freezes containers of every engine.
func TestRealExecAndPause(t *testing.T) {
	requireRecording(t)
	names := []string{"builtin", "runc", "crun", "docker", "podman", "containerd"}
	requireTargets(t, names...)
	for _, args := range [][]string{
		{"--workload", "container-exec"},
		{"--workload", "container-pause", "-p", "op=pause,unpause"},
	} {
		t.Run(args[1], func(t *testing.T) {
			r, res := measured(t, append(args, "--target", strings.Join(names, ","), "-p", "network=none", "-p", "path=cli",
				"--warmup", "1", "--runs", "2", "--untraced", "1")...)
			checkNamedAll(t, res, 2)
			r.checkNothingLeft(t)
		})
	}
}

// TestRealPrimitives records some of the kernel's building blocks. The stage
// of each is what it does.
func TestRealPrimitives(t *testing.T) {
	requireRecording(t)
	stages := map[string]string{
		"ns-net": "ns.*", "veth-del": "net.link.*", "cgroup2-mkdir": "cgroup.*", "mount-tmpfs": "mount.*", "fork": "proc.*", "fsync": "io.*",
	}
	w, _ := workloads.Lookup("kernel-primitives")
	for name := range stages {
		target, ok := w.LookupTarget(name)
		if !ok {
			t.Fatalf("no target %s", name)
		}
		if f := target.Find(t.Context()); !f.OK {
			t.Skip(f.Why)
		}
	}
	var names []string
	for name := range stages {
		names = append(names, name)
	}
	slices.Sort(names)
	r, res := measured(t, "--workload", "kernel-primitives", "--target", strings.Join(names, ","), "--warmup", "1", "--runs", "5", "--untraced", "2")
	checkNamedAll(t, res, 5)
	for name, pattern := range stages {
		prefix := strings.TrimSuffix(pattern, "*")
		var wall, named []int64
		for _, op := range res.Operations {
			if op.Target != name {
				continue
			}
			on, _ := stageNs(&op, func(stage string) bool { return strings.HasPrefix(stage, prefix) })
			wall, named = append(wall, op.WallNs), append(named, on)
		}
		t.Logf("%-14s median %8.3f ms, of which %.3f ms %s", name, float64(median(wall))/1e6, float64(median(named))/1e6, pattern)
		if 3*median(named) < median(wall) {
			t.Errorf("%s: %d of %d ns are %s", name, median(named), median(wall), pattern)
		}
	}
	r.checkNothingLeft(t)
}

// TestRealHeldKilled kills a run whose container runs all the time: the next
// one takes it away, with the processes in it.
func TestRealHeldKilled(t *testing.T) {
	requireRecording(t)
	for _, target := range []string{"builtin", "podman", "containerd"} {
		t.Run(target, func(t *testing.T) {
			requireTargets(t, target)
			args := []string{"--workload", "container-pause", "--target", target, "-p", "network=none", "-p", "path=cli"}
			killed := startRun(t, measuring, append(args, "--warmup", "1", "--runs", "10000")...)
			<-killed.lines.seen
			if err := killed.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if code := killed.wait(t); code != -1 {
				t.Fatalf("exit code %d", code)
			}
			if len(killed.leftBehind(t)) == 0 {
				t.Error("nothing is left of a run that was killed: there is nothing to remove")
			}
			next, res := measured(t, append(args, "--warmup", "0", "--runs", "1", "--untraced", "1")...)
			checkSums(t, res)
			killed.checkNothingLeft(t)
			next.checkNothingLeft(t)
		})
	}
}
