package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"stagetrace/workloads"
)

// runOptions are the flags of trace run.
type runOptions struct {
	workload string
	targets  []string
	params   []string
	plan     workloads.Plan
	recording
	formats []string
	imports []string
	command workloads.CommandOptions
	show    bool
	argv    []string
}

// recording are the flags that every command that records has.
type recording struct {
	settle     time.Duration
	stages     []string
	uprobes    []string
	label      string
	out        string
	force      bool
	wide       bool
	sample     string
	sleepStack time.Duration
}

// Defaults. A command is measured as often as people are used to wait for;
// without a warm-up its first operation is measured too, and shown apart.
const (
	workloadWarmup, workloadRuns = 5, 30
	commandWarmup, commandRuns   = 0, 10

	defaultSettle     = 250 * time.Millisecond
	defaultSleepStack = 20 * time.Microsecond
	defaultSample     = "997"
	sampleOff         = "off"
	highestSampleRate = 50_000
)

const runHelp = `Run a workload, or any command after --, many times: some operations with
everything recorded, as many with nothing attached, in alternating blocks. The
end-to-end figures come from the untraced operations; the stages come from the
traced ones and add up to their wall time.

Several targets, or several values of a parameter, make a matrix that is
measured in one run, interleaved. Warm-up operations are not in the figures;
from them it is learnt which daemons take part.

What is printed goes into a result folder too, with result.json, pprof profiles
and the recorded events, which trace report reads again.`

