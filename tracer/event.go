// Package tracer is the event model: what an operating system did, as data.
//
// A backend (tracer/ebpf, ...) decodes what its kernel said into Events at the
// edge; everything behind it (analysis, reports) sees only this package. The
// model is pointer-free and carries ids into the tables of a Trace. It refuses
// to interpret: no field holds a conclusion, only what was observed.
package tracer

// Time is nanoseconds on the trace's one clock (Linux: CLOCK_MONOTONIC, which
// is what bpf_ktime_get_ns returns).
type Time int64

// TaskID is an index into Trace.Tasks. A task is (tid, start time), so an id
// is never reused though a tid is.
type TaskID int32

const (
	Idle   TaskID = 0  // the idle task of whichever CPU
	NoTask TaskID = -1 // there is none, or it is not known
)

// StringID, ArgsID and StackID are indexes into the tables of a Trace; 0 is
// the empty entry in each.
type (
	StringID uint32
	ArgsID   uint32
	StackID  uint32
)

// Kind says what an event reports. Kinds is the table that tells which fields
// each one uses.
type Kind uint8

const (
	KindNone Kind = iota
	KindSync
	KindLost
	KindStatus
	KindSwitch
	KindWake
	KindFork
	KindExec
	KindExit
	KindBegin
	KindEnd
	KindPoint
	KindSend
	KindRecv
	KindSample
	KindOpBegin
	KindOpEnd
	kindCount
)

// Class is the family of a span (Begin/End), an instant (Point), an edge
// (Send/Recv).
type Class uint8

const (
	ClassNone Class = iota
	ClassSyscall
	ClassFunc    // a kernel function
	ClassUser    // a user-space function
	ClassIRQ     // a hardware interrupt handler
	ClassSoftirq // a softirq vector
	ClassWork    // a workqueue item
	ClassTimer
	ClassRCU
	ClassIO // a block request
	ClassSocket
	ClassPipe
	ClassFutex
	ClassLock
	ClassTracepoint // any other kernel tracepoint, by its name (cgroup_mkdir ...)
	ClassNetns      // the life of a network namespace: Flow is its cookie
	classCount
)

// Context is who really did a thing: the current task, or an interrupt that
// happened to run on top of it (then Task is a bystander).
type Context uint8

const (
	CtxTask Context = iota
	CtxSoftirq
	CtxHardirq
	CtxNMI
	CtxIdle // the idle loop, outside of any interrupt
	ctxCount
)

// TaskState is what a task is doing. Blocked is refined by Flags.
type TaskState uint8

const (
	StateUnknown TaskState = iota
	StateRunning
	StateRunnable
	StateBlocked
	StateDead
	stateCount
)

// Flags refine an event; bits.
type Flags uint16

const (
	FlagPreempt         Flags = 1 << iota // Switch: Task was preempted (it stays runnable)
	FlagIOWait                            // Switch, Status: the sleeper said it waits for I/O (in_iowait)
	FlagUninterruptible                   // Switch, Status: a D sleep
	FlagStopped                           // Switch, Status: stopped by a signal
	FlagTraced                            // Switch, Status: held by a ptrace tracer
	FlagFrozen                            // Switch, Status: frozen by the freezer cgroup or a suspend
	FlagIdle                              // Switch, Status: TASK_IDLE, a kernel thread with nothing to do
	FlagInline                            // Wake, Send, Begin: the softirq runs inline, raised by Task itself (local_bh_enable): Task is the cause
	FlagFailed                            // End, Exit, OpEnd: it failed (Value holds the code)
	FlagTracer                            // Wake, Switch: part of the tracer's own work
	FlagWarmup                            // OpBegin, OpEnd: a warm-up operation, not for statistics
	FlagGroup                             // Exit: the last task of its process
	FlagSpurious                          // Wake: the task was not asleep
	flagCount           = iota
)

// Event is one observation. 56 bytes, pointer-free. Fields not named for its
// kind in Kinds are zero.
type Event struct {
	Time  Time
	Flow  uint64 // identity of the thing that carries cause: a work item, a timer, a request, a namespace, an operation
	Value int64
	Task  TaskID
	Peer  TaskID
	Seq   uint32 // per CPU, so that (Time, CPU, Seq) is a total order
	Name  StringID
	Args  ArgsID
	Stack StackID
	CPU   int16
	Flags Flags
	Kind  Kind
	Class Class
	State TaskState
	Ctx   Context
}

