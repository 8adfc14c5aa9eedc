package workloads

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// groupAttr starts a child in a console group of its own, so that a Ctrl-C
// meant for us does not end it halfway. Windows does not number such a group
// in a way that leftovers could be found by.
func groupAttr(*os.File) (attr *syscall.SysProcAttr, group bool) {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}, false
}

func exitCode(s *os.ProcessState) int { return s.ExitCode() }

// killProcess ends a child at once: Windows has no polite way to ask.
func killProcess(p *os.Process, _ bool, alive func() bool) {
	if alive() {
		_ = p.Kill() // gone is what we want
	}
}

func groupEmpty(int) bool { return true }

func killGroup(int) {}
