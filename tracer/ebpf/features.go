//go:build linux

package ebpf

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"stagetrace/tracer"
)

// Names of features, for those who ask for one of them.
const (
	FeatureCaps          = "capabilities"
	FeatureUserNamespace = "user namespace"
	FeatureLockdown      = "kernel lockdown"
	FeatureSeccomp       = "seccomp"
	FeatureBTF           = "kernel BTF"
	FeaturePIDNamespace  = "pid namespace"
	FeatureTimeNamespace = "time namespace"
	FeatureTracefs       = "tracefs"
	FeatureCgroups       = "cgroups"
	FeatureKallsyms      = "kernel symbols"
	FeatureRingBuffer    = "ring buffer"
	FeatureTpBTF         = "tp_btf"
	FeatureRawTracepoint = "raw tracepoint"
	FeatureTaskStorage   = "task storage"
	FeatureTaskIterator  = "task iterator"
	FeatureMessages      = "socket messages"
	FeatureCPUClock      = "cpu-clock samples"
	FeatureMmap          = "perf mmap records"
	FeatureBuildIDs      = "perf build ids"
	FeatureFentry        = "fentry"
	FeatureKprobe        = "kprobe"
	FeatureUprobe        = "uprobe"
	FeatureUprobeMulti   = "uprobe.multi"
	FeatureHardware      = "hardware counters"
	FeatureStats         = "bpf run time statistics"
)

// required are the features without which nothing can be recorded, the one
// that explains the others first.
var required = []string{FeatureCaps, FeatureUserNamespace, FeatureLockdown, FeatureSeccomp, FeatureBTF, FeaturePIDNamespace,
	FeatureTimeNamespace, FeatureRingBuffer, FeatureTpBTF}

// Features says what works on this system, what does not and why: the lines of
// `trace doctor`. What can be tried is tried, with programs that do nothing and
// are gone when it returns; why something failed is told by what the system
// says of itself (capabilities, lockdown, seccomp ...), never by the error
// number alone. It needs no privilege and takes some 0.3 s.
func Features(ctx context.Context) []tracer.Feature {
	return decide(gather(ctx))
}

// Required is the most important reason why nothing can be recorded here, nil
// when it can. Features that were not tried (a cancelled context) count as
// missing.
func Required(features []tracer.Feature) error {
	for _, name := range required {
		found := false
		for i := range features {
			if features[i].Name != name {
				continue
			}
			found = true
			if f := &features[i]; f.Err != nil {
				if f.Hint == "" {
					return f.Err
				}
				return fmt.Errorf("%w\n%s", f.Err, f.Hint)
			}
		}
		if !found {
			return &tracer.UnsupportedError{Feature: name, Needs: "to be tried first"}
		}
	}
	return nil
}

// Capabilities by number, from uapi/linux/capability.h.
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

// facts are what decisions rest on. Made up in tests.
type facts struct {
	caps            uint64 // effective
	unprivilegedBPF string // sysctl kernel.unprivileged_bpf_disabled, "" unknown
	paranoid        string // sysctl kernel.perf_event_paranoid
	lockdown        string // none, integrity, confidentiality; "": no lockdown in this kernel
	seccomp         bool   // a filter is on this process
	userNS          bool   // not the initial user namespace
	pidNS           bool   // not the initial pid namespace
	monotonicOffset string // of the time namespace: "" none
	btf             error  // of reading /sys/kernel/btf/vmlinux
	tracefs         string // where it is mounted; "": nowhere
	cgroups         string // v1, hybrid, v2; "": none
	kallsyms        error
	tried           map[string]error // by feature name; absent: not tried
	container       bool             // we run in one; for hints
}

func (f *facts) has(c uint) bool { return f.caps&(1<<c) != 0 }

// canBPF and canPerf mirror bpf_capable and perfmon_capable.
func (f *facts) canBPF() bool  { return f.has(capBPF) || f.has(capSysAdmin) }
func (f *facts) canPerf() bool { return f.has(capPerfmon) || f.has(capSysAdmin) }

