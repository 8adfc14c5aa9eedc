package workloads

import "syscall"

// ownGroup puts a child into a process group of its own: a Ctrl-C at the
// console is for us to act on, and must not cut a client off between asking
// for a container and learning of it.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
