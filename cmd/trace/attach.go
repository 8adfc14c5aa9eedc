package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"stagetrace/tracer"
)

type attachOptions struct {
	recording
	pid      int
	duration time.Duration
	formats  []string
}

// attachTarget is the target of the one operation that attach measures.
const attachTarget = "attach"

func attachCommand(term *terminal) *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use:   "attach --pid N [--duration 5s]",
		Short: "Watch a running process for a while",
		Long: `Follow one running process, its threads and what they start, and say where its
main thread's time went between now and the end of the duration: the whole time
is one operation. Finding the single operations of a daemon (requests, starts)
inside of it, and attaching by name, cgroup, container or unit, is not there yet.`,
		Example: "  trace attach --pid 1 --duration 2s",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.recording.check(cmd); err != nil {
				return err
			}
			if o.pid <= 0 {
				return usagef("--pid: which process?")
			}
			if o.duration <= 0 {
				return usagef("--duration %s is not a time to watch for", o.duration)
			}
			return attach(cmd.Context(), &o, term)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.pid, "pid", 0, "the process to watch")
	flags.DurationVar(&o.duration, "duration", 5*time.Second, "how long to watch it")
	flags.StringArrayVar(&o.formats, "format", nil, "also write this format, NAME[=FILE]; without a file: to stdout, instead of the table")
	o.recording.flags(cmd)
	return cmd
}

// attach records one operation whose root is the main thread of a process
// that was there before.
func attach(ctx context.Context, o *attachOptions, term *terminal) error {
	if err := alive(o.pid); err != nil {
		return fmt.Errorf("process %d: %w", o.pid, err)
	}
	remove, err := o.uprobeStages()
	if err != nil {
		return err
	}
	defer remove()
	set, err := loadStages(o.stages, []string{"container", "linux"})
	if err != nil {
		return err
	}
	m, err := newMeasurement(ctx, &o.recording, o.formats, set, attachTarget, term)
	if err != nil {
		return err
	}
	defer m.close()
	m.base.Workload, m.base.Units = attachTarget, "observations"
	if err := m.writeFacts(); err != nil {
		return err
	}
	if err := m.session.Follow(o.pid); err != nil {
		return err
	}
	if err := m.session.Start(ctx); err != nil {
		return err
	}
	mark := tracer.Mark{Kind: tracer.KindOpBegin, Time: m.session.Now(), TID: o.pid, Op: 1, Target: attachTarget}
	m.session.Mark(mark)
	m.progress.note("watching process %d for %s", o.pid, o.duration)
	watch(ctx, o.pid, o.duration)
	mark.Kind, mark.Time = tracer.KindOpEnd, m.session.Now()
	m.session.Mark(mark)
	cause := ctx.Err()
	if err := m.recorder.Stop(ctx); err != nil {
		return err
	}
	return m.finish(ctx, 1, cause)
}

// watch lets the duration pass; it ends early with the process or the context.
func watch(ctx context.Context, pid int, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			if alive(pid) != nil {
				return
			}
		}
	}
}

// alive is nil as long as there is such a process.
func alive(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return stillThere(p)
}
