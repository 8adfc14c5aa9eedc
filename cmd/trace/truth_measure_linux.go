//go:build amd64 || arm64

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// measureTruth records a program with the trace at self, and holds what the
// paths say against what the program's processes know.
func measureTruth(ctx context.Context, self string, p *truthProgram) (r *truthResult, err error) {
	dir, err := os.MkdirTemp("", "trace-truth-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, end := context.WithCancel(ctx)
	around, err := startAround(ctx, self, dir, p)
	defer func() {
		end()
		for _, c := range around {
			_ = c.Wait() // it was killed
		}
	}()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		m := &truthMeasuring{program: p, self: self, dir: filepath.Join(dir, strconv.Itoa(try)), socket: filepath.Join(dir, "socket")}
		for _, c := range around {
			m.around = append(m.around, int32(c.Process.Pid))
		}
		r, err = m.measure(ctx)
		// A virtual machine may stop in the middle of a run, but not of three.
		if err != nil || r.lost <= r.operations || try == 3 {
			return r, err
		}
	}
}

// startAround starts what runs beside the operations.
func startAround(ctx context.Context, self, dir string, p *truthProgram) (cmds []*exec.Cmd, err error) {
	start := func(args ...string) {
		if err == nil {
			var c *exec.Cmd
			if c, err = startTruth(ctx, self, args...); c != nil {
				cmds = append(cmds, c)
			}
		}
	}
	for _, name := range []string{p.server, p.stranger} {
		if name != "" {
			start(name, os.DevNull, filepath.Join(dir, "socket"))
		}
	}
	if p.burners {
		for cpu := range runtime.NumCPU() {
			start("burner", os.DevNull, strconv.Itoa(cpu))
		}
	}
	return cmds, err
}

// startTruth starts a program of the suite that says a line once it is ready.
func startTruth(ctx context.Context, self string, args ...string) (*exec.Cmd, error) {
	c := exec.CommandContext(ctx, self, append([]string{truthCommand}, args...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return c, fmt.Errorf("%s did not start: %w", args[0], err)
	}
	return c, nil
}

// truthMeasuring is one recording of a program on its way.
type truthMeasuring struct {
	program *truthProgram
	self    string
	dir     string
	socket  string
	around  []int32       // processes that run beside
	windows []truthWindow // of all operations
	result  *truthResult
}

func (m *truthMeasuring) measure(ctx context.Context) (*truthResult, error) {
	m.result = &truthResult{program: m.program}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		return nil, err
	}
	file, out := filepath.Join(m.dir, "windows"), filepath.Join(m.dir, "result")
	program := []string{truthCommand, m.program.name, file, m.socket}
	// Once by itself: whether it can run here.
	said, err := exec.CommandContext(ctx, m.self, program...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == truthSkip {
		m.result.skipped = string(bytes.TrimSpace(said))
		return m.result, nil
	} else if err != nil {
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	var stages []string
	args := []string{"run", "--out", out, "--warmup", "1", "--runs", strconv.Itoa(truthRuns), "--untraced", "0"}
	if m.program.stages != "" {
		stages = []string{filepath.Join(m.dir, "truth.stages.yaml")}
		if err := os.WriteFile(stages[0], []byte(m.program.stages), 0o644); err != nil {
			return nil, err
		}
		args = append(args, "--stages", stages[0])
	}
	run := exec.CommandContext(ctx, m.self, slices.Concat(args, []string{"--", m.self}, program)...)
	run.Dir = m.dir
	if said, err := run.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("trace run: %w: %s", err, said)
	}
	if m.windows, err = readTruthWindows(file); err != nil {
		return nil, err
	}
	m.result.found = make([]truthFound, len(m.program.expect))
	for i := range m.program.expect {
		m.result.found[i] = truthFound{expect: &m.program.expect[i], instead: map[string]tracer.Time{}}
	}
	set, err := loadStages(stages, []string{"linux"})
	if err != nil {
		return nil, err
	}
	each := operations(filepath.Join(out, eventsFile), set, analysis.Options{Settle: tracer.Time(defaultSettle)})
	if err := each(func(op *analysis.Operation) error { m.operation(op); return nil }); err != nil {
		return nil, err
	}
	return m.result, nil
}

// readTruthWindows reads what the processes of a program wrote in all of its
// runs.
func readTruthWindows(file string) (all []truthWindow, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for text := range bytes.Lines(b) {
		var windows []truthWindow
		if err := json.Unmarshal(text, &windows); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, windows...)
	}
	return all, nil
}

// operation holds one operation against what its program wrote.
func (m *truthMeasuring) operation(op *analysis.Operation) {
	m.checkBystanders(op)
	if op.LostEvents > 0 || op.Incomplete {
		m.result.lost++
		return
	}
	windows := slices.DeleteFunc(slices.Clone(m.windows), func(w truthWindow) bool {
		return tracer.Time(w.Begin) < op.Begin || tracer.Time(w.End) > op.End
	})
	if len(windows) == 0 {
		return
	}
	m.result.operations++
	for i := range m.result.found {
		f := &m.result.found[i]
		if truth, recorded, known := f.expect.hold(op, windows, f.instead); known {
			f.truth, f.recorded = append(f.truth, truth), append(f.recorded, recorded)
		}
	}
}

