package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"stagetrace/analysis"
	"stagetrace/reports"
)

type compareOptions struct {
	format string
	gate   string
	wide   bool
}

func compareCommand(term *terminal) *cobra.Command {
	var o compareOptions
	cmd := &cobra.Command{
		Use:   "compare [flags] BASE NEW",
		Short: "Say whether one result is slower than another, and in which stage",
		Long: `Compare two results end to end and stage by stage. With --gate the exit code is
1 when the new one is slower by more than the limit and the difference is not
chance.`,
		Example: "  trace compare BASE NEW --gate 5%",
		Args:    exactly(2, "two results"),
		RunE: func(_ *cobra.Command, args []string) error {
			return compare(args[0], args[1], &o, term)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "table", "table or json")
	flags.StringVar(&o.gate, "gate", "", "fail when the wall time grew by more than this, such as 5%")
	flags.BoolVar(&o.wide, "wide", false, "every stage, also without a difference")
	return cmd
}

func compare(base, changed string, o *compareOptions, term *terminal) error {
	format, err := compareFormat(o.format)
	if err != nil {
		return err
	}
	limit, err := parseGate(o.gate)
	if err != nil {
		return err
	}
	var sides [2]*analysis.Result
	for i, where := range []string{base, changed} {
		if sides[i], err = reports.ReadResult(where); err != nil {
			return err
		}
	}
	c := analysis.Compare(sides[0], sides[1])
	in := &reports.Input{ASCII: ascii(), Wide: o.wide}
	if !plain() {
		in.Width = columns(term.out)
	}
	if err := format.Write(term.out, c, in); err != nil {
		return err
	}
	if o.gate == "" {
		return nil
	}
	return gate(c, limit)
}

func compareFormat(name string) (reports.CompareFormat, error) {
	var names []string
	for _, f := range reports.CompareFormats() {
		if f.Name == name || f.Name == "table" && name == "text" {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return reports.CompareFormat{}, usagef("unknown format %q; compare writes %s", name, strings.Join(names, ", "))
}

// parseGate reads 5% or 0.05 as a share.
func parseGate(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1000) {
		return 0, usagef("--gate %q: not a share such as 5%%", text)
	}
	return v, nil
}

// gate fails for every target that is slower by more than the limit, if the
// difference is significant.
func gate(c *analysis.Comparison, limit float64) error {
	var over []string
	for i := range c.Targets {
		t := &c.Targets[i]
		if w := &t.Wall; w.Significant && w.Ratio != nil && *w.Ratio > 1+limit {
			over = append(over, fmt.Sprintf("%s is %.1f %% slower", t.New, 100*(*w.Ratio-1)))
		}
	}
	if len(over) > 0 {
		return fmt.Errorf("gate of %.3g %% exceeded: %s", 100*limit, strings.Join(over, "; "))
	}
	return nil
}
