package workloads

// Table lists the workloads. The row "command" has no targets: its one target
// is the command line that the user gives, which Command makes an Instance of.
func Table() []Workload {
	return []Workload{
		containerStart(),
		containerExec(),
		containerPause(),
		kernelPrimitives(),
		runtimeStart(),
		httpServe(),
		{
			Name:    CommandName,
			Summary: "Run a command until it exits",
			Stages:  []string{"linux"},
			Unit:    "commands",
		},
	}
}

// Lookup gives the row of that name.
func Lookup(name string) (Workload, bool) {
	for _, w := range Table() {
		if w.Name == name {
			return w, true
		}
	}
	return Workload{}, false
}

// LookupTarget gives the row's target of that name.
func (w Workload) LookupTarget(name string) (Target, bool) {
	for _, t := range w.Targets {
		if t.Name == name {
			return t, true
		}
	}
	return Target{}, false
}
