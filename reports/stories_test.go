package reports

import (
	"os"
	"path/filepath"
	"testing"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// The text traces of the analysis, analysed with the sets that come with the
// program, can be written in every format, and the wall profile adds up.
func TestStoriesInEveryFormat(t *testing.T) {
	files, err := filepath.Glob("../analysis/testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	set, err := stage.Load([]string{"container"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tr, err := tracer.ParseText(text)
			if err != nil {
				t.Fatal(err)
			}
			an := analysis.New(set, analysis.Options{})
			if err := an.Add(tr, nil); err != nil {
				t.Fatal(err)
			}
			in := &Input{Result: an.Result(analysis.Result{Workload: "story"}), Operations: func(yield func(*analysis.Operation) error) error {
				return analysis.New(set, analysis.Options{}).Add(tr, func(op *analysis.Operation) error {
					if op.Warmup {
						return nil
					}
					return yield(op)
				})
			}}
			for _, f := range Formats() {
				render(t, f.Name, in)
			}
			checkPathTracks(t, in)
			var wall, got int64
			for i := range in.Result.Operations {
				wall += in.Result.Operations[i].WallNs
			}
			for _, s := range parseProfile(t, "pprof", in).Sample {
				got += s.Value[valuePath]
			}
			if got != wall {
				t.Errorf("the profile holds %d of %d ns", got, wall)
			}
		})
	}
}
