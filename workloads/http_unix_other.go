//go:build unix && !linux

package workloads

func httpLinuxParts() []httpPart { return nil }
