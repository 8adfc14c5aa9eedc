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
	"time"

	"golang.org/x/sys/unix"
)

// engineRoles lists what the engine can be started as: run is client and
// runtime in one; the others are told about a container that it runs.
func engineRoles() []engineRole {
	return []engineRole{
		{name: "run", main: engineRun},
		{name: "exec", main: engineExec},
		{name: "pause", main: enginePause},
		{name: "unpause", main: engineUnpause},
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
	pid    int // of the init, in our namespace
	pidfd  int
	move   bool // the init still has to be moved into its cgroups
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
	if err := c.persist(stateFile, engineState{ID: c.id, Status: "exited", Exit: code}); err != nil {
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
	goRead, goWrite, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer goRead.Close()
	defer goWrite.Close()
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer errRead.Close()
	defer errWrite.Close()
	program, err := c.initProgram(initPipes{goRead: int(goRead.Fd()), goWrite: int(goWrite.Fd()), report: int(errWrite.Fd())})
	if err != nil {
		return 0, err
	}
	if err := c.clone(program, int(errWrite.Fd())); err != nil {
		return 0, err
	}
	defer unix.Close(c.pidfd)
	errWrite.Close() // the init has its own: when that is closed it has become the program
	release := context.AfterFunc(ctx, c.kill)
	defer release()

	err = c.launch(goWrite)
	report, readErr := io.ReadAll(errRead)
	if len(report) > 0 {
		err = program.explain(report) // rather than that nobody read what launch wrote
	}
	if err = errors.Join(err, readErr); err == nil {
		err = c.persist(stateFile, engineState{ID: c.id, Status: "running", PID: c.pid})
	}
	if err != nil {
		c.kill()
	}
	status, waitErr := wait(c.pid)
	if err = errors.Join(err, waitErr); err != nil {
		return 0, err
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// launch does what has to be done from the outside while the init is setting
// its namespaces up, and lets it go on.
func (c *engineContainer) launch(goWrite *os.File) error {
	if c.move {
		for _, dir := range c.cgroup {
			if err := moveToCgroup(dir, c.pid); err != nil {
				return err
			}
		}
	}
	if c.spec.Network == "bridge" {
		var err error
		pair := vethPair{dir: c.dir, id: c.id, bridge: c.spec.Bridge}
		if c.link, err = pair.connect(c.pid); err != nil {
			return err
		}
	}
	_, err := goWrite.Write([]byte{1})
	return err
}

// clone makes the init in its namespaces. With cgroup v2 it is born in its
// cgroup (CLONE_INTO_CGROUP, Linux 5.7), which spares the move and its wait
// for an RCU grace period.
func (c *engineContainer) clone(program *childProgram, report int) error {
	flags := uint64(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)
	if c.spec.Network != "host" {
		flags |= unix.CLONE_NEWNET
	}
	cgroup := -1
	if len(c.cgroup) > 0 {
		flags |= unix.CLONE_NEWCGROUP
	}
	if len(c.cgroup) == 1 && c.spec.Unified {
		fd, err := unix.Open(c.cgroup[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: c.cgroup[0], Err: err}
		}
		defer unix.Close(fd)
		cgroup = fd
	}
	var err error
	c.pid, c.pidfd, err = program.fork(flags, cgroup, report)
	c.move = cgroup < 0
	if cgroup >= 0 && (err == unix.EINVAL || err == unix.E2BIG) { // a kernel older than CLONE_INTO_CGROUP
		c.pid, c.pidfd, err = program.fork(flags, -1, report)
		c.move = true
	}
	if err != nil {
		return fmt.Errorf("clone3: %w", err)
	}
	return nil
}

// kill ends the container. The pidfd cannot mean another process.
func (c *engineContainer) kill() {
	_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0) // gone is what we want
}

// wait reaps a child.
func wait(pid int) (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err != unix.EINTR {
			if err != nil {
				err = fmt.Errorf("wait: %w", err)
			}
			return status, err
		}
	}
}

// remove takes everything away, in the order in which it was made backwards.
// All of it is tried.
func (c *engineContainer) remove() error {
	errs := []error{deleteLink(c.link)}
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
