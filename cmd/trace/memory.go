package main

import (
	"math"
	"os"
	"runtime/debug"
)

const (
	// memoryLimit makes the collector work a little more when the heap comes near
	// it: 30 runs of a container engine then stay below 200 MB, the kernel's event
	// buffer included, for some more CPU after the measuring.
	memoryLimit = 112 << 20
	// manyEvents in one block need more than that, and a collector that fights
	// for it in vain would only cost time.
	manyEvents = 300_000
)

// limitMemory sets the limit, unless the user has set one.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// liftMemoryLimit takes it away for a block of very many events.
func liftMemoryLimit(events int) {
	if events > manyEvents && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(math.MaxInt64)
	}
}
