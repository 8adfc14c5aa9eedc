//go:build amd64 || arm64

package workloads

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// childCall is one system call of a childProgram.
type childCall struct {
	what    string // for people, when it fails: "mount proc"
	number  uintptr
	args    [6]uintptr
	takes   bool // args[0] is the result of the call before
	nonzero bool // a result of 0 is a failure (EPIPE): the end of a pipe
	then    int  // go on there after success; 0: with the next call
	onError int  // go on there after a failure; 0: report it and exit
}

// childProgram is what a forked child does before it becomes another program:
// system calls, prepared in the parent.
//
// A child of a Go process has one thread and no runtime: it may not allocate,
// grow its stack or be preempted. Starting this program a second time, as runc
// does, would give it a runtime of its own; that costs more than all the
// system calls of a container's start together. A list of calls needs neither.
type childProgram struct {
	calls []childCall
	keep  []any // what the arguments point to
}

// add appends a call. Arguments are numbers, strings, or pointers into what
// was given to hold.
func (p *childProgram) add(what string, number uintptr, args ...any) *childCall {
	c := childCall{what: what, number: number}
	for i, a := range args {
		switch a := a.(type) {
		case string:
			b := append([]byte(a), 0)
			p.keep = append(p.keep, b)
			c.args[i] = uintptr(unsafe.Pointer(&b[0]))
		case unsafe.Pointer:
			p.keep = append(p.keep, a)
			c.args[i] = uintptr(a)
		case uintptr:
			c.args[i] = a
		case int:
			c.args[i] = uintptr(a)
		default:
			panic(fmt.Sprintf("argument %d of %s is a %T", i, what, a))
		}
	}
	p.calls = append(p.calls, c)
	return &p.calls[len(p.calls)-1]
}

// here is the place that the next call will have.
func (p *childProgram) here() int { return len(p.calls) }

// childReport is what a child says of the call that failed. The pipe that it
// is written to is closed on execve.
type childReport struct {
	Call  uint32 // index
	Errno uint32
}

const childReportSize = int(unsafe.Sizeof(childReport{}))

// explain puts a report into words.
func (p *childProgram) explain(report []byte) error {
	if len(report) < childReportSize {
		return fmt.Errorf("init: report of %d bytes, want %d", len(report), childReportSize)
	}
	r := *(*childReport)(unsafe.Pointer(&report[0]))
	if int(r.Call) >= len(p.calls) {
		return fmt.Errorf("init: call %d of %d failed: %w", r.Call, len(p.calls), unix.Errno(r.Errno))
	}
	return fmt.Errorf("init: %s: %w", p.calls[r.Call].what, unix.Errno(r.Errno))
}

// cloneArgs is struct clone_args of clone3(2), version 2 (Linux 5.7).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// fork makes a child that runs the program, in new namespaces as flags say,
// and, when cgroup is a descriptor and not -1, in that cgroup. The child's
// last call should be execve. Failures are reported to the descriptor report.
// It gives the child's pid and a pidfd for it.
func (p *childProgram) fork(flags uint64, cgroup, report int) (pid, pidfd int, err error) {
	fd := new(int32)
	p.keep = append(p.keep, fd) // on the heap, where it stays: a stack may move before the call
	args := &cloneArgs{flags: flags | unix.CLONE_PIDFD, pidfd: uint64(uintptr(unsafe.Pointer(fd))), exitSignal: uint64(unix.SIGCHLD)}
	if cgroup >= 0 {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(cgroup)
	}
	// The runtime's signal handlers must not run in the child.
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return 0, -1, fmt.Errorf("block signals: %w", err)
	}
	n, errno := forkInto(args, p.calls, &childReport{}, uintptr(report))
	runtime.KeepAlive(p)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); err != nil {
		return 0, -1, fmt.Errorf("unblock signals: %w", err)
	}
	if errno != 0 {
		return 0, -1, errno
	}
	return int(n), int(*fd), nil
}

// forkInto is the fork itself. In the child it does not return.
//
//go:noinline
//go:norace
//go:nosplit
func forkInto(args *cloneArgs, calls []childCall, said *childReport, report uintptr) (pid uintptr, errno unix.Errno) {
	pid, _, errno = unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	var result uintptr
	for i := 0; i < len(calls); {
		c := &calls[i]
		if c.takes {
			c.args[0] = result
		}
		var e unix.Errno
		result, _, e = unix.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if e == 0 && c.nonzero && result == 0 {
			e = unix.EPIPE
		}
		switch {
		case e == 0 && c.then != 0:
			i = c.then
		case e == 0:
			i++
		case c.onError != 0:
			i = c.onError
		default:
			said.Call, said.Errno = uint32(i), uint32(e)
			unix.RawSyscall(unix.SYS_WRITE, report, uintptr(unsafe.Pointer(said)), unsafe.Sizeof(*said))
			i = len(calls)
		}
	}
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, engineFailed, 0, 0)
	}
}
