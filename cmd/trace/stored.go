package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/reports"
	"stagetrace/tracer"
)

// keptStages is the pattern of the copies of a user's stage files in a result
// folder, so that the recording can be read again with them.
const keptStages = "stages-%d.stages.yaml"

func keepStages(dir *folder, given []string) error {
	_, files := splitStages(given)
	for i, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(dir.file(fmt.Sprintf(keptStages, i+1)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// storedStages is the stage set that a result was made with.
func storedStages(dir string, r *analysis.Result) (*stage.Set, error) {
	var given []string
	for i := 1; ; i++ {
		name := filepath.Join(dir, fmt.Sprintf(keptStages, i))
		if _, err := os.Stat(name); err != nil {
			break
		}
		given = append(given, name)
	}
	return loadStages(given, builtinSets(r))
}

// builtinSets are the sets of a result that come with the program.
func builtinSets(r *analysis.Result) []string {
	names, _ := splitStages(strings.Split(r.StageSet.Name, "+"))
	return names
}

// runEntry is the kind of the entry that a recording begins with; runFacts is
// its content. With it a recording can be read without the result beside it.
const runEntry = "run"

type runFacts struct {
	Result   analysis.Result `json:"result"` // what is known before anything was measured
	SettleNs int64           `json:"settle_ns"`
}

// errEnough ends the reading of a recording.
var errEnough = errors.New("enough was read")

// readRecording goes through a recording: entries and blocks. A file that ends
// in the middle, because the run was killed, gives what is whole, and cut is
// true.
func readRecording(name string, entry func(kind string, data []byte) error, each func(*tracer.Trace) error) (cut bool, err error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r, err := tracer.NewReader(f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	for {
		item, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case errors.Is(err, tracer.ErrTruncated):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("%s: %w", name, err)
		}
		if item.Trace == nil {
			err = entry(item.Kind, item.Data)
		} else {
			err = each(item.Trace)
		}
		if err != nil {
			return false, err
		}
	}
}

func noEntry(string, []byte) error { return nil }

// readFacts reads what a recording says about its run.
func readFacts(events string) (facts runFacts, err error) {
	facts.SettleNs = int64(defaultSettle)
	_, err = readRecording(events, func(kind string, data []byte) error {
		if kind != runEntry {
			return nil
		}
		if err := json.Unmarshal(data, &facts); err != nil {
			return fmt.Errorf("%s: entry %s: %w", events, kind, err)
		}
		return errEnough
	}, func(*tracer.Trace) error { return errEnough })
	if errors.Is(err, errEnough) {
		err = nil
	}
	return facts, err
}

// operations goes through the operations of a recording, with their paths.
func operations(events string, set *stage.Set, opt analysis.Options) func(func(*analysis.Operation) error) error {
	return func(yield func(*analysis.Operation) error) error {
		a := analysis.New(set, opt)
		_, err := readRecording(events, noEntry, func(tr *tracer.Trace) error {
			liftMemoryLimit(len(tr.Events))
			return a.Add(tr, func(op *analysis.Operation) error {
				if op.Warmup {
					return nil
				}
				return yield(op)
			})
		})
		return err
	}
}

// withWhatIf is the options of an analysis that makes a result, and not only
// goes through the operations.
func withWhatIf(opt analysis.Options, sc *analysis.Scenario) analysis.Options {
	opt.WhatIf, opt.Scenario = true, sc
	return opt
}

// reanalyse makes a result again from its recording.
func reanalyse(events string, old *analysis.Result, set *stage.Set, opt analysis.Options) (*analysis.Result, error) {
	a := analysis.New(set, opt)
	cut, err := readRecording(events, noEntry, func(tr *tracer.Trace) error { return a.Add(tr, nil) })
	if err != nil {
		return nil, err
	}
	base := *old
	base.Recording = analysis.RecordingFacts{}
	base.Totals = analysis.Totals{Incomplete: old.Totals.Incomplete || cut, LostStacks: old.Totals.LostStacks}
	base.Warnings = slices.DeleteFunc(slices.Clone(old.Warnings), func(w analysis.Warning) bool {
		return !slices.Contains(recordingWarnings, w.ID)
	})
	if cut {
		base.Warnings = append(base.Warnings, analysis.Warning{ID: warnInterrupted,
			Text: "the recording ends in the middle; this is what it holds until then"})
	}
	return a.Result(base), nil
}

// stored is a result folder that was read.
type stored struct {
	dir    string // "" when only a result file was given
	result *analysis.Result
	bare   bool // there is no result, only a recording: the run was killed
}

func readStored(where string) (*stored, error) {
	dir := ""
	if info, err := os.Stat(where); err == nil && info.IsDir() {
		dir = where
	}
	r, err := reports.ReadResult(where)
	if err == nil {
		return &stored{dir: dir, result: r}, nil
	}
	if dir == "" || !notExist(err) {
		return nil, err
	}
	if _, statErr := os.Stat(filepath.Join(dir, eventsFile)); statErr != nil {
		return nil, fmt.Errorf("%s is not a result folder: %w", where, err)
	}
	facts, err := readFacts(filepath.Join(dir, eventsFile))
	if err != nil {
		return nil, err
	}
	return &stored{dir: dir, result: &facts.Result, bare: true}, nil
}

func (s *stored) events() (string, error) {
	if s.dir == "" {
		return "", errors.New("needs the recorded events: give the result folder, not only its result file")
	}
	name := filepath.Join(s.dir, eventsFile)
	if _, err := os.Stat(name); err != nil {
		return "", fmt.Errorf("needs the recorded events: %w", err)
	}
	return name, nil
}
