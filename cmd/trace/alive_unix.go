//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// stillThere asks with signal 0; a process that may not be signalled is there.
func stillThere(p *os.Process) error {
	err := p.Signal(syscall.Signal(0))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
