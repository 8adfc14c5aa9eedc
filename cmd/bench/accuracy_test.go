//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"stagetrace/tracer/tracetest"
)

// tables is what tools really printed about a docker run (some rows left out),
// and what it adds up to, by other means than the parsers'.
var tables = []struct {
	file  string
	total func([]byte) (time.Duration, error)
	want  time.Duration
}{
	{"strace-c-w.txt", straceTotal, 6805839 * time.Microsecond},
	{"strace-c.txt", straceTotal, 84153 * time.Microsecond},
	{"perf-trace-s.txt", perfTotal, 1920696 * time.Microsecond},
	{"offcputime.txt", offCPUTotal, 984661 * time.Microsecond},
	{"bpftrace-offcpu.txt", bpftraceTotal, 1291238 * time.Microsecond},
}

func TestTables(t *testing.T) {
	for _, tab := range tables {
		text, err := os.ReadFile(filepath.Join("testdata", tab.file))
		if err != nil {
			t.Fatal(err)
		}
		got, err := tab.total(text)
		if d := got - tab.want; err != nil || d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("%s adds up to %s (%v), want %s", tab.file, got, err, tab.want)
		}
		if _, err := tab.total([]byte("strace: exec: Permission denied\n")); err == nil {
			t.Errorf("%s: an error message counts as a table", tab.file)
		}
	}
}

func TestTablesThatLie(t *testing.T) {
	for text, total := range map[string]func([]byte) (time.Duration, error){
		"100.00 NaN 1 1 total\n":                                   straceTotal,
		"100.00 1e300 1 1 total\n":                                 straceTotal,
		"syscall calls total\nread 1 -5 1%\n":                      perfTotal,
		"    -                docker (1)\n        many\n":          offCPUTotal,
		"@us[\n    schedule+1\n, dockerd]: 18446744073709551615\n": bpftraceTotal,
	} {
		if got, err := total([]byte(text)); err == nil {
			t.Errorf("%q adds up to %s", text, got)
		}
	}
	// Older perf has no column of errors.
	got, err := perfTotal([]byte("   syscall   calls   total  min  avg  max  stddev\n             (msec) (msec)\n   --- --- ---\n   futex  228  625.5  0.006 2.744 582.795 93.29%\n"))
	if err != nil || got != 625500*time.Microsecond {
		t.Errorf("%s, %v", got, err)
	}
}

func TestResultReading(t *testing.T) {
	r, err := resultReading([]byte(`{"operations":[{"wall_ns":7,"stages":[{"ns":4},{"ns":3}]}]}`))
	if err != nil || r != (reading{total: 7, wall: 7}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, text := range []string{"", "{}", `{"operations":[{},{}]}`} {
		if _, err := resultReading([]byte(text)); err == nil {
			t.Errorf("%q is a result", text)
		}
	}
}

func FuzzTables(f *testing.F) {
	for _, tab := range tables {
		text, err := os.ReadFile(filepath.Join("testdata", tab.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text[:min(len(text), 2000)])
	}
	f.Add([]byte(`{"operations":[{"wall_ns":7,"stages":[{"ns":4},{"ns":3}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, tab := range tables {
			if got, err := tab.total(text); err == nil && got < 0 {
				t.Errorf("%s: adds up to %s", tab.file, got)
			}
		}
		_, _ = resultReading(text)
	})
}

// TestDuring: what a tool prints after it was attached is kept, and one that
// says nothing is never taken for attached.
func TestDuring(t *testing.T) {
	var out bytes.Buffer
	did := false
	script := `tail -f /dev/null & trap "echo table; kill $!; exit" INT; echo before; echo ready; wait`
	err := during(t.Context(), &out, "ready", []string{"bash", "-c", script}, func() error { did = true; return nil })
	if err != nil || !did || out.String() != "table\n" {
		t.Errorf("did %v, printed %q, %v", did, out.String(), err)
	}
	err = during(t.Context(), &out, "", []string{"sh", "-c", "echo broken >&2"}, func() error { t.Error("it counts as attached"); return nil })
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Error(err)
	}
}

// TestRealAccuracy asks what is installed, once: trace's table adds up to the
// wall time, and the others' tables can be read.
func TestRealAccuracy(t *testing.T) {
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
	tracetest.RequireDocker(t)
	dir := t.TempDir()
	for _, program := range []string{"trace", "bench"} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, program), "stagetrace/cmd/"+program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", program, err, out)
		}
	}
	trace := filepath.Join(dir, "trace")
	var wrong []string
	for range 3 { // a daemon may refuse a run, or a tool fail: but not always
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "bench"), "-accuracy", "-rounds", "1", "-trace", trace).CombinedOutput()
		t.Logf("%s", out)
		if err != nil && strings.Contains(string(out), "add up to") {
			t.Fatal(err)
		}
		if wrong = unread(string(out), tellers(trace)); len(wrong) == 0 {
			return
		}
	}
	t.Error(strings.Join(wrong, "\n"))
}

// unread says of which tools that are here the output gives no figures, or no
// possible ones.
func unread(out string, all []teller) (wrong []string) {
	for _, tool := range all {
		m := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(tool.name) + ` +([0-9.]+) ms +([0-9.]+) ms +([0-9.]+) %  1$`).FindStringSubmatch(out)
		switch {
		case tool.why != "":
		case m == nil:
			wrong = append(wrong, tool.name+": no figures")
		case m[1] == "0.0":
			wrong = append(wrong, tool.name+": its table is empty")
		case tool.name == ownTeller && m[3] != "100.00":
			wrong = append(wrong, tool.name+": adds up to "+m[3]+" %")
		}
	}
	return wrong
}
