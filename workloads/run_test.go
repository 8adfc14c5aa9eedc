package workloads

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// script is what a fake target does, and what the fakes were asked to do.
type script struct {
	calls   []string
	do      func(op int) (Outcome, error)
	prepare func(op int) error
	setup   error
	cleanup error
}

func (s *script) log(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

type fakeInstance struct {
	name string
	*script
}

func (f fakeInstance) Setup(context.Context) error {
	f.log("%s setup", f.name)
	return f.setup
}

func (f fakeInstance) Prepare(_ context.Context, op int) error {
	f.log("%s prepare %d", f.name, op)
	if f.prepare != nil {
		return f.prepare(op)
	}
	return nil
}

func (f fakeInstance) Do(_ context.Context, op int) (Outcome, error) {
	f.log("%s do %d", f.name, op)
	if f.do != nil {
		return f.do(op)
	}
	return Outcome{Units: 1}, nil
}

func (f fakeInstance) Conclude(_ context.Context, op int, _ Outcome) error {
	f.log("%s conclude %d", f.name, op)
	return nil
}

func (f fakeInstance) Cleanup(ctx context.Context) error {
	f.log("%s cleanup", f.name)
	return errors.Join(f.cleanup, ctx.Err())
}

type fakeRecorder struct {
	*script
	tids map[int]bool
	err  error
}

func (r *fakeRecorder) Start(_ context.Context, warmup bool) error {
	r.log("start warmup=%v", warmup)
	return r.err
}

func (r *fakeRecorder) OpBegin(op Op, at int64, tid int) {
	r.tids[tid] = true
	r.log("begin %s %d", op.Target, op.Index)
}

func (r *fakeRecorder) OpEnd(res Result, tid int) {
	r.tids[tid] = true
	r.log("end %s %d", res.Target, res.Index)
}

func (r *fakeRecorder) Stop(context.Context) error {
	r.log("stop")
	return nil
}

func fakes(names ...string) (*script, []Running, *fakeRecorder) {
	s := &script{}
	var list []Running
	for _, n := range names {
		list = append(list, Running{Target: n, Instance: fakeInstance{n, s}})
	}
	return s, list, &fakeRecorder{script: s, tids: map[int]bool{}}
}

func TestRunOrder(t *testing.T) {
	s, targets, rec := fakes("a", "b")
	results, err := Run(t.Context(), targets, Plan{Warmup: 1, Runs: 2, Untraced: 2, Block: 2}, rec, nil)
	if err != nil {
		t.Fatal(err)
	}
	traced := func(op int, target string) []string {
		return []string{
			fmt.Sprintf("%s prepare %d", target, op), fmt.Sprintf("begin %s %d", target, op), fmt.Sprintf("%s do %d", target, op),
			fmt.Sprintf("end %s %d", target, op), fmt.Sprintf("%s conclude %d", target, op),
		}
	}
	untraced := func(op int, target string) []string {
		return []string{fmt.Sprintf("%s prepare %d", target, op), fmt.Sprintf("%s do %d", target, op), fmt.Sprintf("%s conclude %d", target, op)}
	}
	want := slices.Concat([]string{"a setup", "b setup", "start warmup=true"}, traced(1, "a"), traced(2, "b"),
		[]string{"stop", "start warmup=false"}, traced(3, "a"), traced(4, "b"), traced(5, "a"), traced(6, "b"), []string{"stop"},
		untraced(7, "a"), untraced(8, "b"), untraced(9, "a"), untraced(10, "b"), []string{"b cleanup", "a cleanup"})
	if !slices.Equal(s.calls, want) {
		t.Errorf("calls\n%s\nwant\n%s", strings.Join(s.calls, "\n"), strings.Join(want, "\n"))
	}
	if len(rec.tids) != 1 {
		t.Errorf("operations on %d threads, want one", len(rec.tids))
	}
	for i, r := range results {
		op := Op{Target: []string{"a", "b"}[i%2], Index: i + 1, Warmup: i < 2, Traced: i < 6, First: i < 2}
		if r.Op != op {
			t.Errorf("result %d is of %+v, want %+v", i, r.Op, op)
		}
		if r.End < r.Begin || r.Begin == 0 || r.Units != 1 || r.Err != nil {
			t.Errorf("result %d: %+v", i, r)
		}
	}
}

func TestRunBlocksAlternate(t *testing.T) {
	for _, c := range []struct {
		plan Plan
		want string
	}{
		{Plan{Runs: 4, Untraced: 4, Block: 1}, "TUUTTUUT"},
		{Plan{Runs: 30, Untraced: 30}, "TUUTTUUTTUUT"},
		{Plan{Runs: 4, Untraced: 2, Block: 1}, "TUTTUT"},
		{Plan{Runs: 3, Block: 1}, "TTT"},
		{Plan{Untraced: 3, Block: 1}, "UUU"},
		{Plan{Warmup: 5, Runs: 1, Untraced: 1}, "WTU"},
		{Plan{}, ""},
	} {
		var got strings.Builder
		for _, b := range c.plan.blocks(true) {
			got.WriteString(map[Phase]string{PhaseWarmup: "W", PhaseTraced: "T", PhaseUntraced: "U"}[b.phase()])
		}
		if got.String() != c.want {
			t.Errorf("%+v: blocks %s, want %s", c.plan, got.String(), c.want)
		}
	}
}

// TestRunBlocksProperty: whatever the plan, each kind gets its number, no block
// is larger than it may be, and the kinds progress together.
func TestRunBlocksProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Plan{Runs: rapid.IntRange(0, 300).Draw(t, "runs"), Untraced: rapid.IntRange(0, 300).Draw(t, "untraced"),
			Block: rapid.IntRange(0, 20).Draw(t, "block")}
		done := map[bool]int{}
		want := map[bool]int{true: p.Runs, false: p.Untraced}
		for _, b := range p.blocks(true) {
			if b.size < 1 || b.size > p.blockSize() {
				t.Fatalf("block of %d", b.size)
			}
			done[b.traced] += b.size
			if p.Runs == p.Untraced && max(done[true]-done[false], done[false]-done[true]) > p.blockSize() {
				t.Fatalf("%d traced and %d untraced so far", done[true], done[false])
			}
		}
		if done[true] != want[true] || done[false] != want[false] {
			t.Fatalf("laid out %v, want %v", done, want)
		}
		blocksT, blocksU := p.Blocks()
		if n := len(p.blocks(true)); n != blocksT+blocksU {
			t.Fatalf("%d blocks, Blocks says %d and %d", n, blocksT, blocksU)
		}
	})
}

