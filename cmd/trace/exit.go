package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"stagetrace/reports"
)

// Exit codes; a signal gives 128 plus its number.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// silentError fails the program without another word: what it has to say has
// been said in the result.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

func exitCode(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled)
}

func complain(w io.Writer, err error) {
	var silent silentError
	if errors.As(err, &silent) {
		return
	}
	// Lines after the first are moved in: one that a file name brings along is
	// not taken for ours.
	fmt.Fprintf(w, "trace: %s\n", strings.ReplaceAll(printable(err.Error(), true), "\n", "\n  "))
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(w, "Run 'trace help' or 'trace COMMAND --help' for usage.")
	}
}

// printable makes text that may hold names chosen by others fit for a terminal.
// lines keeps line breaks.
func printable(s string, lines bool) string {
	if !lines {
		return reports.Clean(s)
	}
	parts := strings.Split(s, "\n")
	for i := range parts {
		parts[i] = reports.Clean(parts[i])
	}
	return strings.Join(parts, "\n")
}
