//go:build !linux || !(amd64 || arm64)

package workloads

import (
	"context"
	"errors"
	"fmt"
)

const primitiveSupport = "the building blocks are Linux system calls: Linux only, on amd64 or arm64"

// primitiveTargets is one row that says why there are none.
func primitiveTargets() []Target {
	return []Target{{
		Name:    "linux",
		Summary: "system calls of Linux",
		Find:    func(context.Context) Found { return Found{State: OtherSystem, Why: primitiveSupport} },
		New: func(Params) (Instance, error) {
			return nil, fmt.Errorf("%s: %w", primitiveSupport, errors.ErrUnsupported)
		},
	}}
}
