//go:build !linux

package sample

import (
	"time"

	"stagetrace/tracer"
)

// clockOrigin is when the process began, near enough.
var clockOrigin = time.Now()

// now is the runtime's monotonic clock since the process began.
func now() tracer.Time { return tracer.Time(time.Since(clockOrigin)) }
