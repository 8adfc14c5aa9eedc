//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"

	"stagetrace/analysis"
)

// TestRealTruth holds what is recorded of the programs of the truth suite
// against what they know of themselves; `make truth` prints the same as a table.
// A machine that others share may be far off for a while, but not three times.
func TestRealTruth(t *testing.T) {
	requireRecording(t)
	for _, p := range truthSuitePrograms() {
		t.Run(p.name, func(t *testing.T) {
			for try := 1; ; try++ {
				failures := truthFailures(t, &p)
				if len(failures) == 0 {
					return
				}
				if try == 3 {
					t.Fatal(strings.Join(failures, "\n"))
				}
				t.Logf("try %d:\n%s", try, strings.Join(failures, "\n"))
			}
		})
	}
}

// truthFailures measures a program once and says what is wrong with it.
func truthFailures(t *testing.T, p *truthProgram) []string {
	t.Helper()
	r, err := measureTruth(t.Context(), binary, p)
	if err != nil {
		t.Fatal(err)
	}
	if r.skipped != "" {
		t.Skip(r.skipped)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	r.rows(w)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	return r.failures()
}

// TestRealTwoAtOnce runs trace twice at the same time: neither sees the
// processes of the other. Two tracers that attach at once do wait for each
// other's locks in the kernel, so of three tries one must be without.
func TestRealTwoAtOnce(t *testing.T) {
	requireRecording(t)
	for try := 1; ; try++ {
		strangers := twoAtOnce(t)
		if len(strangers) == 0 {
			return
		}
		if try == 3 {
			t.Fatal(strings.Join(strangers, "\n"))
		}
		t.Logf("try %d:\n%s", try, strings.Join(strangers, "\n"))
	}
}

// twoAtOnce lists what of one run turned up in the other.
func twoAtOnce(t *testing.T) (strangers []string) {
	t.Helper()
	modes := []string{"pipe", "burn"}
	files := make([]string, len(modes))
	runs := make([]*realRun, len(modes))
	for i, mode := range modes {
		files[i] = filepath.Join(t.TempDir(), "lines")
		runs[i] = startRun(t, "", "--warmup", "1", "--runs", "10", "--untraced", "1", "--", binary, truthCommand, mode, files[i])
	}
	for i, r := range runs {
		if code := r.wait(t); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", modes[i], code, r.stderr())
		}
	}
	var pids []map[int32]bool
	for i, r := range runs {
		pids = append(pids, map[int32]bool{int32(r.cmd.Process.Pid): true})
		for _, l := range truthWindowsOf(t, files[i]) {
			pids[i][l.PID] = true
		}
	}
	for i, r := range runs {
		res, mine, theirs := r.result(t), pids[i], pids[1-i]
		checkSums(t, res)
		found := 0
		for _, p := range res.Processes {
			if mine[p.PID] && p.Exe == binary {
				found++
			}
			if theirs[p.PID] || theirs[p.Parent] {
				strangers = append(strangers, fmt.Sprintf("%s: process %d (%s) is of the other run", modes[i], p.PID, strings.Join(p.Argv, " ")))
			}
		}
		if found == 0 {
			t.Errorf("%s: no process of its own", modes[i])
		}
		r.eachOperation(t, "linux", func(op *analysis.Operation) {
			for k := range op.Path.Segments {
				s := &op.Path.Segments[k]
				if s.Task > 0 && theirs[op.Trace.Tasks[s.Task].PID] {
					strangers = append(strangers, fmt.Sprintf("%s, operation %d: %s (%d) of the other run is on the path", modes[i], op.Index, op.Trace.Tasks[s.Task].Comm, op.Trace.Tasks[s.Task].PID))
				}
			}
		})
	}
	return strangers
}

func truthWindowsOf(t *testing.T, file string) []truthWindow {
	t.Helper()
	windows, err := readTruthWindows(file)
	if err != nil {
		t.Fatal(err)
	}
	return windows
}
