//go:build linux

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRatios(t *testing.T) {
	base := []float64{100, 200, 100, 200, 100, 200, 100}
	twice := []float64{200, 400, 200, 400, 200, 400, 200}
	if got := ratios(twice, base); got != "2.00x [2.00..2.00] 2.00 to 2.00" {
		t.Error(got)
	}
	if got := ratios([]float64{300}, base); !strings.HasPrefix(got, "3.00x [too few]") {
		t.Error(got)
	}
	if got := ratios(nil, base); got != "-" {
		t.Error(got)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-scale", "-1"}, {"more"}, {"-nonsense"}} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, stderr %q", args, code, errs.String())
		}
	}
}

// TestLoads carries every load but docker out once, small, as bench does.
func TestLoads(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "bench")
	build := exec.Command("go", "build", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, l := range loads() {
		if l.wallOnly {
			continue
		}
		argv := []string{bin}
		if l.pinned {
			argv = append(argv, hiddenPin, "0")
		}
		f, err := runLoad(t.Context(), append(argv, hiddenLoad, l.name, "10"))
		if err != nil || f.N != 10 || f.WallNs <= 0 || f.CPUNs < 0 {
			t.Errorf("%s: %+v, %v", l.name, f, err)
		}
	}
	if _, err := runLoad(t.Context(), []string{bin, hiddenLoad, "nonsense", "1"}); err == nil {
		t.Error("an unknown load is carried out")
	}
}

// TestBeside runs a load beside a tool that says when it is ready, and one
// that ends before.
func TestBeside(t *testing.T) {
	load := []string{"sh", "-c", `echo '{"n":1,"wall_ns":5,"cpu_ns":3}'`}
	f, err := beside("ready", "sh", "-c", "echo ready; exec tail -f /dev/null")(t.Context(), load)
	if err != nil || f.WallNs != 5 {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := beside("ready", "sh", "-c", "echo no")(t.Context(), load); err == nil {
		t.Error("a tool that is not there counts")
	}
}
