//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/reports"
	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// The tests in the real_ files run the built program as users do, on this
// machine, and hold what it found against what is known otherwise.

func requireRecording(t *testing.T) {
	t.Helper()
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
}

// realRun is one trace run on its way.
type realRun struct {
	cmd    *exec.Cmd
	dir    string // of the result
	key    string // in the name of everything that the run makes: <pid>-<starttime>
	links  []string
	stdout bytes.Buffer
	lines  *lineWatch
}

// lineWatch keeps what is written and tells when a line with a word came.
type lineWatch struct {
	word string
	seen chan struct{} // closed at the first such line, and at the end
	done chan struct{}
	once sync.Once
	text bytes.Buffer
}

func (l *lineWatch) read(s *bufio.Scanner) {
	for s.Scan() {
		fmt.Fprintln(&l.text, s.Text())
		if l.word != "" && strings.Contains(s.Text(), l.word) {
			l.once.Do(func() { close(l.seen) })
		}
	}
	l.once.Do(func() { close(l.seen) })
	close(l.done)
}

// startRun begins trace run; seen is told at the first line of stderr that
// has word in it.
func startRun(t *testing.T, word string, args ...string) *realRun {
	t.Helper()
	r := &realRun{dir: filepath.Join(t.TempDir(), "result"), links: ourLinks(t),
		lines: &lineWatch{word: word, seen: make(chan struct{}), done: make(chan struct{})}}
	r.cmd = exec.CommandContext(t.Context(), binary, append([]string{"run", "--out", r.dir}, args...)...)
	r.cmd.Dir = t.TempDir()
	r.cmd.Cancel = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }
	r.cmd.Stdout = &r.stdout
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.key = processKey(t, r.cmd.Process.Pid)
	go r.lines.read(bufio.NewScanner(stderr))
	return r
}

// wait gives the exit code.
func (r *realRun) wait(t *testing.T) int {
	t.Helper()
	<-r.lines.done
	err := r.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return r.cmd.ProcessState.ExitCode()
}

func (r *realRun) stderr() string { return r.lines.text.String() }

// result reads what the run left.
func (r *realRun) result(t *testing.T) *analysis.Result {
	t.Helper()
	res, err := reports.ReadResult(r.dir)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.stderr())
	}
	return res
}

// measured is a run that must succeed, and lose nothing: a virtual machine may
// stop in the middle of one, but not of three.
func measured(t *testing.T, args ...string) (*realRun, *analysis.Result) {
	t.Helper()
	for try := 1; ; try++ {
		r := startRun(t, "", args...)
		if code := r.wait(t); code != 0 {
			t.Fatalf("trace run %s: exit code %d\n%s", strings.Join(args, " "), code, r.stderr())
		}
		res := r.result(t)
		if res.Totals.LostEvents == 0 {
			return r, res
		}
		if !res.Totals.Incomplete || !strings.Contains(r.stdout.String(), "lost") {
			t.Errorf("%d events were lost, and nobody said so:\n%s", res.Totals.LostEvents, r.stdout.String())
		}
		if try == 3 {
			r.checkNoLoss(t)
			return r, res
		}
		t.Logf("try %d lost %d events", try, res.Totals.LostEvents)
	}
}

// eachOperation goes through the recorded operations with their paths.
func (r *realRun) eachOperation(t *testing.T, set string, f func(op *analysis.Operation)) {
	t.Helper()
	s, err := stage.Load([]string{set}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	each := operations(filepath.Join(r.dir, eventsFile), s, analysis.Options{Settle: tracer.Time(defaultSettle)})
	if err := each(func(op *analysis.Operation) error { n++; f(op); return nil }); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Error("no operation was recorded")
	}
}

// ofTarget is the traced operations whose target's name has all of the parts.
func ofTarget(res *analysis.Result, parts ...string) (ops []*analysis.OperationResult) {
	for i := range res.Operations {
		op := &res.Operations[i]
		names := strings.Split(op.Target, "/")
		if !slices.ContainsFunc(parts, func(p string) bool { return !slices.Contains(names, p) }) {
			ops = append(ops, op)
		}
	}
	return ops
}

// checkSums holds for every operation of every run.
func checkSums(t *testing.T, res *analysis.Result) {
	t.Helper()
	for i := range res.Operations {
		op := &res.Operations[i]
		var sum int64
		for _, s := range op.Stages {
			sum += s.Ns
			if s.Ns != s.RunningNs+s.RunnableNs+s.BlockedNs {
				t.Errorf("operation %d: %s: running %d + runnable %d + blocked %d is not %d", op.Index, s.Name, s.RunningNs, s.RunnableNs, s.BlockedNs, s.Ns)
			}
			var waits int64
			for _, ns := range s.Waits {
				waits += ns
			}
			if waits > s.Ns {
				t.Errorf("operation %d: %s: waits %v of more than %d ns", op.Index, s.Name, s.Waits, s.Ns)
			}
		}
		if sum != op.WallNs {
			t.Errorf("operation %d of %s: stages add up to %d ns of %d", op.Index, op.Target, sum, op.WallNs)
		}
		if op.Failed {
			t.Errorf("operation %d of %s failed: exit code %d", op.Index, op.Target, op.ExitCode)
		}
	}
}

