//go:build amd64 || arm64

package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// builtinRoot is where state folders are made: on a disk, as those of other
// engines are, so that writing state through costs what it costs them.
const builtinRoot = "/var/lib/stagetrace"

// findBuiltin asks for the capabilities that the engine cannot do without.
func findBuiltin(context.Context) Found {
	exe, err := os.Executable()
	if err != nil {
		return Found{Why: fmt.Sprintf("path of this program: %v", err)}
	}
	for _, need := range []struct {
		bit  uint
		name string
	}{{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_MKNOD, "CAP_MKNOD"}} {
		has, err := hasCapability(need.bit)
		if err != nil {
			return Found{Why: fmt.Sprintf("read capabilities: %v", err)}
		}
		if !has {
			return Found{State: NotAllowed, Where: exe, Why: "needs " + need.name, Hint: "sudo " + filepath.Base(exe) + " run --workload container-start --target builtin"}
		}
	}
	return Found{OK: true, Where: exe, Version: "part of this program"}
}

func newBuiltin(p Params) (Instance, error) {
	b := &builtin{params: p, root: builtinRoot, program: trueELF(runtime.GOARCH)}
	name := orDefault(p["op"], "run")
	if name == "run" {
		return b, nil
	}
	op, ok := containerOperations()[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("builtin engine: no operation %q", name)
	case !op.holds:
		return nil, errNoDaemon
	}
	return &operationInstance{driver: &builtinHeld{builtin: b}, op: op}, nil
}

// builtin runs containers with the builtin engine.
type builtin struct {
	params  Params
	root    string
	program []byte // the container's program

	dir     string // state folder; "": none yet
	exe     string
	spec    engineSpec
	log     *os.File
	null    *os.File
	attr    os.ProcAttr
	running atomic.Pointer[os.Process]
	unwatch func() bool
}

func (b *builtin) Setup(ctx context.Context) error {
	if f := findBuiltin(ctx); !f.OK {
		return errors.New(f.Why)
	}
	if err := sweepStates(b.root); err != nil {
		return fmt.Errorf("remove what an earlier run left: %w", err)
	}
	mounts, err := mountCount(b.params)
	if err != nil {
		return err
	}
	if b.exe, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = makeState(b.root); err != nil {
		return fmt.Errorf("state folder: %w", err)
	}
	b.spec = engineSpec{
		Args: []string{probeProgram}, Env: []string{"PATH=/", "HOME=/"},
		Rootfs:  filepath.Join(b.dir, rootfsDir),
		Network: b.params["network"], Fsync: b.params["fsync"] != "off", Mounts: mounts,
	}
	if err := os.Mkdir(filepath.Join(b.dir, containersDir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(b.spec.Rootfs, 0o755); err != nil {
		return err
	}
	if err := writeRootfs(b.spec.Rootfs, rootfsEntries(runtime.GOARCH, b.program)); err != nil {
		return err
	}
	if b.params["cgroup"] != "off" {
		if b.spec.Cgroups, b.spec.Unified, err = cgroupParents(filepath.Base(b.dir)); err != nil {
			return err
		}
	}
	if b.spec.Network == "bridge" {
		if b.spec.Bridge, err = makeBridge(b.dir); err != nil {
			return err
		}
	}
	return b.open()
}

// open writes the engine's description and opens its standard files.
func (b *builtin) open() error {
	err := b.writeSpec()
	if err != nil {
		return err
	}
	if b.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return err
	}
	b.log, err = os.OpenFile(filepath.Join(b.dir, logFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// When we are killed the engine still removes its container.
	sys := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM}
	b.attr = os.ProcAttr{Dir: "/", Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Files: []*os.File{b.null, b.null, b.log}, Sys: sys}
	return nil
}

func (b *builtin) writeSpec() error {
	text, err := json.Marshal(b.spec)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, specFile), text, 0o600)
}

func (b *builtin) Prepare(ctx context.Context, _ int) error {
	b.unwatch = context.AfterFunc(ctx, b.kill) // here and not in Do, which is timed
	return nil
}

func (b *builtin) Do(ctx context.Context, op int) (Outcome, error) {
	p, err := os.StartProcess(b.exe, []string{"trace", engineCommand, "run", b.dir, engineID(op)}, &b.attr)
	if err != nil {
		return Outcome{}, fmt.Errorf("start the engine: %w", err)
	}
	b.running.Store(p)
	if ctx.Err() != nil {
		b.kill()
	}
	state, err := p.Wait()
	b.running.Store(nil)
	if err != nil {
		return Outcome{}, fmt.Errorf("wait for the engine: %w", err)
	}
	out := Outcome{Units: 1, ExitCode: exitCode(state), Group: p.Pid}
	switch {
	case out.ExitCode == engineFailed:
		return out, fmt.Errorf("engine: %s", lastLine(tail(b.log)))
	case out.ExitCode > 128 && !state.Exited():
		return out, fmt.Errorf("engine: ended by signal %d", out.ExitCode-128)
	}
	return out, nil
}

func (b *builtin) kill() {
	if p := b.running.Load(); p != nil {
		// The engine alone: it takes its container down.
		killProcess(p, false, func() bool { return b.running.Load() == p })
	}
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// Conclude removes what an engine that was killed halfway left.
func (b *builtin) Conclude(_ context.Context, op int, _ Outcome) error {
	b.stopWatching()
	return removeEngineContainer(b.dir, b.spec, engineID(op))
}

func (b *builtin) Cleanup(context.Context) error {
	b.stopWatching()
	var errs []error
	for _, f := range []*os.File{b.log, b.null} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	b.log, b.null = nil, nil
	if b.dir != "" {
		errs = append(errs, removeState(b.dir))
		b.dir = ""
	}
	errs = append(errs, sweepStates(b.root))
	// Empty only when no other copy is at work.
	if err := os.Remove(b.root); err != nil && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (b *builtin) stopWatching() {
	if b.unwatch != nil {
		b.unwatch()
		b.unwatch = nil
	}
}
