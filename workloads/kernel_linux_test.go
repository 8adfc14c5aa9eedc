//go:build amd64 || arm64

package workloads

import (
	"errors"
	"strings"
	"testing"

	"stagetrace/tracer/tracetest"
)

// primitiveFor makes an instance with a state folder of the test's own.
func primitiveFor(t *testing.T, p primitive, repeat string) *primitiveInstance {
	t.Helper()
	in, err := newPrimitive(p, Params{"repeat": repeat})
	if err != nil {
		t.Fatal(err)
	}
	i := in.(*primitiveInstance)
	i.root = t.TempDir()
	return i
}

func TestPrimitives(t *testing.T) {
	tracetest.RequireRoot(t)
	seen := map[string]bool{}
	for _, p := range primitives() {
		if seen[p.name] || p.summary == "" {
			t.Errorf("%s is there twice, or has no summary", p.name)
		}
		seen[p.name] = true
		t.Run(p.name, func(t *testing.T) {
			if f := findPrimitive(p); !f.OK {
				t.Skip(f.Why)
			}
			for _, repeat := range []string{"1", "3"} {
				in := primitiveFor(t, p, repeat)
				results, err := Run(t.Context(), []Running{{Target: p.name, Instance: in}}, Plan{Untraced: 3}, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range results {
					if r.Err != nil || r.Units != map[string]int{"1": 1, "3": 3}[repeat] {
						t.Errorf("%+v", r)
					}
				}
				assertNothingOfOurs(t)
			}
		})
	}
}

// What a run that was killed in the middle left is gone after the next set-up.
func TestPrimitivesRemoveLeftovers(t *testing.T) {
	tracetest.RequireRoot(t)
	for _, p := range primitives() {
		if p.name != "bridge-attach" && p.name != "mount-overlay" && p.name != "cgroup2-freeze" {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			if f := findPrimitive(p); !f.OK {
				t.Skip(f.Why)
			}
			in := primitiveFor(t, p, "1")
			if err := in.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := in.Prepare(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Do(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			// As the next run would, by the folder alone.
			if err := removeState(in.bench.dir); err != nil {
				t.Fatal(err)
			}
			if left := links(t, in.bench.dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			assertNothingOfOurs(t)
		})
	}
}

func TestPrimitiveRefuses(t *testing.T) {
	p := primitives()[0]
	for _, bad := range []string{"-1", "x", "1000001"} {
		if _, err := newPrimitive(p, Params{"repeat": bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("repeat %s: %v", bad, err)
		}
	}
	in := primitiveFor(t, primitive{name: "none", open: func(*bench) (*steps, error) { return nil, errors.New("cannot") }}, "0")
	if err := in.Prepare(t.Context(), 1); err == nil {
		t.Error("prepared without a set-up")
	}
	if err := in.Setup(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("set-up: %v", err)
	}
	for range 2 {
		if err := in.Cleanup(t.Context()); err != nil {
			t.Errorf("clean-up: %v", err)
		}
	}
}
