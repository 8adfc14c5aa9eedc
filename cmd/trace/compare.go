package main

import (
	"fmt"
	"math"
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
		Long: `Compare two results end to end and stage by stage; the stages add up to the
difference. With --gate the exit code is 1 when something grew by more than its
limit and the difference is not chance: the wall time (5%, or total=5%) or a
stage (netns.cleanup=10%). Where there are too few operations to tell, it says
so and the exit code is 0.`,
		Example: `  trace compare BASE NEW --gate 5%
  trace compare BASE NEW --gate total=5%,netns.cleanup=10%`,
		Args: exactly(2, "two results"),
		RunE: func(_ *cobra.Command, args []string) error {
			return compare(args[0], args[1], &o, term)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "table", "table, md, html or json")
	flags.StringVar(&o.gate, "gate", "", "fail when the wall time or a stage grew by more than this: 5%, or total=5%,STAGE=10%")
	flags.BoolVar(&o.wide, "wide", false, "every stage, also without a difference")
	return cmd
}

func compare(base, changed string, o *compareOptions, term *terminal) error {
	format, err := compareFormat(o.format)
	if err != nil {
		return err
	}
	limits, err := parseGate(o.gate)
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
	out, width := term.screen()
	in := &reports.Input{ASCII: ascii(), Wide: o.wide, Width: width}
	if err := format.Write(out, c, in); err != nil {
		return err
	}
	return gate(c, limits, term)
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

// parseGate reads limits: SHARE or NAME=SHARE, comma-separated; a share is 5% or
// 0.05.
func parseGate(text string) ([]analysis.Limit, error) {
	if text == "" {
		return nil, nil
	}
	var limits []analysis.Limit
	seen := map[string]bool{}
	for one := range strings.SplitSeq(text, ",") {
		l := analysis.Limit{Name: analysis.GateTotal}
		share := one
		if name, rest, ok := strings.Cut(one, "="); ok {
			l.Name, share = name, rest
		}
		number, percent := strings.CutSuffix(share, "%")
		v, err := strconv.ParseFloat(number, 64)
		if percent {
			v /= 100
		}
		if err != nil || !(v >= 0 && v < 1000) || l.Name == "" {
			return nil, usagef("--gate %q: %q is not a limit such as 5%% or netns.cleanup=10%%", text, one)
		}
		if seen[l.Name] {
			return nil, usagef("--gate %q: two limits for %s", text, l.Name)
		}
		seen[l.Name] = true
		l.Share = v
		limits = append(limits, l)
	}
	return limits, nil
}

// gate fails when a limit is exceeded by a difference that is not chance. What
// cannot be told is said, and fails nothing.
func gate(c *analysis.Comparison, limits []analysis.Limit, term *terminal) error {
	if len(limits) == 0 {
		return nil
	}
	if len(c.Targets) == 0 {
		return usagef("--gate: the results have nothing in common to compare")
	}
	var over []string
	for _, g := range c.Gate(limits) {
		what := fmt.Sprintf("%s of %s", g.Limit.Name, printable(g.Target, false))
		switch {
		case g.Absent:
			fmt.Fprintf(term.err, "gate: neither result has a stage %s\n", printable(g.Limit.Name, false))
		case g.Failed:
			over = append(over, fmt.Sprintf("%s %s (limit %.3g %%, p = %.2g)", what, grew(g.Growth), 100*g.Limit.Share, *g.PValue))
		case g.Untold:
			fmt.Fprintf(term.err, "gate: cannot tell whether %s grew by more than %.3g %%: too few operations\n", what, 100*g.Limit.Share)
		}
	}
	if len(over) > 0 {
		return fmt.Errorf("gate exceeded: %s", strings.Join(over, "; "))
	}
	return nil
}

func grew(by float64) string {
	if math.IsInf(by, 1) {
		return "is new"
	}
	return fmt.Sprintf("grew by %.1f %%", 100*by)
}