// decide turns facts into lines. Pure.
func decide(f *facts) []tracer.Feature {
	var out []tracer.Feature
	for _, c := range conditions {
		line := tracer.Feature{Name: c.name, Cost: c.cost}
		if needs, hint := c.missing(f); needs != "" {
			line.Hint = hint
			line.Err = &tracer.UnsupportedError{Feature: c.name, Needs: needs, Cost: c.cost}
		}
		if c.name == FeatureCgroups && f.cgroups != "" {
			line.Name += " " + f.cgroups
		}
		out = append(out, line)
	}
	for i := range attempts {
		a := &attempts[i]
		err, tried := f.tried[a.name]
		if !tried {
			continue
		}
		out = append(out, a.feature(f, err))
	}
	return out
}

// condition is a feature that is there by the facts alone.
type condition struct {
	name string
	cost string
	// missing is what is needed, "" when it is there, and what would help.
	missing func(f *facts) (needs, hint string)
}

const allLost = "no stages: only end-to-end times and resource figures are recorded"

const containerHint = "in a container: --privileged --pid=host (or --cap-add BPF,PERFMON,SYS_PTRACE,SYSLOG --security-opt seccomp=unconfined --pid=host)"

var conditions = []condition{
	{FeatureCaps, allLost, missingCaps},
	{FeatureUserNamespace, allLost, func(f *facts) (string, string) {
		// Most of what BPF and perf do asks the initial user namespace.
		if !f.userNS || f.tried[FeatureTpBTF] == nil {
			return "", ""
		}
		return "the initial user namespace: capabilities in another one do not count for BPF", "run as root of the host"
	}},
	{FeatureLockdown, allLost, func(f *facts) (string, string) {
		if f.lockdown != "confidentiality" {
			return "", ""
		}
		return "a kernel that is not locked down for confidentiality: BPF programs may not read its memory",
			"boot with lockdown=integrity, or without the lockdown= parameter"
	}},
	{FeatureSeccomp, allLost, missingSeccomp},
	{FeatureBTF, allLost, func(f *facts) (string, string) {
		if f.btf == nil {
			return "", ""
		}
		return "a readable /sys/kernel/btf/vmlinux", "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (those of distributions since 2021 have it), and mount sysfs"
	}},
	{FeaturePIDNamespace, "process ids of the kernel and of this container differ: no operation can be followed", func(f *facts) (string, string) {
		if !f.pidNS {
			return "", ""
		}
		return "the initial pid namespace; this is a container's", "run on the host, or in a container with --pid=host"
	}},
	{FeatureTimeNamespace, "times of the kernel and of the operations differ", func(f *facts) (string, string) {
		if f.monotonicOffset == "" {
			return "", ""
		}
		return "the initial time namespace; here CLOCK_MONOTONIC is shifted by " + f.monotonicOffset + " s", "run outside of the time namespace"
	}},
	{FeatureTracefs, "tracepoints are not listed with their formats, and kprobes fall back to nothing where perf has none; tp_btf programs work without it", func(f *facts) (string, string) {
		if f.tracefs != "" {
			return "", ""
		}
		return "tracefs mounted at /sys/kernel/tracing or /sys/kernel/debug/tracing", "mount -t tracefs none /sys/kernel/tracing"
	}},
	{FeatureCgroups, "processes are not told apart by container; roles by cgroup match nothing", func(f *facts) (string, string) {
		if f.cgroups != "" {
			return "", ""
		}
		return "a cgroup file system at /sys/fs/cgroup", "mount -t cgroup2 none /sys/fs/cgroup"
	}},
	{FeatureKallsyms, "kernel functions have no names: blocked time is not told apart", func(f *facts) (string, string) {
		if f.kallsyms == nil {
			return "", ""
		}
		var u *tracer.UnsupportedError
		if errors.As(f.kallsyms, &u) {
			return u.Needs, "sysctl kernel.kptr_restrict=0"
		}
		return "a readable /proc/kallsyms", "mount -t proc proc /proc"
	}},
}

