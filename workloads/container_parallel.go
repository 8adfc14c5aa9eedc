package workloads

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
)

// lane is the parameter that tells the instances of one parallel operation
// apart. Nobody sets it but us.
const lane = "lane"

const mostParallel = 64

// inParallel gives the targets the parameter parallel: that many instances,
// each with a container of its own, whose operations are begun together.
func inParallel(targets []Target) []Target {
	all := make([]Target, len(targets))
	for i, t := range targets {
		all[i] = t
		all[i].New = func(p Params) (Instance, error) {
			text := orDefault(p["parallel"], "1")
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > mostParallel {
				return nil, fmt.Errorf("parallel %q: want 1 to %d", text, mostParallel)
			}
			if n == 1 {
				return t.New(p)
			}
			return newParallel(t, p, n)
		}
	}
	return all
}

// parallelInstance is several instances that work at the same time.
type parallelInstance []Instance

func newParallel(t Target, p Params, n int) (Instance, error) {
	var all parallelInstance
	for i := range n {
		own := p.clone()
		own[lane] = strconv.Itoa(i + 1)
		in, err := t.New(own)
		if err != nil {
			return nil, err
		}
		all = append(all, in)
	}
	return all, nil
}

// each calls f for all instances, one after the other, whatever fails.
func (l parallelInstance) each(f func(Instance) error) error {
	var errs []error
	for _, in := range l {
		errs = append(errs, f(in))
	}
	return errors.Join(errs...)
}

func (l parallelInstance) Setup(ctx context.Context) error {
	return l.each(func(in Instance) error { return in.Setup(ctx) })
}

func (l parallelInstance) Prepare(ctx context.Context, op int) error {
	return l.each(func(in Instance) error { return in.Prepare(ctx, op) })
}

// Do begins all operations, each on a thread of its own, and ends with the
// last of them. The exit code is the first that is not 0.
func (l parallelInstance) Do(ctx context.Context, op int) (Outcome, error) {
	outs, errs := make([]Outcome, len(l)), make([]error, len(l))
	var all sync.WaitGroup
	for i, in := range l {
		all.Go(func() {
			// What dies with the thread that started it must not die early.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			outs[i], errs[i] = in.Do(ctx, op)
		})
	}
	all.Wait()
	var sum Outcome
	for _, o := range outs {
		sum.Units += o.Units
		if sum.ExitCode == 0 {
			sum.ExitCode = o.ExitCode
		}
	}
	return sum, errors.Join(errs...)
}

func (l parallelInstance) Conclude(ctx context.Context, op int, out Outcome) error {
	return l.each(func(in Instance) error {
		one := out
		one.Units = out.Units / len(l) // 1 only if all did what they should
		return in.Conclude(ctx, op, one)
	})
}

func (l parallelInstance) Cleanup(ctx context.Context) error {
	return l.each(func(in Instance) error { return in.Cleanup(ctx) })
}
