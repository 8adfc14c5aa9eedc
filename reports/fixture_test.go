package reports

import (
	"fmt"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/analysis/stats"
	"stagetrace/tracer"
)

// Names as an attacker would choose them.
const (
	nastyTarget = "docker<script>alert(1)</script>|`x`;a b"
	nastyComm   = "\x1b[31mRED\x1b[0m\r"
	nastyThread = "two\nlines\u202eevil\xff"
	nastyLabel  = "=HYPERLINK(\"http://evil\")"
)

// fixture is a hand-made run: two targets, of which one has names that bite,
// operations that failed and one that lost events.
type fixture struct {
	result *analysis.Result
	ops    []*analysis.Operation
}

func (f *fixture) input() *Input {
	return &Input{Result: f.result, Operations: func(yield func(*analysis.Operation) error) error {
		for _, op := range f.ops {
			if err := yield(op); err != nil {
				return err
			}
		}
		return nil
	}}
}

// stageSet has what the paths below go through.
func stageSet() *stage.Set {
	return &stage.Set{Name: "container", Hash: "0123abcd",
		Stages: []stage.Stage{{Name: "ns.net", Title: "Create the network namespace"}, {Name: "net.link.move_ns", Title: "Move a link"}, {Name: "proc.exec", Title: "Execute a program"}, {Name: "netns.cleanup", Title: "Tear the namespace down"}},
		Waits:  []stage.Wait{{Name: "rcu.barrier"}, {Name: "pipe"}}}
}

// nastyTrace has a driver, a client, a daemon thread, a kworker.
func nastyTrace() *tracer.Trace {
	return &tracer.Trace{
		Meta:    tracer.Meta{Begin: 1000, End: 9_000_000, SamplePeriod: 10_000},
		Strings: []string{"", "copy_net_ns", "main.run", "/usr/bin/client", "beef01", "futex", "cleanup_net", nastyThread, "read", "openat", nastyLabel, "lock"},
		Tasks: []tracer.Task{
			{Comm: "swapper"},
			{TID: 100, PID: 100, Start: 1, Leader: 1, Parent: -1, Comm: "trace", Images: []tracer.Image{{Exe: "/usr/bin/trace", Comm: "trace", Argv: []string{"trace"}}}},
			{TID: 200, PID: 200, Start: 2, Leader: 2, Parent: 1, Born: 1_000_100, Comm: nastyComm, Images: []tracer.Image{{Time: 1_000_200, Exe: "/usr/bin/client", Comm: nastyComm, Argv: []string{"client"}}}},
			{TID: 301, PID: 300, Start: 3, Leader: 4, Parent: -1, Comm: nastyThread},
			{TID: 300, PID: 300, Start: 3, Leader: 4, Parent: -1, Comm: "exe", Images: []tracer.Image{{Exe: "/proc/self/exe", Comm: "exe", Argv: []string{"/usr/sbin/daemon"}}}},
			{TID: 7, PID: 7, Start: 1, Leader: 5, Parent: -1, Comm: "kworker/1:2", Kernel: true},
		},
		Frames: []tracer.Frame{{Func: 1, Offset: 0xffffffff81000010, Kernel: true}, {Func: 2, Object: 3, BuildID: 4, Offset: 0x1234}, {Object: 3, BuildID: 4, Offset: 0x99}},
		Stacks: []tracer.Stack{{}, {Frames: []uint32{0, 1, 2}}, {Frames: []uint32{2, 1}}},
		Args:   []tracer.Args{nil, {{Key: "path", Value: "/tmp/" + nastyThread}}},
		Events: []tracer.Event{
			{Time: 1_000_000, Kind: tracer.KindOpBegin, Task: 1, Flow: 1},
			{Time: 1_010_000, Kind: tracer.KindFork, Task: 1, Peer: 2},
			{Time: 1_050_000, Kind: tracer.KindSwitch, Task: 1, Peer: 2, State: tracer.StateBlocked},
			{Time: 1_060_000, Kind: tracer.KindBegin, Class: tracer.ClassSyscall, Task: 2, Name: 9},
			{Time: 1_070_000, Kind: tracer.KindBegin, Class: tracer.ClassFunc, Task: 2, Name: 1},
			{Time: 1_080_000, Kind: tracer.KindSample, Task: 2, Stack: 1, Value: 10_000},
			{Time: 1_090_000, Kind: tracer.KindEnd, Class: tracer.ClassFunc, Task: 2, Name: 1},
			{Time: 1_095_000, Kind: tracer.KindBegin, Class: tracer.ClassSoftirq, Task: 2, Name: 10},
			{Time: 1_100_000, Kind: tracer.KindEnd, Class: tracer.ClassSyscall, Task: 2, Name: 9, Args: 1, Value: 3},
			{Time: 1_240_000, Kind: tracer.KindWake, Task: 2, Peer: 3},
			{Time: 1_250_000, Kind: tracer.KindSwitch, Task: 2, Peer: 3, State: tracer.StateBlocked},
			{Time: 1_300_000, CPU: 1, Kind: tracer.KindLost, Value: 12},
			{Time: 1_900_000, Kind: tracer.KindBegin, Class: tracer.ClassWork, Task: 5, Name: 6, Flow: 77},
		},
	}
}