func missingCaps(f *facts) (needs, hint string) {
	hint = "run as root: sudo trace ..., or once: sudo setcap cap_bpf,cap_perfmon,cap_syslog,cap_sys_ptrace,cap_dac_read_search+ep $(command -v trace)"
	if f.container {
		hint = containerHint
	}
	var missing string
	switch bpf, perf := f.canBPF(), f.canPerf(); {
	case bpf && perf:
		return "", ""
	case bpf:
		missing = "CAP_PERFMON"
	case perf:
		missing = "CAP_BPF"
	default:
		missing = "CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN"
	}
	if f.unprivilegedBPF != "" && f.unprivilegedBPF != "0" && !f.canBPF() {
		missing += " (kernel.unprivileged_bpf_disabled=" + f.unprivilegedBPF + ")"
	}
	return missing, hint
}

// plainest is, for each system call, the attempt that needs the least of it:
// where that one works, no filter stands in the way of the others.
var plainest = map[string]string{bpfCall: FeatureRingBuffer, perfCall: FeatureMmap}

// filtered says whether a seccomp filter keeps us from a system call: there is
// a filter, the capabilities are there, and the plainest use was refused the
// way that filters refuse.
func (f *facts) filtered(call string) bool {
	return f.seccomp && f.canBPF() && f.canPerf() && refused(f.tried[plainest[call]])
}

func missingSeccomp(f *facts) (needs, hint string) {
	var calls []string
	for _, c := range []string{bpfCall, perfCall} {
		if f.filtered(c) {
			calls = append(calls, c)
		}
	}
	if len(calls) == 0 {
		return "", ""
	}
	return throughFilter(strings.Join(calls, " and ")), containerHint
}

func throughFilter(calls string) string {
	return "a seccomp filter / container that lets " + calls + " through"
}

// refused says whether a call failed the way seccomp filters make calls fail;
// denied, the way missing capabilities do.
func refused(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS)
}

func denied(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES)
}

// attempt is a feature that is tried.
type attempt struct {
	name     string
	syscall  string
	program  bool   // with perf_event_open(2): loads a BPF program too
	btf      bool   // rests on kernel BTF
	sysAdmin bool   // CAP_SYS_ADMIN alone will do
	kernel   string // what the kernel must have, when nothing else is in the way
	hint     string
	cost     string
	try      func() error
}

// feature words the outcome of an attempt.
func (a *attempt) feature(f *facts, err error) tracer.Feature {
	out := tracer.Feature{Name: a.name, Cost: a.cost}
	if err == nil {
		return out
	}
	needs, hint := a.why(f, err)
	out.Hint = hint
	out.Err = &tracer.UnsupportedError{Feature: a.name, Needs: needs, Cost: a.cost, Err: errno(err)}
	return out
}

// why is what an attempt that failed needed, the most telling fact first. What
// a line of its own has a hint for has none here.
func (a *attempt) why(f *facts, err error) (needs, hint string) {
	if needs := a.missingCaps(f); needs != "" && denied(err) {
		return needs, ""
	}
	switch {
	case f.userNS && denied(err):
		return "the initial user namespace", ""
	case f.lockdown == "confidentiality" && denied(err):
		return "a kernel that is not locked down for confidentiality", ""
	case f.filtered(a.syscall) && refused(err):
		return throughFilter(a.syscall), ""
	case a.btf && f.btf != nil:
		return "kernel BTF", ""
	}
	return a.kernel, a.hint
}

func (a *attempt) missingCaps(f *facts) string {
	if a.sysAdmin && !f.has(capSysAdmin) {
		return "CAP_SYS_ADMIN"
	}
	if a.syscall == bpfCall || a.program {
		needs, _ := missingCaps(f)
		return needs
	}
	if f.canPerf() {
		return ""
	}
	return "CAP_PERFMON, or CAP_SYS_ADMIN (kernel.perf_event_paranoid=" + f.paranoid + ")"
}

// errno is what the kernel said, without what libraries guess about it; nil
// when it said nothing.
func errno(err error) error {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return nil
	}
	if e == errNotSupp {
		return errors.New("operation not supported")
	}
	return e
}

// errNotSupp is the kernel's own ENOTSUPP, which has no text in user space.
const errNotSupp = syscall.Errno(524)
