//go:build amd64 || arm64

package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// builtinHeld is the builtin engine with one container that is running all the
// time, which other parts of the engine are told to enter or to freeze.
type builtinHeld struct {
	*builtin
	engine *os.Process // of the container; nil: none
}

func (b *builtinHeld) adopt(ctx context.Context, _ int, program string) error {
	if b.dir == "" {
		return errors.New("builtin engine: not set up")
	}
	b.spec.Args = []string{program}
	return errors.Join(b.settle(ctx), b.writeSpec())
}

// launch starts the container's engine and waits until it says that the
// container runs.
func (b *builtinHeld) launch(ctx context.Context) error {
	p, err := os.StartProcess(b.exe, b.part("run"), &b.attr)
	if err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	b.engine = p
	for {
		_, err := readEngineState(b.dir, heldID)
		if err == nil {
			return nil
		}
		if p.Signal(unix.Signal(0)) != nil || rest(ctx, pauseRest/10) != nil {
			return fmt.Errorf("engine: %w: %s", err, lastLine(tail(b.log)))
		}
	}
}

// heldID is the container's name.
var heldID = engineID(0)

func (b *builtinHeld) part(role string) []string {
	return []string{"trace", engineCommand, role, b.dir, heldID}
}

// settle ends the engine, which removes its container before it exits.
func (b *builtinHeld) settle(context.Context) error {
	if b.engine == nil {
		return nil
	}
	p := b.engine
	b.engine = nil
	// A frozen container does not die before it is thawed.
	for _, parent := range b.spec.Cgroups {
		_ = freezeCgroup(parent+"/"+heldID, false) // it may be gone with its engine
	}
	_ = p.Signal(unix.SIGTERM) // so may this
	if _, err := p.Wait(); err != nil {
		return fmt.Errorf("wait for the engine: %w", err)
	}
	return removeEngineContainer(b.dir, b.spec, heldID)
}

func (b *builtinHeld) Cleanup(ctx context.Context) error {
	return errors.Join(b.settle(ctx), b.builtin.Cleanup(ctx))
}

// call runs a part of the engine until it exits.
func (b *builtinHeld) call(role string) (int, error) {
	p, err := os.StartProcess(b.exe, b.part(role), &b.attr)
	if err != nil {
		return 0, fmt.Errorf("start the engine: %w", err)
	}
	state, err := p.Wait()
	if err != nil {
		return 0, fmt.Errorf("wait for the engine: %w", err)
	}
	code := exitCode(state)
	if code == engineFailed {
		return code, fmt.Errorf("engine: %s", lastLine(tail(b.log)))
	}
	return code, nil
}

func (b *builtinHeld) exec(context.Context, string) (int, error) { return b.call("exec") }

func (b *builtinHeld) pause(context.Context) error {
	_, err := b.call("pause")
	return err
}

func (b *builtinHeld) unpause(context.Context) error {
	_, err := b.call("unpause")
	return err
}

func (b *builtinHeld) steady(context.Context, bool) error { return nil }

var errNoDaemon = fmt.Errorf("the builtin engine has no daemon that a container could be left with: %w", errors.ErrUnsupported)

func (b *builtinHeld) create(context.Context) error { return errNoDaemon }
func (b *builtinHeld) start(context.Context) error  { return errNoDaemon }
