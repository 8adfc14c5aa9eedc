//go:build amd64 || arm64

package workloads

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// requireEngine skips where the builtin engine cannot run, and fails in CI.
func requireEngine(t *testing.T) {
	t.Helper()
	if f := findBuiltin(t.Context()); !f.OK {
		if os.Getenv("CI") != "" {
			t.Fatal(f.Why)
		}
		t.Skip(f.Why)
	}
}

func newTestEngine(t *testing.T, root string, params Params) *builtin {
	t.Helper()
	requireEngine(t)
	return &builtin{params: params, root: root, program: trueELF(runtime.GOARCH)}
}

// footprint is everything on this machine that an engine could leave: its
// mounts, cgroups, interfaces and state folders.
func footprint(t *testing.T, root string) []string {
	t.Helper()
	var list []string
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, root) {
			list = append(list, "mount "+line)
		}
	}
	hierarchies, err := cgroupMounts()
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for _, m := range hierarchies {
		patterns = append(patterns, filepath.Join(m.dir, statePrefix+"*"))
	}
	// Other tests of this package may be at work: only what bears the name of
	// a folder in root counts.
	names := map[string]bool{}
	states, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states {
		names[filepath.Base(s)] = true
		list = append(list, "folder "+s)
	}
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if owner, err := parseOwner(strings.TrimPrefix(filepath.Base(f), statePrefix)); err != nil || owner.PID == os.Getpid() || names[filepath.Base(f)] {
				list = append(list, "cgroup "+f)
			}
		}
	}
	return list
}

