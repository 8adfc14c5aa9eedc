package backends

import (
	"stagetrace/tracer/ebpf"
	"stagetrace/tracer/sample"
)

// Table lists the backends of Linux.
func Table() []Row {
	return []Row{
		{Backend: &ebpf.Backend{}, Summary: "BPF programs on the scheduler and what the stages need; root, or CAP_BPF and CAP_PERFMON", Stages: true},
		{Backend: &sample.Backend{}, Summary: "end-to-end times and resource figures only; needs no privilege"},
	}
}
