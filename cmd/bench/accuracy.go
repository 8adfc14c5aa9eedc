//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"stagetrace/analysis/stats"
)

// reading is what one tool's table says about one run of a command: the time
// that all its rows add up to, and how long the run took by the clock. Under a
// tool that starts the command itself, the run is the tool's, start and end
// included.
type reading struct{ total, wall time.Duration }

// teller is a tool whose table claims to tell where the time of a command went.
type teller struct {
	name string
	why  string // it is not here: why; else ""
	tell func(ctx context.Context, argv []string) (reading, error)
}

// tellers is the table of tools that are asked. trace is the path of its
// binary.
func tellers(trace string) []teller {
	offCPU, ready, noOffCPU := offCPUCommand()
	return []teller{
		{"strace -f -c -w", missing("strace"), tellWrapped(straceTotal, "strace", "-f", "-c", "-w")},
		{"strace -f -c", missing("strace"), tellWrapped(straceTotal, "strace", "-f", "-c")},
		{"perf trace -s", missing("perf"), tellWrapped(perfTotal, "perf", "trace", "-s")},
		{"offcputime (docker, containerd, runc)", noOffCPU, tellBeside(offCPUTotal, ready, offCPU...)},
		{"bpftrace off-CPU stacks (of the same)", missing("bpftrace"), tellBeside(bpftraceTotal, "ready", "bpftrace", "-e", offCPUScript)},
		{ownTeller, noTrace(trace), tellOwn(trace)},
	}
}

const ownTeller = "trace run"

func noTrace(path string) string {
	if _, err := exec.LookPath(path); err != nil {
		return fmt.Sprintf("no program %s: build it with make, or say where it is with -trace", path)
	}
	return ""
}

// accuracy asks every tool, in a rotated order, about opt.rounds runs of one
// docker run each and prints what their tables add up to. It is an error when
// the stages of trace do not add up to the wall time to the nanosecond.
func accuracy(ctx context.Context, opt options, out, progress io.Writer) error {
	undo, err := prepareDocker(ctx)
	if err != nil {
		return err
	}
	defer undo()
	if err := heading(out, opt); err != nil {
		return err
	}
	argv := []string{"docker", "run", "--rm", dockerImage, "/bench", hiddenTrue}
	all := tellers(opt.trace)
	readings, failed := make([][]reading, len(all)), make([]string, len(all))
	for round := range opt.rounds {
		fmt.Fprintf(progress, "accuracy: round %d of %d\n", round+1, opt.rounds)
		for i := range all {
			i = (i + round) % len(all)
			t := &all[i]
			if t.why != "" || failed[i] != "" || !chosen(opt.tools, t.name) {
				continue
			}
			r, err := t.tell(ctx, argv)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failed[i] = err.Error()
				continue
			}
			readings[i] = append(readings[i], r)
		}
	}
	fmt.Fprintf(out, "\n%s\n  %-40s%16s%16s%16s  n\n", strings.Join(argv, " "), "", "table total", "wall", "total / wall")
	for i := range all {
		if chosen(opt.tools, all[i].name) {
			err = errors.Join(err, printReading(out, &all[i], readings[i], failed[i]))
		}
	}
	return err
}

// printReading prints the medians of a tool's readings, or why there are none.
func printReading(out io.Writer, t *teller, rs []reading, failed string) error {
	if why := t.why + failed; why != "" {
		fmt.Fprintf(out, "  %-40s  %s\n", t.name, why)
		if t.name == ownTeller {
			return fmt.Errorf("%s: %s", t.name, why)
		}
		return nil
	}
	var totals, walls, ratios []float64
	for _, r := range rs {
		if t.name == ownTeller && r.total != r.wall {
			return fmt.Errorf("%s: its stages add up to %s, the operation took %s", t.name, r.total, r.wall)
		}
		totals, walls = append(totals, float64(r.total)), append(walls, float64(r.wall))
		ratios = append(ratios, 100*float64(r.total)/float64(r.wall))
	}
	ms := func(v []float64) string { return fmt.Sprintf("%.1f ms", stats.Median(v)/1e6) }
	_, err := fmt.Fprintf(out, "  %-40s%16s%16s%16s  %d\n", t.name, ms(totals), ms(walls), fmt.Sprintf("%.2f %%", stats.Median(ratios)), len(rs))
	return err
}

// tellWrapped asks a tool that starts the command itself and writes its table
// to the file that -o names.
func tellWrapped(total func([]byte) (time.Duration, error), tool ...string) func(context.Context, []string) (reading, error) {
	return func(ctx context.Context, argv []string) (r reading, err error) {
		return inFolder(func(dir string) (reading, error) {
			table := filepath.Join(dir, "table")
			command := append(append(append([]string{}, tool...), "-o", table, "--"), argv...)
			if r.wall, err = timed(ctx, command); err != nil {
				return r, err
			}
			text, err := os.ReadFile(table)
			if err != nil {
				return r, err
			}
			if r.total, err = total(text); err != nil {
				return r, fmt.Errorf("%s: %w", strings.Join(tool, " "), err)
			}
			return r, nil
		})
	}
}

// tellBeside asks a system-wide tool that prints its table when it is
// interrupted.
func tellBeside(total func([]byte) (time.Duration, error), ready string, tool ...string) func(context.Context, []string) (reading, error) {
	return func(ctx context.Context, argv []string) (r reading, err error) {
		var table bytes.Buffer
		err = during(ctx, &table, ready, tool, func() error {
			r.wall, err = timed(ctx, argv)
			return err
		})
		if err != nil {
			return r, err
		}
		if r.total, err = total(table.Bytes()); err != nil {
			return r, fmt.Errorf("%s: %w", tool[0], err)
		}
		return r, nil
	}
}

// tellOwn asks trace: one recorded operation, and what its result.json says.
func tellOwn(path string) func(context.Context, []string) (reading, error) {
	return func(ctx context.Context, argv []string) (r reading, err error) {
		return inFolder(func(dir string) (reading, error) {
			folder := filepath.Join(dir, "result")
			command := append([]string{path, "run", "--runs", "1", "--untraced", "0", "--out", folder, "--"}, argv...)
			if _, err = timed(ctx, command); err != nil {
				return r, err
			}
			text, err := os.ReadFile(filepath.Join(folder, "result.json"))
			if err != nil {
				return r, err
			}
			return resultReading(text)
		})
	}
}

// inFolder does something with a folder that lasts as long.
func inFolder(do func(dir string) (reading, error)) (r reading, err error) {
	dir, err := os.MkdirTemp("", "bench-accuracy-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}

// timed runs a command and says how long it took.
func timed(ctx context.Context, argv []string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", argv[0], err, lastLine(errs.String()))
	}
	return time.Since(begin), nil
}

// resultReading takes the one operation of a result.json.
func resultReading(text []byte) (r reading, err error) {
	var result struct {
		Operations []struct {
			WallNs int64 `json:"wall_ns"`
			Stages []struct {
				Ns int64 `json:"ns"`
			} `json:"stages"`
		} `json:"operations"`
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return r, fmt.Errorf("result.json: %w", err)
	}
	if n := len(result.Operations); n != 1 {
		return r, fmt.Errorf("result.json: %d operations, not 1", n)
	}
	op := &result.Operations[0]
	r.wall = time.Duration(op.WallNs)
	for _, s := range op.Stages {
		r.total += time.Duration(s.Ns)
	}
	return r, nil
}
