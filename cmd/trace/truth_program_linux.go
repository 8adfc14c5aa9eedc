//go:build amd64 || arm64

package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// truthWindow is one thing that a process of a truth program did, by its own
// clocks, in ns. What it was blocked is the rest of the time.
type truthWindow struct {
	Label string `json:"label"`
	PID   int32  `json:"pid"`
	Begin int64  `json:"begin"` // CLOCK_MONOTONIC
	End   int64  `json:"end"`
	CPU   int64  `json:"cpu"`   // CLOCK_THREAD_CPUTIME_ID
	Delay int64  `json:"delay"` // waited for a CPU, by /proc/thread-self/schedstat
}

// truthKind is what a step of a truth program does.
type truthKind uint8

const (
	truthCall   truthKind = iota
	truthFork             // the child goes on with the list of child
	truthBurn             // args[0] rounds of computing, without the kernel
	truthLock             // the futex mutex at word, as in Drepper, Futexes Are Tricky, mutex2
	truthUnlock           // it is handed to nobody: who was woken takes it, or another
	truthSet              // stores 1 at word
)

// truthStep is one step of a process.
type truthStep struct {
	kind   truthKind
	number uintptr
	args   [6]uintptr
	word   *uint32      // of a lock or a store, in shared memory
	result uint64       // of computing
	may    unix.Errno   // an error that is none
	into   uintptr      // the number that the new descriptor gets; 0: as it comes
	then   int          // the step to go on with; 0: the next one
	child  []truthStep  // of a fork
	record *truthRecord // nil: not timed
}

// truthRecord is where a step puts the clocks: in memory that all processes of
// a program share, as plain bytes, which a daemon can send.
type truthRecord struct {
	pid                     uint64
	begin, end              unix.Timespec
	cpuBegin, cpuEnd        unix.Timespec
	scheduled, scheduledEnd [64]byte // /proc/thread-self/schedstat
}

// truthFailure is what went wrong first, in shared memory too.
type truthFailure struct{ step, errno uint64 }

// truthProcess is what one process of a program does.
//
// A child of a Go process has one thread and no runtime: it may not allocate,
// grow its stack or be preempted. That is just what a program needs whose
// recording shall have nothing in it but what it does; so the processes are
// lists of steps, prepared before the fork.
type truthProcess struct {
	run   *truthRun
	steps []truthStep
}

// truthRun is one run of a truth program.
type truthRun struct {
	args    []string // of the program
	arena   []byte   // shared by its processes
	used    int
	labels  []string // of records, in order
	records []*truthRecord
	windows []truthWindow // of what needs no process of its own
	keep    []any         // what steps point to
	handed  []int         // descriptors that are the processes' alone
	perMs   uintptr       // rounds of computing
}

// settleTruth is how long a process lets others come to their waits.
const settleTruth = 5 * time.Millisecond

const (
	truthArena     = 1 << 18
	truthSchedstat = 900 // the descriptor of a process's own schedstat
)

