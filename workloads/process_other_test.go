//go:build !linux

package workloads

import (
	"errors"
	"os"
	"syscall"
)

func makeFIFO(string) error { return errors.New("made on Linux only") }

func gone(pid int) bool {
	p, err := os.FindProcess(pid)
	return err != nil || p.Signal(syscall.Signal(0)) != nil
}
