package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"stagetrace/analysis/stage"
	"stagetrace/reports"
	"stagetrace/tracer/backends"
	"stagetrace/workloads"
)

// lists is the table of what trace list can list.
var lists = []struct {
	name, summary string
	write         func(ctx context.Context, w io.Writer) error
}{
	{"workloads", "operations to measure, with their parameters", listWorkloads},
	{"targets", "systems that carry workloads out, and whether they can run here", listTargets},
	{"stages", "names that time can have, by set", listStages},
	{"formats", "ways to write a result", listFormats},
	{"backends", "ways to record on this system", listBackends},
}

func listCommand(term *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "list WHAT",
		Short:   "List workloads, targets, stages, formats or backends",
		Example: "  trace list workloads\n  trace list targets",
		Args: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, l := range lists {
				names = append(names, l.name)
			}
			if len(args) == 0 {
				return usagef("%s needs one of: %s", cmd.CommandPath(), strings.Join(names, ", "))
			}
			return usagef("%s has no list %q; there are: %s", cmd.CommandPath(), args[0], strings.Join(names, ", "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, l := range lists {
		cmd.AddCommand(&cobra.Command{
			Use: l.name, Short: "List " + l.summary, Args: noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				w := tabwriter.NewWriter(term.wrapped(), 0, 8, 2, ' ', 0)
				if err := l.write(cmd.Context(), w); err != nil {
					return err
				}
				return w.Flush()
			},
		})
	}
	return cmd
}

// writeRows writes a row of cells a line.
func writeRows(w io.Writer, rows ...[]string) error {
	for _, r := range rows {
		for i := range r {
			r[i] = printable(r[i], false)
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(strings.Join(r, "\t"), "\t")); err != nil {
			return err
		}
	}
	return nil
}

func listWorkloads(_ context.Context, w io.Writer) error {
	for _, l := range workloads.Table() {
		if err := writeRows(w, []string{l.Name, l.Summary}); err != nil {
			return err
		}
		for _, p := range l.Params {
			help := p.Help
			if len(p.Values) > 0 {
				help += " (" + strings.Join(p.Values, ", ") + ")"
			}
			if err := writeRows(w, []string{"  -p " + p.Name + "=" + p.Default, help}); err != nil {
				return err
			}
		}
	}
	return nil
}

// listTargets lists what workloads can be carried out by, and then the
// systems that none of them drives.
func listTargets(ctx context.Context, w io.Writer) error {
	for _, l := range workloads.Table() {
		for _, t := range l.Targets {
			if err := listTarget(ctx, w, l.Name, t); err != nil {
				return err
			}
		}
	}
	for _, t := range workloads.OtherSystems() {
		if err := listTarget(ctx, w, "(any command)", t); err != nil {
			return err
		}
	}
	return nil
}

func listTarget(ctx context.Context, w io.Writer, workload string, t workloads.Target) error {
	found := t.Find(ctx)
	state, text := string(found.State), strings.TrimSpace(found.Where+" "+found.Version)
	switch {
	case state == "" && found.OK:
		state = "found"
	case state == "":
		state = "not usable"
	}
	for _, more := range []string{found.Note, found.Why} {
		if more != "" {
			text = strings.TrimPrefix(text+"; "+more, "; ")
		}
	}
	if found.Hint != "" {
		text += "; try: " + found.Hint
	}
	return writeRows(w, []string{workload, t.Name, state, text, t.Summary})
}

// listStages prints every stage under the set whose file names it first.
func listStages(_ context.Context, w io.Writer) error {
	for _, name := range stage.Builtin() {
		set, err := stage.Load([]string{name}, nil)
		if err != nil {
			return err
		}
		if err := writeRows(w, []string{name + ": " + set.Title}); err != nil {
			return err
		}
		for _, s := range set.Stages {
			if s.File == name+".stages.yaml" {
				if err := writeRows(w, []string{"  " + s.Name, s.Title}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func listFormats(_ context.Context, w io.Writer) error {
	for _, f := range reports.Formats() {
		file := ""
		if slices.Contains(folderFormats, f.Name) {
			file = "in every result folder: " + f.File
		}
		if err := writeRows(w, []string{f.Name, f.Summary, file}); err != nil {
			return err
		}
	}
	return nil
}

func listBackends(_ context.Context, w io.Writer) error {
	for _, b := range backends.Table() {
		if err := writeRows(w, []string{b.Name(), b.Summary}); err != nil {
			return err
		}
	}
	return nil
}
