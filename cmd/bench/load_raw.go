//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"unsafe"
)

func putByte(fd int) error {
	b := [1]byte{'x'}
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return fmt.Errorf("write: %w", errno)
		case n == 1:
			return nil
		}
	}
}

// getByte is false at the end of the stream.
func getByte(fd int) (bool, error) {
	var b [1]byte
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1)
		switch {
		case errno == syscall.EINTR:
		case errno != 0:
			return false, fmt.Errorf("read: %w", errno)
		default:
			return n == 1, nil
		}
	}
}

func getppid(n int) error {
	for range n {
		syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0)
	}
	return nil
}

// dockerImage is made by prepareDocker from bench itself.
const dockerImage = "stagetrace-bench:local"

func dockerRun(n int) error {
	for range n {
		out, err := exec.Command("docker", "run", "--rm", "--network", "none", dockerImage, "/bench", hiddenTrue).CombinedOutput()
		if err != nil {
			return fmt.Errorf("docker run: %w: %s", err, out)
		}
	}
	return nil
}
