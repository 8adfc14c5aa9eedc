package workloads

import "golang.org/x/sys/unix"

// monotonic is the clock that the kernel stamps events with
// (bpf_ktime_get_ns): CLOCK_MONOTONIC, ns.
func monotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // cannot happen: the clock is always there
	}
	return ts.Nano()
}

func threadID() int { return unix.Gettid() }
