//go:build linux

package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"stagetrace/tracer/tracetest"
)

func requireRunc(t *testing.T) string {
	t.Helper()
	return requireOCI(t, "runc").path
}

// requireOCI asks for a runtime.
func requireOCI(t *testing.T, name string) ociProgram {
	t.Helper()
	if testing.Short() {
		t.Skip("starts containers")
	}
	tracetest.RequireRoot(t)
	i := slices.IndexFunc(ociRuntimes(), func(rt ociRuntime) bool { return rt.name == name })
	rt := ociRuntimes()[i]
	f := findOCI(context.Background(), rt)
	var err error
	if !f.OK {
		err = errors.New(f.Why)
	}
	tracetest.Require(t, name, err)
	return ociProgram{rt, f.Where}
}

// ociProgram is a runtime that was found.
type ociProgram struct {
	ociRuntime
	path string
}

// runcFor makes an instance that is cleaned up when the test ends; what it
// may have left behind then fails the test.
func runcFor(t *testing.T, network string) *runcInstance {
	t.Helper()
	return ociFor(t, ociRuntimes()[0], Params{"network": network})
}

func ociFor(t *testing.T, rt ociRuntime, p Params) *runcInstance {
	t.Helper()
	r, err := newOCIInstance(rt, p)
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

func TestRunc(t *testing.T) { testOCI(t, "runc") }
func TestCrun(t *testing.T) { testOCI(t, "crun") }

func testOCI(t *testing.T, name string) {
	rt := requireOCI(t, name)
	for _, network := range []string{"none", "bridge", "host"} {
		t.Run(network, func(t *testing.T) {
			r := ociFor(t, rt.ociRuntime, Params{"network": network, "mounts": "2"})
			if err := r.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			for op := 1; op <= 3; op++ {
				if out := runOperation(t, r, op); !reflect.DeepEqual(out, Outcome{Units: 1}) {
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

func TestRuncExitCode(t *testing.T) { testOCIExitCode(t, "runc") }
func TestCrunExitCode(t *testing.T) { testOCIExitCode(t, "crun") }

func testOCIExitCode(t *testing.T, name string) {
	rt := requireOCI(t, name)
	for _, code := range []byte{1, 7} { // 1 is also what runtimes say of their own failures
		t.Run(strconv.Itoa(int(code)), func(t *testing.T) {
			r := ociFor(t, rt.ociRuntime, Params{"network": "none"})
			r.exitCode = code
			if err := r.Setup(context.Background()); err != nil {
				t.Fatal(err)
			}
			if out := runOperation(t, r, 1); !reflect.DeepEqual(out, Outcome{Units: 1, ExitCode: int(code)}) {
				t.Errorf("%+v, want exit code %d", out, code)
			}
		})
	}
}

func TestRuncErrorsSayRuncsMessage(t *testing.T) { testOCIErrors(t, "runc") }
func TestCrunErrorsSayCrunsMessage(t *testing.T) { testOCIErrors(t, "crun") }

func testOCIErrors(t *testing.T, name string) {
	rt := requireOCI(t, name)
	ctx := context.Background()
	r := ociFor(t, rt.ociRuntime, Params{"network": "none"})
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
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "no such file") || strings.Contains(err.Error(), "level=") {
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
func TestRuncRemovesLeftoversOfDeadRuns(t *testing.T) { testOCILeftovers(t, "runc") }
func TestCrunRemovesLeftoversOfDeadRuns(t *testing.T) { testOCILeftovers(t, "crun") }

func testOCILeftovers(t *testing.T, name string) {
	rt := requireOCI(t, name)
	ctx := context.Background()
	dead := ociFor(t, rt.ociRuntime, Params{"network": "none"})
	dead.owner = deadOwner(t)
	if err := dead.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if err := dead.Prepare(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if err := dead.create(ctx); err != nil {
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
	dead.dir, dead.bundle, dead.id = "", "", ""
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
		"":        "",
		"no JSON": "",
		`{"level":"warning","msg":"something","time":"2026-11-30T23:00:00Z"}`:                                            "",
		`{"level":"error","msg":"runc run failed: exec: \"/true\": no such file","time":"2026-11-30T23:00:00Z"}`:         `runc run failed: exec: "/true": no such file`,
		`{"level":"warning","msg":"w"} {"msg":"executable file ` + "`/true`" + ` not found","level":"error","time":"x"}`: "executable file `/true` not found",
		`{"level":"warning","msg":"w"} {"msg":"cut`:                                                                      "",
	} {
		if got := runcError(log); got != want {
			t.Errorf("%s: %q, want %q", log, got, want)
		}
	}
}

func TestParseRuncVersion(t *testing.T) {
	v, err := parseOCIVersion("runc", "runc version 1.1.5+ds1\ncommit: x\nspec: 1.0.2-dev\ngo: go1.19.8\nlibseccomp: 2.5.4\n")
	if err != nil || v != (ociVersion{runtime: "runc", name: "1.1.5+ds1", seccomp: true}) {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := parseOCIVersion("runc", "crun version 1.8"); err == nil {
		t.Error("crun passes for runc")
	}
	c, err := parseOCIVersion("crun", "crun version 1.8.1\ncommit: f8\nspec: 1.0.0\n+SYSTEMD +CAP +SECCOMP +EBPF\n")
	if err != nil || c != (ociVersion{runtime: "crun", name: "1.8.1", seccomp: true}) {
		t.Errorf("%+v, %v", c, err)
	}
}

func FuzzRuncOutput(f *testing.F) {
	f.Add("runc version 1.1.5\nlibseccomp: 2.5.4\n")
	f.Add(`{"level":"error","msg":"a\"b"}`)
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := parseOCIVersion("runc", s); err == nil && v.name == "" {
			t.Error("a version without a name")
		}
		if msg := runcError(s); len(msg) > len(s) {
			t.Errorf("%q is longer than the log %q", msg, s)
		}
	})
}
