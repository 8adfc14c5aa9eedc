//go:build linux

package ebpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"stagetrace/tracer"
)

// TestUserFunctions wants every call of a function, whether this kernel attaches
// all functions of a file at once or each by itself.
func TestUserFunctions(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the program of the test is for amd64")
	}
	text, err := os.ReadFile("testdata/calls-amd64")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "calls") // a checkout may be mounted without exec
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := tracer.Config{TracerPID: os.Getpid(), Probes: []tracer.Probe{
		{Class: tracer.ClassUser, Target: program, Symbol: "lea*"}, {Class: tracer.ClassUser, Target: program, Symbol: "leaf"},
		{Class: tracer.ClassUser, Target: program, Symbol: "absent"}}}
	s := open(t, cfg)
	tr := recordWork(t, s, func() {
		if out, err := exec.Command(program).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, kind := range []tracer.Kind{tracer.KindBegin, tracer.KindEnd} {
		got := events(tr, func(e *tracer.Event) bool {
			return e.Kind == kind && e.Class == tracer.ClassUser && tr.String(e.Name) == "leaf"
		})
		if len(got) != 1000 {
			t.Errorf("%d events of kind %v, want 1000", len(got), kind)
		}
	}
	if notes := strings.Join(tr.Meta.Notes, "\n"); !strings.Contains(notes, "user absent: ") {
		t.Errorf("notes do not tell of what is not there: %s", notes)
	}
}
