//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"stagetrace/analysis"
	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// buildTruth builds testdata/truth.c, beside the program under test.
var buildTruth = sync.OnceValues(func() (string, error) {
	name := filepath.Join(filepath.Dir(binary), "truth")
	if out, err := exec.Command("cc", "-O2", "-Wall", "-Werror", "-o", name, "testdata/truth.c").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build testdata/truth.c: %w\n%s", err, out)
	}
	return name, nil
})

func truth(t *testing.T) string {
	t.Helper()
	_, err := exec.LookPath("cc")
	tracetest.Require(t, "cc", err)
	name, err := buildTruth()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// truthLine is what a process of testdata/truth.c wrote of itself.
type truthLine struct {
	PID        int32
	Mode       string
	Begin, End tracer.Time
	CPU        tracer.Time
	Gaps       tracer.Time
}

func truthLines(t *testing.T, file string) (lines []truthLine) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for text := range bytes.Lines(b) {
		var l truthLine
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	return lines
}

// tolerance is what two clocks, a process's own and the kernel's, may differ.
func tolerance(d tracer.Time) tracer.Time { return max(d/50, 300_000) }

// share adds up the pieces of a path inside of [begin, end) that a test picks.
func share(op *analysis.Operation, begin, end tracer.Time, is func(s *analysis.Segment) bool) (sum tracer.Time) {
	for i := range op.Path.Segments {
		s := &op.Path.Segments[i]
		if d := min(s.End, end) - max(s.Begin, begin); d > 0 && is(s) {
			sum += d
		}
	}
	return sum
}

func stageName(op *analysis.Operation, s *analysis.Segment) string {
	if s.Stage < 0 {
		return analysis.StageOther
	}
	return op.Set.Stages[s.Stage].Name
}

// of picks the segments of a process in a state.
func of(op *analysis.Operation, pid int32, state tracer.TaskState) func(*analysis.Segment) bool {
	return func(s *analysis.Segment) bool {
		return s.Task > 0 && op.Trace.Tasks[s.Task].PID == pid && s.State == state
	}
}

// rootBusy is how much of [begin, end) the driver was not yet waiting for its
// child in: a thread of it was still on the way back from the fork.
func rootBusy(op *analysis.Operation, begin, end tracer.Time) tracer.Time {
	return share(op, begin, end, func(s *analysis.Segment) bool {
		return s.Task > 0 && op.Trace.Leader(s.Task) == op.Trace.Leader(op.Root)
	})
}

// truths is what a run found, beside what its processes knew of themselves. One
// operation proves little: a hypervisor that takes the CPU away between the
// arming of a timer and the switch makes a sleep shorter and what ran longer,
// and both are true.
type truths struct{ off, allowed []tracer.Time }

// add notes how far one operation is off.
func (x *truths) add(got, least, most, of tracer.Time) {
	x.off = append(x.off, max(0, least-got, got-most))
	x.allowed = append(x.allowed, tolerance(of))
}

// check wants the operation in the middle to be within what clocks may differ.
func (x *truths) check(t *testing.T, what string) {
	t.Helper()
	if len(x.off) == 0 {
		t.Errorf("%s: nothing was checked", what)
		return
	}
	mid := slices.Sorted(slices.Values(x.off))[len(x.off)/2]
	t.Logf("%s: off by %d us in the middle, at most %d us, n = %d", what, mid/1000, slices.Max(x.off)/1000, len(x.off))
	if mid > slices.Min(x.allowed) {
		t.Errorf("%s: %d us off in the middle of %d operations: %v", what, mid/1000, len(x.off), x.off)
	}
}

// checkSleep: from begin to end the process only sat in nanosleep.
func checkSleep(t *testing.T, op *analysis.Operation, l truthLine, found map[string]*truths) {
	asleep := func(s *analysis.Segment) bool {
		return of(op, l.PID, tracer.StateBlocked)(s) && stageName(op, s) == "wait.sleep"
	}
	blocked := share(op, l.Begin, l.End, asleep)
	late := share(op, l.Begin, l.End, of(op, l.PID, tracer.StateRunnable))
	t.Logf("operation %d: slept %6.2f ms, %6.2f ms of it named, %5.2f ms until it had a CPU", op.Index, float64(l.End-l.Begin)/1e6, float64(blocked)/1e6, float64(late)/1e6)
	want := l.End - l.Begin - late - rootBusy(op, l.Begin, l.End)
	found["sleep"].add(blocked, want, want, want)
}

// checkBurn: from begin to end the process only computed. The clock of its CPU
// time leaves out what interrupts and the hypervisor took, which no switch
// shows; the gaps that it saw have them, and what other tasks took.
func checkBurn(t *testing.T, op *analysis.Operation, l truthLine, found map[string]*truths) {
	running := of(op, l.PID, tracer.StateRunning)
	ran := share(op, l.Begin, l.End, running)
	own := share(op, l.Begin, l.End, func(s *analysis.Segment) bool { return running(s) && stageName(op, s) == "proc.user" })
	late := share(op, l.Begin, l.End, of(op, l.PID, tracer.StateRunnable))
	t.Logf("operation %d: burnt %6.2f ms of CPU and saw gaps of %5.2f ms; %6.2f ms recorded, %6.2f ms of it its own code, %5.2f ms without a CPU", op.Index,
		float64(l.CPU)/1e6, float64(l.Gaps)/1e6, float64(ran)/1e6, float64(own)/1e6, float64(late)/1e6)
	found["burn"].add(ran, l.CPU-rootBusy(op, l.Begin, l.End), l.CPU+l.Gaps, l.End-l.Begin)
	found["late"].add(late, 0, l.Gaps, l.End-l.Begin)
	if own < ran*8/10 {
		t.Errorf("burn: %d us of %d us are its own code", own/1000, ran/1000)
	}
}

// checkPipe: from begin to end the parent waited for its child, which slept.
func checkPipe(t *testing.T, op *analysis.Operation, l truthLine, lines []truthLine, found map[string]*truths) {
	at := slices.IndexFunc(lines, func(c truthLine) bool {
		return c.Mode == "child" && c.End > l.Begin && c.End < l.End && c.PID != l.PID
	})
	if at < 0 {
		t.Errorf("operation %d: no line of the child", op.Index)
		return
	}
	child := lines[at]
	begin, end := max(child.Begin, l.Begin), min(child.End, l.End)
	asleep := of(op, child.PID, tracer.StateBlocked)
	slept := share(op, begin, end, asleep)
	late := share(op, begin, end, of(op, child.PID, tracer.StateRunnable))
	t.Logf("operation %d: the parent waited %6.2f ms, the child slept %6.2f ms of it, %6.2f ms found", op.Index, float64(l.End-l.Begin)/1e6, float64(end-begin)/1e6, float64(slept)/1e6)
	// Until the parent has gone to sleep itself, what it does is what counts.
	busy := share(op, begin, end, of(op, l.PID, tracer.StateRunnable)) + share(op, begin, end, of(op, l.PID, tracer.StateRunning))
	want := end - begin - late - busy - rootBusy(op, begin, end)
	found["pipe"].add(slept, want, want, want)
	var waited tracer.Time
	for i := range op.Path.Segments {
		s := &op.Path.Segments[i]
		if !asleep(s) || s.Link < 0 {
			continue
		}
		if w := op.Path.Links[s.Link].Waiter; w > 0 && op.Trace.Tasks[w].PID == l.PID {
			waited += s.End - s.Begin
		}
	}
	if waited < slept*9/10 {
		t.Errorf("operation %d: only %d us of the child's sleep are what its parent waited for", op.Index, waited/1000)
	}
}

// truthModes says, per program, what its truths are called.
var truthModes = map[string][]string{"sleep": {"sleep"}, "burn": {"burn", "late"}, "pipe": {"pipe"}}

// checkTruth holds the operations against what their processes wrote.
func checkTruth(t *testing.T, r *realRun, file, mode string) {
	t.Helper()
	lines := truthLines(t, file)
	found := map[string]*truths{}
	for _, name := range truthModes[mode] {
		found[name] = &truths{}
	}
	checked := 0
	r.eachOperation(t, "linux", func(op *analysis.Operation) {
		checkFollowed(t, op)
		for _, l := range lines {
			if l.Mode != mode || l.Begin < op.Begin || l.End > op.End {
				continue
			}
			switch l.Mode {
			case "sleep":
				checkSleep(t, op, l, found)
			case "burn":
				checkBurn(t, op, l, found)
			case "pipe":
				checkPipe(t, op, l, lines, found)
			}
			checked++
		}
	})
	if want := truthRuns; checked != want {
		t.Errorf("%d of %d operations were checked", checked, want)
	}
	for name, x := range found {
		x.check(t, name)
	}
}

// truthRuns is how many operations of a program are recorded.
const truthRuns = 9

func TestRealTruth(t *testing.T) {
	requireRecording(t)
	program := truth(t)
	for _, mode := range []string{"sleep", "burn", "pipe"} {
		t.Run(mode, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lines")
			r, res := measured(t, "--warmup", "1", "--runs", strconv.Itoa(truthRuns), "--untraced", "1", "--", program, file, mode)
			checkSums(t, res)
			checkTruth(t, r, file, mode)
		})
	}
}

