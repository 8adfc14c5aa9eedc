//go:build linux

package ebpf

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"stagetrace/tracer/symbols"
)

// gather collects the facts of this process and system.
func gather(ctx context.Context) *facts {
	status := readSmall("/proc/self/status")
	f := &facts{
		caps:            statusHex(status, "CapEff"),
		unprivilegedBPF: readWord("/proc/sys/kernel/unprivileged_bpf_disabled"),
		paranoid:        readWord("/proc/sys/kernel/perf_event_paranoid"),
		lockdown:        bracketed(readSmall("/sys/kernel/security/lockdown")),
		seccomp:         statusField(status, "Seccomp") == "2",
		userNS:          otherNamespace("user", initialUserNS),
		pidNS:           otherNamespace("pid", initialPIDNS),
		monotonicOffset: timeOffset(readSmall("/proc/self/timens_offsets")),
		btf:             readable("/sys/kernel/btf/vmlinux"),
		tracefs:         findTracefs(),
		cgroups:         cgroupLayout("/sys/fs/cgroup"),
		kallsyms:        symbols.CheckKernel(),
		container:       inContainer(),
		tried:           map[string]error{},
	}
	for i := range attempts {
		if ctx.Err() != nil {
			break
		}
		f.tried[attempts[i].name] = attempts[i].try()
	}
	return f
}

// readSmall is a file of /proc or /sys; nothing when it cannot be read, which
// the facts then show as unknown.
func readSmall(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return b
}

func readWord(path string) string { return string(bytes.TrimSpace(readSmall(path))) }

func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// statusField is a field of /proc/PID/status.
func statusField(status []byte, name string) string {
	for line := range bytes.Lines(status) {
		if k, v, ok := bytes.Cut(line, []byte(":")); ok && string(k) == name {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

func statusHex(status []byte, name string) uint64 {
	n, err := strconv.ParseUint(statusField(status, name), 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// bracketed is the chosen word of a sysfs choice: "none [integrity]
// confidentiality".
func bracketed(b []byte) string {
	_, rest, _ := strings.Cut(string(b), "[")
	word, _, ok := strings.Cut(rest, "]")
	if !ok {
		return ""
	}
	return word
}

// Inode numbers of the initial namespaces, from the kernel's
// include/linux/proc_ns.h: the same in every kernel.
const (
	initialUTSNS  = 0xEFFFFFFE
	initialUserNS = 0xEFFFFFFD
	initialPIDNS  = 0xEFFFFFFC
)

func otherNamespace(kind string, initial uint64) bool {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+kind, &st); err != nil {
		return false
	}
	return st.Ino != initial
}

// timeOffset is the shift of CLOCK_MONOTONIC in "monotonic SEC NSEC" of
// /proc/self/timens_offsets, in seconds; "" when there is none.
func timeOffset(b []byte) string {
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) < 3 || string(f[0]) != "monotonic" {
			continue
		}
		ns, err := strconv.ParseInt(string(f[2]), 10, 64)
		if err != nil || (string(f[1]) == "0" && ns == 0) {
			return ""
		}
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%s.%09d", f[1], ns), "0"), ".")
	}
	return ""
}

// fsType is the magic number of the file system at a path.
func fsType(path string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0
	}
	return int64(st.Type)
}

func findTracefs() string {
	for _, p := range []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"} {
		if fsType(p) == unix.TRACEFS_MAGIC {
			return p
		}
	}
	return ""
}

// cgroupLayout is v2 (one hierarchy), hybrid (controllers in v1, and an empty
// v2 hierarchy for processes), v1, or "" for none.
func cgroupLayout(root string) string {
	if fsType(root) == unix.CGROUP2_SUPER_MAGIC {
		return "v2"
	}
	if fsType(root+"/unified") == unix.CGROUP2_SUPER_MAGIC {
		return "hybrid"
	}
	for _, c := range []string{"systemd", "memory", "pids", "cpu", "freezer"} {
		if fsType(root+"/"+c) == unix.CGROUP_SUPER_MAGIC {
			return "v1"
		}
	}
	return ""
}

// inContainer says whether we run in a container: in namespaces of our own, and
// not those of a mere user. A file such as /.dockerenv alone proves nothing:
// images are booted as machines too.
func inContainer() bool {
	return otherNamespace("uts", initialUTSNS) || otherNamespace("pid", initialPIDNS)
}

// firstCPU is the lowest CPU that is online.
func firstCPU() (int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		return 0, err
	}
	end := bytes.IndexAny(b, "-,\n")
	if end < 0 {
		end = len(b)
	}
	n, err := strconv.Atoi(string(b[:end]))
	if err != nil {
		return 0, fmt.Errorf("list of online cpus %q: %w", b, err)
	}
	return n, nil
}
