package workloads

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalContext ends with the signals that a user ends a program with.
func signalContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
