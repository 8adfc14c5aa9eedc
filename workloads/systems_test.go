package workloads

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestSystemsAreNamedOnceAndHelp(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range systemsTable() {
		if seen[s.name] || s.name == "" || s.summary == "" || s.install == "" || s.run == "" || len(s.programs) == 0 {
			t.Errorf("%+v", s)
		}
		seen[s.name] = true
	}
	for _, w := range Table() {
		for _, o := range OtherSystems() {
			if _, there := w.LookupTarget(o.Name); there {
				t.Errorf("%s has a target %s, which is listed as not driven too", w.Name, o.Name)
			}
		}
	}
}

func TestFindSystem(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names")
	}
	home, bin := t.TempDir(), t.TempDir()
	t.Setenv("PATH", bin)
	s := system{name: "x", programs: []string{"x1", "x2"}, files: []string{".x/x"}, install: "get x", run: "run x"}
	if f := s.find(home); f.State != NotInstalled || f.Hint != "get x" || f.Why == "" || f.OK {
		t.Errorf("absent: %+v", f)
	}
	at := filepath.Join(home, ".x", "x")
	writeFile(t, at, "")
	if f := s.find(home); f.State != NotDriven || f.Where != at || f.Hint != "run x" {
		t.Errorf("a file: %+v", f)
	}
	if err := os.WriteFile(filepath.Join(bin, "x2"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if f := s.find(home); f.Where != filepath.Join(bin, "x2") {
		t.Errorf("a program: %+v", f)
	}
	s.systems = []string{"plan9"}
	if f := s.find(home); f.State != OtherSystem {
		t.Errorf("elsewhere: %+v", f)
	}
}
