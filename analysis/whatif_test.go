package analysis

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/tracer/tracetest"
)

// TestReplayOfStories: with nothing changed, every story ends when it did.
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
			err = New(linuxSet(t), Options{WhatIf: true}).Add(tracetest.Parse(t, string(text)), func(op *Operation) error {
				if op.CannotTell {
					t.Error("its replay does not end when it did")
				}
				x, _ := json.Marshal(op.WhatIf)
				y, _ := json.Marshal(op.Stages)
				t.Logf("%s\n%s", x, y)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
