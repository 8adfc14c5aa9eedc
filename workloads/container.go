package workloads

import (
	"fmt"
	"slices"
)

// containerTargets are the engines and runtimes that start containers. They
// all start the same image: two static programs, one of which exits at once
// and one that sleeps.
func containerTargets() []Target {
	return slices.Concat([]Target{builtinTarget()}, dockerTargets(), []Target{podmanTarget()}, containerdTargets(), ociTargets())
}

// with gives the targets a parameter that is not the user's to set.
func with(targets []Target, name, value string) []Target {
	all := slices.Clone(targets)
	for i, t := range all {
		all[i].New = func(p Params) (Instance, error) {
			p = p.clone()
			if p[name] == "" {
				p[name] = value
			}
			return t.New(p)
		}
	}
	return all
}

func networkParam() Param {
	return Param{Name: "network", Default: "bridge", Values: []string{"none", "bridge", "host"},
		Help: "none: a network namespace with loopback only; bridge: a veth pair to a bridge of the host (OCI runtimes: made by a hook); host: the host's own network"}
}

func pathParam() Param {
	return Param{Name: "path", Default: "api", Values: []string{"api", "cli"},
		Help: "docker and podman: by the Engine API on a socket, or by the command"}
}

func mountsParam() Param {
	return Param{Name: "mounts", Default: "0", Help: fmt.Sprintf("number of folders of the host that are mounted into a container, at most %d", mostMounts)}
}

// containerStart is the row container-start: create a container, start it,
// wait until its command has exited and the container is removed again.
func containerStart() Workload {
	return Workload{
		Name:    "container-start",
		Summary: "Create a container, run a command that exits at once, and remove the container",
		Stages:  []string{"container", "linux"},
		Unit:    "containers",
		Params: []Param{
			{Name: "op", Default: "run", Values: []string{"run", "run-detached", "start"},
				Help: "what is measured: all of it; until the engine says that the container is started; or the start of one created before"},
			networkParam(),
			pathParam(),
			mountsParam(),
			{Name: "parallel", Default: "1", Help: fmt.Sprintf("number of containers that one operation starts at the same time, at most %d", mostParallel)},
			{Name: "fsync", Default: "on", Values: []string{"on", "off"},
				Help: "builtin: write the container's state through to the disk, as engines do"},
			{Name: "cgroup", Default: "on", Values: []string{"on", "off"},
				Help: "builtin: give the container a cgroup of its own"},
		},
		Targets: inParallel(containerTargets()),
	}
}

// containerExec is the row container-exec.
func containerExec() Workload {
	return Workload{
		Name:    "container-exec",
		Summary: "Run a command that exits at once in a container that is running",
		Stages:  []string{"container", "linux"},
		Unit:    "commands",
		Params:  []Param{networkParam(), pathParam(), mountsParam()},
		Targets: with(containerTargets(), "op", "exec"),
	}
}

// containerPause is the row container-pause.
func containerPause() Workload {
	return Workload{
		Name:    "container-pause",
		Summary: "Freeze all processes of a running container, or let them go on",
		Stages:  []string{"container", "linux"},
		Unit:    "containers",
		Params: []Param{
			{Name: "op", Default: "pause", Values: []string{"pause", "unpause"}, Help: "which of the two is measured; the other one is done before or after"},
			networkParam(),
			pathParam(),
		},
		Targets: containerTargets(),
	}
}