func TestBuiltinLeavesNothing(t *testing.T) {
	for _, p := range []Params{
		{"network": "none", "fsync": "on", "cgroup": "on"},
		{"network": "bridge", "fsync": "on", "cgroup": "on"},
		{"network": "host", "fsync": "on", "cgroup": "on"},
		{"network": "none", "fsync": "off", "cgroup": "off"},
	} {
		t.Run(fmt.Sprintf("%s fsync %s cgroup %s", p["network"], p["fsync"], p["cgroup"]), func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "state")
			e := newTestEngine(t, root, p)
			before := footprint(t, root)
			var dir string
			results, err := Run(t.Context(), []Running{{Target: "builtin", Instance: e}}, Plan{Untraced: 20}, nil, func(s Step) {
				if e.dir != "" {
					dir = e.dir
				}
				if s.Last == nil {
					return
				}
				if s.Last.Err != nil {
					t.Errorf("operation %d: %v", s.Last.Index, s.Last.Err)
				}
				if len(s.Last.Leftovers) > 0 {
					t.Errorf("operation %d left processes: %q", s.Last.Index, s.Last.Leftovers)
				}
				for _, l := range links(t, dir) {
					if filepath.Base(l) != bridgeName(dir) {
						t.Errorf("operation %d left interface %s", s.Last.Index, l)
					}
				}
				if left, _ := os.ReadDir(filepath.Join(dir, containersDir)); len(left) > 0 {
					t.Errorf("operation %d left %v", s.Last.Index, left)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != 20 {
				t.Errorf("%d results, want 20", len(results))
			}
			if after := footprint(t, root); !slices.Equal(before, after) {
				t.Errorf("left behind:\n%s", strings.Join(after, "\n"))
			}
			if l := links(t, dir); len(l) > 0 {
				t.Errorf("left interfaces: %q", l)
			}
			if _, err := os.Stat(root); err == nil {
				t.Errorf("%s is still there", root)
			}
			var ms []string
			for _, r := range results {
				ms = append(ms, fmt.Sprintf("%.1f", float64(r.End-r.Begin)/1e6))
			}
			t.Logf("ms: %s", strings.Join(ms, " "))
		})
	}
}

func TestBuiltinExitCode(t *testing.T) {
	e := newTestEngine(t, filepath.Join(t.TempDir(), "state"), Params{"network": "none"})
	e.program = exitELF(runtime.GOARCH, 3)
	results, err := Run(t.Context(), []Running{{Target: "builtin", Instance: e}}, Plan{Untraced: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0].ExitCode != 3 || results[0].Err == nil {
		t.Errorf("results %+v, want one that failed with exit code 3", results)
	}
}

func TestBuiltinBrokenProgram(t *testing.T) {
	e := newTestEngine(t, filepath.Join(t.TempDir(), "state"), Params{"network": "bridge"})
	e.program = []byte("not a program")
	results, err := Run(t.Context(), []Running{{Target: "builtin", Instance: e}}, Plan{Untraced: 10}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "exec /true") {
		t.Errorf("error %v, want one that names the program", err)
	}
	if len(results) != failuresInARow {
		t.Errorf("%d results, want %d", len(results), failuresInARow)
	}
}

// runEnv makes the test binary, started again, run containers without end.
const runEnv = "STAGETRACE_TEST_ENGINE_ROOT"

func TestBuiltinRunForever(t *testing.T) {
	root := os.Getenv(runEnv)
	if root == "" {
		t.Skip("only as a child of TestBuiltinKilled")
	}
	e := newTestEngine(t, root, Params{"network": "bridge"})
	ctx, cancel := signalContext(t.Context())
	defer cancel()
	_, err := Run(ctx, []Running{{Target: "builtin", Instance: e}}, Plan{Untraced: 1e6}, nil, func(s Step) {
		if s.Last != nil {
			fmt.Println("running")
		}
	})
	if err == nil || ctx.Err() == nil {
		t.Fatalf("ended by itself: %v", err)
	}
}

// startForever starts a copy and returns when it is running containers.
func startForever(t *testing.T, root string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBuiltinRunForever$")
	cmd.Env = append(os.Environ(), runEnv+"="+root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	r := bufio.NewReader(out)
	for range 3 {
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatalf("the copy that runs containers: %v", err)
		}
	}
	go func() { // so that it is not held up
		for {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	return cmd
}

func TestBuiltinKilled(t *testing.T) {
	for _, c := range []struct {
		signal unix.Signal
		clean  bool // it cleans up itself
	}{{unix.SIGKILL, false}, {unix.SIGTERM, true}, {unix.SIGINT, true}} {
		t.Run(c.signal.String(), func(t *testing.T) {
			requireEngine(t)
			root := filepath.Join(t.TempDir(), "state")
			cmd := startForever(t, root)
			states, err := filepath.Glob(filepath.Join(root, statePrefix+"*"))
			if err != nil || len(states) != 1 {
				t.Fatalf("state folders %q, %v; want one", states, err)
			}
			dir := states[0]
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // how it ended is not the question here
			if _, err := os.Stat(dir); (err == nil) == c.clean {
				t.Errorf("state folder after %v: %v", c.signal, err)
			}
			// The next run takes away what is left, and works.
			e := newTestEngine(t, root, Params{"network": "bridge"})
			results, err := Run(t.Context(), []Running{{Target: "builtin", Instance: e}}, Plan{Untraced: 1}, nil, nil)
			if err != nil || len(results) != 1 {
				t.Fatalf("the next run: %d results, %v", len(results), err)
			}
			if l := links(t, dir); len(l) > 0 {
				t.Errorf("interfaces left: %q", l)
			}
			if left := footprint(t, root); len(left) > 0 {
				t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}

func TestBuiltinTwoCopies(t *testing.T) {
	requireEngine(t)
	root := filepath.Join(t.TempDir(), "state")
	other := startForever(t, root)
	states, err := filepath.Glob(filepath.Join(root, statePrefix+"*"))
	if err != nil || len(states) != 1 {
		t.Fatalf("state folders %q, %v; want one", states, err)
	}
	e := newTestEngine(t, root, Params{"network": "bridge"})
	if _, err := Run(t.Context(), []Running{{Target: "builtin", Instance: e}}, Plan{Untraced: 5}, nil, func(s Step) {
		if s.Last != nil && s.Last.Err != nil {
			t.Errorf("operation %d: %v", s.Last.Index, s.Last.Err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(states[0]); err != nil {
		t.Errorf("the other copy's state: %v", err)
	}
	if len(links(t, states[0])) == 0 {
		t.Error("the other copy's bridge is gone")
	}
	if err := other.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Errorf("the other copy: %v", err)
	}
}

// TestBuiltinEngineKilled kills the engine of one operation halfway: the
// operation fails, and Conclude takes away what it left.
func TestBuiltinEngineKilled(t *testing.T) {
	root := filepath.Join(t.TempDir(), "state")
	e := newTestEngine(t, root, Params{"network": "bridge"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	killed := false
	for op := 1; !killed && ctx.Err() == nil; op++ {
		if err := e.Prepare(ctx, op); err != nil {
			t.Fatal(err)
		}
		go func() {
			for ctx.Err() == nil { // until the container is half made
				if _, err := os.Stat(filepath.Join(e.dir, containersDir, engineID(op), "config.json")); err == nil {
					break
				}
				runtime.Gosched()
			}
			if p := e.running.Load(); p != nil {
				_ = p.Kill()
			}
		}()
		out, err := e.Do(ctx, op)
		killed = err != nil
		if killed && out.ExitCode != 128+int(unix.SIGKILL) {
			t.Errorf("exit code %d, %v", out.ExitCode, err)
		}
		if err := e.Conclude(ctx, op, out); err != nil {
			t.Errorf("conclude: %v", err)
		}
		if left, _ := os.ReadDir(filepath.Join(e.dir, containersDir)); len(left) > 0 {
			t.Errorf("left after Conclude: %v", left)
		}
		for _, parent := range e.spec.Cgroups {
			if _, err := os.Stat(filepath.Join(parent, engineID(op))); err == nil {
				t.Errorf("cgroup left after Conclude: %s", parent)
			}
		}
	}
	if !killed {
		t.Error("the engine was never caught halfway")
	}
}
