//go:build unix

package workloads

import (
	"os"
	"runtime"
	"syscall"
)

// rusage is what the system counted of a process that ended and of the children
// that it waited for (getrusage(2)). The memory is that of the largest of them;
// since a process that is forked counts its parent's until it executes a program,
// less than this process has itself cannot be told, and is left out.
func rusage(s *os.ProcessState) []Metric {
	u, ok := s.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil
	}
	var out []Metric
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err == nil && u.Maxrss > own.Maxrss {
		unit := int64(1024)
		if runtime.GOOS == "darwin" {
			unit = 1
		}
		out = append(out, Metric{"peak memory", "B", float64(int64(u.Maxrss) * unit)})
	}
	return append(out, Metric{"user CPU", "ns", float64(s.UserTime())}, Metric{"system CPU", "ns", float64(s.SystemTime())},
		Metric{"minor page faults", "", float64(u.Minflt)}, Metric{"major page faults", "", float64(u.Majflt)})
}
