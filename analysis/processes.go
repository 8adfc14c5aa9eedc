package analysis

import (
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	"stagetrace/tracer"
)

// traceFacts adds up what a trace says about its recording.
func (an *Analyzer) traceFacts(a *traceAnalysis) {
	m := &a.tr.Meta
	f := &an.facts
	f.Backend = m.Backend
	f.Blocks++
	f.Events += int64(len(a.tr.Events))
	f.ProgramRunNs += m.RunNs
	f.RecordedNs += int64(m.End - m.Begin)
	f.Probes = union(f.Probes, m.Probes)
	f.Notes = union(f.Notes, m.Notes)
	for i := range a.tr.Events {
		e := &a.tr.Events[i]
		if e.Kind != tracer.KindSample {
			continue
		}
		f.Samples++
		if int(e.Stack) < len(a.tr.Stacks) {
			for _, fr := range a.tr.Stacks[e.Stack].Frames {
				an.frames.all++
				if a.tr.Frames[fr].Func == 0 {
					an.frames.unknown++
				}
			}
		}
	}
}

func union(a, b []string) []string {
	for _, s := range b {
		if i := sort.SearchStrings(a, s); i == len(a) || a[i] != s {
			a = append(a[:i], append([]string{s}, a[i:]...)...)
		}
	}
	return a
}

// addProcesses notes who took part in an operation: what it created, what its
// path ran through, and the kernel workers that worked for it.
func (an *Analyzer) addProcesses(a *traceAnalysis, op *Operation, p pair, m *marks) {
	forked := slices.Sorted(maps.Keys(m.forked)) // what is listed has one order
	born := map[tracer.TaskID]bool{}
	for _, id := range forked {
		if a.tr.Tasks[id].Born > op.End {
			continue
		}
		an.totals.Threads++
		if l := a.tr.Leader(id); l == id {
			an.totals.Processes++
			born[l] = true
		}
	}
	for i := p.begin; i <= p.end; i++ {
		e := &a.tr.Events[i]
		if e.Kind == tracer.KindExec && born[a.tr.Leader(e.Task)] {
			an.totals.Execs++
		}
	}
	seen := map[tracer.TaskID]bool{}
	note := func(id tracer.TaskID) {
		if id > 0 && !seen[a.tr.Leader(id)] {
			seen[a.tr.Leader(id)] = true
			an.addProcess(a, a.tr.Leader(id), op)
		}
	}
	for _, id := range forked {
		if born[id] {
			note(id)
		}
	}
	for i := range op.Path.Segments {
		note(op.Path.Segments[i].Task)
	}
	for i := range op.Off {
		note(op.Off[i].Task)
	}
	for _, id := range forked { // threads with names of their own
		if l := a.tr.Leader(id); l != id && a.tr.Tasks[id].Comm != a.tr.Tasks[l].Comm {
			an.addThreadName(a, id)
		}
	}
}

// addProcess lists every program a process ran during an operation.
func (an *Analyzer) addProcess(a *traceAnalysis, l tracer.TaskID, op *Operation) {
	t := &a.tr.Tasks[l]
	from, to := a.tr.ImageAt(l, op.Begin), a.tr.ImageAt(l, op.End)
	for i := from; i <= to; i++ {
		p := Process{PID: t.PID, NSPID: t.NSPID, Comm: t.Comm, ContainerID: ContainerID(t.Cgroup), Argv: []string{}}
		if t.Parent > 0 {
			p.Parent = a.tr.Tasks[t.Parent].PID
		}
		at := op.Begin
		if i >= 0 {
			im := &t.Images[i]
			p.Exe, p.Comm, p.Truncated, at = im.Exe, im.Comm, im.Cut, max(im.Time, op.Begin)
			p.Argv = append(p.Argv, im.Argv...)
		}
		if i == to && t.Comm != "" {
			p.Comm = t.Comm
		}
		if r := a.match.Role(a.match.Actor(l, at)); r >= 0 {
			p.Role = a.set.Roles[r].Name
		}
		an.keep(processKey{t.PID, t.Start, i}, p)
	}
}

// addThreadName lists a thread that named itself.
func (an *Analyzer) addThreadName(a *traceAnalysis, id tracer.TaskID) {
	t := &a.tr.Tasks[id]
	an.keep(processKey{-t.TID, t.Start, 0}, Process{PID: t.PID, NSPID: t.NSPID, Comm: t.Comm, Argv: []string{}, Role: "thread",
		ContainerID: ContainerID(t.Cgroup), Parent: t.PID})
}

func (an *Analyzer) keep(k processKey, p Process) {
	if an.procs[k] {
		return
	}
	if len(an.processes) >= maxProcesses {
		an.dropped++
		return
	}
	an.procs[k] = true
	an.processes = append(an.processes, p)
}

// ContainerID finds the id of the container in a cgroup path, as docker,
// podman, containerd, CRI-O and Kubernetes lay them out with cgroupfs or
// systemd, on v1 and v2; "" outside of a container.
func ContainerID(cgroup string) string {
	for _, part := range reversed(strings.Split(path.Clean("/"+cgroup), "/")) {
		id := strings.TrimSuffix(part, ".scope")
		if i := strings.LastIndexAny(id, "-:"); i >= 0 {
			id = id[i+1:]
		}
		if isID(id) {
			return id
		}
	}
	return ""
}

func reversed(s []string) []string {
	out := make([]string, len(s))
	for i, v := range s {
		out[len(s)-1-i] = v
	}
	return out
}

// isID tells a container id: 64 hexadecimal digits.
func isID(s string) bool {
	if len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
