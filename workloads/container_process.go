package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// Patience with an operation that was asked to stop. A container that is half
// made is far harder to find again than one that has come and gone, so what is
// under way may finish; it normally takes a fraction of this.
const (
	cancelGrace = 2 * time.Second // until the operation is given up
	termGrace   = 1 * time.Second // from SIGTERM to SIGKILL
	// cleanupTime bounds everything a Cleanup asks of a daemon or a runtime.
	cleanupTime = 30 * time.Second
)

// patient is ctx with its cancellation delayed by grace.
func patient(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// cleanupContext lives on when ctx is cancelled: tidying up is what has to be
// done then.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
}

// quietProcess runs a program over and over with as little of our own doing
// in between as Go allows: it is started and waited for on the calling
// thread, and its output goes to files, so no goroutine and no pipe takes
// part.
type quietProcess struct {
	path string // absolute
	env  []string
	// start is os.StartProcess, or what does the same in other surroundings.
	start func(path string, argv []string, attr *os.ProcAttr) (*os.Process, error)

	null *os.File
	errs *os.File // its standard error; read only when it failed
}

// open makes the files. The program must not be run before.
func (q *quietProcess) open() error {
	if q.null != nil {
		return nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	errs, err := os.CreateTemp("", "stagetrace-stderr-*")
	if err != nil {
		null.Close()
		return err
	}
	// Without a name it is gone with this process, however that ends; where an
	// open file keeps its name, close takes it away.
	_ = os.Remove(errs.Name())
	q.null, q.errs = null, errs
	return nil
}

// close removes the files.
func (q *quietProcess) close() error {
	if q.null == nil {
		return nil
	}
	err := errors.Join(q.null.Close(), q.errs.Close())
	if gone := os.Remove(q.errs.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	q.null, q.errs = nil, nil
	return err
}

// reset forgets the last run's standard error.
func (q *quietProcess) reset() error {
	if err := q.errs.Truncate(0); err != nil {
		return err
	}
	_, err := q.errs.Seek(0, io.SeekStart)
	return err
}

// run runs the program until it exits and returns its exit code. It fails
// when the program could not be started or a signal ended it. When ctx ends
// the program may finish within cancelGrace, gets SIGTERM then, and SIGKILL
// at last.
func (q *quietProcess) run(ctx context.Context, args ...string) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	start := os.StartProcess
	if q.start != nil {
		start = q.start
	}
	p, err := start(q.path, append([]string{q.path}, args...), &os.ProcAttr{
		Env:   q.env,
		Files: []*os.File{q.null, q.null, q.errs},
		Sys:   ownGroup(),
	})
	if err != nil {
		return 0, err
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { endProcess(p, done) })
	st, err := p.Wait()
	close(done)
	stop()
	if err != nil {
		return 0, fmt.Errorf("wait for %s: %w", q.path, err)
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		err := fmt.Errorf("%s: ended by signal: %v", q.path, ws.Signal())
		return 128 + int(ws.Signal()), errors.Join(ctx.Err(), err)
	}
	return st.ExitCode(), nil
}

// endProcess ends a process step by step, unless done is closed first.
func endProcess(p *os.Process, done <-chan struct{}) {
	steps := []struct {
		after time.Duration
		end   func() error
	}{
		{cancelGrace, func() error { return p.Signal(syscall.SIGTERM) }},
		{termGrace, p.Kill},
	}
	for _, s := range steps {
		t := time.NewTimer(s.after)
		select {
		case <-done:
			t.Stop()
			return
		case <-t.C:
		}
		// It may just have gone, or not know the signal: the next step or the
		// wait tells.
		_ = s.end()
	}
}

// message is what the last run wrote to its standard error, on one line and
// at most 2 KiB of it.
func (q *quietProcess) message() string {
	b := make([]byte, 2048)
	n, err := q.errs.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return fmt.Sprintf("(its standard error cannot be read: %v)", err)
	}
	return strings.Join(strings.Fields(string(b[:n])), " ")
}
