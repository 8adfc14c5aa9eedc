//go:build unix

package workloads

import "syscall"

// ownGroup puts a child into a process group of its own: a Ctrl-C at the
// terminal is for us to act on, and must not cut a client off between asking
// for a container and learning of it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
