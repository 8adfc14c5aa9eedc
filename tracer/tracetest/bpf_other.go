//go:build !linux

package tracetest

import (
	"errors"
	"runtime"
)

func checkBPF() error { return errors.New("no BPF on " + runtime.GOOS) }
