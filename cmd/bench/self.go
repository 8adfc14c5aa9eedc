//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"time"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
	"stagetrace/tracer/ebpf"
)

// setting is one way to configure our own tracer.
type setting struct {
	name       string
	only       []string
	calls      bool // with spans of every system call, what a set with exact system call terms needs
	unfollowed bool // the load is not part of an operation: others are measured
	everyStack bool // the stack of every sleep, not only of long ones
	timed      bool // with the kernel's statistics of how long our programs run
}

// settings is the table of ways that have a target of their own. The stage
// sets are those of container-start, which need no program on system calls.
func settings() []setting {
	return []setting{
		{name: "trace"},
		{name: "trace, every system call", calls: true, only: []string{"spawn", "getppid", "pingpong"}},
		{name: "trace, every system call, not followed", calls: true, unfollowed: true, only: []string{"getppid", "pingpong"}},
		{name: "trace, stack of every sleep", everyStack: true, only: []string{"pingpong"}},
		{name: "trace, its run time counted", timed: true, only: []string{"spawn", "docker"}},
	}
}

// The defaults of trace run.
const (
	sleepStack   = 20 * time.Microsecond
	samplePeriod = time.Second / 997
)

// ownTool keeps a session of our own open and attached for each load only.
type ownTool struct {
	setting
	session  tracer.Session
	op       uint64
	opened   time.Duration    // from nothing to ready to attach
	attached []float64        // ns, each Start
	runNs    map[string]int64 // in the kernel programs, by load
	wallNs   map[string]int64 // of the loads, by load
	lost     uint64
	events   int64
}

// openOwn opens a session for every setting that works here.
func openOwn(ctx context.Context) (owns []*ownTool, tools []tool) {
	set, err := stage.Load([]string{"container", "linux"}, nil)
	for _, s := range settings() {
		own := &ownTool{setting: s, runNs: map[string]int64{}, wallNs: map[string]int64{}}
		failure := err
		if failure == nil {
			failure = own.open(ctx, set)
		}
		t := tool{name: s.name, only: s.only, around: own.around}
		if failure != nil {
			t.why = failure.Error()
		} else {
			owns = append(owns, own)
		}
		tools = append(tools, t)
	}
	return owns, tools
}

func (o *ownTool) open(ctx context.Context, set *stage.Set) error {
	begin := time.Now()
	cfg := tracer.Config{SleepStack: sleepStack, SamplePeriod: samplePeriod}
	if !o.unfollowed { // what we start is followed with us
		cfg.TracerPID = os.Getpid()
	}
	cfg.Probes = set.Probes()
	if o.calls {
		cfg.Probes = append(cfg.Probes, tracer.Probe{Class: tracer.ClassSyscall, Symbol: "*"})
	}
	if o.everyStack {
		cfg.SleepStack = 0
	}
	backend := ebpf.Backend{Stats: o.timed}
	s, err := backend.Open(ctx, cfg)
	o.session, o.opened = s, time.Since(begin)
	return err
}

// around records the load as one operation, as trace run does.
func (o *ownTool) around(ctx context.Context, argv []string) (f figures, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := time.Now()
	if err := o.session.Start(ctx); err != nil {
		return f, err
	}
	o.attached = append(o.attached, float64(time.Since(begin)))
	o.mark(tracer.KindOpBegin)
	f, err = runLoad(ctx, argv)
	o.mark(tracer.KindOpEnd)
	tr, stopErr := o.session.Stop(ctx)
	if tr != nil {
		name := argv[len(argv)-2] // of the load: see loadCommand
		o.runNs[name] += tr.Meta.RunNs
		o.wallNs[name] += f.WallNs
		o.lost += tr.Lost()
		o.events += int64(len(tr.Events))
	}
	return f, errors.Join(err, stopErr)
}

func (o *ownTool) mark(kind tracer.Kind) {
	if o.unfollowed {
		return
	}
	if kind == tracer.KindOpBegin {
		o.op++
	}
	o.session.Mark(tracer.Mark{Kind: kind, Time: o.session.Now(), TID: threadID(), Op: o.op, Target: "bench"})
}

// summary says what the ratios do not: start-up, volume, loss, and the share
// of the loads' wall time that went into our kernel programs, on all CPUs.
func (o *ownTool) summary() string {
	text := fmt.Sprintf("%s: open %s, attach %s (median of %d), %d events, %d lost", o.name,
		o.opened.Round(time.Millisecond), time.Duration(median(o.attached)).Round(100*time.Microsecond), len(o.attached), o.events, o.lost)
	for _, name := range slices.Sorted(maps.Keys(o.runNs)) {
		if o.runNs[name] > 0 && o.wallNs[name] > 0 {
			text += fmt.Sprintf("; %s: kernel programs ran for %.1f %% of the wall time", name, 100*float64(o.runNs[name])/float64(o.wallNs[name]))
		}
	}
	return text
}
