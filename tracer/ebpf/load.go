//go:build linux

package ebpf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"stagetrace/bpf"
	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

const (
	defaultRing = 32 << 20
	maxRing     = 64 << 20
	minRing     = 1 << 20
)

// want says which configurations need a program.
type want func(*plan) bool

func always(*plan) bool { return true }

func wantClass(c tracer.Class) want { return func(p *plan) bool { return p.classes[c] } }

func wantPoint(name string) want { return func(p *plan) bool { return p.points[name] } }

func wantSamples(p *plan) bool { return p.cfg.SamplePeriod > 0 }

// program is one row of the table of programs.
type program struct {
	name       string // in the object
	tracepoint string // "": attached another way
	want       want
	required   bool // nothing works without it
}

// programs lists what is attached, in the order of attaching: what keeps the
// context of a CPU comes first, so that no wake is seen without it, and the
// switch last, so that a trace begins with everything else in place. What a
// kernel does not have is left out unless required.
var programs = []program{
	{"irq_entry", "irq_handler_entry", always, false},
	{"irq_exit", "irq_handler_exit", always, false},
	{"softirq_raise", "softirq_raise", always, false},
	{"softirq_entry", "softirq_entry", always, false},
	{"softirq_exit", "softirq_exit", always, false},
	{"local_timer_in", "local_timer_entry", always, false},
	{"local_timer_out", "local_timer_exit", always, false},
	{"hrtimer_in", "hrtimer_expire_entry", always, false},
	{"hrtimer_out", "hrtimer_expire_exit", always, false},
	{"timer_in", "timer_expire_entry", always, false},
	{"timer_out", "timer_expire_exit", always, false},
	{"irq_work_in", "irq_work_entry", always, false},
	{"irq_work_out", "irq_work_exit", always, false},
	{"reschedule_in", "reschedule_entry", always, false},
	{"reschedule_out", "reschedule_exit", always, false},
	{"call_function_in", "call_function_entry", always, false},
	{"call_function_out", "call_function_exit", always, false},
	{"call_function_single_in", "call_function_single_entry", always, false},
	{"call_function_single_out", "call_function_single_exit", always, false},
	{"x86_platform_ipi_in", "x86_platform_ipi_entry", always, false},
	{"x86_platform_ipi_out", "x86_platform_ipi_exit", always, false},
	{"ipi_in", "ipi_entry", always, false},
	{"ipi_out", "ipi_exit", always, false},
	{"work_queue", "workqueue_queue_work", always, false},
	{"work_start", "workqueue_execute_start", always, false},
	{"work_end", "workqueue_execute_end", always, false},
	{"cgroup_mkdir", "cgroup_mkdir", always, false},
	{"cgroup_rmdir", "cgroup_rmdir", wantPoint("cgroup_rmdir"), false},
	{"cgroup_release", "cgroup_release", wantPoint("cgroup_release"), false},
	{"cgroup_attach", "cgroup_attach_task", wantPoint("cgroup_attach_task"), false},
	{"exit_mmap", "exit_mmap", wantPoint("exit_mmap"), false},
	{"hrtimer_start", "hrtimer_start", wantClass(tracer.ClassTimer), false},
	{"timer_start", "timer_start", wantClass(tracer.ClassTimer), false},
	{"bio_queue", "block_bio_queue", wantPoint("block_bio_queue"), false},
	{"block_issue", "block_rq_issue", wantClass(tracer.ClassIO), false},
	{"block_done", "block_rq_complete", wantClass(tracer.ClassIO), false},
	{"message_sent", "sock_send_length", wantClass(tracer.ClassSocket), false},
	{"message_read", "sock_recv_length", wantClass(tracer.ClassSocket), false},
	{"wait_child", "sched_process_wait", always, false},
	{"lock_begin", "contention_begin", wantClass(tracer.ClassLock), false},
	{"lock_end", "contention_end", wantClass(tracer.ClassLock), false},
	{"sys_exit", "sys_exit", wantClass(tracer.ClassSyscall), false},
	{"sys_enter", "sys_enter", wantClass(tracer.ClassSyscall), false},
	{"task_rename", "task_rename", always, false},
	{"sched_exec", "sched_process_exec", always, true},
	{"sched_exit", "sched_process_exit", always, true},
	{"task_newtask", "task_newtask", always, true},
	{"sched_waking", "sched_waking", always, true},
	{"sched_switch", "sched_switch", always, true},
	{"user_begin", "", wantUsers, false},
	{"user_end", "", wantUsers, false},
	{"sample", "", wantSamples, false},
	{"snapshot", "", always, true},
}

