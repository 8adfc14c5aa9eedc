package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/tracer"
	"stagetrace/tracer/backends"
)

// loadStages composes the stage set of a run: what --stages gives comes
// before the workload's own sets. A value of --stages that is the name of a
// built-in set means that set.
func loadStages(given, own []string) (*stage.Set, error) {
	names, files := splitStages(given)
	for _, n := range own {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return stage.Load(names, files)
}

func splitStages(given []string) (names, files []string) {
	builtin := stage.Builtin()
	for _, g := range given {
		if slices.Contains(builtin, g) {
			names = append(names, g)
		} else {
			files = append(files, g)
		}
	}
	return names, files
}

// diskUse is recorded whatever the stages are, and of all tasks: whoever writes
// is in the way of an operation that waits for storage.
var diskUse = tracer.Probe{Class: tracer.ClassTracepoint, Symbol: "block_bio_queue"}

// config is what a recording of these stages needs.
func (r *recording) config(set *stage.Set) (tracer.Config, error) {
	period, err := r.period()
	if err != nil {
		return tracer.Config{}, err
	}
	return tracer.Config{Probes: append(set.Probes(), diskUse), SleepStack: r.sleepStack, SamplePeriod: period, TracerPID: os.Getpid()}, nil
}

// Ids of the warnings that come from recording and not from analysis.
const (
	warnPrivilege   = "privilege"
	warnPortable    = "portable-backend"
	warnSkipped     = "skipped-target"
	warnClientOnly  = "client-only"
	warnInterrupted = "interrupted"
	warnEndedEarly  = "ended-early"
	warnLeftover    = "left-over-processes"
)

var recordingWarnings = []string{warnPrivilege, warnPortable, warnSkipped, warnClientOnly, warnInterrupted, warnEndedEarly, warnLeftover}

// openSession opens the first backend that can record here. When that is one
// that sees no stages, the warning says why. Only what a system cannot do, or
// forbids, is a reason to go on to the next backend.
func openSession(ctx context.Context, cfg tracer.Config) (tracer.Session, []analysis.Warning, error) {
	var why error
	for _, row := range backends.Table() {
		s, err := row.Open(ctx, cfg)
		if err == nil {
			if row.Stages {
				return s, nil, nil
			}
			return s, []analysis.Warning{portableWarning(why)}, nil
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		if !errors.Is(err, tracer.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) {
			return nil, nil, fmt.Errorf("%s: %w", row.Name(), err)
		}
		why = errors.Join(why, fmt.Errorf("%s: %w", row.Name(), err))
	}
	return nil, nil, fmt.Errorf("no backend can record here: %w", why)
}

func portableWarning(why error) analysis.Warning {
	w := analysis.Warning{ID: warnPortable, Text: "no stages, only end-to-end times", Hint: "trace doctor says what each feature needs"}
	if why != nil {
		w.Text += ": " + why.Error()
	}
	if os.Geteuid() > 0 || errors.Is(why, fs.ErrPermission) {
		w.ID = warnPrivilege
		w.Text = "no privilege to record stages, only end-to-end times"
		if why != nil {
			w.Text += ": " + why.Error()
		}
		w.Hint = "run as root, or with the capabilities CAP_BPF and CAP_PERFMON; " + w.Hint
	}
	return w
}
