package tracetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"stagetrace/tracer"
)

// Backend is a tracer.Backend that records nothing: each Start..Stop of a
// session gives the next of Traces. What it was told is kept for the test to
// look at. Safe for concurrent use.
type Backend struct {
	Traces   []*tracer.Trace  // given by Stop in turn, the last one again and again
	Features []tracer.Feature // given by Check
	OpenErr  error            // given by Open
	StartErr error            // given by Start
	StopErr  error            // given by Stop, beside the trace

	mu       sync.Mutex
	configs  []tracer.Config
	marks    [][]tracer.Mark
	followed []int
	open     int
}

var _ tracer.Backend = (*Backend)(nil)

// Name is "fake".
func (b *Backend) Name() string { return "fake" }

// Check gives Features.
func (b *Backend) Check(context.Context) []tracer.Feature { return b.Features }

// Open gives a session that shares the backend's list of traces.
func (b *Backend) Open(_ context.Context, cfg tracer.Config) (tracer.Session, error) {
	if b.OpenErr != nil {
		return nil, b.OpenErr
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.configs = append(b.configs, cfg)
	b.open++
	return &session{b: b}, nil
}

// Configs are the configurations of the sessions opened so far.
func (b *Backend) Configs() []tracer.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]tracer.Config(nil), b.configs...)
}

// Marks are the marks of each recording so far, in order.
func (b *Backend) Marks() [][]tracer.Mark {
	b.mu.Lock()
	defer b.mu.Unlock()
	marks := make([][]tracer.Mark, len(b.marks))
	for i := range marks {
		marks[i] = append([]tracer.Mark(nil), b.marks[i]...)
	}
	return marks
}

// Followed are the pids that sessions were asked to follow after Open.
func (b *Backend) Followed() []int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]int(nil), b.followed...)
}

// Unclosed is the number of sessions that were opened and not closed: 0 at the end of a good test.
func (b *Backend) Unclosed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// session is one recording after another of a Backend. Misuse that a real
// backend could not tolerate is an error.
type session struct {
	b       *Backend
	now     tracer.Time
	running bool
	closed  bool
}

// Now counts up by one at each call.
func (s *session) Now() tracer.Time {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.now++
	return s.now
}

func (s *session) Start(context.Context) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	switch {
	case s.b.StartErr != nil:
		return s.b.StartErr
	case s.closed:
		return fmt.Errorf("start: %w", os.ErrClosed)
	case s.running:
		return errors.New("start: already recording")
	}
	s.running = true
	s.b.marks = append(s.b.marks, nil)
	return nil
}

func (s *session) Mark(m tracer.Mark) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.running {
		last := len(s.b.marks) - 1
		s.b.marks[last] = append(s.b.marks[last], m)
	}
}

func (s *session) Follow(pids ...int) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.followed = append(s.b.followed, pids...)
	return nil
}

func (s *session) Stop(context.Context) (*tracer.Trace, error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if !s.running {
		return nil, errors.New("stop: not recording")
	}
	s.running = false
	if len(s.b.Traces) == 0 {
		return tracer.NewBuilder().Trace(), s.b.StopErr
	}
	return s.b.Traces[min(len(s.b.marks), len(s.b.Traces))-1], s.b.StopErr
}

func (s *session) Close() error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if !s.closed {
		s.closed, s.running = true, false
		s.b.open--
	}
	return nil
}
