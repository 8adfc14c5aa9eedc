package analysis

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain has random worlds be the same in every run, so that a red one can
// be run again; others are had with -rapid.seed=N -rapid.checks=N.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.seed"); f != nil && f.Value.String() == "0" {
		if err := f.Value.Set("3"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	os.Exit(m.Run())
}