func TestRunWithoutRecorder(t *testing.T) {
	_, targets, _ := fakes("a")
	results, err := Run(t.Context(), targets, Plan{Warmup: 1, Runs: 4, Untraced: 2}, nil, nil)
	if err != nil || len(results) != 5 {
		t.Fatalf("%d results, %v; want 5", len(results), err)
	}
	for _, r := range results {
		if r.Traced {
			t.Errorf("operation %d is called traced", r.Index)
		}
	}
}

func TestRunKeepsFailures(t *testing.T) {
	s, targets, _ := fakes("a")
	broken := errors.New("broken")
	s.do = func(op int) (Outcome, error) {
		switch op % 3 {
		case 1:
			return Outcome{ExitCode: 7}, nil
		case 2:
			return Outcome{}, broken
		}
		return Outcome{Units: 1}, nil
	}
	results, err := Run(t.Context(), targets, Plan{Untraced: 12}, nil, nil)
	if err != nil || len(results) != 12 {
		t.Fatalf("%d results, %v; want 12", len(results), err)
	}
	var exit *ExitError
	if !errors.As(results[0].Err, &exit) || exit.Code != 7 {
		t.Errorf("operation 1: %v, want exit status 7", results[0].Err)
	}
	if !errors.Is(results[1].Err, broken) || results[2].Err != nil {
		t.Errorf("operations 2 and 3: %v, %v", results[1].Err, results[2].Err)
	}
}

func TestRunGivesUp(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want int // operations
	}{
		{"three in a row", errors.New("daemon is gone"), failuresInARow},
		{"program missing", fmt.Errorf("program %q: %w", "nowhere", exec.ErrNotFound), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, targets, _ := fakes("a")
			s.do = func(int) (Outcome, error) { return Outcome{}, c.err }
			results, err := Run(t.Context(), targets, Plan{Untraced: 10}, nil, nil)
			if !errors.Is(err, c.err) || len(results) != c.want {
				t.Errorf("%d results, %v; want %d and %v", len(results), err, c.want, c.err)
			}
			if s.calls[len(s.calls)-1] != "a cleanup" {
				t.Errorf("last call %q, want the clean-up", s.calls[len(s.calls)-1])
			}
		})
	}
}

