//go:build amd64 || arm64

package main

import (
	"stagetrace/tracer"
)

// The truth suite: programs whose answer is known, because every process of
// theirs writes down by its own clocks what it did and how long. They are run
// through the whole chain, and what the path says is held against it.

// truthCommand is the hidden first argument with which this program runs
// itself as a truth program, or without a name as the whole suite.
const truthCommand = "__truth"

// truthMeasure says what of a window an expectation is about.
type truthMeasure uint8

const (
	truthWhole   truthMeasure = iota // from its begin to its end
	truthBlocked                     // what it was blocked in it
	truthRan                         // what it was on a CPU: all that it neither was blocked nor waited for a CPU
)

// truthWho says whose segments of the path count.
type truthWho uint8

const (
	truthOwn    truthWho = iota // the window's own process's
	truthOthers                 // everybody else's
	truthAnyone
)

// truthExpectation is one thing that is known of a program, and where the
// path must show it. Empty fields do not matter.
type truthExpectation struct {
	what    string // for people
	label   string // of the windows it is about; several add up
	within  string // the label of a window: only what of the others lies in it
	measure truthMeasure
	never   bool             // their processes must not be on the path in the windows
	who     truthWho         // on the path
	state   tracer.TaskState // 0: any
	stage   string           // pattern of path.Match
	wait    string           // likewise, of the wait reason
	waiter  string           // the label of a window: its process is who waited for it
}

// truthProgram is one row of the suite.
type truthProgram struct {
	name     string
	what     string // known of it
	burners  bool   // a busy loop on every CPU, which must never be blamed
	server   string // a program that runs beside, as long as operations do
	stranger string // another one, that keeps the server busy
	stages   string // of the stage file it is recorded with, beside the linux set
	run      func(r *truthRun) error
	expect   []truthExpectation
}
