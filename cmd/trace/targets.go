package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"stagetrace/workloads"
)

// subject is what a run measures.
type subject struct {
	workload workloads.Workload
	running  []workloads.Running
	params   map[string]string // as given or by default; several values: comma-separated
	notes    []string          // about targets: where they were found
	skipped  []string          // targets that are not here, combinations that one refuses, and why
	partly   []string          // targets of which only the client's part can be seen
}

// subject makes instances for every target and every combination of
// parameter values.
func (o *runOptions) subject(ctx context.Context) (*subject, error) {
	w, ok := workloads.Lookup(o.workload)
	if !ok {
		return nil, usagef("unknown workload %q; trace list workloads shows them", o.workload)
	}
	s := &subject{workload: w, params: map[string]string{}}
	if w.Name == workloads.CommandName {
		if o.show {
			o.command.Stdout, o.command.Stderr = os.Stderr, os.Stderr
		}
		s.running = []workloads.Running{{Target: w.Name, Instance: workloads.Command(o.argv, o.command)}}
		return s, nil
	}
	given, err := parseParams(o.params)
	if err != nil {
		return nil, err
	}
	targets, err := o.chosenTargets(ctx, w, s)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if err := s.add(t, given); err != nil {
			return nil, err
		}
	}
	if len(s.running) == 0 {
		return nil, fmt.Errorf("nothing to measure: %s", strings.Join(s.skipped, "; "))
	}
	return s, nil
}

// add makes the instances of one target.
func (s *subject) add(t workloads.Target, given []paramValue) error {
	for _, c := range cases(given) {
		p, err := s.workload.Resolve(c.given)
		if err != nil {
			return usageError{err}
		}
		instance, err := t.New(p)
		if errors.Is(err, errors.ErrUnsupported) {
			s.skipped = append(s.skipped, t.Name+c.name+": "+strings.TrimSuffix(err.Error(), ": "+errors.ErrUnsupported.Error()))
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		s.running = append(s.running, workloads.Running{Target: t.Name + c.name, Instance: instance})
		for name, value := range p {
			s.params[name] = value
		}
	}
	for _, g := range given {
		s.params[g.name] = strings.Join(g.values, ",")
	}
	return nil
}

// chosenTargets are those asked for, which then have to be there, or the first
// of the table that is.
func (o *runOptions) chosenTargets(ctx context.Context, w workloads.Workload, s *subject) ([]workloads.Target, error) {
	if len(o.targets) == 0 {
		var why []string
		for _, t := range w.Targets {
			found := t.Find(ctx)
			if found.OK {
				s.note(t, found)
				return []workloads.Target{t}, nil
			}
			why = append(why, missingTarget(t, found).Error())
		}
		return nil, fmt.Errorf("no target of %s can run here:\n  %s", w.Name, strings.Join(why, "\n  "))
	}
	if len(o.targets) == 1 && o.targets[0] == allTargets {
		return s.present(ctx, w)
	}
	var chosen []workloads.Target
	seen := map[string]bool{}
	for _, name := range o.targets {
		t, ok := w.LookupTarget(name)
		if !ok {
			return nil, usagef("workload %s has no target %q; trace list targets shows them", w.Name, name)
		}
		if seen[name] {
			return nil, usagef("target %s is given twice", name)
		}
		seen[name] = true
		found := t.Find(ctx)
		if !found.OK {
			return nil, missingTarget(t, found)
		}
		s.note(t, found)
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// allTargets is the name that stands for every target that can run here.
const allTargets = "all"

// present are the targets that can run here; of the others it is noted why not.
func (s *subject) present(ctx context.Context, w workloads.Workload) ([]workloads.Target, error) {
	var chosen []workloads.Target
	for _, t := range w.Targets {
		if t.OnlyNamed {
			continue
		}
		found := t.Find(ctx)
		if !found.OK {
			s.skipped = append(s.skipped, strings.TrimPrefix(missingTarget(t, found).Error(), "target "))
			continue
		}
		s.note(t, found)
		chosen = append(chosen, t)
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no target of %s can run here:\n  %s", w.Name, strings.Join(s.skipped, "\n  "))
	}
	return chosen, nil
}

func (s *subject) note(t workloads.Target, found workloads.Found) {
	text := strings.TrimSpace(fmt.Sprintf("target %s: %s %s", t.Name, found.Where, found.Version))
	if found.Note != "" {
		text += "; " + found.Note
	}
	s.notes = append(s.notes, text)
	if found.State == workloads.ClientOnly {
		s.partly = append(s.partly, text)
	}
}

func missingTarget(t workloads.Target, found workloads.Found) error {
	text := fmt.Sprintf("target %s cannot run here: %s", t.Name, found.Why)
	if found.Hint != "" {
		text += "; try: " + found.Hint
	}
	return fmt.Errorf("%s", text)
}
