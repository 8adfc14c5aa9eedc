package workloads

import "context"

// ociRuntime is one OCI runtime with runc's command line. They are measured
// without an engine around them, on a bundle that we generate.
type ociRuntime struct {
	name    string // of the target and of the program on PATH
	summary string
	install string // the one command that brings it
	// unifiedApart: it refuses a host whose cgroup v2 hierarchy is mounted
	// beside those of v1 ("hybrid"), and is run where v2's is not mounted.
	unifiedApart bool
}

// ociRuntimes has one row per runtime.
func ociRuntimes() []ociRuntime {
	return []ociRuntime{
		{name: "runc", summary: "runc on a generated OCI bundle; its network is made by a hook", install: "apt-get install runc"},
		{name: "crun", summary: "crun on the same bundle", install: "apt-get install crun", unifiedApart: true},
		{name: "youki", summary: "youki on the same bundle", install: "cargo install youki"},
		{name: "runsc", summary: "gVisor's runsc on the same bundle", install: "apt-get install runsc"},
	}
}

func ociTargets() []Target {
	var all []Target
	for _, rt := range ociRuntimes() {
		all = append(all, Target{
			Name:    rt.name,
			Summary: rt.summary,
			Find:    func(ctx context.Context) Found { return findOCI(ctx, rt) },
			New:     func(p Params) (Instance, error) { return newOCI(rt, p) },
		})
	}
	return all
}