// operation makes the i-th operation: client runs, waits for the daemon,
// which waits for RCU, and exec. scale stretches it.
func operation(tr *tracer.Trace, set *stage.Set, target string, index int, scale tracer.Time) *analysis.Operation {
	begin := tracer.Time(1_000_000)
	at := begin
	op := &analysis.Operation{Trace: tr, Set: set, Root: 1, Begin: begin}
	op.Path.Links = []analysis.Link{{Parent: -1, Waiter: 1, Stack: 0, Stage: stage.NoStage}, {Parent: 0, Waiter: 2, Stack: 2, Stage: 0}}
	for _, s := range []analysis.Segment{
		{End: 50, Task: 1, Link: -1, Stage: stage.NoStage, Wait: stage.NoWait, State: tracer.StateRunning},
		{End: 200, Task: 2, Link: 0, Stage: 2, Wait: stage.NoWait, State: tracer.StateRunning, Stack: 1},
		{End: 20, Task: 3, Link: 1, Stage: 0, Wait: stage.NoWait, State: tracer.StateRunnable, Syscall: 5},
		{End: 600, Task: 3, Link: 1, Stage: 1, Wait: 0, State: tracer.StateBlocked, Stack: 1, Leaf: analysis.LeafTerminal},
		{End: 100, Task: 5, Link: 1, Stage: 0, Wait: stage.NoWait, State: tracer.StateRunning},
		{End: 30, Task: 2, Link: 0, Stage: stage.NoStage, Wait: stage.NoWait, State: tracer.StateBlocked, Syscall: 8, Leaf: analysis.LeafUnknown},
	} {
		s.Begin, s.End = at, at+s.End*scale
		at = s.End
		op.Path.Segments = append(op.Path.Segments, s)
	}
	op.End = at
	op.Off = []analysis.OffPath{{Begin: at - 10, End: at + 500*scale, CPU: 100, Task: 5, Stage: 3, Name: "cleanup_net"}}
	op.OperationResult = analysis.OperationResult{Target: target, Index: index, WallNs: int64(at - begin), Units: 1}
	sums := map[string]*analysis.StageResult{}
	for i := range op.Path.Segments {
		seg := &op.Path.Segments[i]
		name, ns := op.StageName(seg), int64(seg.End-seg.Begin)
		st := sums[name]
		if st == nil {
			st = &analysis.StageResult{Name: name}
			sums[name] = st
		}
		st.Ns += ns
		st.Count++
		switch seg.State {
		case tracer.StateRunning:
			st.RunningNs += ns
		case tracer.StateRunnable:
			st.RunnableNs += ns
		default:
			st.BlockedNs += ns
			st.Waits = map[string]int64{op.WaitName(seg): ns}
		}
	}
	for _, name := range []string{"net.link.move_ns", "proc.exec", "ns.net", "other", "unknown"} {
		op.Stages = append(op.Stages, *sums[name])
	}
	op.WhatIf = &analysis.OperationWhatIf{
		Stages: []analysis.StageGain{{Name: "net.link.move_ns", FreeNs: 500 * int64(scale), HalfNs: 300 * int64(scale)}, {Name: "proc.exec", FreeNs: 150 * int64(scale), HalfNs: 75 * int64(scale)}},
		Scenario: &analysis.ScenarioOutcome{WallNs: 700 * int64(scale), Stages: []analysis.ScenarioStage{
			{Name: "net.link.move_ns", BeforeNs: 600 * int64(scale), AfterNs: 300 * int64(scale)}, {Name: "ns.net", BeforeNs: 400 * int64(scale), AfterNs: 400 * int64(scale)}}},
	}
	op.OffPath = []analysis.OffPathStage{{Name: "netns.cleanup", Ns: 10 + 500*int64(scale), CPUNs: 100, Count: 1, AfterEndNs: 500 * int64(scale)}}
	return op
}

