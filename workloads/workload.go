// Package workloads holds the operations worth measuring: one file each, one
// row in Table. A workload knows how to carry an operation out and how to
// leave no trace of it; it knows nothing of tracers.
package workloads

import "context"

// Workload is one row of the table.
type Workload struct {
	Name    string
	Summary string
	Stages  []string // stage sets that name its stages, first wins
	Params  []Param
	Targets []Target
	Unit    string // what one operation does, in the plural: "containers"
}

// Param is a parameter that -p NAME=VALUE sets.
type Param struct {
	Name, Default, Help string
	Values              []string // allowed values; empty: any
}

// Params are values by name, defaults filled in.
type Params map[string]string

// Target is one system that can carry the workload out.
type Target struct {
	Name    string
	Summary string
	// OnlyNamed targets need a parameter, and are not among "all".
	OnlyNamed bool
	// Find says whether it can run here: where it was found and its version,
	// or why not and the one command that would help.
	Find func(ctx context.Context) Found
	// New makes an instance; it touches nothing before Setup.
	New func(p Params) (Instance, error)
}

// State says in which way a target is there or is not.
type State string

const (
	Here         State = ""            // it can run: OK
	ClientOnly   State = "client-only" // it can run, and only its client's part can be seen from here
	NotRunning   State = "not running"
	NotInstalled State = "not installed"
	NotAllowed   State = "not allowed"
	OtherSystem  State = "other system"
	NotDriven    State = "not driven" // it is there, and no workload of this program drives it
)

// Found is the answer of Target.Find.
type Found struct {
	OK      bool
	State   State
	Where   string // path or socket
	Version string
	Note    string // when OK: what is different here, such as a work-around that is used
	Why     string // when not OK: what was looked for and where
	Hint    string // the one command that would make it run
}

// Instance carries operations out. Only Do is timed. Every method is safe to
// call after any other failed; Cleanup also removes what an earlier,
// killed run of the same workload left.
type Instance interface {
	Setup(ctx context.Context) error
	Prepare(ctx context.Context, op int) error
	Do(ctx context.Context, op int) (Outcome, error)
	Conclude(ctx context.Context, op int, out Outcome) error
	Cleanup(ctx context.Context) error
}

// BlockPreparer is an Instance with something to do before each block of
// operations, traced or not, while no recorder is attached.
type BlockPreparer interface {
	PrepareBlock(ctx context.Context) error
}

// Outcome is what one operation did.
type Outcome struct {
	Metrics  []Metric // what is known of it beside its time
	Units    int
	ExitCode int // 128+n when a signal ended it
	Group    int // process group that the operation had to itself; 0: none
}

// Metric is a figure of an operation beside its time. Its Unit says what one is:
// "B" and "B/s" bytes, "ns" time, "1/s" a rate, "ratio" a fraction, "" a count.
type Metric struct {
	Name, Unit string
	Value      float64
}

// Op names one operation of a run.
type Op struct {
	Target string
	Index  int // from 1, over the whole run: its number
	Warmup bool
	Traced bool
	First  bool // the first operation of its target
}

// Result is a finished operation.
type Result struct {
	Op
	Outcome
	Begin, End int64    // CLOCK_MONOTONIC, ns
	Err        error    // it failed, and how
	Leftovers  []string // "PID COMM" of what was still alive in Outcome.Group; left alone
}

// Plan says how a run goes.
type Plan struct {
	Warmup   int // per target
	Runs     int // traced operations per target
	Untraced int // untraced operations per target, interleaved in blocks
	Block    int // operations per target and block; 0: a good default
}

// Recorder is told what happens, so that it can record it. Start and Stop
// enclose a traced block; nothing of a recorder runs outside of them. OpBegin
// and OpEnd are called on the thread that carries the operation out.
type Recorder interface {
	Start(ctx context.Context, warmup bool) error
	OpBegin(op Op, at int64, tid int)
	OpEnd(r Result, tid int)
	Stop(ctx context.Context) error
}

// Running is a target that takes part in a run.
type Running struct {
	Target   string
	Instance Instance
}
