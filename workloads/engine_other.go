//go:build !linux || !(amd64 || arm64)

package workloads

// engineRoles is empty: the engine is made of Linux system calls.
func engineRoles() []engineRole { return nil }
