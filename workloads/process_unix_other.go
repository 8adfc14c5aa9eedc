//go:build unix && !linux

package workloads

import "syscall"

// dieWithParent does nothing: only Linux can tie a child to its parent.
func dieWithParent(*syscall.SysProcAttr) {}