// newFixture has n operations of each target.
func newFixture(n int) *fixture {
	set, tr := stageSet(), nastyTrace()
	f := &fixture{}
	r := &analysis.Result{
		Schema: SchemaVersion, Tool: "stagetrace test", Label: nastyLabel, Started: "2026-01-02T03:04:05Z",
		Host:     analysis.Host{Name: "host", Kernel: "6.18", OS: "Linux", Machine: "amd64", CPUs: 2},
		Workload: "container-start", Command: []string{"sh", "-c", "echo \x1b[2J"}, Params: map[string]string{"network": "none"},
		StageSet: analysis.StageSet{Name: set.Name, Hash: set.Hash}, Units: "containers",
		Recording: analysis.RecordingFacts{Backend: "ebpf", Probes: []string{"sched_switch"}, Events: 1234, Samples: 56, Blocks: 1, ProgramRunNs: 12_300_000, RecordedNs: 900_000_000},
		Untraced:  []analysis.UntracedResult{}, Operations: []analysis.OperationResult{},
		Processes: []analysis.Process{{PID: 200, NSPID: 1, Comm: nastyComm, Exe: "/usr/bin/client", Argv: []string{"client", "\x1b]0;title\a", "--x=<img src=x onerror=alert(1)>", "\xfe\xff"}, Parent: 100, Role: "client"}},
		Warnings:  []analysis.Warning{{ID: "busy", Text: "the machine was busy: of 2 CPUs 1.9 were in use by others while it was measured " + nastyThread, Hint: "run it on an idle machine, or pin the others away with taskset"}},
	}
	index := 0
	for _, target := range []string{"runc", nastyTarget} {
		for i := range n {
			index++
			op := operation(tr, set, target, index, tracer.Time(1000+17*((i*7)%11)))
			if target == nastyTarget && i == 1 {
				op.LostEvents, op.Incomplete = 12, true
				r.Totals.LostEvents += 12
			}
			if target == nastyTarget && i == 2 {
				op.Failed, op.ExitCode = true, 137
				r.Totals.Failed++
				r.Totals.ExitCode = 137
			}
			f.ops = append(f.ops, op)
			r.Operations = append(r.Operations, op.OperationResult)
			index++
			r.Untraced = append(r.Untraced, analysis.UntracedResult{Target: target, Index: index, WallNs: op.WallNs * 95 / 100})
			r.Metrics = append(r.Metrics, analysis.MetricResult{Target: target, Index: index, Name: "peak memory", Unit: "B", Value: float64(5_000_000 + 1000*i)},
				analysis.MetricResult{Target: target, Index: index - 1, Name: nastyThread, Unit: nastyLabel, Value: float64(i), Traced: true})
		}
		if n > 0 {
			r.Summary = append(r.Summary, summarise(r, target))
		}
	}
	if len(r.Summary) > 0 {
		r.Summary[0].FirstNs, r.Summary[0].ColdFirst = 250_000_000, true
	}
	f.result = r
	return f
}

