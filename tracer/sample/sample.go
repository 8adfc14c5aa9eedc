// Package sample is the backend of last resort: it looks at the processes of
// the operations about a hundred times a second, through gopsutil, and needs no
// privilege and no particular system.
//
// It gives end-to-end times, the processes that lived long enough to be seen,
// and their CPU time. It refuses to guess the rest: a trace of it has no
// switches, no wakes and no stacks, so no stages can be told.
package sample

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/process"

	"stagetrace/tracer"
)

// period is how often processes are looked at. Where a look takes long, the
// time between two is at least rest times as long: we must not be what the
// operations wait for.
const (
	period = 10 * time.Millisecond
	rest   = 20
)

// Backend samples processes. The zero value is ready.
type Backend struct{}

var _ tracer.Backend = (*Backend)(nil)

// Name is "sample".
func (*Backend) Name() string { return "sample" }

var errSampled = errors.New("processes are only looked at every 10 ms")

// Check says what works: end-to-end times always, processes where they can be
// listed, stages never.
func (*Backend) Check(ctx context.Context) []tracer.Feature {
	procs := tracer.Feature{Name: "processes", Cost: "the table of processes is empty"}
	if _, err := process.PidsWithContext(ctx); err != nil {
		procs.Err = &tracer.UnsupportedError{Feature: procs.Name, Needs: "a list of processes from the system", Cost: procs.Cost, Err: err}
	}
	return []tracer.Feature{
		{Name: "end-to-end times", Cost: "nothing is measured"},
		procs,
		lacking("short processes", "events from the kernel", "processes that live less than about 10 ms are missed, as are exit codes",
			"use the ebpf backend (Linux, as root)"),
		lacking("stages", "events of the scheduler", "no stages: where the time went is not known",
			"use the ebpf backend (Linux, as root)"),
	}
}

func lacking(name, needs, cost, hint string) tracer.Feature {
	return tracer.Feature{Name: name, Cost: cost, Hint: hint,
		Err: &tracer.UnsupportedError{Feature: name, Needs: needs, Cost: cost, Err: errSampled}}
}

// Open makes a session. Probes of cfg have no effect.
func (*Backend) Open(_ context.Context, cfg tracer.Config) (tracer.Session, error) {
	s := &session{self: int32(cfg.TracerPID), roots: map[int32]bool{}}
	if s.self == 0 {
		s.self = int32(os.Getpid())
	}
	s.roots[s.self] = true
	if err := s.Follow(cfg.Follow...); err != nil {
		return nil, err
	}
	return s, nil
}

// session samples between Start and Stop. mu guards all below it.
type session struct {
	self int32

	mu     sync.Mutex
	roots  map[int32]bool // their descendants are followed, as they are
	scan   *scanner
	stop   chan struct{}
	done   chan struct{}
	closed bool
}

var errClosed = errors.New("session is closed")

// Now is the clock of the trace.
func (s *session) Now() tracer.Time { return now() }

// Start takes a first look and goes on looking in the background.
func (s *session) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errClosed
	case s.scan != nil:
		return errors.New("session is already started")
	}
	s.scan = newScanner(s.self, s.roots)
	s.scan.look(ctx)
	s.stop, s.done = make(chan struct{}), make(chan struct{})
	go s.run(s.stop, s.done)
	return nil
}

// run looks every period, or less often where looking is slow.
func (s *session) run(stop <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		begin := time.Now()
		s.mu.Lock()
		s.scan.look(context.Background())
		s.mu.Unlock()
		timer.Reset(max(period, rest*time.Since(begin)))
	}
}

// Mark adds an operation's begin or end. Without Start it is forgotten.
func (s *session) Mark(m tracer.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scan != nil {
		s.scan.mark(m)
	}
}

// Follow adds processes and their descendants.
func (s *session) Follow(pids ...int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range pids {
		s.roots[int32(pid)] = true
	}
	return nil
}

// Stop takes a last look and returns the trace.
func (s *session) Stop(ctx context.Context) (*tracer.Trace, error) {
	s.mu.Lock()
	scan, stop, done := s.scan, s.stop, s.done
	s.mu.Unlock()
	if scan == nil {
		return nil, errors.New("session is not started")
	}
	close(stop)
	<-done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scan = nil
	if ctx.Err() == nil {
		scan.look(ctx)
	}
	meta := tracer.Meta{Backend: "sample", Machine: runtime.GOARCH, CPUs: max(1, runtime.NumCPU()), SleepStack: -1, SelfPID: s.self,
		Notes: []string{"sampled: processes that lived less than about 10 ms are missing, exit codes are not known"}}
	// Names of the machine are for the reader only.
	meta.Host, _ = os.Hostname()
	meta.Kernel, _ = host.KernelVersion()
	return scan.trace(meta), nil
}

// Close ends a recording that still runs.
func (s *session) Close() error {
	s.mu.Lock()
	running := s.scan != nil
	s.closed = true
	s.mu.Unlock()
	if running {
		_, err := s.Stop(context.Background())
		return err
	}
	return nil
}