func newTruthRun(args []string) (*truthRun, error) {
	arena, err := unix.Mmap(-1, 0, truthArena, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	r := &truthRun{args: args, arena: arena}
	r.shared(unsafe.Sizeof(truthFailure{}))
	const rounds = 200_000
	best, x := time.Duration(1<<62), uint64(0)
	for range 5 {
		begin := time.Now()
		truthCompute(rounds, &x)
		best = min(best, time.Since(begin))
	}
	r.perMs = uintptr(rounds * time.Millisecond / max(best, 1))
	return r, nil
}

// shared gives memory that all processes of the run see, zero at first.
func (r *truthRun) shared(size uintptr) unsafe.Pointer {
	at := r.used
	r.used += int(size+63) &^ 63
	if r.used > len(r.arena) {
		panic("a truth program needs more shared memory than there is")
	}
	return unsafe.Pointer(&r.arena[at])
}

func (r *truthRun) word() *uint32 { return (*uint32)(r.shared(4)) }

func (r *truthRun) failure() *truthFailure { return (*truthFailure)(unsafe.Pointer(&r.arena[0])) }

// record makes room for what is later known under label.
func (r *truthRun) record(label string) *truthRecord {
	rec := (*truthRecord)(r.shared(unsafe.Sizeof(truthRecord{})))
	r.labels, r.records = append(r.labels, label), append(r.records, rec)
	return rec
}

// process begins a list of steps. The process dies with the one that forked it.
func (r *truthRun) process() *truthProcess {
	p := &truthProcess{run: r}
	p.call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	at := unix.AT_FDCWD
	p.call(unix.SYS_OPENAT, uintptr(at), r.text("/proc/thread-self/schedstat"), unix.O_RDONLY|unix.O_CLOEXEC).into = truthSchedstat
	return p
}

// first begins the list of the process that the others descend from. It lets
// those above it come to their waits for it: until then the path is theirs.
func (r *truthRun) first() *truthProcess {
	p := r.process()
	p.nap(settleTruth)
	return p
}

// text is a string as the kernel wants it.
func (r *truthRun) text(s string) uintptr { return r.bytes(append([]byte(s), 0)) }

// bytes keeps b for as long as the run and gives its address, which fits
// processes that are forked: their memory is a copy.
func (r *truthRun) bytes(b []byte) uintptr {
	r.keep = append(r.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

func (p *truthProcess) add(s truthStep) *truthStep {
	p.steps = append(p.steps, s)
	return &p.steps[len(p.steps)-1]
}

func (p *truthProcess) call(number uintptr, args ...uintptr) *truthStep {
	s := truthStep{number: number}
	copy(s.args[:], args)
	return p.add(s)
}

// timed has the step write down when it began and ended.
func (p *truthProcess) timed(label string, s *truthStep) *truthStep {
	s.record = p.run.record(label)
	return s
}

func (p *truthProcess) fork(child *truthProcess) {
	p.add(truthStep{kind: truthFork, child: child.steps})
}

func (p *truthProcess) burn(d time.Duration) *truthStep {
	return p.add(truthStep{kind: truthBurn, args: [6]uintptr{uintptr(d.Microseconds()) * p.run.perMs / 1000}})
}

func (p *truthProcess) nap(d time.Duration) *truthStep {
	ts := new(unix.Timespec)
	*ts = unix.NsecToTimespec(d.Nanoseconds())
	p.run.keep = append(p.run.keep, ts)
	return p.call(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(ts)), 0)
}

func (p *truthProcess) write(fd int, n uintptr) *truthStep {
	return p.call(unix.SYS_WRITE, uintptr(fd), p.run.bytes(make([]byte, n)), n)
}

func (p *truthProcess) read(fd int, n uintptr) *truthStep {
	return p.call(unix.SYS_READ, uintptr(fd), p.run.bytes(make([]byte, n)), n)
}

func (p *truthProcess) close(fd int) *truthStep { return p.call(unix.SYS_CLOSE, uintptr(fd)) }

func (p *truthProcess) lock(word *uint32) *truthStep {
	return p.add(truthStep{kind: truthLock, word: word})
}

func (p *truthProcess) unlock(word *uint32) { p.add(truthStep{kind: truthUnlock, word: word}) }

// reap waits for any child to end.
func (p *truthProcess) reap() *truthStep {
	const any = ^uintptr(0)
	return p.call(unix.SYS_WAIT4, any, 0, 0, 0)
}

// start runs the process until it has ended.
func (p *truthProcess) start() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	// The runtime's signal handlers must not run in the child.
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return fmt.Errorf("block signals: %w", err)
	}
	failure := p.run.failure()
	pid, errno := truthForkInto(p.steps, failure)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); err != nil {
		return fmt.Errorf("unblock signals: %w", err)
	}
	if errno != 0 {
		return fmt.Errorf("fork: %w", errno)
	}
	for _, fd := range p.run.handed {
		if err := unix.Close(fd); err != nil {
			return fmt.Errorf("close descriptor %d: %w", fd, err)
		}
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(int(pid), &status, 0, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the program: %w", err)
		}
	}
	runtime.KeepAlive(p.run)
	if failure.errno != 0 {
		return fmt.Errorf("step %d of a process: %w", failure.step, unix.Errno(failure.errno))
	}
	if status.ExitStatus() != 0 {
		return fmt.Errorf("the program ended with status %#x", uint32(status))
	}
	return nil
}

