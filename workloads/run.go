package workloads

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
)

// Phase is the part of a run that is going on.
type Phase string

const (
	PhaseSetup    Phase = "setup"
	PhaseWarmup   Phase = "warm-up"
	PhaseTraced   Phase = "traced"
	PhaseUntraced Phase = "untraced"
	PhaseSettle   Phase = "settle" // a recorder attaches, or sees late work out and detaches
	PhaseCleanup  Phase = "cleanup"
)

// Step tells how far a run is.
type Step struct {
	Phase  Phase
	Target string
	Done   int     // operations, all kinds and targets
	Total  int     // of the whole run
	Last   *Result // the operation that has just ended; nil when the step is another one
}

// Progress is called between operations, on the goroutine of Run.
type Progress func(Step)

// PanicError is a panic of a workload, met after everything was cleaned up.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("workload: panic: %v", e.Value) }

// Blocks is how many traced and untraced blocks the plan makes.
func (p Plan) Blocks() (traced, untraced int) {
	k := p.blockSize()
	return (p.Runs + k - 1) / k, (p.Untraced + k - 1) / k
}

// failuresInARow is how often in a row a target may fail to carry an
// operation out at all before the run ends. A command that exits with a code
// other than 0 was carried out.
const failuresInARow = 3

// Run carries a plan out: it sets the targets up, warms them up, and measures
// them in blocks with the targets' operations interleaved; traced blocks
// alternate with untraced ones, during which nothing of the recorder is
// attached. Without a recorder (nil) every operation is untraced, and there
// are as many as the larger of Runs and Untraced.
//
// What was finished is returned in every case. A failed operation is kept and
// does not end the run; a target that cannot be prepared, or that several
// times in a row cannot carry an operation out, does. When ctx is cancelled
// the operation in progress is dropped and the error is ctx's cause. Cleanup
// of every target that was set up has run when Run returns, after a panic too
// (which is then a *PanicError).
//
// The calling goroutine is locked to its thread: all operations run on that
// one thread, and so do the recorder's methods.
func Run(ctx context.Context, targets []Running, plan Plan, rec Recorder, progress Progress) ([]Result, error) {
	if len(targets) == 0 {
		return nil, errors.New("run: no targets")
	}
	if rec == nil {
		plan.Runs, plan.Untraced = 0, max(plan.Runs, plan.Untraced)
	}
	if plan.Warmup < 0 || plan.Runs < 0 || plan.Untraced < 0 || plan.Block < 0 {
		return nil, errors.New("run: negative number of operations")
	}
	if progress == nil {
		progress = func(Step) {}
	}
	settleRuntime()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := &runner{
		targets: targets, plan: plan, rec: rec, progress: progress, tid: threadID(),
		states: make([]targetState, len(targets)),
		total:  (plan.Warmup + plan.Runs + plan.Untraced) * len(targets),
	}
	r.results = make([]Result, 0, r.total)
	err := r.run(ctx)
	return r.results, err
}

// settleRuntime makes the Go runtime do what it does only once, outside of any
// operation: before it starts its first process, package os tries pidfds out
// on a child of its own.
func settleRuntime() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release() // it was only looked up
	}
}

// runner is the state of one run.
type runner struct {
	targets  []Running
	states   []targetState // of targets, same index
	plan     Plan
	rec      Recorder
	progress Progress
	gc       *collector
	tid      int
	results  []Result
	index    int // of the last operation begun
	total    int
}

type targetState struct {
	setUp   bool // Setup was called
	begun   bool // it has had an operation
	failing int  // operations in a row that could not be carried out
}

func (r *runner) run(ctx context.Context) (err error) {
	defer func() {
		if failed := r.cleanup(ctx); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			stack := make([]byte, 64<<10)
			err = &PanicError{Value: v, Stack: stack[:runtime.Stack(stack, false)]}
		}
	}()
	for i, t := range r.targets {
		r.step(PhaseSetup, t.Target)
		r.states[i].setUp = true
		if err := t.Instance.Setup(ctx); err != nil {
			return r.cancelled(ctx, fmt.Errorf("%s: set-up: %w", t.Target, err))
		}
	}
	gc, restore := newCollector()
	defer restore()
	r.gc = gc
	for _, b := range r.plan.blocks(r.rec != nil) {
		if err := r.block(ctx, b); err != nil {
			return r.cancelled(ctx, err)
		}
	}
	return nil
}

