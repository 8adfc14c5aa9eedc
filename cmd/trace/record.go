package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"stagetrace/analysis"
	"stagetrace/tracer"
	"stagetrace/workloads"
)

// recorder drives a session through the blocks of a run. Every block is
// written to the recording and analysed as soon as it is over, between
// operations: memory holds one block, and a run that is cut short has all
// blocks before.
type recorder struct {
	session  tracer.Session
	writer   *tracer.Writer
	analyzer *analysis.Analyzer
	settle   time.Duration
	cut      func() bool // the run was cancelled: what ends now was cut short
	followed map[int]bool
}

func newRecorder(s tracer.Session, w *tracer.Writer, a *analysis.Analyzer, settle time.Duration) *recorder {
	return &recorder{session: s, writer: w, analyzer: a, settle: settle, followed: map[int]bool{}}
}

func (r *recorder) Start(ctx context.Context, _ bool) error {
	r.cut = func() bool { return ctx.Err() != nil }
	return r.session.Start(ctx)
}

func (r *recorder) OpBegin(op workloads.Op, at int64, tid int) {
	r.session.Mark(tracer.Mark{Kind: tracer.KindOpBegin, Time: tracer.Time(at), TID: tid,
		Op: uint64(op.Index), Target: op.Target, Flags: opFlags(op)})
}

// OpEnd marks the end, unless the operation did not come to its own: one
// without an end is none.
func (r *recorder) OpEnd(res workloads.Result, tid int) {
	if r.cut() {
		return
	}
	flags := opFlags(res.Op)
	if res.Err != nil || res.ExitCode != 0 {
		flags |= tracer.FlagFailed
	}
	r.session.Mark(tracer.Mark{Kind: tracer.KindOpEnd, Time: tracer.Time(res.End), TID: tid,
		Op: uint64(res.Index), Target: res.Target, Value: int64(res.ExitCode), Flags: flags})
}

func opFlags(op workloads.Op) tracer.Flags {
	if op.Warmup {
		return tracer.FlagWarmup
	}
	return 0
}

// Stop waits for late work, detaches, and takes in what was recorded.
func (r *recorder) Stop(ctx context.Context) error {
	wait(ctx, r.settle)
	tr, err := r.session.Stop(ctx)
	if tr == nil {
		return err
	}
	return errors.Join(err, r.take(tr))
}

// wait lets time pass, or the context end.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// take writes a block down while it analyses it, and follows from now on whoever its
// paths led to: daemons that were there before us. Their descendants are
// followed with them.
func (r *recorder) take(tr *tracer.Trace) error {
	liftMemoryLimit(len(tr.Events))
	written := make(chan error, 1)
	go func() { written <- r.writer.WriteTrace(tr) }()
	var pids []int
	err := r.analyzer.Add(tr, func(op *analysis.Operation) error {
		for _, pid := range op.PathPIDs() {
			if !r.followed[pid] && pid != int(tr.Meta.SelfPID) {
				r.followed[pid] = true
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("analysis: %w", err)
	}
	if bad := <-written; bad != nil {
		err = errors.Join(fmt.Errorf("recording: %w", bad), err)
	}
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return nil
	}
	return r.session.Follow(pids...)
}