// plan is a Config taken apart.
type plan struct {
	cfg     tracer.Config
	classes [256]bool
	points  map[string]bool
	calls   map[string]bool // system calls, "" for all
	users   []userFunction  // by number; those of one file together
	notes   []string        // what was asked for and is not to be had
}

// everyCall asks for the spans of all system calls.
const everyCall = "*"

func newPlan(cfg tracer.Config) *plan {
	p := &plan{cfg: cfg, points: map[string]bool{}, calls: map[string]bool{}}
	known := map[string]bool{}
	for _, pr := range programs {
		known[pr.tracepoint] = true
	}
	for _, probe := range cfg.Probes {
		switch probe.Class {
		case tracer.ClassSyscall:
			p.calls[probe.Symbol] = true
			if probe.Symbol != everyCall && probe.Symbol != "" && callNumber(probe.Symbol) < 0 {
				continue // a call of another architecture
			}
		case tracer.ClassTracepoint:
			if !known[probe.Symbol] {
				p.note("tracepoint %s is not recorded", probe.Symbol)
				continue
			}
			p.points[probe.Symbol] = true
		case tracer.ClassFunc:
			p.note("%s %s has no span of its own: matched by stacks", probe.Class, probe.Symbol)
			continue
		case tracer.ClassUser:
			p.addUser(probe)
		}
		p.classes[probe.Class] = true
	}
	return p
}

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

func (p *plan) ringBytes() uint32 {
	n := p.cfg.RingBytes
	if n <= 0 {
		n = defaultRing
	}
	size := minRing
	for size < n && size < maxRing {
		size *= 2
	}
	return uint32(size)
}

// specs is how each system call is read, by number.
func (p *plan) specs() [512]bpf.TraceCallSpec {
	var specs [512]bpf.TraceCallSpec
	all := p.calls[everyCall] || p.calls[""]
	for nr, name := range syscallNames {
		if nr >= len(specs) || name == "" || !(all || p.calls[name]) {
			continue
		}
		specs[nr] = callSpec(name)
	}
	return specs
}

// loaded is the programs in the kernel, attached to nothing.
type loaded struct {
	coll     *ebpf.Collection
	attached []program // what is to be attached, in order
	multi    bool      // user functions are attached all at once
}

// load puts the programs of a plan into the kernel. loading is closed once the
// kernel's symbols are there.
func load(p *plan, kernel *symbols.Kernel, loading <-chan struct{}) (*loaded, error) {
	spec, err := bpf.LoadTrace()
	if err != nil {
		return nil, fmt.Errorf("embedded BPF object: %w", err)
	}
	types := btf.NewCache()
	vmlinux, err := types.Kernel()
	if err != nil {
		return nil, noBTF(err)
	}
	l := &loaded{}
	keep := map[string]bool{}
	for _, pr := range programs {
		if !pr.want(p) {
			continue
		}
		if pr.tracepoint != "" && !hasTracepoint(vmlinux, pr.tracepoint) {
			if pr.required {
				return nil, &tracer.UnsupportedError{Feature: "tracepoint " + pr.tracepoint, Needs: "a kernel built with it",
					Cost: "no traces at all"}
			}
			continue
		}
		keep[pr.name] = true
		l.attached = append(l.attached, pr)
	}
	for name := range spec.Programs {
		if !keep[name] {
			delete(spec.Programs, name)
		}
	}
	l.multi = wantUsers(p) && prepareUsers(spec)
	<-loading
	if err := p.settings(spec, vmlinux, kernel); err != nil {
		return nil, err
	}
	if l.coll, err = loadSpec(spec, types); err != nil {
		return nil, loadError(err)
	}
	return l, nil
}

