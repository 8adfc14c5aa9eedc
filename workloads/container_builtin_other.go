//go:build !linux || !(amd64 || arm64)

package workloads

import (
	"context"
	"errors"
	"fmt"
)

func findBuiltin(context.Context) Found { return Found{Why: builtinSupport} }

func newBuiltin(Params) (Instance, error) {
	return nil, fmt.Errorf("%s: %w", builtinSupport, errors.ErrUnsupported)
}
