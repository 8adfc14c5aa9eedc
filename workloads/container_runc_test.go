//go:build linux

package workloads

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func requireRunc(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts containers")
	}
	f := findRunc(context.Background())
	if !f.OK {
		skipOrFail(t, "runc: "+f.Why)
	}
	return f.Where
}

// runcFor makes an instance that is cleaned up when the test ends; what it
// may have left behind then fails the test.
func runcFor(t *testing.T, network string) *runcInstance {
	t.Helper()
	r, err := newRuncInstance(Params{"network": network})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dir, bundle := r.dir, r.bundle
		if err := r.Cleanup(context.Background()); err != nil {
			t.Errorf("cleanup: %v", err)
		}
		assertNoRunc(t, r.owner, dir, bundle)
	})
	return r
}

// assertNoRunc looks for what an instance with that state folder and bundle
// ("" when it had none) may have left.
func assertNoRunc(t *testing.T, o runOwner, dir, bundle string) {
	t.Helper()
	left := cgroupsNamed(cgroupPrefix + o.Run() + "-*")
	if dir != "" {
		left = append(left, links(t, dir)...)
	}
	for _, p := range []string{filepath.Join(runcStateDir, o.Key()+"-*"), bundle} {
		found, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestRunc(t *testing.T) {
	requireRunc(t)
	for _, network := range []string{"none", "bridge", "host"} {
		t.Run(network, func(t *testing.T) {
			r := runcFor(t, network)
			if err := r.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			for op := 1; op <= 3; op++ {
				if out := runOperation(t, r, op); out != (Outcome{Units: 1}) {
					t.Errorf("operation %d: %+v", op, out)
				}
				left := cgroupsNamed(r.prefix() + "-*")
				for _, l := range links(t, r.dir) {
					if filepath.Base(l) != r.bridge.Name {
						left = append(left, l)
					}
				}
				if len(left) > 0 {
					t.Errorf("operation %d left %v", op, left)
				}
			}
		})
	}
}

func TestRuncExitCode(t *testing.T) {
	requireRunc(t)
	for _, code := range []byte{1, 7} { // 1 is also what runc says of its own failures
		t.Run(strconv.Itoa(int(code)), func(t *testing.T) {
			r := runcFor(t, "none")
			r.exitCode = code
			if err := r.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			if out := runOperation(t, r, 1); out != (Outcome{Units: 1, ExitCode: int(code)}) {
				t.Errorf("%+v, want exit code %d", out, code)
			}
		})
	}
}

func TestRuncErrorsSayRuncsMessage(t *testing.T) {
	requireRunc(t)
	ctx := context.Background()
	r := runcFor(t, "none")
	if err := r.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.bundle, "rootfs", "true")); err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(ctx, 1); err != nil {
		t.Fatal(err)
	}
	out, err := r.Do(ctx, 1)
	if err == nil || !strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), "level=") {
		t.Errorf("%v", err)
	}
	if err := r.Conclude(ctx, 1, out); err != nil {
		t.Errorf("conclude: %v", err)
	}
}

func TestRuncCancel(t *testing.T) {
	requireRunc(t)
	for _, after := range []time.Duration{0, 5 * time.Millisecond, 30 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			r := runcFor(t, "none")
			if err := r.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := r.Prepare(context.Background(), 1); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), after)
			out, err := r.Do(ctx, 1)
			cancel()
			if (err == nil) != (out.Units == 1) {
				t.Errorf("%+v, %v", out, err)
			}
			if err := r.Cleanup(ctx); err != nil {
				t.Errorf("cleanup: %v", err)
			}
		})
	}
}

// A created container that never starts, with its init waiting in its
// cgroups, is the most that a killed run leaves.
func TestRuncRemovesLeftoversOfDeadRuns(t *testing.T) {
	path := requireRunc(t)
	ctx := context.Background()
	dead := runcFor(t, "none")
	dead.owner = deadOwner(t)
	if err := dead.makeDirs(); err != nil {
		t.Fatal(err)
	}
	spec := runcSpec(runcOptions{network: "none", cgroup: "/" + dead.prefix() + "-1", unifiedCgr: unifiedCgroups()})
	if err := writeBundle(dead.bundle, spec, trueELF(runtime.GOARCH)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--root", dead.stateRoot(), "create", "--bundle", dead.bundle, dead.prefix()+"-1")
	if err := cmd.Run(); err != nil { // no pipes: its init would keep them open
		t.Fatal(err)
	}
	if len(cgroupsNamed(dead.prefix()+"-*")) == 0 {
		t.Fatal("no cgroup to find")
	}

	r := runcFor(t, "none")
	if err := r.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	assertNoRunc(t, dead.owner, dead.dir, dead.bundle)
	dead.dir, dead.bundle = "", ""
}

func TestRuncMethodsAreSafeAnyTime(t *testing.T) {
	requireRunc(t)
	ctx := context.Background()
	r := runcFor(t, "none")
	if err := r.Prepare(ctx, 1); err == nil {
		t.Error("prepared without a setup")
	}
	if err := r.Conclude(ctx, 1, Outcome{}); err != nil {
		t.Errorf("conclude: %v", err)
	}
	for range 2 {
		if err := r.Cleanup(ctx); err != nil {
			t.Errorf("cleanup: %v", err)
		}
	}
}

func TestRuncSpec(t *testing.T) {
	host := runcSpec(runcOptions{network: "host", cgroup: "/x"})
	for _, ns := range host.Linux.Namespaces {
		if ns.Type == "network" || ns.Type == "cgroup" {
			t.Errorf("network host has the namespace %s", ns.Type)
		}
	}
	if host.Linux.Seccomp != nil {
		t.Error("a filter that the runtime cannot load")
	}
	none := runcSpec(runcOptions{network: "none", cgroup: "/x", unifiedCgr: true, seccomp: true})
	if len(none.Linux.Namespaces) != 6 || none.Linux.Seccomp == nil || !none.Root.Readonly || none.Process.Terminal {
		b, _ := json.Marshal(none)
		t.Errorf("%s", b)
	}
}

func TestRuncError(t *testing.T) {
	for log, want := range map[string]string{
		"": "",
		`time="2026-11-30T23:00:00Z" level=warning msg="something"`:                                    "",
		`time="2026-11-30T23:00:00Z" level=error msg="runc run failed: exec: \"/true\": no such file"`: `runc run failed: exec: "/true": no such file`,
		`time="2026-11-30T23:00:00Z" level=error msg=boom`:                                             "boom",
	} {
		if got := runcError(log); got != want {
			t.Errorf("%s: %q, want %q", log, got, want)
		}
	}
}

func TestParseRuncVersion(t *testing.T) {
	v, err := parseRuncVersion("runc version 1.1.5+ds1\ncommit: x\nspec: 1.0.2-dev\ngo: go1.19.8\nlibseccomp: 2.5.4\n")
	if err != nil || v != (runcVersion{name: "1.1.5+ds1", seccomp: "2.5.4"}) {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := parseRuncVersion("crun version 1.8"); err == nil {
		t.Error("crun passes for runc")
	}
}

func FuzzRuncOutput(f *testing.F) {
	f.Add("runc version 1.1.5\nlibseccomp: 2.5.4\n")
	f.Add(`time="x" level=error msg="a\"b"`)
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseRuncVersion(s); err == nil && v.name == "" {
			t.Error("a version without a name")
		}
		if msg := runcError(s); len(msg) > len(s) {
			t.Errorf("%q is longer than the log %q", msg, s)
		}
	})
}
