// Package backends is the table of ways to record on this operating system,
// the one that sees most first. It knows nothing of how they work.
package backends

import "stagetrace/tracer"

// Row is one backend.
type Row struct {
	tracer.Backend
	Summary string
	Stages  bool // it sees what stages are made of; else end-to-end times only
}
