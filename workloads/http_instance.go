package workloads

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// httpInstance measures one server.
type httpInstance struct {
	httpOptions
	server *httpServer // nil: it runs already
	guard  *httpGuarded
	place  httpPlace
	size   int64 // of a right body

	loading *httpLoading // goes on; nil: none
	report  *httpReport  // of the last load; nil: it was told already
	conn    io.ReadWriteCloser
	reader  *bufio.Reader
	ask     [][]byte
}

func newHTTPInstance(s httpServer, p Params) (Instance, error) {
	o, err := newHTTPOptions(p)
	if err != nil {
		return nil, err
	}
	return &httpInstance{httpOptions: o, server: &s}, nil
}

func newHTTPURL(p Params) (Instance, error) {
	o, err := newHTTPOptions(p)
	if err != nil {
		return nil, err
	}
	if o.url == "" {
		return nil, errors.New("target url needs the address of a running server: -p url=http://127.0.0.1:PORT/")
	}
	place, err := parseHTTPURL(o.url)
	if err != nil {
		return nil, err
	}
	return &httpInstance{httpOptions: o, place: place}, nil
}

func (h *httpInstance) Setup(ctx context.Context) error {
	if h.wrk {
		if _, err := findProgram("wrk", ""); err != nil {
			return fmt.Errorf("generator=wrk: %w; try: apt-get install wrk", err)
		}
	}
	want := ""
	if h.server != nil {
		if f := h.server.find(ctx); !f.OK {
			return errors.New(f.Why)
		}
		guard, place, err := startServer(ctx, h.server, h.workers)
		h.guard = guard
		if err != nil {
			return err
		}
		h.place, want = place, httpBody
	}
	var err error
	if h.size, err = preflight(h.place, max(2, h.load.Pipeline), want); err != nil {
		return fmt.Errorf("try %s out: %w", h.place.Addr, err)
	}
	h.load.Place, h.load.Size = h.place, h.size
	h.ask = newGenerator(h.load).requests
	return nil
}

// PrepareBlock lets the load run while nothing is recorded, so that tracing
// cannot cost any of its throughput.
func (h *httpInstance) PrepareBlock(ctx context.Context) error {
	if h.during {
		return nil
	}
	return h.startLoad(ctx)
}

// startLoad has the load run for its window. A load that is held goes on.
func (h *httpInstance) startLoad(ctx context.Context) (err error) {
	if h.load.Window == 0 {
		return nil
	}
	run := builtinLoad
	if h.wrk {
		run = wrkLoad
	}
	h.loading, h.report, err = run(ctx, h.load)
	return err
}

// Prepare opens the connection of the operation.
func (h *httpInstance) Prepare(ctx context.Context, _ int) (err error) {
	if h.during {
		if err := h.startLoad(ctx); err != nil {
			return err
		}
	}
	if h.conn, err = dialBlocking(ctx, h.place.Addr, httpTimeout); err != nil {
		return err
	}
	h.reader = bufio.NewReader(h.conn)
	return h.once(0) // the server has accepted the connection
}

// Do asks on the calling thread, which sleeps in its own reads.
func (h *httpInstance) Do(ctx context.Context, _ int) (Outcome, error) {
	var out Outcome
	for i := range h.requests {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if err := h.once(i); err != nil {
			return out, fmt.Errorf("request %d: %w", i+1, err)
		}
		out.Units++
	}
	if h.report != nil { // the first operation since tells of the load
		out.Metrics, h.report = h.report.metrics(), nil
	}
	return out, nil
}

func (h *httpInstance) once(i int) error {
	if _, err := h.conn.Write(h.ask[i%len(h.ask)]); err != nil {
		return err
	}
	a, err := readAnswer(h.reader, nil)
	switch {
	case err != nil:
		return err
	case !a.ok():
		return fmt.Errorf("status %d", a.status)
	case a.size != h.size:
		return fmt.Errorf("a body of %d bytes, want %d", a.size, h.size)
	}
	return nil
}

func (h *httpInstance) Conclude(context.Context, int, Outcome) error {
	var errs []error
	if h.conn != nil {
		errs = append(errs, h.conn.Close())
		h.conn = nil
	}
	if h.loading != nil {
		errs = append(errs, h.loading.stop())
		h.loading = nil
	}
	return errors.Join(errs...)
}

func (h *httpInstance) Cleanup(ctx context.Context) error {
	err := h.Conclude(ctx, 0, Outcome{})
	if h.guard != nil {
		err = errors.Join(err, h.guard.stop())
		h.guard = nil
	}
	return err
}

// startPatience is how long a server may take until it answers.
const startPatience = 30 * time.Second

// startServer starts a server under its guard and waits until it answers. The
// guard is returned with an error too: it has to be stopped.
func startServer(ctx context.Context, s *httpServer, workers int) (*httpGuarded, httpPlace, error) {
	port, err := freePort()
	if err != nil {
		return nil, httpPlace{}, err
	}
	place := httpPlace{Addr: fmt.Sprintf("127.0.0.1:%d", port), Path: "/"}
	dir, err := os.MkdirTemp("", "stagetrace-http-")
	if err != nil {
		return nil, place, err
	}
	argv, err := s.commandLine(dir, port, workers)
	if err != nil {
		return nil, place, errors.Join(err, os.RemoveAll(dir))
	}
	copies := 1
	if s.copies {
		copies = workers
	}
	guard, err := startGuard(dir, copies, argv, httpEnv(dir, port, workers))
	if err != nil {
		return nil, place, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		_, err := preflight(place, 1, httpBody)
		if err == nil {
			return guard, place, nil
		}
		select {
		case <-guard.ended:
			return guard, place, fmt.Errorf("%s ended before it answered: %s", s.name, guard.log())
		case <-ctx.Done():
			return guard, place, fmt.Errorf("%s: no answer in %v: %w; %s", s.name, startPatience, err, guard.log())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
