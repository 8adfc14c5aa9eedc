//go:build !linux

package workloads

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func findOCI(_ context.Context, rt ociRuntime) Found {
	return Found{State: OtherSystem, Why: rt.name + " runs on Linux only, this is " + runtime.GOOS}
}

func newOCI(rt ociRuntime, _ Params) (Instance, error) {
	return nil, fmt.Errorf("%s on %s: %w", rt.name, runtime.GOOS, errors.ErrUnsupported)
}

// runcRoles is empty: there is no runc to start this program.
func runcRoles() []engineRole { return nil }
