package reports

import (
	"errors"
	"sync"

	"stagetrace/analysis"
)

// errEnough ends a pass over the operations that nobody reads any more.
var errEnough = errors.New("no writer wants more operations")

// Together lets several writers share one pass over the recorded operations,
// which costs more than writing does. Each gets an Input of its own; the
// operations come to all of them in step. A writer that ends early does not
// hold the others up. The error joins those of the writers.
func Together(in *Input, writers ...func(*Input) error) error {
	feeds := make([]*feed, len(writers))
	errs := make([]error, len(writers))
	var wg sync.WaitGroup
	for i, write := range writers {
		f := &feed{ops: make(chan *analysis.Operation), next: make(chan struct{}), want: make(chan bool, 1), done: make(chan struct{})}
		feeds[i] = f
		own := *in
		if in.Operations != nil {
			own.Operations = f.operations
		}
		wg.Go(func() {
			defer close(f.done)
			errs[i] = write(&own)
			f.ask(false)
		})
	}
	err := share(in, feeds)
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

// share runs the pass once every writer has asked for it or ended.
func share(in *Input, feeds []*feed) error {
	var live []*feed
	for _, f := range feeds {
		if <-f.want {
			live = append(live, f)
		}
	}
	if len(live) == 0 {
		return nil
	}
	err := in.Operations(func(op *analysis.Operation) error {
		alive := false
		for _, f := range live {
			alive = f.give(op) || alive
		}
		for _, f := range live {
			f.taken()
		}
		if !alive {
			return errEnough
		}
		return nil
	})
	for _, f := range live {
		f.end(err)
	}
	return nil // the writers report err
}

// feed is one writer's side of a shared pass.
type feed struct {
	asked bool
	ended bool
	err   error
	want  chan bool
	ops   chan *analysis.Operation
	next  chan struct{}
	done  chan struct{}
}

// ask says, once, whether the writer wants operations.
func (f *feed) ask(want bool) {
	if !f.asked {
		f.asked = true
		f.want <- want
	}
}

// operations is the writer's Input.Operations. The shared pass is made once:
// a second call finds no operations left.
func (f *feed) operations(yield func(*analysis.Operation) error) error {
	f.ask(true)
	for op := range f.ops {
		err := yield(op)
		f.next <- struct{}{}
		if err != nil {
			return err
		}
	}
	return f.err
}

// give hands an operation over; false when the writer has ended.
func (f *feed) give(op *analysis.Operation) bool {
	if f.ended {
		return false
	}
	select {
	case f.ops <- op:
		return true
	case <-f.done:
		f.ended = true
		return false
	}
}

// taken waits until the writer is done with the operation it was given.
func (f *feed) taken() {
	if !f.ended {
		<-f.next
	}
}

func (f *feed) end(err error) {
	if !errors.Is(err, errEnough) {
		f.err = err
	}
	close(f.ops)
}
