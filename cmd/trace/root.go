package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "devel"

// commands are the commands of trace, in the order of its help.
var commands = []func(*terminal) *cobra.Command{
	runCommand, attachCommand, reportCommand, viewCommand, compareCommand, listCommand, doctorCommand, versionCommand,
}

func rootCommand(term *terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "trace",
		Short: "Say where the wall-clock time of an operation went",
		Long: `trace runs an operation many times, records what the operating system did, and
prints a table of named stages that adds up to 100 % of the measured time.

Results go to stdout, everything else to stderr. Exit codes: 0 ok, 1 failed
(also: an operation failed, or a gate was exceeded), 2 wrong usage, 128+N ended
by signal N (what was measured until then is kept and marked).`,
		Example: `  trace run --workload container-start
  trace run --warmup 1 --runs 10 -- git --version
  trace report DIR --format md
  trace compare BASE NEW`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SuggestionsMinimumDistance = 2
	for _, c := range commands {
		root.AddCommand(c(term))
	}
	return root
}

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s", text)
}

// exactly and noArgs are the cobra checks of the same meaning as usage errors.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no argument, got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func versionCommand(term *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(term.out, "trace %s %s %s/%s\n", toolVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// toolVersion is the linker's version, or what the module system knows.
func toolVersion() string {
	if version != "devel" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return version
}
