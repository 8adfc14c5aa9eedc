//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
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
	calls      bool // with the programs on system calls that the linux set asks for
	unfollowed bool // the load is not part of an operation: others are measured
	everyStack bool // the stack of every sleep, not only of long ones
}

// settings is the table of ways that have a target of their own.
func settings() []setting {
	return []setting{
		{name: "trace"},
		{name: "trace, system call programs", calls: true},
		{name: "trace, system call programs, not followed", calls: true, unfollowed: true, only: []string{"getppid", "pingpong"}},
		{name: "trace, stack of every sleep", everyStack: true, only: []string{"pingpong"}},
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
	opened   time.Duration // from nothing to ready to attach
	attached []float64     // ns, each Start
	runNs    int64         // in the kernel programs, all loads
	lost     uint64
	events   int64
}

// openOwn opens a session for every setting that works here.
func openOwn(ctx context.Context) (owns []*ownTool, tools []tool) {
	set, err := stage.Load([]string{"linux"}, nil)
	for _, s := range settings() {
		own := &ownTool{setting: s}
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
	cfg := tracer.Config{SleepStack: sleepStack, SamplePeriod: samplePeriod, TracerPID: os.Getpid()}
	cfg.Probes = slices.DeleteFunc(slices.Clone(set.Probes()), func(p tracer.Probe) bool {
		return p.Class == tracer.ClassSyscall && !o.calls
	})
	if o.everyStack {
		cfg.SleepStack = 0
	}
	var backend ebpf.Backend
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
		o.runNs += tr.Meta.RunNs
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

func (o *ownTool) summary() string {
	return fmt.Sprintf("%s: open %s, attach %s (median of %d), %d events, %d lost, %s in kernel programs", o.name,
		o.opened.Round(time.Millisecond), time.Duration(median(o.attached)).Round(time.Millisecond), len(o.attached), o.events, o.lost,
		time.Duration(o.runNs).Round(time.Millisecond))
}
