package sample

import (
	"golang.org/x/sys/unix"

	"stagetrace/tracer"
)

// now is CLOCK_MONOTONIC, the clock of operations on Linux.
func now() tracer.Time {
	var ts unix.Timespec
	// The call cannot fail for this clock.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return tracer.Time(ts.Nano())
}