// loadSpec is ebpf.NewCollection with the programs side by side: nearly all of
// the time goes into the verifier, which runs one program on one CPU. The
// largest ones come first, so that no CPU is left with them at the end.
func loadSpec(spec *ebpf.CollectionSpec, types *btf.Cache) (*ebpf.Collection, error) {
	programs := spec.Programs
	bare := &ebpf.CollectionSpec{Maps: spec.Maps, Variables: spec.Variables, Types: spec.Types, ByteOrder: spec.ByteOrder}
	coll, err := ebpf.NewCollectionWithOptions(bare, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return nil, err
	}
	coll.Programs = make(map[string]*ebpf.Program, len(programs))
	names := slices.SortedFunc(maps.Keys(programs), func(a, b string) int {
		return cmp.Or(len(programs[b].Instructions)-len(programs[a].Instructions), strings.Compare(a, b))
	})
	var mu sync.Mutex // guards coll.Programs, errs and next
	var errs []error
	next := 0
	take := func() (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(names) || errs != nil {
			return "", false
		}
		next++
		return names[next-1], true
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) {
		wg.Go(func() {
			for name, ok := take(); ok; name, ok = take() {
				p, err := loadProgram(spec, name, coll.Maps, types)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					coll.Programs[name] = p
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if errs != nil {
		coll.Close()
		return nil, errs[0]
	}
	return coll, nil
}

// loadProgram loads one program of a spec on maps that are there.
func loadProgram(spec *ebpf.CollectionSpec, name string, maps map[string]*ebpf.Map, types *btf.Cache) (*ebpf.Program, error) {
	one := &ebpf.CollectionSpec{Maps: spec.Maps, Programs: map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}, Types: spec.Types, ByteOrder: spec.ByteOrder}
	coll, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{MapReplacements: maps, Cache: types})
	if err != nil {
		return nil, err
	}
	defer coll.Close() // of what is left in it: other descriptors of the maps
	return coll.DetachProgram(name), nil
}

// settings fills in what the programs read as constants.
func (p *plan) settings(spec *ebpf.CollectionSpec, vmlinux *btf.Spec, kernel *symbols.Kernel) error {
	spec.Maps["events"].MaxEntries = p.ringBytes()
	set := map[string]any{"switch_state_arg": uint8(0)}
	if tracepointArgs(vmlinux, "sched_switch") >= 4 {
		set["switch_state_arg"] = uint8(1)
	}
	if p.classes[tracer.ClassSyscall] {
		set["calls"] = p.specs()
	}
	for variable, fn := range map[string]string{"fn_fqdir": "fqdir_work_fn", "fn_css_killed": "css_killed_work_fn",
		"fn_css_release": "css_release_work_fn", "fn_css_free": "css_free_rwork_fn"} {
		if at := kernel.Addr(fn); len(at) > 0 {
			set[variable] = at[0]
		}
	}
	for name, value := range set {
		v := spec.Variables[name]
		if v == nil {
			return fmt.Errorf("BPF object has no setting %s", name)
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("BPF setting %s: %w", name, err)
		}
	}
	return nil
}

// hasTracepoint looks for what the kernel's BTF has of every tracepoint: the
// type of its probe functions.
func hasTracepoint(vmlinux *btf.Spec, name string) bool {
	var t *btf.Typedef
	return vmlinux.TypeByName("btf_trace_"+name, &t) == nil
}

// tracepointArgs is the number of arguments of a tracepoint.
func tracepointArgs(vmlinux *btf.Spec, name string) int {
	var t *btf.Typedef
	if vmlinux.TypeByName("btf_trace_"+name, &t) != nil {
		return 0
	}
	if ptr, ok := t.Type.(*btf.Pointer); ok {
		if proto, ok := ptr.Target.(*btf.FuncProto); ok {
			return len(proto.Params) - 1 // the first one is the probe's data
		}
	}
	return 0
}

func noBTF(err error) error {
	return &tracer.UnsupportedError{Feature: "kernel BTF", Err: err,
		Needs: "/sys/kernel/btf/vmlinux (a kernel built with CONFIG_DEBUG_INFO_BTF)", Cost: "no traces at all"}
}

// loadError drops the loader's own guesses about limits and versions, which
// mislead on current kernels.
func loadError(err error) error {
	var verifier *ebpf.VerifierError
	if errors.As(err, &verifier) {
		return fmt.Errorf("BPF programs do not pass this kernel's verifier: %w", err)
	}
	if e := errno(err); e != nil {
		return fmt.Errorf("load BPF programs: %w", e)
	}
	return fmt.Errorf("load BPF programs: %w", err)
}
