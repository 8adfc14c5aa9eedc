// Package reports writes results: one file and one row of Formats per format.
// A report is a pure function of a result folder.
package reports

import (
	"io"

	"stagetrace/analysis"
)

// Input is what a format may use. Result is always there. Operations, when
// not nil, goes through the recorded operations with their paths (warm-up
// left out) by reading the recording again; each *analysis.Operation is valid
// only during the call.
type Input struct {
	Result     *analysis.Result
	Operations func(yield func(*analysis.Operation) error) error

	Width int  // columns of the terminal; 0: not a terminal
	ASCII bool // no box drawing, no bars of block characters
	Wide  bool
}

// Format is one row of Formats.
type Format struct {
	Name            string
	File            string // name in a result folder
	Summary         string
	Binary          bool // never written to a terminal
	NeedsOperations bool // cannot be made from result.json alone
	WantsOperations bool // says less without them
	Write           func(w io.Writer, in *Input) error
}