// standstill is how long a virtual machine must be stopped by its host for
// locks in the kernel (rqspinlock, in the ring buffer) to be given up.
const standstill tracer.Time = 200_000_000

// checkNoLoss wants every event. An event may be lost only right after no CPU
// did anything for so long that the machine itself must have been stopped.
func (r *realRun) checkNoLoss(t *testing.T) {
	t.Helper()
	seen := map[*tracer.Trace]bool{}
	r.eachOperation(t, "linux", func(op *analysis.Operation) {
		if tr := op.Trace; !seen[tr] {
			seen[tr] = true
			var stood tracer.Time // when the machine last went on
			for i := range tr.Events {
				e := &tr.Events[i]
				if i > 0 && e.Time-tr.Events[i-1].Time > standstill {
					stood = e.Time
				}
				if e.Kind != tracer.KindLost {
					continue
				}
				if stood != 0 && e.Time-stood < standstill {
					t.Logf("%d events of CPU %d were lost as the machine went on after it had stood still", e.Value, e.CPU)
					continue
				}
				t.Errorf("%d events of CPU %d were lost", e.Value, e.CPU)
			}
		}
	})
}

func median(v []int64) int64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// stageNs is the time of the stages that a test picks, on the path and off it.
func stageNs(op *analysis.OperationResult, is func(name string) bool) (on, off int64) {
	for _, s := range op.Stages {
		if is(s.Name) {
			on += s.Ns
		}
	}
	for _, s := range op.OffPath {
		if is(s.Name) {
			off += s.Ns
		}
	}
	return on, off
}

// checkNamed allows what no stage claims a share of the wall time.
func checkNamed(t *testing.T, ops []*analysis.OperationResult, most float64) {
	t.Helper()
	var wall, nameless []int64
	for _, op := range ops {
		on, _ := stageNs(op, func(name string) bool { return name == analysis.StageOther || name == analysis.StageUnknown })
		wall, nameless = append(wall, op.WallNs), append(nameless, on)
	}
	w, n := median(wall), median(nameless)
	t.Logf("%-24s %2d operations, median %8.2f ms, other and unknown %.3f %%", ops[0].Target, len(ops), float64(w)/1e6, 100*float64(n)/float64(w))
	if float64(n) > most*float64(w) {
		t.Errorf("%s: other and unknown are %d of %d ns", ops[0].Target, n, w)
	}
}

// processKey is what the workloads name things by: <pid>-<starttime>.
func processKey(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return fmt.Sprintf("%d-%s", pid, f[19])
}

// ourLinks lists the interfaces that have the names of the workloads'.
func ourLinks(t *testing.T) (names []string) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if strings.HasPrefix(l.Name, "stbr") || strings.HasPrefix(l.Name, "stv") {
			names = append(names, l.Name)
		}
	}
	return names
}

// leftBehind lists what a run has made and not removed.
func (r *realRun) leftBehind(t *testing.T) (left []string) {
	t.Helper()
	for _, root := range []string{"/var/lib/stagetrace", "/run/stagetrace", "/sys/fs/cgroup"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // others come and go
				return nil
			case err != nil:
				return err
			case d.IsDir() && strings.Contains(d.Name(), r.key):
				left = append(left, name)
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, r.key) {
			left = append(left, "mount "+line)
		}
	}
	return append(append(left, r.processesLeft(t)...), r.dockerLeft(t)...)
}

func (r *realRun) processesLeft(t *testing.T) (left []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(r.key)) {
			left = append(left, fmt.Sprintf("%s: %q", f, b))
		}
	}
	return left
}

func (r *realRun) dockerLeft(t *testing.T) (left []string) {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		return nil
	}
	for _, args := range [][]string{
		{"ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.Labels}}"},
		{"images", "--format", "{{.Repository}}:{{.Tag}}"},
	} {
		out, err := exec.Command("docker", args...).Output()
		if err != nil {
			return nil // no daemon: the run had none either
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, r.key) {
				left = append(left, "docker "+args[0]+": "+line)
			}
		}
	}
	return left
}

// checkNothingLeft is said of a run that has ended. Interfaces do not name
// their run: those of other runs at the same time have to go first.
func (r *realRun) checkNothingLeft(t *testing.T) {
	t.Helper()
	if left := r.leftBehind(t); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	var more []string
	for deadline := time.Now().Add(20 * time.Second); ; {
		more = slices.DeleteFunc(ourLinks(t), func(l string) bool { return slices.Contains(r.links, l) })
		if len(more) == 0 || time.Now().After(deadline) {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	if len(more) > 0 {
		t.Errorf("interfaces left behind: %q", more)
	}
}