func summarise(r *analysis.Result, target string) analysis.Summary {
	var walls, untraced []float64
	stages := map[string][]analysis.StageResult{}
	var names []string
	var total float64
	for i := range r.Operations {
		op := &r.Operations[i]
		if op.Target != target || op.Failed || op.Incomplete {
			continue
		}
		walls = append(walls, float64(op.WallNs))
		total += float64(op.WallNs)
		for _, st := range op.Stages {
			if stages[st.Name] == nil {
				names = append(names, st.Name)
			}
			stages[st.Name] = append(stages[st.Name], st)
		}
	}
	for i := range r.Untraced {
		if r.Untraced[i].Target == target {
			untraced = append(untraced, float64(r.Untraced[i].WallNs))
		}
	}
	s := analysis.Summary{Target: target, N: len(walls), Wall: analysis.Distribution(stats.Describe(untraced)), Untraced: true, Traced: analysis.Distribution(stats.Describe(walls))}
	if ratio, ok := stats.Ratio(walls, untraced); ok {
		s.Overhead = &analysis.Overhead{Ratio: ratio.Ratio, Lo: ratio.Lo, Hi: ratio.Hi}
	}
	for _, name := range names {
		var ns []float64
		row := analysis.StageSummary{Name: name, Title: "title of " + name}
		for _, st := range stages[name] {
			ns = append(ns, float64(st.Ns))
			row.RunningNs, row.RunnableNs, row.BlockedNs, row.Count, row.Waits = float64(st.RunningNs), float64(st.RunnableNs), float64(st.BlockedNs), float64(st.Count), st.Waits
		}
		d := stats.Describe(ns)
		row.Median, row.Lo, row.Hi, row.Mean, row.Share = d.Median, d.Lo, d.Hi, d.Mean, d.Mean*float64(d.N)/total
		s.Stages = append(s.Stages, row)
	}
	s.WhatIf = &analysis.WhatIf{N: len(walls), CannotTell: 1,
		Stages: []analysis.StageWhatIf{{Name: "net.link.move_ns", Free: analysis.Gain{Median: 500_000}, Half: analysis.Gain{Median: 300_000}},
			{Name: "proc.exec", Free: analysis.Gain{Median: 150_000}, Half: analysis.Gain{Median: 75_000}}, {Name: "beside.path", Free: analysis.Gain{Median: 90_000}}},
		Scenario: &analysis.ScenarioSummary{Text: "net.*=0.5,\x1b[2Jns.net=1", Wall: analysis.Gain{Median: 700_000}, Gain: analysis.Gain{Median: 300_000},
			Stages: []analysis.ScenarioStageSummary{{Name: "net.link.move_ns", Before: 600_000, After: 300_000}, {Name: "ns.net", Before: 120_000, After: 400_000}}}}
	for i, name := range []string{"peak memory", nastyThread} {
		var values []float64
		for _, m := range r.Metrics {
			if m.Target == target && m.Name == name {
				values = append(values, m.Value)
			}
		}
		s.Metrics = append(s.Metrics, analysis.MetricSummary{Name: name, Unit: []string{"B", nastyLabel}[i], Traced: i == 1, Value: analysis.Distribution(stats.Describe(values))})
	}
	s.OffPath = []analysis.StageSummary{{Name: "netns.cleanup", Median: 500_000, CPUNs: 100, AfterEndNs: 490_000, Count: 1}}
	return s
}

// many is a result with so many small stages that they are folded.
func many() *fixture {
	f := newFixture(6)
	s := &f.result.Summary[0]
	for i := range 8 {
		s.Stages[0].Share -= 0.0004
		s.Stages = append(s.Stages, analysis.StageSummary{Name: fmt.Sprintf("small.stage%d", i), Median: 400, Mean: 400, Share: 0.0004, RunningNs: 400, Count: 1})
	}
	return f
}
