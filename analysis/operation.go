// Package analysis turns a trace into the answer: for every operation a path
// that covers it exactly, split into stages. Pure: no I/O, no clock, any OS.
package analysis

import (
	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// Segment is a piece of an operation's path: for [Begin, End) the operation's
// progress depended on Task being in State. Segments of a path touch.
type Segment struct {
	Begin, End tracer.Time
	Task       tracer.TaskID
	Link       int32 // into Path.Links: why the operation depended on Task
	Stack      tracer.StackID
	Syscall    tracer.StringID
	Spans      stage.SpansID
	Stage      stage.ID // stage.NoStage: other
	Wait       stage.WaitID
	State      tracer.TaskState
	Leaf       Leaf
	Samples    uint16        // running: how many CPU samples stand behind it
	By         tracer.TaskID // who had the CPU (runnable), or was busy with other work (queueing); 0 nobody or not known
}

// Link is a step of the chain of waits from the operation's root task down:
// Waiter slept at Stack until Task's chain of doings ended the sleep.
type Link struct {
	Parent int32 // Link of the waiter's own reason to be on the path; -1: the root task
	Waiter tracer.TaskID
	Stack  tracer.StackID
	Stage  stage.ID
}

// Leaf says why a blocked segment was not followed further.
type Leaf uint8

const (
	LeafNone           Leaf = iota
	LeafTerminal            // the wait itself is the cause: RCU, disk, timer, stopper
	LeafTimer               // a timer of the sleeper's own
	LeafDevice              // a device interrupt
	LeafNetwork             // a packet from outside
	LeafInterrupt           // another interrupt
	LeafHeld                // stopped, traced, frozen
	LeafUnknown             // nobody was seen to wake it
	LeafLost                // events were lost inside
	LeafBefore              // it began before the trace
	LeafInfrastructure      // woken by idle, migration, ksoftirqd, a worker pool
	LeafQueueing            // whom it asked was busy with somebody else's work
)

// Path is the critical path of one operation.
type Path struct {
	Segments []Segment // in time order, contiguous, covering the operation
	Links    []Link
}

// OffPath is a piece of work that the operation caused and did not wait for.
type OffPath struct {
	Begin, End tracer.Time
	CPU        tracer.Time // of it, on a CPU
	Task       tracer.TaskID
	Stage      stage.ID
	Name       string // of the work item, or the process
}

// Operation is one measured operation with its path. Tables it refers to are
// those of Trace and Set.
type Operation struct {
	OperationResult
	Trace      *tracer.Trace
	Set        *stage.Set
	Match      *stage.Matcher
	Root       tracer.TaskID
	Begin, End tracer.Time
	Warmup     bool
	Path       Path
	Off        []OffPath
}
