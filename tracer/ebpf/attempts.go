//go:build linux

package ebpf

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"stagetrace/tracer/symbols"
)

const (
	bpfCall  = "bpf(2)"
	perfCall = "perf_event_open(2)"
)

const newerKernel = "boot a newer kernel"

// attempts is what is tried, with the smallest program that tells. Rows are in
// the order of importance.
var attempts = []attempt{
	{name: FeatureRingBuffer, syscall: bpfCall, kernel: "BPF ring buffers (Linux 5.8)", hint: newerKernel, cost: allLost,
		try: func() error { return features.HaveMapType(ebpf.RingBuf) }},
	{name: FeatureTpBTF, syscall: bpfCall, btf: true, kernel: "BPF tracing programs (CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT, CONFIG_BPF_EVENTS)", hint: newerKernel, cost: allLost,
		try: func() error { return tryTracing(ebpf.AttachTraceRawTp, "sched_process_fork") }},
	{name: FeatureRawTracepoint, syscall: bpfCall, kernel: "BPF raw tracepoints (CONFIG_BPF_EVENTS)", hint: newerKernel,
		cost: "tracepoints whose arguments BTF does not know are not recorded", try: tryRawTracepoint},
	{name: FeatureTaskStorage, syscall: bpfCall, kernel: "BPF task storage (Linux 5.11)", hint: newerKernel,
		cost: "state of tasks is kept in hash tables, which is slower", try: func() error { return features.HaveMapType(ebpf.TaskStorage) }},
	{name: FeatureTaskIterator, syscall: bpfCall, btf: true, kernel: "BPF task iterators (Linux 5.8)", hint: newerKernel,
		cost: "tasks older than the trace are read from /proc, without their stacks", try: tryTaskIterator},
	{name: FeatureMessages, syscall: bpfCall, btf: true, kernel: "the tracepoints sock_send_length and sock_recv_length (Linux 6.4)", hint: newerKernel,
		cost: "waiting for a server that is busy with somebody else's request counts as the server's time",
		try:  func() error { return tryTracing(ebpf.AttachTraceRawTp, "sock_recv_length") }},
	{name: FeatureCPUClock, syscall: perfCall, program: true, kernel: "perf events with BPF programs (CONFIG_PERF_EVENTS, CONFIG_BPF_EVENTS)", hint: newerKernel,
		cost: "no CPU samples: running time is told apart by system call only", try: tryCPUClock},
	{name: FeatureMmap, syscall: perfCall, kernel: "perf events (CONFIG_PERF_EVENTS)", hint: newerKernel,
		cost: "functions of processes that end during the trace have no names", try: func() error { _, err := tryMapReader(); return err }},
	{name: FeatureBuildIDs, syscall: perfCall, kernel: "build ids in mmap records (Linux 5.12)", hint: newerKernel,
		cost: "a file is known by device and inode; one that was replaced since has no names", try: tryBuildIDs},
	{name: FeatureFentry, syscall: bpfCall, btf: true, kernel: "BPF trampolines on kernel functions (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)", hint: "boot a kernel of a distribution",
		cost: "kernel functions have no exact spans: stacks of sleeps and samples name them", try: tryFentry},
	{name: FeatureKprobe, syscall: perfCall, program: true, kernel: "CONFIG_KPROBES", hint: "boot a kernel of a distribution",
		cost: "no exact spans of kernel functions where fentry is missing too", try: tryKprobe},
	{name: FeatureUprobe, syscall: perfCall, program: true, kernel: "CONFIG_UPROBE_EVENTS", hint: "boot a kernel of a distribution",
		cost: "user functions have no exact spans", try: func() error { return tryUprobe(false) }},
	{name: FeatureUprobeMulti, syscall: bpfCall, kernel: "BPF uprobe_multi links (Linux 6.6)", hint: newerKernel,
		cost: "attaching many user functions is slower", try: func() error { return tryUprobe(true) }},
	{name: FeatureHardware, syscall: perfCall, kernel: "a performance counter that the processor, or the hypervisor, lets us use", hint: "enable the vPMU of the virtual machine",
		cost: "no cycles and instructions; times are not affected", try: tryHardware},
	{name: FeatureStats, syscall: bpfCall, sysAdmin: true, kernel: "BPF_ENABLE_STATS (Linux 5.8)", hint: newerKernel,
		cost: "what tracing cost is known from untraced operations only", try: tryStats},
}

// returnZero is a program that does nothing.
var returnZero = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}

func loadNothing(typ ebpf.ProgramType, at ebpf.AttachType, to string) (*ebpf.Program, error) {
	return ebpf.NewProgramWithOptions(&ebpf.ProgramSpec{
		Name: "trace_doctor", Type: typ, AttachType: at, AttachTo: to, License: "GPL", Instructions: returnZero,
	}, ebpf.ProgramOptions{LogDisabled: true})
}

