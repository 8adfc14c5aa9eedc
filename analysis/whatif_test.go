package analysis

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// describeGains writes what a replay says for people: one line per stage.
func describeGains(op *Operation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operation %d wall=%s\n", op.Index, us(tracer.Time(op.WallNs)))
	for _, s := range op.WhatIf.Stages {
		fmt.Fprintf(&b, "%-16s free=%s half=%s\n", s.Name, us(tracer.Time(s.FreeNs)), us(tracer.Time(s.HalfNs)))
	}
	return b.String()
}

// TestReplayOfStories: with nothing changed, every story ends when it did. Those
// that are about replays have a golden file of what is gained without each stage.
func TestReplayOfStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".trace"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			err = New(linuxSet(t), Options{WhatIf: true}).Add(tracetest.Parse(t, string(text)), func(op *Operation) error {
				if op.CannotTell {
					return fmt.Errorf("operation %d: its replay does not end when it did", op.Index)
				}
				got += describeGains(op)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(filepath.Base(f), "w") {
				checkGolden(t, strings.TrimSuffix(f, ".trace")+".gains", got)
			}
		})
	}
}
