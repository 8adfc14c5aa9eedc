//go:build !linux

package workloads

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

// runcTarget is the row of runc where there can be none.
func runcTarget() Target {
	return Target{
		Name:    "runc",
		Summary: "runc on a generated OCI bundle",
		Find: func(context.Context) Found {
			return Found{Why: "runc runs on Linux only, this is " + runtime.GOOS}
		},
		New: func(Params) (Instance, error) {
			return nil, fmt.Errorf("runc on %s: %w", runtime.GOOS, errors.ErrUnsupported)
		},
	}
}

// runcRoles is empty: there is no runc to start this program.
func runcRoles() []engineRole { return nil }