// cancelled prefers the reason for a cancelled run over what broke because of
// it.
func (r *runner) cancelled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// block carries out one block, and leaves nothing attached.
func (r *runner) block(ctx context.Context, b block) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.prepareBlock(ctx); err != nil {
		return err
	}
	if b.traced {
		r.step(PhaseSettle, "")
		if err := r.rec.Start(ctx, b.warmup); err != nil {
			return fmt.Errorf("start recording: %w", err)
		}
		stopped := false
		stop := func() error {
			stopped = true
			r.step(PhaseSettle, "")
			if err := r.rec.Stop(ctx); err != nil {
				return fmt.Errorf("stop recording: %w", err)
			}
			return nil
		}
		defer func() {
			if !stopped { // a panic is on its way
				err = errors.Join(err, stop())
			}
		}()
		return errors.Join(r.rounds(ctx, b), stop())
	}
	return r.rounds(ctx, b)
}

// prepareBlock lets targets do what nobody should watch.
func (r *runner) prepareBlock(ctx context.Context) error {
	for _, t := range r.targets {
		if p, ok := t.Instance.(BlockPreparer); ok {
			if err := p.PrepareBlock(ctx); err != nil {
				return fmt.Errorf("%s: prepare a block: %w", t.Target, err)
			}
		}
	}
	return nil
}

// rounds interleaves the targets: A B C A B C.
func (r *runner) rounds(ctx context.Context, b block) error {
	for range b.size {
		for i := range r.targets {
			if err := ctx.Err(); err != nil {
				return err
			}
			r.gc.betweenOperations()
			if err := r.operation(ctx, i, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// operation carries out one operation: Prepare, Do, Conclude. Its error ends
// the run.
func (r *runner) operation(ctx context.Context, i int, b block) error {
	t, st := r.targets[i], &r.states[i]
	r.index++
	res := Result{Op: Op{Target: t.Target, Index: r.index, Warmup: b.warmup, Traced: b.traced, First: !st.begun}}
	st.begun = true
	if err := t.Instance.Prepare(ctx, res.Index); err != nil {
		return fmt.Errorf("%s: prepare operation %d: %w", t.Target, res.Index, err)
	}
	r.measure(ctx, t.Instance, &res)
	// What the operation left is put away even when the run is cancelled.
	after, cancel := cleanupContext(ctx)
	defer cancel()
	res.Leftovers = groupMembers(res.Group)
	concluded := t.Instance.Conclude(after, res.Index, res.Outcome)
	if err := ctx.Err(); err != nil {
		return err // the operation was cut short: it says nothing
	}
	carriedOut := res.Err == nil
	if carriedOut && res.ExitCode != 0 {
		res.Err = &ExitError{Code: res.ExitCode}
	}
	r.results = append(r.results, res)
	r.progress(Step{Phase: b.phase(), Target: t.Target, Done: len(r.results), Total: r.total, Last: &res})
	if concluded != nil {
		return fmt.Errorf("%s: conclude operation %d: %w", t.Target, res.Index, concluded)
	}
	return st.judge(res, carriedOut)
}

// measure is the timed part. Between the two readings of the clock there is
// the operation and nothing else of ours.
func (r *runner) measure(ctx context.Context, inst Instance, res *Result) {
	if res.Traced {
		r.rec.OpBegin(res.Op, monotonic(), r.tid)
	}
	res.Begin = monotonic()
	out, err := inst.Do(ctx, res.Index)
	res.End = monotonic()
	res.Outcome, res.Err = out, err
	if res.Traced {
		r.rec.OpEnd(*res, r.tid)
	}
}

// judge says whether a target has failed too often to go on.
func (st *targetState) judge(res Result, carriedOut bool) error {
	if carriedOut {
		st.failing = 0
		return nil
	}
	st.failing++
	missing := errors.Is(res.Err, exec.ErrNotFound) || errors.Is(res.Err, fs.ErrNotExist)
	if res.First && missing {
		return fmt.Errorf("%s: %w", res.Target, res.Err)
	}
	if st.failing >= failuresInARow {
		return fmt.Errorf("%s: %d operations in a row could not be carried out, the last: %w", res.Target, st.failing, res.Err)
	}
	return nil
}

// cleanup undoes every set-up, whatever happened before, in reverse order.
func (r *runner) cleanup(ctx context.Context) error {
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	var errs []error
	for i := len(r.targets) - 1; i >= 0; i-- {
		if !r.states[i].setUp {
			continue
		}
		r.step(PhaseCleanup, r.targets[i].Target)
		if err := cleanUp(ctx, r.targets[i].Instance); err != nil {
			errs = append(errs, fmt.Errorf("%s: clean-up: %w", r.targets[i].Target, err))
		}
	}
	return errors.Join(errs...)
}

// cleanUp keeps a panic in one target's clean-up from costing the others
// theirs.
func cleanUp(ctx context.Context, inst Instance) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v}
		}
	}()
	return inst.Cleanup(ctx)
}

func (r *runner) step(phase Phase, target string) {
	r.progress(Step{Phase: phase, Target: target, Done: len(r.results), Total: r.total})
}

// ExitError is an operation that was carried out and did not succeed.
type ExitError struct{ Code int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Code) }
