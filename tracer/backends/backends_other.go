//go:build !linux

package backends

import "stagetrace/tracer/sample"

// Table lists the backends of this system.
func Table() []Row {
	return []Row{
		{Backend: &sample.Backend{}, Summary: "end-to-end times and resource figures only; needs no privilege"},
	}
}
