package workloads

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// containerDriver is one way to tell one engine what to do with one container
// at a time. Setup and Cleanup are an Instance's.
type containerDriver interface {
	Setup(ctx context.Context) error
	Cleanup(ctx context.Context) error
	// adopt names the next container, which will run program; what is left of
	// the one before is removed.
	adopt(ctx context.Context, op int, program string) error
	create(ctx context.Context) error // and do not start it
	start(ctx context.Context) error  // what was created; returns with the engine's answer
	launch(ctx context.Context) error // create and start, as one request where there is one
	// exec runs a program inside, waits for its end, and gives its exit code.
	exec(ctx context.Context, program string) (int, error)
	pause(ctx context.Context) error
	unpause(ctx context.Context) error
	// steady returns when the engine says that the container runs (or is
	// paused) and can be told the next thing.
	steady(ctx context.Context, paused bool) error
	settle(ctx context.Context) error // the container is gone when it returns
}

// fullInstance is a driver that also carries a whole life of a container out:
// what op=run does.
type fullInstance interface {
	containerDriver
	Instance
}

// containerOperation is what is done with a container. Only do is timed.
type containerOperation struct {
	holds    bool // on one container that runs all the time; else each has its own
	prepare  func(ctx context.Context, d containerDriver) error
	do       func(ctx context.Context, d containerDriver) (int, error)
	conclude func(ctx context.Context, d containerDriver) error
}

// plain is an operation that has no exit code.
func plain(f func(containerDriver, context.Context) error) func(context.Context, containerDriver) (int, error) {
	return func(ctx context.Context, d containerDriver) (int, error) { return 0, f(d, ctx) }
}

// containerOperations has one row per value of the parameter op of the
// container workloads, but for "run".
func containerOperations() map[string]containerOperation {
	steady := func(paused bool) func(context.Context, containerDriver) error {
		return func(ctx context.Context, d containerDriver) error { return d.steady(ctx, paused) }
	}
	return map[string]containerOperation{
		"run-detached": {do: plain(containerDriver.launch)},
		"start": {
			prepare: func(ctx context.Context, d containerDriver) error { return d.create(ctx) },
			do:      plain(containerDriver.start),
		},
		"exec": {
			holds: true,
			do:    func(ctx context.Context, d containerDriver) (int, error) { return d.exec(ctx, probeProgram) },
		},
		"pause": {
			holds: true, prepare: steady(false), do: plain(containerDriver.pause),
			conclude: func(ctx context.Context, d containerDriver) error {
				return errors.Join(d.steady(ctx, true), d.unpause(ctx))
			},
		},
		"unpause": {
			holds: true, do: plain(containerDriver.unpause),
			prepare: func(ctx context.Context, d containerDriver) error {
				if err := d.steady(ctx, false); err != nil {
					return err
				}
				return errors.Join(d.pause(ctx), d.steady(ctx, true))
			},
		},
	}
}

// withOperation is the instance for the parameter op.
func withOperation(p Params, d fullInstance) (Instance, error) {
	name := orDefault(p["op"], "run")
	if name == "run" {
		return d, nil
	}
	op, ok := containerOperations()[name]
	if !ok {
		known := slices.Sorted(maps.Keys(containerOperations()))
		return nil, fmt.Errorf("operation %q: want run, %s", name, strings.Join(known, ", "))
	}
	return &operationInstance{driver: d, op: op}, nil
}

// operationInstance carries one operation out by a driver.
type operationInstance struct {
	driver containerDriver
	op     containerOperation
	ready  bool // a container to hold is there
}

func (o *operationInstance) Setup(ctx context.Context) error {
	if err := o.driver.Setup(ctx); err != nil {
		return err
	}
	if !o.op.holds {
		return nil
	}
	if err := o.driver.adopt(ctx, 0, pauseProgram); err != nil {
		return err
	}
	if err := o.driver.launch(ctx); err != nil {
		return err
	}
	o.ready = true
	return nil
}

func (o *operationInstance) Prepare(ctx context.Context, op int) error {
	switch {
	case !o.op.holds:
		if err := o.driver.adopt(ctx, op, probeProgram); err != nil {
			return err
		}
	case !o.ready:
		return errors.New("no container is running: not set up")
	}
	if o.op.prepare == nil {
		return nil
	}
	return o.op.prepare(ctx, o.driver)
}

func (o *operationInstance) Do(ctx context.Context, _ int) (Outcome, error) {
	code, err := o.op.do(ctx, o.driver)
	if err != nil {
		return Outcome{ExitCode: code}, err
	}
	return Outcome{Units: 1, ExitCode: code}, nil
}

func (o *operationInstance) Conclude(ctx context.Context, _ int, out Outcome) error {
	if !o.op.holds {
		return o.driver.settle(ctx)
	}
	if o.op.conclude == nil || out.Units == 0 {
		return nil
	}
	return o.op.conclude(ctx, o.driver)
}

func (o *operationInstance) Cleanup(ctx context.Context) error {
	o.ready = false
	return o.driver.Cleanup(ctx)
}

// mountSource is the host's folder that the parameter mounts mounts into
// containers: one that every system has, and that is read-only in there.
const mountSource = "/usr/share"

// mountTarget is where the mount number i is in a container.
func mountTarget(i int) string { return "/mnt" + strconv.Itoa(i) }

const mostMounts = 64

// mountCount reads the parameter mounts.
func mountCount(p Params) (int, error) {
	text := orDefault(p["mounts"], "0")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostMounts {
		return 0, fmt.Errorf("mounts %q: want 0 to %d", text, mostMounts)
	}
	return n, nil
}

// notOnPath says that a program is not there.
func notOnPath(name, install string) Found {
	return Found{State: NotInstalled, Why: "no " + name + " on PATH", Hint: install}
}
