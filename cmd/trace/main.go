// Command trace says where the wall-clock time of an operation went: as named
// stages that add up to all of it. The commands live here, and nothing else:
// recording, analysis and reports are packages of their own.
package main

import (
	"context"
	"io"
	"os"

	"stagetrace/workloads"
)

func main() {
	// The builtin engine starts this program again as the process it measures:
	// such a start must not pay for the command line.
	if handled, code := workloads.Main(os.Args); handled {
		os.Exit(code)
	}
	if handled, code := truthMain(os.Args); handled {
		os.Exit(code)
	}
	limitMemory()
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program: it carries args out and returns the exit code. Results
// go to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, interrupted, release := withSignals(ctx, stderr, os.Exit)
	defer release()
	root := rootCommand(&terminal{out: stdout, err: stderr})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if code := interrupted(); code != 0 {
		if err != nil && !isCancelled(err) {
			complain(stderr, err)
		}
		return code
	}
	if err != nil {
		complain(stderr, err)
	}
	return exitCode(err)
}
