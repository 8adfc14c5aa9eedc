package workloads

import (
	"os"
	"testing"
)

// TestMain lets the test's own binary be the builtin engine's processes.
func TestMain(m *testing.M) {
	if handled, code := Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
