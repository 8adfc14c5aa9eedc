//go:build amd64 || arm64

package workloads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// engineRoles lists the processes of the engine: run is client and runtime in
// one, init becomes the container's program.
func engineRoles() []engineRole {
	return []engineRole{
		{name: "run", main: engineRun},
		{name: "init", main: engineInit},
	}
}

// engineRun creates a container, starts it, waits until its program has
// exited, and removes it. It gives the program's exit code.
func engineRun(dir, id string) int {
	// The parent-death signal of the init is tied to the thread that makes it.
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // it lives for milliseconds
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	spec, err := readSpec(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return engineFailed
	}
	if id == "" || filepath.Base(id) != id {
		fmt.Fprintf(os.Stderr, "container name %q: not a file name\n", id)
		return engineFailed
	}
	c := &engineContainer{spec: spec, dir: dir, id: id, path: filepath.Join(dir, containersDir, id)}
	code, err := c.run(ctx)
	if ctx.Err() != nil {
		return 128 + int(unix.SIGTERM)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "container %s: %v\n", id, err)
		return engineFailed
	}
	return code
}

// engineContainer is one container on its way.
type engineContainer struct {
	spec   engineSpec
	dir    string // state folder
	id     string
	path   string // the container's folder in it
	cgroup []string
	link   int // index of the host's end of the veth pair; 0: none
	init   *os.Process
}

// engineState is what engines keep on the disk about a container.
type engineState struct {
	ID      string
	Status  string // created, running, exited
	PID     int    `json:",omitempty"`
	Exit    int
	Changed time.Time
}

func (c *engineContainer) run(ctx context.Context) (code int, err error) {
	defer func() { err = errors.Join(err, c.remove()) }()
	if err := c.create(); err != nil {
		return 0, fmt.Errorf("create: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	code, err = c.start(ctx)
	if err != nil {
		return 0, fmt.Errorf("start: %w", err)
	}
	if err := c.persist("state.json", engineState{ID: c.id, Status: "exited", Exit: code}); err != nil {
		return 0, err
	}
	return code, nil
}

// create makes the container's folders and cgroup and records it.
func (c *engineContainer) create() error {
	if err := os.Mkdir(c.path, 0o700); err != nil {
		return err
	}
	for _, d := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(c.path, d), 0o755); err != nil {
			return err
		}
	}
	if err := c.persist("config.json", c.spec); err != nil {
		return err
	}
	for _, parent := range c.spec.Cgroups {
		dir := filepath.Join(parent, c.id)
		if err := makeCgroup(dir); err != nil {
			return err
		}
		c.cgroup = append(c.cgroup, dir)
	}
	return nil
}

// start runs the init until it has become the container's program and that
// program has exited.
func (c *engineContainer) start(ctx context.Context) (code int, err error) {
	goRead, goWrite, err := os.Pipe() // one byte: everything outside is ready
	if err != nil {
		return 0, err
	}
	defer goWrite.Close()
	errRead, errWrite, err := os.Pipe() // what went wrong; closed by execve
	if err != nil {
		goRead.Close()
		return 0, err
	}
	defer errRead.Close()
	err = c.clone(goRead, errWrite)
	goRead.Close()
	errWrite.Close()
	if err != nil {
		return 0, err
	}
	release := context.AfterFunc(ctx, func() { _ = c.init.Kill() }) // gone is what we want
	defer release()

	prepared := c.connect()
	if prepared == nil {
		_, prepared = goWrite.Write([]byte{1})
	}
	goWrite.Close()
	message, readErr := io.ReadAll(errRead)
	if prepared == nil && readErr == nil && len(message) == 0 {
		prepared = c.persist("state.json", engineState{ID: c.id, Status: "running", PID: c.init.Pid})
	} else {
		_ = c.init.Kill() // it may be waiting for a byte that will not come
	}
	state, err := c.init.Wait()
	switch {
	case len(message) > 0:
		return 0, fmt.Errorf("init: %s", message)
	case prepared != nil && !errors.Is(prepared, syscall.EPIPE):
		return 0, prepared
	case readErr != nil:
		return 0, readErr
	case err != nil:
		return 0, err
	}
	return exitCode(state), nil
}

// clone makes the init in its namespaces. With cgroup v2 it is born in its
// cgroup (CLONE_INTO_CGROUP, Linux 5.7), which spares the move and its wait
// for an RCU grace period.
func (c *engineContainer) clone(files ...*os.File) error {
	sys := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	if c.spec.Network != "host" {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	if len(c.cgroup) > 0 {
		sys.Cloneflags |= unix.CLONE_NEWCGROUP
	}
	attr := &os.ProcAttr{
		Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, files...),
		Env:   []string{"GOMAXPROCS=1"}, // of the init; the program gets the spec's
		Sys:   sys,
	}
	argv := []string{"trace", engineCommand, "init", c.dir, c.id}
	into := len(c.cgroup) == 1 && c.spec.Unified
	if into {
		fd, err := unix.Open(c.cgroup[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: c.cgroup[0], Err: err}
		}
		defer unix.Close(fd)
		sys.UseCgroupFD, sys.CgroupFD = true, fd
	}
	p, err := os.StartProcess("/proc/self/exe", argv, attr)
	if into && err != nil { // a kernel or a seccomp filter that knows no clone3
		into, sys.UseCgroupFD = false, false
		p, err = os.StartProcess("/proc/self/exe", argv, attr)
	}
	if err != nil {
		return fmt.Errorf("clone: %w", err)
	}
	c.init = p
	if into {
		return nil
	}
	for _, dir := range c.cgroup {
		if err := moveToCgroup(dir, p.Pid); err != nil {
			return errors.Join(err, c.abandon())
		}
	}
	return nil
}

// abandon ends and reaps an init that nothing will be done with.
func (c *engineContainer) abandon() error {
	if err := c.init.Kill(); err != nil {
		return err
	}
	_, err := c.init.Wait()
	return err
}

// remove takes everything away, in the order in which it was made backwards.
// All of it is tried.
func (c *engineContainer) remove() error {
	errs := []error{c.disconnect()}
	for _, dir := range c.cgroup {
		errs = append(errs, removeCgroup(dir))
	}
	errs = append(errs, os.RemoveAll(c.path))
	return errors.Join(errs...)
}

// persist writes a file of the container's state as engines do: to a
// temporary name, through to the disk, renamed, and the rename through too.
func (c *engineContainer) persist(name string, v any) error {
	if s, ok := v.(engineState); ok {
		s.Changed = time.Now().UTC()
		v = s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := filepath.Join(c.path, name)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && c.spec.Fsync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return err
	}
	if !c.spec.Fsync {
		return nil
	}
	d, err := os.Open(c.path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
