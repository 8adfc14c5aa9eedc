// Package tracetest is what tests need around traces: traces written as text,
// a backend that replays them, and requirements on the machine that are never
// passed over in silence.
package tracetest

import (
	"strings"
	"testing"

	"stagetrace/tracer"
)

// Parse reads a trace in its text form. A text that does not parse, or that
// Validate refuses, fails the test at the caller.
func Parse(t testing.TB, text string) *tracer.Trace {
	t.Helper()
	trace, err := tracer.ParseText([]byte(text))
	if err != nil {
		t.Fatalf("trace: %v", err)
	}
	if err := tracer.Validate(trace); err != nil {
		t.Fatalf("trace is not valid:\n%v", err)
	}
	return trace
}

// Text is the text form of a trace, to compare or to show.
func Text(t testing.TB, trace *tracer.Trace) string {
	t.Helper()
	var b strings.Builder
	if err := tracer.WriteText(&b, trace); err != nil {
		t.Fatalf("trace as text: %v", err)
	}
	return b.String()
}

// Task is the id of the only task of that name; none or several fail the test.
func Task(t testing.TB, trace *tracer.Trace, comm string) tracer.TaskID {
	t.Helper()
	found := tracer.NoTask
	for i := range trace.Tasks {
		if trace.Tasks[i].Comm != comm {
			continue
		}
		if found != tracer.NoTask {
			t.Fatalf("tasks %d and %d are both called %q", found, i, comm)
		}
		found = tracer.TaskID(i)
	}
	if found == tracer.NoTask {
		t.Fatalf("no task is called %q", comm)
	}
	return found
}
