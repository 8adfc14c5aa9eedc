package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/reports"
	"stagetrace/tracer"
)

type reportOptions struct {
	format string
	out    string
	stages []string
	whatIf string
	wide   bool
}

func reportCommand(term *terminal) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report [flags] DIR...",
		Short: "Look at a result again, in another format or with other stages",
		Long: `Write the results of earlier runs in a format (trace list formats). With
--stages the recorded events are read again and their time is named by other
rules; nothing is measured again, and no privilege is needed.

--what-if replays the recorded operations with stages made shorter (0: free,
0.5: half as long), and says how long they would have taken and what they would
have waited for then: what ran beside a stage that is gone may come to the fore.`,
		Example: `  trace report DIR
  trace report DIR --format pprof --out wall.pb.gz
  trace report DIR --what-if 'net.*=0,io.fsync=0.5'
  trace report DIR --stages my.stages.yaml --format md`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%s takes at least one result folder", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return report(cmd.Context(), args, &o, term) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "table", "format to write (trace list formats)")
	flags.StringVarP(&o.out, "out", "o", "", "file to write to (default: stdout)")
	flags.StringArrayVar(&o.stages, "stages", nil, "stage file to use instead of the result's own (repeatable)")
	flags.StringVar(&o.whatIf, "what-if", "", "how long it would take if of stages only so much were left: net.*=0,io.fsync=0.5")
	flags.BoolVar(&o.wide, "wide", false, "every column and every row")
	return cmd
}

func report(ctx context.Context, args []string, o *reportOptions, term *terminal) error {
	f, err := reports.Lookup(o.format)
	if err != nil {
		return usageError{err}
	}
	if f.Binary && len(args) > 1 {
		return usagef("format %s takes one result folder, got %d", f.Name, len(args))
	}
	var inputs []*reports.Input
	for _, dir := range args {
		in, err := o.input(dir, f, term)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		in.Wide = o.wide
		inputs = append(inputs, in)
	}
	out := &output{format: f, file: o.out}
	if err := out.open(term); err != nil {
		return err
	}
	defer out.discard()
	for _, in := range inputs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := out.add(out.input(*in, term)); err != nil {
			return err
		}
	}
	return out.commit()
}

// input reads a result folder. The recording is touched only when it is
// needed.
func (o *reportOptions) input(dir string, f reports.Format, term *terminal) (*reports.Input, error) {
	s, err := readStored(dir)
	if err != nil {
		return nil, err
	}
	in := &reports.Input{Result: s.result}
	events, err := s.events()
	wanted := f.NeedsOperations || f.WantsOperations && err == nil
	if len(o.stages) == 0 && o.whatIf == "" && !wanted && !s.bare {
		return in, nil
	}
	if err != nil {
		return nil, err
	}
	set, err := o.set(s)
	if err != nil {
		return nil, err
	}
	facts, err := readFacts(events)
	if err != nil {
		return nil, err
	}
	opt := analysis.Options{Settle: tracer.Time(facts.SettleNs)}
	other := set.Hash != s.result.StageSet.Hash
	if other && len(o.stages) == 0 {
		fmt.Fprintf(term.err, "trace: %s was made with other rules for stages %s; its time is named by those of this version\n",
			printable(dir, false), printable(s.result.StageSet.Name, false))
	}
	if other || s.bare || o.whatIf != "" {
		sc, err := o.scenario(set)
		if err != nil {
			return nil, err
		}
		if in.Result, err = reanalyse(events, s.result, set, withWhatIf(opt, sc)); err != nil {
			return nil, err
		}
	}
	in.Operations = operations(events, set, opt)
	return in, nil
}

// scenario reads --what-if; nil without it.
func (o *reportOptions) scenario(set *stage.Set) (*analysis.Scenario, error) {
	if o.whatIf == "" {
		return nil, nil
	}
	sc, err := analysis.ParseScenario(set, o.whatIf)
	if err != nil {
		return nil, usagef("--what-if: %w", err)
	}
	return sc, nil
}

func (o *reportOptions) set(s *stored) (*stage.Set, error) {
	if len(o.stages) == 0 {
		return storedStages(s.dir, s.result)
	}
	return loadStages(o.stages, builtinSets(s.result))
}
