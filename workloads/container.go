package workloads

import "slices"

// containerStart is the row container-start: create a container, start it,
// wait until its command has exited and the container is removed again. All
// targets start the same image: one static program that exits with 0.
func containerStart() Workload {
	return Workload{
		Name:    "container-start",
		Summary: "Create a container, run a command that exits at once, and remove the container",
		Stages:  []string{"container", "linux"},
		Unit:    "containers",
		Params: []Param{
			{Name: "network", Default: "bridge", Values: []string{"none", "bridge", "host"},
				Help: "none: a network namespace with loopback only; bridge: a veth pair to a bridge of the host (runc: made by a hook); host: the host's own network"},
			{Name: "path", Default: "api", Values: []string{"api", "cli"},
				Help: "docker: by the Engine API on its socket, or by the docker command"},
			{Name: "fsync", Default: "on", Values: []string{"on", "off"},
				Help: "builtin: write the container's state through to the disk, as engines do"},
			{Name: "cgroup", Default: "on", Values: []string{"on", "off"},
				Help: "builtin: give the container a cgroup of its own"},
		},
		Targets: slices.Concat([]Target{builtinTarget()}, dockerTargets(), []Target{runcTarget()}),
	}
}
