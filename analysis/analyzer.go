package analysis

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// Options of an analysis.
type Options struct {
	// Settle is how long after its end work that an operation caused is still
	// counted as its own (off the path). 0: to the end of the trace.
	Settle tracer.Time
	// WhatIf: how much shorter the operations would be without each stage.
	WhatIf bool
	// Scenario is a what-if of its own, made with the same set; may be nil.
	Scenario *Scenario
}

// Analyzer analyses the traces of one run, one after the other, and keeps
// only what the result needs.
type Analyzer struct {
	set *stage.Set
	opt Options

	ops       []OperationResult // those that count, and failed ones; no warm-ups
	first     map[string]firstOp
	procs     map[processKey]bool // those in processes
	processes []Process
	facts     RecordingFacts
	totals    Totals
	frames    struct{ all, unknown int64 }
	dropped   int // processes beyond maxProcesses
	titles    map[string]string
	pressure  map[string]*pressure // by target
}

type firstOp struct {
	index int
	wall  int64
}

type processKey struct {
	pid   int32
	start tracer.Time
	image int
}

// maxProcesses bounds the list of processes in a result.
const maxProcesses = 20_000

// New makes an Analyzer for a stage set.
func New(set *stage.Set, opt Options) *Analyzer {
	a := &Analyzer{set: set, opt: opt, first: map[string]firstOp{}, procs: map[processKey]bool{}, pressure: map[string]*pressure{}, titles: map[string]string{
		StageOther: "What no stage claims", StageUnknown: "Waits whose end was not seen"}}
	for i := range set.Stages {
		a.titles[set.Stages[i].Name] = set.Stages[i].Title
	}
	return a
}

// traceAnalysis is what is known of one trace, shared by its operations.
type traceAnalysis struct {
	tr        *tracer.Trace
	ownTasks  bool // tr is a copy with a task table of its own
	set       *stage.Set
	match     *stage.Matcher
	tl        *timeline
	ix        *index
	msgs      socketReads
	threads   map[tracer.TaskID][]tracer.TaskID
	exits     []tracer.Time // when a task began to exit; 0 never
	gone      []tracer.Time // when it was last seen dying; 0 never
	winCache  map[procKey][]stage.Window
	continues []bool // by wait reason: see continuing
	generics  []bool // by wait reason: see generics
	waits     waitSet
	execve    tracer.StringID
	cutBuf    []tracer.Time
}

// waitSet is the ids of the wait reasons that the walk itself gives.
type waitSet struct {
	unknown, lost, work, runqueue, interference, tracer, infrastructure stage.WaitID
	held                                                                map[tracer.Flags]stage.WaitID
	leaf                                                                map[Leaf]stage.WaitID
}

func newWaitSet(set *stage.Set) waitSet {
	n := set.WaitNamed
	const st, tr, fr = tracer.FlagStopped, tracer.FlagTraced, tracer.FlagFrozen
	return waitSet{unknown: n("unknown"), lost: n("lost"), work: n("work"), runqueue: n("runqueue"), interference: n("interference"), tracer: n("tracer"), infrastructure: n("infrastructure"),
		held: map[tracer.Flags]stage.WaitID{st: n("stopped"), tr: n("traced"), fr: n("frozen"), st | tr: n("traced"), st | fr: n("frozen"), tr | fr: n("traced"), st | tr | fr: n("traced")},
		leaf: map[Leaf]stage.WaitID{LeafTimer: n("timer"), LeafNetwork: n("network"), LeafDevice: n("device"), LeafInterrupt: n("irq"), LeafQueueing: n("queueing")}}
}

func newTraceAnalysis(tr *tracer.Trace, set *stage.Set) *traceAnalysis {
	a := &traceAnalysis{tr: tr, set: set, winCache: map[procKey][]stage.Window{},
		threads: map[tracer.TaskID][]tracer.TaskID{}, exits: make([]tracer.Time, len(tr.Tasks)), gone: make([]tracer.Time, len(tr.Tasks)),
		waits: newWaitSet(set), continues: waitIDs(set, continuing), generics: waitIDs(set, generics)}
	for i := 1; i < len(tr.Tasks); i++ {
		l := tr.Leader(tracer.TaskID(i))
		a.threads[l] = append(a.threads[l], tracer.TaskID(i))
	}
	for i := range tr.Events {
		switch e := &tr.Events[i]; {
		case e.Kind == tracer.KindExit && e.Task > 0:
			if a.exits[e.Task] == 0 {
				a.exits[e.Task] = e.Time
			}
			a.gone[e.Task] = e.Time
		case e.Kind == tracer.KindSwitch && e.State == tracer.StateDead && e.Task > 0:
			a.gone[e.Task] = e.Time
		case e.Kind == tracer.KindFork && e.Peer > 0:
			a.birth(e)
		}
	}
	a.execve = a.stringID("execve")
	a.match = set.Bind(a.tr)
	a.tl = newTimeline(a.tr)
	a.ix = newIndex(a.tr, a.match)
	a.msgs = newSocketReads(a.tr)
	return a
}

// birth notes what a fork says about a task whose birth or parent the trace
// does not tell. It does so in a copy: others may be reading the trace.
func (a *traceAnalysis) birth(e *tracer.Event) {
	t := &a.tr.Tasks[e.Peer]
	if t.Born != 0 && t.Parent > 0 || t.Born == e.Time && t.Parent == e.Task {
		return
	}
	if !a.ownTasks {
		own := *a.tr
		own.Tasks = slices.Clone(own.Tasks)
		a.tr, a.ownTasks = &own, true
		t = &own.Tasks[e.Peer]
	}
	t.Born, t.Parent = e.Time, e.Task
}