// truthCompute is rounds of a linear congruential generator.
//
//go:noinline
//go:norace
//go:nosplit
func truthCompute(rounds uintptr, x *uint64) {
	for ; rounds > 0; rounds-- {
		*x = *x*6364136223846793005 + 1442695040888963407
	}
}

// truthForkInto forks a process that does the steps. In the child it does not
// return.
//
//go:noinline
//go:norace
//go:nosplit
func truthForkInto(steps []truthStep, failure *truthFailure) (pid uintptr, errno unix.Errno) {
	pid, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	var result uintptr
	for i := 0; i < len(steps); {
		s := &steps[i]
		if s.record != nil {
			truthStampBegin(s.record)
		}
		result, errno = truthDo(s)
		if s.record != nil {
			truthStampEnd(s.record)
		}
		if errno != 0 && errno != s.may {
			failure.step, failure.errno = uint64(i), uint64(errno)
			for {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
			}
		}
		switch {
		case s.kind == truthFork && result == 0:
			steps, i = s.child, 0
		case s.then != 0:
			i = s.then
		default:
			i++
		}
	}
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

//go:noinline
//go:norace
//go:nosplit
func truthDo(s *truthStep) (result uintptr, errno unix.Errno) {
	switch s.kind {
	case truthCall:
		result, _, errno = unix.RawSyscall6(s.number, s.args[0], s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		if errno == 0 && s.into != 0 {
			unix.RawSyscall(unix.SYS_DUP3, result, s.into, unix.O_CLOEXEC)
			unix.RawSyscall(unix.SYS_CLOSE, result, 0, 0)
		}
	case truthFork:
		result, _, errno = unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	case truthBurn:
		truthCompute(s.args[0], &s.result)
	case truthSet:
		atomic.StoreUint32(s.word, 1)
	case truthLock:
		if atomic.CompareAndSwapUint32(s.word, 0, 1) {
			break
		}
		for atomic.SwapUint32(s.word, 2) != 0 {
			unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(s.word)), futexWait, 2, 0, 0, 0)
		}
	case truthUnlock:
		if atomic.SwapUint32(s.word, 0) == 2 {
			unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(s.word)), futexWake, 1, 0, 0, 0)
		}
	}
	return result, errno
}

// Operations of futex(2), which x/sys does not name.
const (
	futexWait = 0
	futexWake = 1
)

//go:noinline
//go:norace
//go:nosplit
func truthStampBegin(r *truthRecord) {
	pid, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	r.pid = uint64(pid)
	unix.RawSyscall6(unix.SYS_PREAD64, truthSchedstat, uintptr(unsafe.Pointer(&r.scheduled)), uintptr(len(r.scheduled)), 0, 0, 0)
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&r.cpuBegin)), 0)
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&r.begin)), 0)
}

//go:noinline
//go:norace
//go:nosplit
func truthStampEnd(r *truthRecord) {
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&r.end)), 0)
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID, uintptr(unsafe.Pointer(&r.cpuEnd)), 0)
	unix.RawSyscall6(unix.SYS_PREAD64, truthSchedstat, uintptr(unsafe.Pointer(&r.scheduledEnd)), uintptr(len(r.scheduledEnd)), 0, 0, 0)
}

// window is what a record says; ok is false when its step was not done.
func (r *truthRecord) window(label string) (w truthWindow, ok bool) {
	w = truthWindow{Label: label, PID: int32(r.pid), Begin: r.begin.Nano(), End: r.end.Nano(), CPU: r.cpuEnd.Nano() - r.cpuBegin.Nano(),
		Delay: runDelay(r.scheduledEnd[:]) - runDelay(r.scheduled[:])}
	return w, r.end.Nano() > 0
}

// runDelay is the second number of a schedstat file: the time waited on a run
// queue (Documentation/scheduler/sched-stats.rst). A kernel without it says
// nothing.
func runDelay(text []byte) int64 {
	f := strings.Fields(strings.TrimRight(string(text), "\x00"))
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
