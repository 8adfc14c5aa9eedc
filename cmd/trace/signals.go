package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// stopSignals end a measurement early; their numbers are the same on every
// system Go runs on.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// withSignals gives a context that ends with the first stop signal. interrupted
// returns 128 plus its number, or 0. The second signal does not wait for the
// clean-up that the first one began: it exits at once.
func withSignals(parent context.Context, stderr io.Writer, exit func(int)) (ctx context.Context, interrupted func() int, release func()) {
	ctx, cancel := context.WithCancel(parent)
	incoming := make(chan os.Signal, 2)
	done := make(chan struct{})
	var first atomic.Int32
	signal.Notify(incoming, stopSignals...)
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-incoming:
				code := int32(128)
				if number, ok := s.(syscall.Signal); ok {
					code += int32(number)
				}
				if !first.CompareAndSwap(0, code) {
					fmt.Fprintln(stderr, "trace: stopped without cleaning up; the next run of the workload does")
					exit(int(code))
					return
				}
				fmt.Fprintf(stderr, "trace: %v: keeping what was measured and cleaning up (once more: stop at once)\n", s)
				cancel()
			}
		}
	}()
	release = func() {
		signal.Stop(incoming)
		close(done)
		cancel()
	}
	return ctx, func() int { return int(first.Load()) }, release
}
