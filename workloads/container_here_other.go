//go:build !linux

package workloads

import "runtime"

// probeArch is the architecture of the virtual machine that containers are
// started in.
func probeArch() string { return runtime.GOARCH }

// crunRefuses: the virtual machine's engine was set up with it.
func crunRefuses() (refuses bool, other string) { return false, "" }

func mayRaiseLimits() bool { return true }

// removeCgroupParent: they are in the virtual machine.
func removeCgroupParent(string) error { return nil }
