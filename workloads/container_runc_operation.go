//go:build linux

package workloads

import (
	"context"
	"fmt"
)

// A runtime's answer to each command is its exit code. What it leaves running
// is a child of process 1, or of whoever reaps orphans.

func (r *runcInstance) create(ctx context.Context) error {
	return r.succeed(ctx, "create", "--bundle", r.bundle, r.id)
}

func (r *runcInstance) start(ctx context.Context) error { return r.succeed(ctx, "start", r.id) }

func (r *runcInstance) launch(ctx context.Context) error {
	return r.succeed(ctx, "run", "--detach", "--bundle", r.bundle, r.id)
}

func (r *runcInstance) exec(ctx context.Context, program string) (int, error) {
	return r.call(ctx, "exec", r.id, program)
}

func (r *runcInstance) pause(ctx context.Context) error { return r.succeed(ctx, "pause", r.id) }

func (r *runcInstance) unpause(ctx context.Context) error { return r.succeed(ctx, "resume", r.id) }

// steady has nothing to wait for: a runtime keeps no state in a process.
func (r *runcInstance) steady(context.Context, bool) error { return nil }

// succeed wants the exit code 0.
func (r *runcInstance) succeed(ctx context.Context, args ...string) error {
	code, err := r.call(ctx, args...)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s %s: exit code %d: %s", r.runtime.name, args[0], code, r.process.message())
	}
	return err
}
