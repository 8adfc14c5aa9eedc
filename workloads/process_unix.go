//go:build unix

package workloads

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupAttr starts a child in a process group of its own, except when its
// standard input is a terminal: a background group that reads from it would be
// stopped.
func groupAttr(stdin *os.File) (attr *syscall.SysProcAttr, group bool) {
	group = stdin == nil || !isTerminal(stdin)
	attr = &syscall.SysProcAttr{Setpgid: group}
	dieWithParent(attr)
	return attr, group
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// exitCode is what a shell would give: 128+n when signal n ended the process.
func exitCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// killProcess ends a child, and its group if it has one: SIGTERM, and after a
// grace SIGKILL. It returns at once. alive tells whether the child still has
// to be reaped: as long as it has, its pid is its own.
func killProcess(p *os.Process, group bool, alive func() bool) {
	send := func(sig syscall.Signal) {
		if !alive() {
			return
		}
		if group {
			_ = syscall.Kill(-p.Pid, sig) // gone is what we want
		} else {
			_ = p.Signal(sig)
		}
	}
	send(syscall.SIGTERM)
	time.AfterFunc(killPatience, func() { send(syscall.SIGKILL) })
}

// groupEmpty says that no process is left in the group.
func groupEmpty(pgid int) bool {
	return syscall.Kill(-pgid, 0) == syscall.ESRCH
}

// killGroup ends what is left of a group.
func killGroup(pgid int) {
	_ = syscall.Kill(-pgid, syscall.SIGKILL) // gone is what we want
}
