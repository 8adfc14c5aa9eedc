package tracer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Probe is one thing a stage set needs to see. Class and Symbol name it:
// {ClassSyscall, "mkdirat"} is an exact span of that system call with its
// decoded arguments; {ClassFunc, "copy_net_ns"} a kernel function;
// {ClassTracepoint, "cgroup_mkdir"}; {ClassWork, ""} workqueue items. Target is
// the object file of a ClassUser probe.
type Probe struct {
	Class  Class
	Target string
	Symbol string
}

// Config is what to record. The zero value records the scheduler only.
type Config struct {
	Probes       []Probe
	SleepStack   time.Duration // take the kernel stack of sleeps at least this long; 0: of every sleep; < 0: of none
	SamplePeriod time.Duration // CPU samples with stacks; 0: none
	RingBytes    int           // of the event buffer; 0: the backend's default
	Follow       []int         // pids whose processes, threads and descendants are followed from the start
	TracerPID    int           // our own process; its threads named by Session.Driver are part of the operations
}

// Mark is what the driver of the operations says about them.
type Mark struct {
	Kind   Kind // KindOpBegin or KindOpEnd
	Time   Time
	TID    int    // the thread that carries the operation out
	Op     uint64 // number of the operation, from 1
	Target string
	Value  int64 // of KindOpEnd: exit code
	Flags  Flags // FlagWarmup, FlagFailed
}

// Backend is a way to record on some operating system.
type Backend interface {
	Name() string
	// Check says what works here. It attaches nothing for longer than the test takes.
	Check(ctx context.Context) []Feature
	// Open loads what cfg needs, attached to nothing yet.
	Open(ctx context.Context, cfg Config) (Session, error)
}

// Session records traces, one after the other.
type Session interface {
	Now() Time
	// Start attaches. What the system does from now on is recorded.
	Start(ctx context.Context) error
	// Mark adds an operation's begin or end to the running trace.
	Mark(Mark)
	// Follow adds processes (with threads and descendants) to those that are
	// recorded in full. Pids that are gone are ignored.
	Follow(pids ...int) error
	// Stop detaches everything and returns the trace since Start. The session
	// can be started again. On a cancelled ctx it still detaches and returns
	// what there is.
	Stop(ctx context.Context) (*Trace, error)
	Close() error
}

// Feature is one line of `trace doctor`: a thing that works (Err == nil), or
// not, why, and what is lost without it.
type Feature struct {
	Name string
	Err  error
	Cost string // what is lost without it
	Hint string // the one change that would help
}

// ErrUnsupported is the family of errors for what a system cannot do.
var ErrUnsupported = errors.New("not supported here")

// UnsupportedError names the feature, what it needs, and what is lost.
type UnsupportedError struct {
	Feature string
	Needs   string
	Cost    string
	Err     error
}

func (e *UnsupportedError) Error() string {
	s := fmt.Sprintf("%s: needs %s", e.Feature, e.Needs)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *UnsupportedError) Unwrap() error        { return e.Err }
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }
