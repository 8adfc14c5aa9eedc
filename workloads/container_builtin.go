package workloads

// builtinTarget is our own container engine: this program run as client,
// runtime and init of the container. It needs nothing installed and nothing
// pulled, and does with the kernel what every engine has to do: clone3 into
// new namespaces and a cgroup, an overlay of a root file system, pivot_root,
// a veth pair to a bridge, capabilities and a seccomp filter, and all of it
// removed again.
func builtinTarget() Target {
	return Target{
		Name:    "builtin",
		Summary: "own minimal engine: clone3, cgroup, overlay, pivot_root, veth; nothing to install",
		Find:    findBuiltin,
		New:     newBuiltin,
	}
}
