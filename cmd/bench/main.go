//go:build linux

// Command bench measures what tracing costs: the slowdown of trace and of
// other tools on loads of its own, interleaved in one run. Every load measures
// itself (wall clock, and CPU time of itself and its children), so that no
// tool's own start, stop or reading is in the figures. An A/A row, a second
// run with nothing attached, says beside every ratio how far two equal things
// lie apart on this machine.
//
// With -accuracy it asks another question: to how much of the wall time of one
// docker run do the tables of these tools add up?
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// options are the settings of a run.
type options struct {
	rounds int
	scale  float64 // of every load's size
	loads  string  // names, comma-separated; "": all
	tools  string
	trace  string // path of the binary; for accuracy
}

// The rounds when the flags do not say.
const usualRounds, fewRounds = 11, 3

func main() {
	if code, mine := runHidden(os.Args); mine {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var opt options
	quick := flags.Bool("quick", false, "small loads, 3 rounds: shows that everything runs, measures little")
	tables := flags.Bool("accuracy", false, "compare what the tools' tables of one docker run add up to with its wall time")
	flags.IntVar(&opt.rounds, "rounds", usualRounds, "rounds; each runs every load once under every tool (3 with -quick or -accuracy)")
	flags.Float64Var(&opt.scale, "scale", 1, "size of the loads (not with -quick)")
	flags.StringVar(&opt.loads, "loads", "", "only these loads, comma-separated: "+strings.Join(loadNames(), ", "))
	flags.StringVar(&opt.tools, "tools", "", "only tools whose name contains one of these, comma-separated")
	flags.StringVar(&opt.trace, "trace", "./trace", "the trace binary, for -accuracy")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "rounds" })
	if *tables && !given {
		opt.rounds = fewRounds
	}
	if *quick {
		opt.rounds, opt.scale = fewRounds, 0.1
	}
	if flags.NArg() > 0 || opt.rounds < 1 || opt.scale <= 0 {
		flags.Usage()
		return 2
	}
	do := bench
	if *tables {
		do = accuracy
	}
	if err := do(ctx, opt, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// chosen says whether a name is asked for by a comma-separated list of parts.
func chosen(list, name string) bool {
	if list == "" {
		return true
	}
	for part := range strings.SplitSeq(list, ",") {
		if part != "" && strings.Contains(name, part) {
			return true
		}
	}
	return false
}
