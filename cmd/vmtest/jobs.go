//go:build linux

package main

import (
	"fmt"
	"strings"
)

// job is one program that runs in the guest.
type job struct {
	Name    string
	Package string   // whose test binary it is; "": the trace binary
	Args    []string // of the program
	about   string
}

// jobs is the table of what runs in a guest, in this order.
var jobs = []job{
	{"doctor", "", []string{"doctor"}, "what trace says of this kernel; it must be able to record"},
	{"bpf", "tracer/ebpf", []string{"-test.v", "-test.count=1"}, "every BPF program loads and attaches, and records what it must"},
	{"container", "", []string{"run", "--workload", "container-start", "--target", "builtin", "-p", "network=none,bridge", "--warmup", "2", "--runs", "5", "--untraced", "2", "--format", "table"},
		"where a container start of the builtin engine goes"},
	{"paths", "cmd/trace", []string{"-test.v", "-test.count=1", "-test.run", "^TestRealBuiltin$"}, "sums, names and what is left behind"},
}

// pick finds jobs by name; none named means all.
func pick(names []string) ([]job, error) {
	if len(names) == 0 {
		return jobs, nil
	}
	var out []job
	for _, n := range names {
		found := false
		for _, j := range jobs {
			if j.Name == n {
				out, found = append(out, j), true
			}
		}
		if !found {
			var known []string
			for _, j := range jobs {
				known = append(known, j.Name)
			}
			return nil, fmt.Errorf("no job %q: there are %s", n, strings.Join(known, ", "))
		}
	}
	return out, nil
}

// binaryName is where the program of a job lies in the guest.
func (j *job) binaryName() string {
	if j.Package == "" {
		return "/bin/trace"
	}
	return "/bin/" + strings.ReplaceAll(j.Package, "/", "-") + ".test"
}

// dir is where a job runs: the folder of its package, as go test does it.
func (j *job) dir() string {
	if j.Package == "" {
		return "/tmp"
	}
	return "/src/" + j.Package
}
