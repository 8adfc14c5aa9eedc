//go:build !linux || !(amd64 || arm64)

package workloads

import (
	"context"
	"errors"
	"fmt"
)

// builtinSupport is the string that Find gives where the engine cannot run.
const builtinSupport = "the builtin engine is made of Linux system calls: Linux only, on amd64 or arm64"

func findBuiltin(context.Context) Found { return Found{Why: builtinSupport} }

func newBuiltin(Params) (Instance, error) {
	return nil, fmt.Errorf("%s: %w", builtinSupport, errors.ErrUnsupported)
}
