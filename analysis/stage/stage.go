// Package stage is the language in which stages are written: YAML files that
// say which moments of which processes are called what. It parses them,
// derives from them what has to be recorded (Probes), and tells for a moment
// of a trace which stage it belongs to (Matcher). It knows nothing of paths.
package stage

import "stagetrace/tracer"

// Ids are indexes into the tables of a Set, -1 for none.
type (
	ID     int16 // into Set.Stages
	RoleID int16 // into Set.Roles
	WaitID int16 // into Set.Waits
)

const (
	NoStage ID     = -1
	NoRole  RoleID = -1
	NoWait  WaitID = -1
)

// ActorID and SpansID are interned by a Matcher; 0 is "unknown" and "none".
type (
	ActorID uint32 // a (role, program, name) that tasks share
	SpansID uint32 // the spans open around a moment, innermost last
)

// Phase is the part of a process's life, bits.
type Phase uint8

const (
	PhaseBeforeExec Phase = 1 << iota // forked, has not executed a program of its own
	PhaseRunning                      // after its exec (or born without one before the trace)
	PhaseExiting                      // from exit_group or a deadly signal on
)

// Situation is everything a rule can ask about a moment. It is the key of the
// matcher's memo, so it holds ids only.
type Situation struct {
	Actor   ActorID
	Spans   SpansID
	Stack   tracer.StackID  // of the sleep, or of a sample; 0 unknown
	Syscall tracer.StringID // by registers at the switch or sample; 0 in user mode or unknown
	Windows uint64          // bit i: the process is inside window rule i
	Wait    WaitID
	State   tracer.TaskState // running, runnable, blocked
	Phase   Phase
}
