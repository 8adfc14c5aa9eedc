//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func processPrimitives() []primitive {
	const apart = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	return []primitive{
		{name: "fork", summary: "clone3: a child with a copy of the memory, its exit and the wait for it", open: forkSteps(0)},
		{name: "fork-user", summary: "clone3: a child in a new user namespace, its exit and the wait", needs: hasUserNamespaces, open: forkSteps(unix.CLONE_NEWUSER)},
		{name: "fork-all", summary: "clone3: a child in six new namespaces, its exit and the wait", open: forkSteps(apart)},
		{name: "fork-exec", summary: "clone3, execve of a static program, its exit and the wait", open: forkExecSteps},
		{name: "vfork-exec", summary: "clone with the memory shared (vfork), execve of a static program, its exit and the wait", open: spawnSteps},
		{name: "pidfd", summary: "pidfd_open of a process and close", repeat: often, open: pidfdSteps},
		{name: "mmap", summary: "mmap of 1 MiB, touching it, and munmap", open: mmapSteps},
	}
}

// often is how many times an operation does what takes microseconds.
const often = 100

func hasUserNamespaces() error {
	return hasNamespaces(namespaceKind{"user", "user", unix.CLONE_NEWUSER})
}

// exitProgram is a child that exits at once.
func exitProgram() *childProgram {
	p := &childProgram{}
	p.add("exit", unix.SYS_EXIT_GROUP, 0)
	return p
}

// forkAndWait runs a program to its end.
func forkAndWait(p *childProgram, flags uint64, cgroup int) error {
	pid, pidfd, err := p.fork(flags, cgroup, -1)
	if err != nil {
		return fmt.Errorf("clone3: %w", err)
	}
	status, err := wait(pid)
	if err == nil && (!status.Exited() || status.ExitStatus() != 0) {
		err = fmt.Errorf("child ended with status %#x", int(status))
	}
	return errors.Join(err, unix.Close(pidfd))
}

func forkSteps(flags uint64) func(*bench) (*steps, error) {
	return func(*bench) (*steps, error) {
		p := exitProgram()
		return &steps{do: func() error { return forkAndWait(p, flags, -1) }}, nil
	}
}

func writeProgram(w *bench) (string, error) {
	path := w.path()
	return path, os.WriteFile(path, trueELF(runtime.GOARCH), 0o755)
}

func forkExecSteps(w *bench) (*steps, error) {
	path, err := writeProgram(w)
	if err != nil {
		return nil, err
	}
	p := &childProgram{}
	p.unblockSignals()
	if err := p.exec([]string{path}, nil); err != nil {
		return nil, err
	}
	return &steps{do: func() error { return forkAndWait(p, 0, -1) }}, nil
}

// spawnSteps starts a program as Go does (syscall.forkExec): CLONE_VFORK and
// CLONE_VM.
func spawnSteps(w *bench) (*steps, error) {
	path, err := writeProgram(w)
	if err != nil {
		return nil, err
	}
	attr := &syscall.ProcAttr{Files: []uintptr{}}
	return &steps{do: func() error {
		pid, err := syscall.ForkExec(path, []string{path}, attr)
		if err != nil {
			return err
		}
		_, err = wait(pid)
		return err
	}}, nil
}

func pidfdSteps(*bench) (*steps, error) {
	pid := os.Getpid()
	return &steps{do: func() error {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}}, nil
}

func mmapSteps(*bench) (*steps, error) {
	const size, page = 1 << 20, 4096
	return &steps{do: func() error {
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for i := 0; i < size; i += page {
			b[i] = 1
		}
		return unix.Munmap(b)
	}}, nil
}

// sleeper is a child that sleeps until it is killed.
type sleeper struct{ pid, pidfd int }

func startSleeper(cgroup int) (*sleeper, error) {
	p := &childProgram{}
	p.add("set the parent-death signal", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
	again := p.here()
	// No descriptors and no time limit: ppoll(2) sleeps for ever.
	p.add("sleep", unix.SYS_PPOLL, 0, 0, 0, 0).then = again
	p.calls[again].onError = again
	pid, pidfd, err := p.fork(0, cgroup, -1)
	if err != nil {
		return nil, fmt.Errorf("clone3: %w", err)
	}
	return &sleeper{pid, pidfd}, nil
}

func (s *sleeper) end() error {
	if err := unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0); err != nil {
		return err
	}
	_, err := wait(s.pid)
	return errors.Join(err, unix.Close(s.pidfd))
}
