package workloads

// kernelPrimitives is the row kernel-primitives: what a container's start is
// made of, one call at a time. Its targets are these building blocks.
func kernelPrimitives() Workload {
	return Workload{
		Name:    "kernel-primitives",
		Summary: "The kernel's building blocks of containers, processes and IPC, one at a time",
		Stages:  []string{"kernel", "linux"},
		Unit:    "times",
		Params: []Param{
			{Name: "repeat", Default: "0", Help: "how often one operation does it; 0: once, or 100 times what takes microseconds"},
		},
		Targets: primitiveTargets(),
	}
}
