package reports

import (
	"bytes"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// benchLines reads what is written with the reader of benchstat: how often
// each name occurs, and the configurations.
func benchLines(t *testing.T, in *Input) (names map[string]int, configs map[string]bool) {
	t.Helper()
	names, configs = map[string]int{}, map[string]bool{}
	r := benchfmt.NewReader(bytes.NewReader(render(t, "benchfmt", in)), "results")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			names[string(rec.Name)]++
			config := ""
			for _, c := range rec.Config {
				if c.File {
					config += c.Key + "=" + string(c.Value) + ";"
				}
			}
			configs[config] = true
		case *benchfmt.SyntaxError:
			t.Fatal(rec)
		}
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return names, configs
}

// Runs of one machine have one configuration, or benchstat would not compare
// them, and a stage has as many values as its target.
func TestBenchfmtCompares(t *testing.T) {
	a, b := newFixture(7), newFixture(7)
	b.result.Label, b.result.Totals.LostEvents, b.result.StageSet.Hash = "another", 7, "ffff"
	b.result.Operations[3].Stages = b.result.Operations[3].Stages[1:]
	names, configs := benchLines(t, a.input())
	others, configsB := benchLines(t, b.input())
	if len(configs) != 1 || len(configsB) != 1 {
		t.Errorf("configurations %v and %v", configs, configsB)
	}
	for c := range configs {
		if !configsB[c] {
			t.Errorf("%v and %v are not compared", configs, configsB)
		}
	}
	for name, n := range names {
		if others[name] != n {
			t.Errorf("%s: %d values, and %d where an operation has no such stage", name, n, others[name])
		}
	}
}
