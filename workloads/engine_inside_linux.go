//go:build amd64 || arm64

package workloads

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// engineExec runs the probe in a container that is running, waits for its end,
// and gives its exit code.
func engineExec(dir, id string) int {
	runtime.LockOSThread() // setns is the thread's
	debug.SetGCPercent(-1) // it lives for milliseconds
	code, err := execInside(dir, id)
	if err != nil {
		fmt.Fprintf(os.Stderr, "exec in container %s: %v\n", id, err)
		return engineFailed
	}
	return code
}

// execInside enters the container as runc does: its cgroup, then its
// namespaces, all of them by its pidfd (setns(2), Linux 5.8).
func execInside(dir, id string) (int, error) {
	spec, err := readSpec(dir)
	if err != nil {
		return 0, err
	}
	state, err := readEngineState(dir, id)
	if err != nil {
		return 0, err
	}
	container, err := unix.PidfdOpen(state.PID, 0)
	if err != nil {
		return 0, fmt.Errorf("pidfd of process %d: %w", state.PID, err)
	}
	defer unix.Close(container)
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer errRead.Close()
	defer errWrite.Close()
	program, err := insideProgram(spec, container)
	if err != nil {
		return 0, err
	}
	cgroup, err := enterCgroups(spec, id)
	if err != nil {
		return 0, err
	}
	if cgroup >= 0 {
		defer unix.Close(cgroup)
	}
	// Of the process id namespace only children become members.
	if err := unix.Setns(container, unix.CLONE_NEWPID); err != nil {
		return 0, fmt.Errorf("enter process id namespace: %w", err)
	}
	pid, pidfd, err := program.fork(0, cgroup, int(errWrite.Fd()))
	if err != nil {
		return 0, fmt.Errorf("clone3: %w", err)
	}
	defer unix.Close(pidfd)
	errWrite.Close()
	report, readErr := io.ReadAll(errRead)
	status, err := wait(pid)
	switch {
	case len(report) > 0:
		return 0, program.explain(report)
	case err != nil || readErr != nil:
		return 0, errors.Join(err, readErr)
	case status.Signaled():
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// enterCgroups gives the cgroup that a child can be born in, -1 where that is
// not to be had: then this process has become a member, and its child will be.
func enterCgroups(spec engineSpec, id string) (int, error) {
	if len(spec.Cgroups) == 1 && spec.Unified {
		dir := filepath.Join(spec.Cgroups[0], id)
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		return fd, nil
	}
	for _, parent := range spec.Cgroups {
		if err := moveToCgroup(filepath.Join(parent, id), os.Getpid()); err != nil {
			return -1, err
		}
	}
	return -1, nil
}

// insideProgram is what a child does in the container before it becomes the
// probe.
func insideProgram(spec engineSpec, container int) (*childProgram, error) {
	p := &childProgram{}
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC
	if spec.Network != "host" {
		flags |= unix.CLONE_NEWNET
	}
	if len(spec.Cgroups) > 0 {
		flags |= unix.CLONE_NEWCGROUP
	}
	p.add("enter namespaces", unix.SYS_SETNS, container, flags)
	p.add("chdir /", unix.SYS_CHDIR, "/")
	if err := p.dropPrivileges(); err != nil {
		return nil, err
	}
	p.filterSyscalls()
	p.unblockSignals()
	return p, p.exec([]string{probeProgram}, spec.Env)
}

// readEngineState reads what a container's engine wrote when it had started.
func readEngineState(dir, id string) (engineState, error) {
	var s engineState
	path := filepath.Join(dir, containersDir, id, stateFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Status != "running" || s.PID <= 0 {
		return s, fmt.Errorf("%s: status %q, process id %d: not running", path, s.Status, s.PID)
	}
	return s, nil
}

// enginePause and engineUnpause freeze and thaw a container's cgroup.
func enginePause(dir, id string) int   { return engineFreeze(dir, id, true) }
func engineUnpause(dir, id string) int { return engineFreeze(dir, id, false) }

func engineFreeze(dir, id string, freeze bool) int {
	debug.SetGCPercent(-1)
	spec, err := readSpec(dir)
	if err == nil {
		err = errNoFreezer
		for _, parent := range spec.Cgroups {
			if err = freezeCgroup(filepath.Join(parent, id), freeze); !errors.Is(err, errNoFreezer) {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "freeze container %s: %v\n", id, err)
		return engineFailed
	}
	return 0
}

var errNoFreezer = errors.New("its cgroup has no freezer")

// freezePatience bounds the wait for a cgroup to be frozen: a process in an
// uninterruptible sleep is not until that ends.
const freezePatience = 5 * time.Second

// freezeCgroup freezes or thaws a cgroup, of version 2 (cgroup.freeze) or with
// the freezer controller of version 1, and returns when it is.
func freezeCgroup(dir string, freeze bool) error {
	v2, v1, frozen := "0", "THAWED", "frozen 0"
	if freeze {
		v2, v1, frozen = "1", "FROZEN", "frozen 1"
	}
	err := writeExisting(filepath.Join(dir, "cgroup.freeze"), v2)
	if err == nil {
		return awaitInFile(filepath.Join(dir, "cgroup.events"), frozen)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = writeExisting(filepath.Join(dir, "freezer.state"), v1)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFreezer
	}
	if err != nil {
		return err
	}
	return awaitInFile(filepath.Join(dir, "freezer.state"), v1)
}

// awaitInFile waits until a file of a cgroup has a line. Files that tell of
// changes (cgroup.events) do so by POLLPRI; the others are read again.
func awaitInFile(path, line string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for end := time.Now().Add(freezePatience); ; {
		var b [256]byte
		n, err := unix.Pread(fd, b[:], 0)
		if err != nil {
			return &os.PathError{Op: "read", Path: path, Err: err}
		}
		for l := range strings.Lines(string(b[:n])) {
			if strings.TrimSpace(l) == line {
				return nil
			}
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s: %q after %v, want %q", path, strings.Join(strings.Fields(string(b[:n])), " "), freezePatience, line)
		}
		// A poll that is cut short is no harm: the file is read again.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}, 1)
	}
}