// Field is a bit per field of Event that a kind may use.
type Field uint16

const (
	HasTask Field = 1 << iota
	HasPeer
	HasClass
	HasName
	HasArgs
	HasStack
	HasState
	HasCtx
	HasFlow
	HasValue
)

// KindSpec is one row of Kinds.
type KindSpec struct {
	Name   string // in the text form
	Fields Field
	Doc    string
}

// Kinds is the specification of the event model, one row per Kind. Tests,
// validator and text form loop over it.
var Kinds = [kindCount]KindSpec{
	KindNone:    {Name: "none", Doc: "no event"},
	KindSync:    {"sync", HasValue, "the wall-clock time at Time: Value is nanoseconds since 1970"},
	KindLost:    {"lost", HasValue, "Value events of CPU could not be recorded since the CPU's last event of this kind (or the start)"},
	KindStatus:  {"status", HasTask | HasState | HasName | HasStack, "Task existed when the trace began, in State, inside system call Name, with Stack if it was blocked"},
	KindSwitch:  {"switch", HasTask | HasPeer | HasName | HasState | HasStack, "CPU stops Task, which goes to State inside system call Name, and runs Peer; Stack is where Peer had slept, if it slept over the threshold"},
	KindWake:    {"wake", HasTask | HasPeer | HasName | HasCtx | HasFlow | HasValue, "Peer is made runnable while Task is current; Ctx says whether Task did it; outside of task context Name is the interrupt, softirq vector or timer function that did, Value its number, Flow the timer or request"},
	KindFork:    {"fork", HasTask | HasPeer | HasValue, "Task creates Peer; Value is the clone flags"},
	KindExec:    {"exec", HasTask | HasPeer | HasName, "Task now runs the program Name (an Image of its process); Peer is the thread that called, when it took Task's tid over"},
	KindExit:    {"exit", HasTask | HasValue, "Task begins to die; Value is the wait status"},
	KindBegin:   {"begin", HasTask | HasClass | HasName | HasArgs | HasFlow | HasValue, "Task enters a span of Class called Name"},
	KindEnd:     {"end", HasTask | HasClass | HasName | HasArgs | HasFlow | HasValue, "Task leaves the span; Args are known by now, Value is what it returned"},
	KindPoint:   {"point", HasTask | HasClass | HasName | HasArgs | HasFlow | HasValue, "something happened in Task at an instant"},
	KindSend:    {"send", HasTask | HasClass | HasName | HasCtx | HasFlow | HasValue, "Task (if Ctx is task) queues, arms, issues or sends Flow"},
	KindRecv:    {"recv", HasTask | HasClass | HasName | HasCtx | HasFlow | HasValue, "Flow completes or is received"},
	KindSample:  {"sample", HasTask | HasName | HasStack | HasCtx | HasValue, "Task was on the CPU with Stack, inside system call Name; Value is the nanoseconds a sample stands for"},
	KindOpBegin: {"op-begin", HasTask | HasName | HasFlow, "Task begins operation Flow (numbered from 1) of target Name"},
	KindOpEnd:   {"op-end", HasTask | HasName | HasFlow | HasValue, "Task ends operation Flow; Value is its exit code"},
}

// ClassNames, ContextNames, StateNames and FlagNames are the words of the
// text form, indexed by value (FlagNames by bit number).
var (
	ClassNames = [classCount]string{"", "syscall", "func", "user", "irq", "softirq", "work", "timer", "rcu", "io",
		"socket", "pipe", "futex", "lock", "tracepoint", "netns"}
	ContextNames = [ctxCount]string{"task", "softirq", "hardirq", "nmi", "idle"}
	StateNames   = [stateCount]string{"unknown", "running", "runnable", "blocked", "dead"}
	FlagNames    = [flagCount]string{"preempt", "iowait", "uninterruptible", "stopped", "traced", "frozen", "idle", "inline",
		"failed", "tracer", "warmup", "group", "spurious"}
)

func (k Kind) String() string      { return Kinds[k].Name }
func (c Class) String() string     { return ClassNames[c] }
func (c Context) String() string   { return ContextNames[c] }
func (s TaskState) String() string { return StateNames[s] }

// Less is the total order of events: time, then CPU, then sequence.
func (e *Event) Less(f *Event) bool {
	if e.Time != f.Time {
		return e.Time < f.Time
	}
	if e.CPU != f.CPU {
		return e.CPU < f.CPU
	}
	return e.Seq < f.Seq
}