// spin keeps a CPU busy until the test ends and gives the process's id.
func spin(t *testing.T, program string, cpu int) int32 {
	t.Helper()
	cmd := exec.Command(program, os.DevNull, "spin", strconv.Itoa(cpu))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return int32(cmd.Process.Pid)
}

// TestRealBystanders has a busy loop on the CPU of what is measured and on
// another one: it takes time away, and is the cause of nothing.
func TestRealBystanders(t *testing.T) {
	requireRecording(t)
	program := truth(t)
	loops := []int32{spin(t, program, 0)}
	if runtime.NumCPU() > 1 {
		loops = append(loops, spin(t, program, 1))
	}
	for _, mode := range []string{"sleep", "pipe"} {
		t.Run(mode, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lines")
			r, res := measured(t, "--warmup", "1", "--runs", strconv.Itoa(truthRuns), "--untraced", "1", "--", program, file, mode, "0")
			checkSums(t, res)
			checkTruth(t, r, file, mode)
			r.eachOperation(t, "linux", func(op *analysis.Operation) {
				stranger := func(id tracer.TaskID) bool { return id > 0 && slices.Contains(loops, op.Trace.Tasks[id].PID) }
				for i := range op.Path.Segments {
					if stranger(op.Path.Segments[i].Task) {
						t.Errorf("operation %d: the busy loop is on the path", op.Index)
					}
				}
				for i := range op.Path.Links {
					if stranger(op.Path.Links[i].Waiter) {
						t.Errorf("operation %d: the busy loop is among those who waited", op.Index)
					}
				}
				for i := range op.Off {
					if stranger(op.Off[i].Task) {
						t.Errorf("operation %d: the busy loop is among the operation's late work", op.Index)
					}
				}
			})
		})
	}
}