func tryTracing(at ebpf.AttachType, to string) error {
	p, err := loadNothing(ebpf.Tracing, at, to)
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := link.AttachTracing(link.TracingOptions{Program: p, AttachType: at})
	if err != nil {
		return err
	}
	return l.Close()
}

func tryRawTracepoint() error {
	p, err := loadNothing(ebpf.RawTracepoint, ebpf.AttachNone, "")
	if err != nil {
		return err
	}
	defer p.Close()
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_fork", Program: p})
	if err != nil {
		return err
	}
	return l.Close()
}

func tryTaskIterator() error {
	p, err := loadNothing(ebpf.Tracing, ebpf.AttachTraceIter, "task")
	if err != nil {
		return err
	}
	defer p.Close()
	it, err := link.AttachIter(link.IterOptions{Program: p})
	if err != nil {
		return err
	}
	return it.Close()
}

// probedFunctions are called seldom, and one of them is in every kernel.
var probedFunctions = []string{"bpf_fentry_test1", "kernel_clone", "_do_fork", "vfs_statfs"}

func tryFentry() error { return firstOf(probedFunctions, tryFentryOn) }

func tryFentryOn(fn string) error { return tryTracing(ebpf.AttachTraceFEntry, fn) }

// firstOf is the error of the first function that exists.
func firstOf(names []string, try func(string) error) (err error) {
	for _, n := range names {
		err = try(n)
		if !errors.Is(err, os.ErrNotExist) && !isNotFound(err) {
			return err
		}
	}
	return err
}

// isNotFound recognises what the loader says of a function that BTF has not.
func isNotFound(err error) bool { return err != nil && strings.Contains(err.Error(), "not found") }

func tryKprobe() error {
	p, err := loadNothing(ebpf.Kprobe, ebpf.AttachNone, "")
	if err != nil {
		return err
	}
	defer p.Close()
	return firstOf(probedFunctions[1:], func(fn string) error {
		l, err := link.Kprobe(fn, p, nil)
		if err != nil {
			return err
		}
		return l.Close()
	})
}

// probedFunction is where a uprobe is tried. Nobody calls it.
//
//go:noinline
func probedFunction(n int) int { return n*n + 1 }

func tryUprobe(multi bool) error {
	at := ebpf.AttachNone
	if multi {
		at = ebpf.AttachTraceUprobeMulti
	}
	p, err := loadNothing(ebpf.Kprobe, at, "")
	if err != nil {
		return err
	}
	defer p.Close()
	off, err := fileOffset(uint64(reflect.ValueOf(probedFunction).Pointer()))
	if err != nil {
		return err
	}
	ex, err := link.OpenExecutable("/proc/self/exe")
	if err != nil {
		return err
	}
	var l link.Link
	if multi {
		l, err = ex.UprobeMulti(nil, p, &link.UprobeMultiOptions{Addresses: []uint64{off}})
	} else {
		l, err = ex.Uprobe("", p, &link.UprobeOptions{Address: off})
	}
	if err != nil {
		return err
	}
	return l.Close()
}

// fileOffset is where in our own file an address of our own code lies.
func fileOffset(pc uint64) (uint64, error) {
	maps, err := symbols.ReadProcMaps(int32(os.Getpid()))
	if err != nil {
		return 0, err
	}
	for _, m := range maps {
		if pc >= m.Start && pc < m.End {
			return pc - m.Start + m.Offset, nil
		}
	}
	return 0, fmt.Errorf("address %#x of our own code: %w", pc, os.ErrNotExist)
}

func perfAttr(typ uint32, config, period uint64) *unix.PerfEventAttr {
	return &unix.PerfEventAttr{Type: typ, Config: config, Sample: period,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitDisabled}
}

func tryCPUClock() error {
	cpu, err := firstCPU()
	if err != nil {
		return err
	}
	fd, err := unix.PerfEventOpen(perfAttr(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_CPU_CLOCK, 1e9), -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	p, err := loadNothing(ebpf.PerfEvent, ebpf.AttachNone, "")
	if err != nil {
		return err
	}
	defer p.Close()
	return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.FD())
}

func tryHardware() error {
	attr := perfAttr(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES, 0)
	attr.Bits |= unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv
	fd, err := unix.PerfEventOpen(attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func tryMapReader() (buildIDs bool, err error) {
	cpu, err := firstCPU()
	if err != nil {
		return false, err
	}
	r, err := OpenMapReader([]int{cpu})
	if err != nil {
		return false, err
	}
	return r.BuildIDs, r.Close()
}

func tryBuildIDs() error {
	ok, err := tryMapReader()
	if err == nil && !ok {
		err = unix.EINVAL
	}
	return err
}

func tryStats() error {
	c, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return err
	}
	return c.Close()
}
