//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"stagetrace/analysis"
)

// goPprof runs go tool pprof on a profile of the result.
func (r *realRun) goPprof(t *testing.T, file string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"tool", "pprof"}, args...), filepath.Join(r.dir, file))...)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

var pprofTotal = regexp.MustCompile(`(?m)^Showing nodes .* of (\d+)ns total$`)

// checkProfiles reads the profiles as users do.
func (r *realRun) checkProfiles(t *testing.T, res *analysis.Result) {
	var wall int64
	stages := map[string]bool{}
	for i := range res.Operations {
		wall += res.Operations[i].WallNs
		for _, s := range res.Operations[i].Stages {
			stages[s.Name] = true
		}
	}
	top := r.goPprof(t, "wall.pb.gz", "-top", "-sample_index=path", "-unit=ns")
	m := pprofTotal.FindStringSubmatch(top)
	if m == nil {
		t.Fatalf("no total:\n%.2000s", top)
	}
	total, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || total != wall {
		t.Errorf("the profile's total is %s ns, the operations' time is %d ns (%v)", m[1], wall, err)
	}
	tree := r.goPprof(t, "wall.pb.gz", "-top", "-cum", "-nodecount=100000", "-nodefraction=0", "-tagroot=stage")
	listed := map[string]bool{}
	for line := range strings.Lines(tree) {
		if f := strings.Fields(line); len(f) == 6 {
			listed[f[5]] = true
		}
	}
	for name := range stages {
		if !listed[name] {
			t.Errorf("-tagroot stage does not list %s", name)
		}
	}
	if cpu := r.goPprof(t, "cpu.pb.gz", "-top"); !strings.Contains(cpu, "flat%") {
		t.Errorf("cpu profile:\n%.2000s", cpu)
	}
}

// checkSymbols wants names in the CPU samples of the kernel, of Docker's
// stripped Go programs (by their own tables), and of processes that are gone.
func (r *realRun) checkSymbols(t *testing.T) {
	f, err := os.Open(filepath.Join(r.dir, "cpu.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	type counts struct{ frames, named, known int }
	want := map[string]struct {
		object string // base name of the mapping's file
		prefix string // of functions that must be among the names
	}{
		"kernel":  {"[kernel.kallsyms]", "do_syscall_64"},
		"dockerd": {"dockerd", "runtime."},
		"runc":    {"runc", "runtime."},
	}
	got := map[string]*counts{}
	for _, l := range p.Location {
		if l.Mapping == nil {
			continue
		}
		c := got[path.Base(l.Mapping.File)]
		if c == nil {
			c = &counts{}
			got[path.Base(l.Mapping.File)] = c
		}
		c.frames++
		for _, line := range l.Line {
			if line.Function == nil || strings.Contains(line.Function.Name, "+0x") {
				continue
			}
			c.named++
			for _, w := range want {
				if w.object == path.Base(l.Mapping.File) && strings.HasPrefix(line.Function.Name, w.prefix) {
					c.known++
				}
			}
			break
		}
	}
	for what, w := range want {
		c := got[w.object]
		if c == nil {
			t.Errorf("no frame lies in %s", what)
			continue
		}
		t.Logf("%-8s %5d frames, %5d named, %4d of %s", what, c.frames, c.named, c.known, w.prefix)
		if c.known == 0 || float64(c.named) < 0.95*float64(c.frames) {
			t.Errorf("%s: %+v", what, fmt.Sprint(*c))
		}
	}
}