func runCommand(term *terminal) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] [-- COMMAND [ARG]...]",
		Short: "Run a workload or a command and say where its time went",
		Long:  runHelp,
		Example: `  trace run --workload container-start
  trace run --workload container-start --target builtin,docker -p network=none,bridge --warmup 2 --runs 4
  trace run --warmup 1 --runs 10 -- git --version
  trace run --runs 5 --format json=result.json --out result -- make -s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.argv = args
			if err := o.check(cmd); err != nil {
				return err
			}
			return measureRun(cmd.Context(), &o, term)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.StringVar(&o.workload, "workload", "", "workload to run (trace list workloads)")
	flags.StringSliceVar(&o.targets, "target", nil, "targets that carry it out, comma-separated; all: every one that can (default: the first that can)")
	flags.StringArrayVarP(&o.params, "param", "p", nil, "set a parameter, NAME=VALUE[,VALUE]...; several values make a matrix")
	flags.IntVar(&o.plan.Warmup, "warmup", workloadWarmup, "warm-up operations per target (0 for a command)")
	flags.IntVar(&o.plan.Runs, "runs", workloadRuns, "traced operations per target (10 for a command)")
	flags.IntVar(&o.plan.Untraced, "untraced", 0, "untraced operations per target (default: as many as --runs)")
	flags.StringArrayVar(&o.formats, "format", nil, "also write this format, NAME[=FILE]; without a file: to stdout, instead of the table")
	flags.StringArrayVar(&o.imports, "import", nil, "set the figures of this file beside those of the run, marked: a result.json, or what hyperfine exports as JSON (repeatable)")
	flags.StringVar(&o.command.Setup, "setup", "", "shell command to run once before a command is measured")
	flags.StringVar(&o.command.Prepare, "prepare", "", "shell command to run before every operation of a command")
	flags.StringVar(&o.command.Conclude, "conclude", "", "shell command to run after every operation of a command")
	flags.StringVar(&o.command.Cleanup, "cleanup", "", "shell command to run once after a command was measured")
	flags.BoolVar(&o.show, "show-output", false, "let the command write to stderr, instead of nowhere")
	o.recording.flags(cmd)
	return cmd
}

func (r *recording) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&r.settle, "settle", defaultSettle, "how long late work is watched after the last operation of a traced block")
	flags.StringArrayVar(&r.stages, "stages", nil, "stage file whose stages come before the others (repeatable)")
	flags.StringArrayVar(&r.uprobes, "uprobe", nil, "record every call of a user function as a stage, FILE:FUNCTION; * matches any text (repeatable; each call costs microseconds)")
	flags.StringVar(&r.label, "label", "", "free text to keep in the result")
	flags.StringVar(&r.out, "out", "", "result folder (default: stagetrace-NAME-TIME in the current folder)")
	flags.BoolVar(&r.force, "force", false, "replace the result folder if there is one")
	flags.BoolVar(&r.wide, "wide", false, "every column and every row in the table")
	flags.StringVar(&r.sample, "sample", defaultSample, "CPU samples per second and CPU, or off")
	flags.DurationVar(&r.sleepStack, "sleep-stack", defaultSleepStack, "take the stack of sleeps at least this long; 0: of every sleep; negative: of none")
}

// period is the time between two samples, 0 for none.
func (r *recording) period() (time.Duration, error) {
	if r.sample == sampleOff {
		return 0, nil
	}
	hz, err := strconv.Atoi(r.sample)
	if err != nil || hz < 1 || hz > highestSampleRate {
		return 0, usagef("--sample %q: neither off nor 1 to %d samples per second", r.sample, highestSampleRate)
	}
	return time.Second / time.Duration(hz), nil
}

func (r *recording) check(cmd *cobra.Command) error {
	if r.settle < 0 {
		return usagef("--settle %s is negative", r.settle)
	}
	if cmd.Flags().Changed("out") && r.out == "" {
		return usagef("--out: empty path")
	}
	_, err := r.period()
	return err
}

// check refuses what makes no sense and fills in defaults that depend on it.
func (o *runOptions) check(cmd *cobra.Command) error {
	if err := o.recording.check(cmd); err != nil {
		return err
	}
	switch {
	case o.workload == "" && len(o.argv) == 0:
		return usagef("nothing to run: give --workload NAME or -- COMMAND")
	case o.workload != "" && o.workload != workloads.CommandName && len(o.argv) > 0:
		return usagef("both --workload %s and a command (%q)", o.workload, o.argv[0])
	case o.workload == workloads.CommandName && len(o.argv) == 0:
		return usagef("--workload %s needs -- COMMAND", o.workload)
	}
	if len(o.argv) > 0 {
		o.workload = workloads.CommandName
		if len(o.targets)+len(o.params) > 0 {
			return usagef("a command has no targets and no parameters")
		}
		o.commandDefaults(cmd)
	} else if name, hook := o.hook(); hook != "" || o.show {
		return usagef("--%s is for commands, not for workloads", name)
	}
	flags := cmd.Flags()
	if !flags.Changed("untraced") {
		o.plan.Untraced = o.plan.Runs
	}
	if o.plan.Warmup < 0 || o.plan.Runs < 0 || o.plan.Untraced < 0 {
		return usagef("--warmup, --runs and --untraced are counts")
	}
	if o.plan.Runs+o.plan.Untraced == 0 {
		return usagef("--runs 0 --untraced 0 measures nothing")
	}
	return nil
}

func (o *runOptions) commandDefaults(cmd *cobra.Command) {
	if !cmd.Flags().Changed("warmup") {
		o.plan.Warmup = commandWarmup
	}
	if !cmd.Flags().Changed("runs") {
		o.plan.Runs = commandRuns
	}
}

// hook gives the first hook that is set, with the name of its flag.
func (o *runOptions) hook() (flag, line string) {
	hooks := []struct{ flag, line string }{
		{"setup", o.command.Setup}, {"prepare", o.command.Prepare}, {"conclude", o.command.Conclude}, {"cleanup", o.command.Cleanup},
	}
	for _, h := range hooks {
		if h.line != "" {
			return h.flag, h.line
		}
	}
	return "show-output", ""
}

// paramValue is one parameter with the values it shall have, in order.
type paramValue struct {
	name   string
	values []string
}

// parseParams reads -p NAME=VALUE[,VALUE]...; a name given twice adds values.
func parseParams(args []string) ([]paramValue, error) {
	var list []paramValue
	at := map[string]int{}
	for _, a := range args {
		name, values, ok := strings.Cut(a, "=")
		if !ok || name == "" {
			return nil, usagef("-p %s: not NAME=VALUE", a)
		}
		i, again := at[name]
		if !again {
			i = len(list)
			at[name] = i
			list = append(list, paramValue{name: name})
		}
		for v := range strings.SplitSeq(values, ",") {
			if v == "" {
				return nil, usagef("-p %s: empty value", a)
			}
			list[i].values = append(list[i].values, v)
		}
	}
	return list, nil
}

// cases are all combinations of the values, with the name of each made from
// the parameters that have several.
func cases(list []paramValue) []paramCase {
	out := []paramCase{{given: map[string]string{}}}
	for _, p := range list {
		var next []paramCase
		for _, c := range out {
			for _, v := range p.values {
				given := map[string]string{p.name: v}
				for k, old := range c.given {
					given[k] = old
				}
				name := c.name
				if len(p.values) > 1 {
					name += "/" + v
				}
				next = append(next, paramCase{name: name, given: given})
			}
		}
		out = next
	}
	return out
}

type paramCase struct {
	name  string // "/bridge", or ""
	given map[string]string
}