// hold gives what is known of an operation and what its path says; known is
// false when its program did not say. What the path has in the windows that is
// not what is expected is added up in instead.
func (e *truthExpectation) hold(op *analysis.Operation, windows []truthWindow, instead map[string]tracer.Time) (truth, recorded tracer.Time, known bool) {
	waiter := pidOf(windows, e.waiter)
	lo, hi := op.Begin, op.End
	if e.within != "" {
		for _, w := range windows {
			if w.Label == e.within {
				lo, hi = tracer.Time(w.Begin), tracer.Time(w.End)
			}
		}
	}
	for i := range windows {
		w := &windows[i]
		if w.Label != e.label {
			continue
		}
		known = true
		begin, end := max(tracer.Time(w.Begin), lo), min(tracer.Time(w.End), hi)
		if end <= begin {
			continue
		}
		truth += e.known(w, end-begin)
		for k := range op.Path.Segments {
			s := &op.Path.Segments[k]
			switch d := min(s.End, end) - max(s.Begin, begin); {
			case d <= 0:
			case e.matches(op, s, w.PID, waiter):
				recorded += d
			default:
				instead[segmentText(op, s)] += d
			}
		}
	}
	return truth, recorded, known
}

// known is the expected part of a window, of which length is looked at.
func (e *truthExpectation) known(w *truthWindow, length tracer.Time) tracer.Time {
	switch {
	case e.never:
		return 0
	case e.measure == truthBlocked:
		return max(0, length-tracer.Time(w.CPU+w.Delay))
	case e.measure == truthRan:
		return length - tracer.Time(w.Delay)
	}
	return length
}

func pidOf(windows []truthWindow, label string) int32 {
	for i := range windows {
		if windows[i].Label == label {
			return windows[i].PID
		}
	}
	return 0
}

// matches tells whether a segment is what is expected of a window of pid's.
func (e *truthExpectation) matches(op *analysis.Operation, s *analysis.Segment, pid, waiter int32) bool {
	taskPID := int32(0)
	if s.Task > 0 {
		taskPID = op.Trace.Tasks[s.Task].PID
	}
	switch {
	case e.never:
		return taskPID == pid
	case e.who == truthOwn && taskPID != pid, e.who == truthOthers && taskPID == pid:
		return false
	case e.state != tracer.StateUnknown && s.State != e.state:
		return false
	case e.stage != "" && !like(e.stage, stageOf(op, s)):
		return false
	case e.wait != "" && (s.Wait < 0 || !like(e.wait, op.Set.Waits[s.Wait].Name)):
		return false
	case e.waiter != "" && !waitedBy(op, s, waiter):
		return false
	}
	return true
}

// segmentText says in words what a segment is: who, in what state, in which stage.
func segmentText(op *analysis.Operation, s *analysis.Segment) string {
	who := "nobody"
	if s.Task > 0 {
		t := &op.Trace.Tasks[s.Task]
		who = fmt.Sprintf("%s %d/%d", t.Comm, t.PID, t.TID)
	}
	text := fmt.Sprintf("%s %s in %s", who, s.State, stageOf(op, s))
	if s.Wait >= 0 && s.State != tracer.StateRunning {
		text += " on " + op.Set.Waits[s.Wait].Name
	}
	return text
}

func like(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

func stageOf(op *analysis.Operation, s *analysis.Segment) string {
	if s.Stage < 0 {
		return analysis.StageOther
	}
	return op.Set.Stages[s.Stage].Name
}

// waitedBy tells whether a process is in the chain of those who waited for a
// segment.
func waitedBy(op *analysis.Operation, s *analysis.Segment, pid int32) bool {
	for at := s.Link; at >= 0; at = op.Path.Links[at].Parent {
		if w := op.Path.Links[at].Waiter; w > 0 && op.Trace.Tasks[w].PID == pid {
			return true
		}
	}
	return false
}

// checkBystanders wants that who has nothing to do with an operation is not
// said to.
func (m *truthMeasuring) checkBystanders(op *analysis.Operation) {
	stranger := func(id tracer.TaskID) bool { return id > 0 && m.stranger(op.Trace, id) }
	where := func(what string) {
		m.result.blamed = append(m.result.blamed, fmt.Sprintf("operation %d: a bystander is %s", op.Index, what))
	}
	for i := range op.Path.Segments {
		if stranger(op.Path.Segments[i].Task) {
			where("on the path")
		}
	}
	for i := range op.Path.Links {
		if stranger(op.Path.Links[i].Waiter) {
			where("among those who waited")
		}
	}
	for i := range op.Off {
		if stranger(op.Off[i].Task) {
			where("among the operation's late work")
		}
	}
}

// stranger tells whether a task is of a process that runs beside, or of one
// that such a process forked, and serves nobody.
func (m *truthMeasuring) stranger(tr *tracer.Trace, id tracer.TaskID) bool {
	own := m.around
	if m.program.server != "" {
		own = own[1:]
	}
	t := &tr.Tasks[id]
	return slices.Contains(own, t.PID) || t.Parent > 0 && slices.Contains(own, tr.Tasks[t.Parent].PID)
}
