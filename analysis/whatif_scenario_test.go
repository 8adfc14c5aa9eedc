package analysis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/tracer/tracetest"
)

func TestParseScenario(t *testing.T) {
	set := linuxSet(t)
	sc, err := ParseScenario(set, "net.*=0, io.fsync=0.5,other=0.25,net.addr=1")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"net.link.create": 0, "net.addr": 1, "io.fsync": 0.5, "other": 0.25, "unknown": 1, "proc.fork": 1}
	for row, f := range sc.factor {
		if w, ok := want[rowName(set, row)]; ok && f != w {
			t.Errorf("%s: %v, want %v", rowName(set, row), f, w)
		}
	}
	for text, part := range map[string]string{
		"": "not a stage", "io.fsync": "not a stage", "=0": "not a stage", "io.fsync=": "number from 0", "io.fsync=x": "number from 0", "io.fsync=-1": "number from 0",
		"io.fsync=1.5": "number from 0", "io.fsync=NaN": "number from 0", "io.fsnyc=0": `did you mean "io.fsync"`, "io.fsync=0,net.*": "not a stage", "zzzzzz*=0": "no stage",
		"io.[a]=0": "bad pattern",
	} {
		if _, err := ParseScenario(set, text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: error %v, want one with %q", text, err, part)
		}
	}
}

func FuzzParseScenario(f *testing.F) {
	set := linuxSet(f)
	for _, s := range []string{"net.*=0,io.fsync=0.5", "*=1", "?=0", "=", ",", "io.fsync=1e-400", "\x1b=0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sc, err := ParseScenario(set, text)
		if err != nil {
			return
		}
		for _, x := range sc.factor {
			if !(x >= 0 && x <= 1) {
				t.Fatalf("%q: %v", text, x)
			}
		}
	})
}

// TestScenario: what comes to the fore instead of a stage is named.
func TestScenario(t *testing.T) {
	set := linuxSet(t)
	sc, err := ParseScenario(set, "wait.poll=0")
	if err != nil {
		t.Fatal(err)
	}
	an := New(set, Options{WhatIf: true, Scenario: sc})
	if err := an.Add(tracetest.Parse(t, story(t, "w02-dead-before-asked")), nil); err != nil {
		t.Fatal(err)
	}
	r := an.Result(Result{})
	x := r.Summary[0].WhatIf.Scenario
	if x == nil || x.Wall.Median != 83_000 || x.Gain.Median != 77_000 {
		t.Fatalf("scenario %+v", x)
	}
	for _, s := range x.Stages {
		if s.Name == "wait.sleep" && (s.Before != 0 || s.After != 48_000) {
			t.Errorf("the child's sleep: %+v", s)
		}
	}
	if o := r.Operations[0].WhatIf.Scenario; len(o.Stages) == 0 {
		t.Error("no stages")
	}
}

// story is the text of a trace in testdata.
func story(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".trace"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
