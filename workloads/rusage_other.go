//go:build !unix

package workloads

import "os"

// rusage is what the system counted of a process that ended.
func rusage(s *os.ProcessState) []Metric {
	return []Metric{{"user CPU", "ns", float64(s.UserTime())}, {"system CPU", "ns", float64(s.SystemTime())}}
}