func (a *traceAnalysis) stringID(s string) tracer.StringID {
	for i, t := range a.tr.Strings {
		if t == s && i > 0 {
			return tracer.StringID(i)
		}
	}
	return ^tracer.StringID(0)
}

// pair is the marks of one operation.
type pair struct{ begin, end int }

// operationsOf pairs the marks. An operation that has no end (the run was cut)
// is not one.
func operationsOf(tr *tracer.Trace) []pair {
	began := map[uint64]int{}
	var out []pair
	for i := range tr.Events {
		switch e := &tr.Events[i]; e.Kind {
		case tracer.KindOpBegin:
			began[e.Flow] = i
		case tracer.KindOpEnd:
			if b, ok := began[e.Flow]; ok && tr.Events[b].Time < e.Time {
				out = append(out, pair{b, i})
				delete(began, e.Flow)
			}
		}
	}
	return out
}

// Add analyses a trace. visit, if not nil, gets every operation in turn, warm-ups
// too, with its path; it must not keep it. An error means that the analysis
// found itself wrong (a path that does not cover its operation), or is visit's.
func (an *Analyzer) Add(tr *tracer.Trace, visit func(*Operation) error) error {
	if len(tr.Tasks) == 0 {
		return errors.New("trace has no task table")
	}
	a := newTraceAnalysis(tr, an.set)
	an.traceFacts(a)
	for _, p := range operationsOf(tr) {
		op, m, err := a.operation(p, an.opt)
		if err != nil {
			return err
		}
		if f, ok := an.first[op.Target]; !ok || op.Index < f.index {
			an.first[op.Target] = firstOp{op.Index, op.WallNs}
		}
		if !op.Warmup {
			an.ops = append(an.ops, op.OperationResult)
			an.addProcesses(a, op, p, m)
			an.notePressure(a, op, p)
			an.totals.LostEvents += op.LostEvents
			an.totals.Incomplete = an.totals.Incomplete || op.Incomplete
		}
		if visit != nil {
			if err := visit(op); err != nil {
				return err
			}
		}
	}
	return nil
}

// operation makes the path of one operation and everything that follows from
// it.
func (a *traceAnalysis) operation(p pair, opt Options) (op *Operation, m *marks, err error) {
	b, e := &a.tr.Events[p.begin], &a.tr.Events[p.end]
	op = &Operation{Trace: a.tr, Set: a.set, Match: a.match, Root: b.Task, Begin: b.Time, End: e.Time, Warmup: b.Flags&tracer.FlagWarmup != 0}
	op.OperationResult = OperationResult{Target: a.tr.String(b.Name), Index: int(b.Flow), WallNs: int64(e.Time - b.Time), Units: 1,
		Failed: e.Flags&tracer.FlagFailed != 0, ExitCode: int(e.Value)}
	until := a.tr.Meta.End
	if opt.Settle > 0 {
		until = min(until, op.End+opt.Settle)
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("operation %d of %s: %v", op.Index, op.Target, r)
		}
	}()
	m = a.mark(op.Root, op.Begin, op.End, until, p.begin)
	w := &walker{traceAnalysis: a, marks: m, root: op.Root, lo: op.End}
	w.path.Segments = make([]Segment, 0, (p.end-p.begin)/4+16) // for an operation alone on the machine
	w.walk(op.Root, op.Begin, op.End, true, -1, 0)
	for i, j := 0, len(w.path.Segments)-1; i < j; i, j = i+1, j-1 {
		w.path.Segments[i], w.path.Segments[j] = w.path.Segments[j], w.path.Segments[i]
	}
	op.Path = w.path
	if err := checkPath(&op.Path, op.Begin, op.End); err != nil {
		return nil, nil, fmt.Errorf("operation %d of %s: %w", op.Index, op.Target, err)
	}
	op.Stages = breakdown(a.set, &op.Path)
	op.Off = w.offPath(op.End, until)
	op.OffPath = sumOffPath(a.set, op.Off, op.End)
	op.LostEvents = a.tl.lostIn(op.Begin, op.End)
	op.Incomplete = op.LostEvents > 0
	op.Functions = a.functionCalls(p)
	if opt.WhatIf {
		op.WhatIf = a.dependencies(op, m, p).whatIf(a.set, opt.Scenario)
		op.CannotTell = op.WhatIf == nil
	}
	return op, m, nil
}

// PathPIDs lists the processes (kernel threads left out) that an operation's
// path runs through or waits in: those worth following in full.
func (o *Operation) PathPIDs() []int {
	seen := map[int32]bool{}
	var out []int
	add := func(id tracer.TaskID) {
		if id <= 0 {
			return
		}
		t := &o.Trace.Tasks[id]
		if !t.Kernel && t.PID > 0 && !seen[t.PID] {
			seen[t.PID] = true
			out = append(out, int(t.PID))
		}
	}
	for i := range o.Path.Segments {
		add(o.Path.Segments[i].Task)
	}
	for i := range o.Path.Links {
		add(o.Path.Links[i].Waiter)
	}
	sort.Ints(out)
	return out
}