// TestRealTwoAtOnce runs trace twice at the same time: neither sees the
// processes of the other. Two tracers that attach at once do wait for each
// other's locks in the kernel, so of three tries one must be without.
func TestRealTwoAtOnce(t *testing.T) {
	requireRecording(t)
	program := truth(t)
	for try := 1; ; try++ {
		strangers := twoAtOnce(t, program)
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
func twoAtOnce(t *testing.T, program string) (strangers []string) {
	t.Helper()
	modes := []string{"pipe", "burn"}
	files := make([]string, len(modes))
	runs := make([]*realRun, len(modes))
	for i, mode := range modes {
		files[i] = filepath.Join(t.TempDir(), "lines")
		runs[i] = startRun(t, "", "--warmup", "1", "--runs", "10", "--untraced", "1", "--", program, files[i], mode)
	}
	for i, r := range runs {
		if code := r.wait(t); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", modes[i], code, r.stderr())
		}
	}
	var pids []map[int32]bool
	for i, r := range runs {
		pids = append(pids, map[int32]bool{int32(r.cmd.Process.Pid): true})
		for _, l := range truthLines(t, files[i]) {
			pids[i][l.PID] = true
		}
	}
	for i, r := range runs {
		res, mine, theirs := r.result(t), pids[i], pids[1-i]
		checkSums(t, res)
		found := 0
		for _, p := range res.Processes {
			if mine[p.PID] && p.Exe == program {
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
