package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"stagetrace/tracer"
	"stagetrace/tracer/backends"
	"stagetrace/workloads"
)

func doctorCommand(term *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say what works on this system, what does not, and what is lost without it",
		Long: `One line per feature: works, or why not, and what is lost without it. The exit
code is 0 when stages can be had here, else 1.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return doctor(cmd.Context(), term.wrapped()) },
	}
}

var errNoStages = errors.New("no stages here")

// doctor prints the features of every backend. It fails when no backend that
// sees stages can record.
func doctor(ctx context.Context, w io.Writer) error {
	stages := false
	for _, row := range backends.Table() {
		if _, err := fmt.Fprintf(w, "%s: %s\n", row.Name(), row.Summary); err != nil {
			return err
		}
		for _, f := range row.Check(ctx) {
			if _, err := fmt.Fprintln(w, "  "+featureLine(f)); err != nil {
				return err
			}
		}
		if row.Stages {
			err := canRecord(ctx, row)
			stages = stages || err == nil
			verdict := "yes"
			if err != nil {
				verdict = "no: " + printable(err.Error(), false)
			}
			if _, err := fmt.Fprintf(w, "  stages can be recorded: %s\n", verdict); err != nil {
				return err
			}
		}
	}
	if err := doctorTargets(ctx, w); err != nil {
		return err
	}
	if !stages {
		return silentError{errNoStages}
	}
	return nil
}

// doctorTargets prints what is done differently here with targets that are
// found, such as work-arounds, and what is missing of them.
func doctorTargets(ctx context.Context, w io.Writer) error {
	seen := map[string]bool{}
	for _, l := range workloads.Table() {
		for _, t := range l.Targets {
			if seen[t.Name] {
				continue
			}
			seen[t.Name] = true
			found := t.Find(ctx)
			if !found.OK || found.Note == "" {
				continue
			}
			if _, err := fmt.Fprintf(w, "target %s: %s\n", t.Name, printable(found.Note, false)); err != nil {
				return err
			}
		}
	}
	return nil
}

// canRecord opens a session as a run would, without starting it.
func canRecord(ctx context.Context, b tracer.Backend) error {
	s, err := b.Open(ctx, tracer.Config{})
	if err != nil {
		return err
	}
	return s.Close()
}

func featureLine(f tracer.Feature) string {
	if f.Err == nil {
		return f.Name + ": works"
	}
	line := fmt.Sprintf("%s: no: %v", f.Name, f.Err)
	if f.Cost != "" {
		line += "; lost without it: " + f.Cost
	}
	if f.Hint != "" {
		line += "; to have it: " + f.Hint
	}
	return printable(line, false)
}
