//go:build amd64 || arm64

package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// primitive is one building block: a target of kernel-primitives.
type primitive struct {
	name, summary string
	repeat        int          // how often an operation does it unless asked otherwise; 0: once
	needs         func() error // says what this system lacks for it; nil: it lacks nothing
	open          func(w *bench) (*steps, error)
}

// steps are what is done for one operation. Only do is timed; each of the
// others may be nil.
type steps struct {
	before func() error // makes what do needs
	do     func() error
	after  func() error // takes away what do made, also when it failed
	close  func() error // once, at the end
}

// bench is where a primitive works. Everything in it is found and removed by
// the name of its state folder, as containers of the builtin engine are.
type bench struct {
	dir string // state folder
	n   int    // counts the names given
}

// path is a new name in the state folder.
func (w *bench) path() string { w.n++; return filepath.Join(w.dir, strconv.Itoa(w.n)) }

// mkdir makes a new folder in the state folder.
func (w *bench) mkdir() (string, error) {
	p := w.path()
	return p, os.Mkdir(p, 0o755)
}

func primitives() []primitive {
	return slices.Concat(nsPrimitives(), processPrimitives(), netPrimitives(), cgroupPrimitives(), mountPrimitives(), ipcPrimitives())
}

func primitiveTargets() []Target {
	var all []Target
	for _, p := range primitives() {
		all = append(all, Target{
			Name:    p.name,
			Summary: p.summary,
			Find:    func(context.Context) Found { return findPrimitive(p) },
			New:     func(params Params) (Instance, error) { return newPrimitive(p, params) },
		})
	}
	return all
}

func findPrimitive(p primitive) Found {
	if uid := os.Geteuid(); uid != 0 {
		return Found{State: NotAllowed, Why: fmt.Sprintf("needs root, this is uid %d", uid),
			Hint: "sudo -E trace run --workload kernel-primitives --target " + p.name}
	}
	if p.needs != nil {
		if err := p.needs(); err != nil {
			return Found{State: OtherSystem, Why: err.Error()}
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Found{Why: fmt.Sprintf("uname: %v", err)}
	}
	return Found{OK: true, Where: "kernel", Version: unix.ByteSliceToString(u.Release[:])}
}

const mostRepeats = 1_000_000

func newPrimitive(p primitive, params Params) (Instance, error) {
	text := orDefault(params["repeat"], "0")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostRepeats {
		return nil, fmt.Errorf("repeat %q: want 0 to %d", text, mostRepeats)
	}
	if n == 0 {
		n = max(1, p.repeat)
	}
	return &primitiveInstance{primitive: p, repeat: n, root: builtinRoot}, nil
}

// primitiveInstance carries one primitive out. All of its methods have to be
// called on one thread, as Run does: namespaces are a thread's.
type primitiveInstance struct {
	primitive
	repeat int
	root   string
	bench  *bench
	steps  *steps
}

func (p *primitiveInstance) Setup(context.Context) error {
	if err := sweepStates(p.root); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	dir, err := makeState(p.root)
	if err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	p.bench = &bench{dir: dir}
	if p.steps, err = p.open(p.bench); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

func (p *primitiveInstance) Prepare(context.Context, int) error {
	if p.steps == nil {
		return errors.New(p.name + ": not set up")
	}
	if p.repeat == 1 {
		return maybe(p.steps.before)
	}
	return nil
}

// Do does it once; what it repeats, with all that belongs to it.
func (p *primitiveInstance) Do(ctx context.Context, _ int) (Outcome, error) {
	if p.repeat == 1 {
		if err := p.steps.do(); err != nil {
			return Outcome{}, fmt.Errorf("%s: %w", p.name, err)
		}
		return Outcome{Units: 1}, nil
	}
	for i := range p.repeat {
		if err := ctx.Err(); err != nil {
			return Outcome{Units: i}, err
		}
		if err := p.once(); err != nil {
			return Outcome{Units: i}, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return Outcome{Units: p.repeat}, nil
}

func (p *primitiveInstance) once() error {
	if err := maybe(p.steps.before); err != nil {
		return err
	}
	return errors.Join(p.steps.do(), maybe(p.steps.after))
}

func maybe(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

func (p *primitiveInstance) Conclude(context.Context, int, Outcome) error {
	if p.steps == nil || p.repeat > 1 {
		return nil
	}
	return maybe(p.steps.after)
}

func (p *primitiveInstance) Cleanup(context.Context) error {
	var errs []error
	if p.steps != nil {
		errs = append(errs, maybe(p.steps.close))
		p.steps = nil
	}
	if p.bench != nil {
		errs = append(errs, removeState(p.bench.dir))
		p.bench = nil
	}
	errs = append(errs, sweepStates(p.root))
	_ = os.Remove(p.root) // unless another copy is at work: then it is not empty
	return errors.Join(errs...)
}