func TestRunStopsWhenItCannotPrepare(t *testing.T) {
	s, targets, rec := fakes("a")
	broken := errors.New("no")
	s.prepare = func(op int) error {
		if op == 2 {
			return broken
		}
		return nil
	}
	results, err := Run(t.Context(), targets, Plan{Runs: 5}, rec, nil)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "a: prepare operation 2") || len(results) != 1 {
		t.Errorf("%d results, %v", len(results), err)
	}
	if want := []string{"a prepare 2", "stop", "a cleanup"}; !slices.Equal(s.calls[len(s.calls)-3:], want) {
		t.Errorf("last calls %q, want %q", s.calls[len(s.calls)-3:], want)
	}
}

func TestRunCancelled(t *testing.T) {
	s, targets, rec := fakes("a", "b")
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	s.do = func(op int) (Outcome, error) {
		if op == 3 {
			cancel(interrupted)
			return Outcome{}, ctx.Err()
		}
		return Outcome{Units: 1}, nil
	}
	results, err := Run(ctx, targets, Plan{Runs: 5}, rec, nil)
	if err != interrupted {
		t.Errorf("error %v, want the cause", err)
	}
	if len(results) != 2 {
		t.Errorf("%d results, want the 2 that were finished", len(results))
	}
	if want := []string{"a conclude 3", "stop", "b cleanup", "a cleanup"}; !slices.Equal(s.calls[len(s.calls)-4:], want) {
		t.Errorf("last calls %q, want %q", s.calls[len(s.calls)-4:], want)
	}
}

func TestRunPanic(t *testing.T) {
	s, targets, rec := fakes("a", "b")
	s.do = func(op int) (Outcome, error) {
		if op == 2 {
			panic("oh")
		}
		return Outcome{}, nil
	}
	results, err := Run(t.Context(), targets, Plan{Runs: 2}, rec, nil)
	var p *PanicError
	if !errors.As(err, &p) || p.Value != "oh" || len(p.Stack) == 0 {
		t.Errorf("error %v, want the panic with its stack", err)
	}
	if len(results) != 1 {
		t.Errorf("%d results, want 1", len(results))
	}
	if want := []string{"stop", "b cleanup", "a cleanup"}; !slices.Equal(s.calls[len(s.calls)-3:], want) {
		t.Errorf("last calls %q, want %q", s.calls[len(s.calls)-3:], want)
	}
}

func TestRunSetupFails(t *testing.T) {
	s, targets, _ := fakes("a", "b")
	s.setup = errors.New("no daemon")
	s.cleanup = errors.New("nothing to clean")
	_, err := Run(t.Context(), targets, Plan{Runs: 2}, nil, nil)
	if !errors.Is(err, s.setup) || !errors.Is(err, s.cleanup) {
		t.Errorf("error %v, want both", err)
	}
	if want := []string{"a setup", "a cleanup"}; !slices.Equal(s.calls, want) {
		t.Errorf("calls %q, want %q", s.calls, want)
	}
}

func TestRunRecorderFails(t *testing.T) {
	s, targets, rec := fakes("a")
	rec.err = errors.New("no such probe")
	_, err := Run(t.Context(), targets, Plan{Runs: 2}, rec, nil)
	if !errors.Is(err, rec.err) {
		t.Errorf("error %v, want the recorder's", err)
	}
	if s.calls[len(s.calls)-1] != "a cleanup" {
		t.Errorf("calls %q: no clean-up", s.calls)
	}
}

func TestRunProgress(t *testing.T) {
	_, targets, rec := fakes("a", "b")
	var phases []Phase
	var last Step
	_, err := Run(t.Context(), targets, Plan{Warmup: 1, Runs: 2, Untraced: 1}, rec, func(s Step) {
		if len(phases) == 0 || phases[len(phases)-1] != s.Phase {
			phases = append(phases, s.Phase)
		}
		if s.Last != nil {
			last = s
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if last.Done != 8 || last.Total != 8 || last.Target != "b" {
		t.Errorf("last operation's step %+v, want 8 of 8", last)
	}
	if phases[0] != PhaseSetup || phases[len(phases)-1] != PhaseCleanup || !slices.Contains(phases, PhaseWarmup) {
		t.Errorf("phases %v", phases)
	}
}

func TestRunRefusesNonsense(t *testing.T) {
	if _, err := Run(t.Context(), nil, Plan{Runs: 1}, nil, nil); err == nil {
		t.Error("no targets: no error")
	}
	_, targets, _ := fakes("a")
	if _, err := Run(t.Context(), targets, Plan{Warmup: -1}, nil, nil); err == nil {
		t.Error("negative warm-up: no error")
	}
}
