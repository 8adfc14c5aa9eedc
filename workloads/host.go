package workloads

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"
)

// HostFacts is where something was measured. What could not be found out is
// empty.
type HostFacts struct {
	Name    string // node name
	Kernel  string // release
	OS      string // as the system calls itself: "Debian GNU/Linux 12 (bookworm)"
	Machine string // amd64, arm64
	CPUs    int    // that this process may use
	CPU     string // model
	Memory  uint64 // bytes
}

// Host finds the facts out; it takes milliseconds.
func Host(ctx context.Context) HostFacts {
	f := HostFacts{Machine: runtime.GOARCH, CPUs: runtime.NumCPU()}
	f.Name, _ = os.Hostname()
	f.Kernel, _ = host.KernelVersionWithContext(ctx)
	f.OS = osName(ctx)
	if info, err := cpu.InfoWithContext(ctx); err == nil && len(info) > 0 {
		f.CPU = strings.Join(strings.Fields(info[0].ModelName), " ")
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		f.Memory = m.Total
	}
	return f
}

// osName prefers the name the distribution chose for people.
func osName(ctx context.Context) string {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if b, err := os.ReadFile(path); err == nil {
			if name := prettyName(string(b)); name != "" {
				return name
			}
		}
	}
	platform, _, version, err := host.PlatformInformationWithContext(ctx)
	if err != nil || platform == "" {
		return runtime.GOOS
	}
	return strings.TrimSpace(platform + " " + version)
}

// prettyName reads PRETTY_NAME of os-release(5).
func prettyName(release string) string {
	for line := range strings.Lines(release) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(v, `"'`)
		}
	}
	return ""
}
