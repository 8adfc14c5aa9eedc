//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"stagetrace/analysis/stats"
)

func threadID() int { return unix.Gettid() }

func median(values []float64) float64 { return stats.Median(values) }

// row is the figures of one tool on one load, a value per round.
type row struct {
	tool      *tool
	wall, cpu []float64 // ns per unit
	failed    string
}

func bench(ctx context.Context, opt options, out, progress io.Writer) error {
	owns, tools := openOwn(ctx)
	defer func() {
		for _, o := range owns {
			if err := o.session.Close(); err != nil {
				fmt.Fprintln(progress, "bench:", err)
			}
		}
	}()
	tools = append(tools, otherTools()...)
	if err := heading(out, opt); err != nil {
		return err
	}
	for _, t := range tools {
		if t.why != "" && chosen(opt.tools, t.name) {
			fmt.Fprintf(out, "not here: %s: %s\n", t.name, t.why)
		}
	}
	for _, l := range loads() {
		if !chosen(opt.loads, l.name) {
			continue
		}
		if l.wallOnly {
			undo, err := prepareDocker(ctx)
			if err != nil {
				fmt.Fprintf(out, "\n%s: left out: %v\n", l.name, err)
				continue
			}
			defer undo()
		}
		rows, err := measure(ctx, l, tools, opt, progress)
		if err != nil {
			return err
		}
		printRows(out, l, rows)
	}
	fmt.Fprintln(out)
	for _, o := range owns {
		if len(o.attached) > 0 {
			fmt.Fprintln(out, o.summary())
		}
	}
	return nil
}

func heading(w io.Writer, opt options) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	loadavg, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		loadavg = []byte("unknown")
	}
	_, err = fmt.Fprintf(w, "Linux %s, %d CPUs, load average %s; %d rounds, order rotated in every round\n",
		unix.ByteSliceToString(u.Release[:]), runtime.NumCPU(), strings.Join(strings.Fields(string(loadavg))[:1], ""), opt.rounds)
	return err
}

// measure runs a load once per round under nothing, under nothing again, and
// under every tool. The order is rotated, so that none is always the first
// after another.
func measure(ctx context.Context, l load, tools []tool, opt options, progress io.Writer) ([]*row, error) {
	rows := []*row{{tool: &tool{name: "nothing", around: alone}}, {tool: &tool{name: "nothing again (A/A)", around: alone}}}
	for i := range tools {
		if t := &tools[i]; t.why == "" && t.serves(l) && chosen(opt.tools, t.name) {
			rows = append(rows, &row{tool: t})
		}
	}
	for round := range opt.rounds {
		fmt.Fprintf(progress, "%s: round %d of %d\n", l.name, round+1, opt.rounds)
		for i := range rows {
			r := rows[(i+round)%len(rows)]
			if r.failed != "" {
				continue
			}
			argv, err := loadCommand(l, r.tool.stops, opt.scale)
			if err != nil {
				return nil, err
			}
			f, err := r.tool.around(ctx, argv)
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				r.failed = err.Error()
				continue
			}
			r.wall = append(r.wall, float64(f.WallNs)/float64(f.N))
			r.cpu = append(r.cpu, float64(f.CPUNs)/float64(f.N))
		}
	}
	if rows[0].failed != "" {
		return nil, fmt.Errorf("%s: %s", l.name, rows[0].failed)
	}
	return rows, nil
}

func loadCommand(l load, stops bool, scale float64) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	n := l.n
	if stops && l.most > 0 {
		n = l.most
	}
	n = max(1, int(float64(n)*scale))
	argv := []string{self}
	if l.pinned {
		argv = append(argv, hiddenPin, strconv.Itoa(runtime.NumCPU()-1))
	}
	return append(argv, hiddenLoad, l.name, strconv.Itoa(n)), nil
}

// printRows prints, for every tool, its figure of each round over that of
// nothing in the same round.
func printRows(w io.Writer, l load, rows []*row) {
	base := rows[0]
	fmt.Fprintf(w, "\n%s (%s): %s wall", l.name, l.unit, nanoseconds(median(base.wall)))
	if !l.wallOnly {
		fmt.Fprintf(w, ", %s CPU", nanoseconds(median(base.cpu)))
	}
	fmt.Fprintf(w, " with nothing attached\n  %-44s", "slowdown: median [95 % interval], min to max")
	if !l.wallOnly {
		fmt.Fprintf(w, "  %-34s", "CPU")
	}
	fmt.Fprintf(w, "  %-34s  n\n", "wall")
	for _, r := range rows[1:] {
		if r.failed != "" {
			fmt.Fprintf(w, "  %-44s  %s\n", r.tool.name, r.failed)
			continue
		}
		fmt.Fprintf(w, "  %-44s", r.tool.name)
		if !l.wallOnly {
			fmt.Fprintf(w, "  %-34s", ratios(r.cpu, base.cpu))
		}
		fmt.Fprintf(w, "  %-34s  %d\n", ratios(r.wall, base.wall), len(r.wall))
	}
	if l.wallOnly {
		fmt.Fprintln(w, "  Tools that start the load themselves see the client only, not the daemons.")
	}
}

func ratios(values, base []float64) string {
	var rs []float64
	for i := range min(len(values), len(base)) {
		if base[i] > 0 {
			rs = append(rs, values[i]/base[i])
		}
	}
	if len(rs) == 0 {
		return "-"
	}
	d := stats.Describe(rs)
	interval := "too few"
	if d.Lo != nil && d.Hi != nil {
		interval = fmt.Sprintf("%.2f..%.2f", *d.Lo, *d.Hi)
	}
	return fmt.Sprintf("%.2fx [%s] %.2f to %.2f", d.Median, interval, d.Min, d.Max)
}

func nanoseconds(ns float64) string {
	d := time.Duration(ns)
	if d > time.Microsecond {
		return d.Round(10 * time.Nanosecond).String()
	}
	return d.String()
}

// prepareDocker makes an image of bench itself: nothing is pulled.
func prepareDocker(ctx context.Context) (undo func(), err error) {
	if why := missing("docker"); why != "" {
		return nil, fmt.Errorf("%s", why)
	}
	ask, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ask, "docker", "version").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("no Docker daemon answers: %s", lastLine(string(out)))
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	if err := tw.WriteHeader(&tar.Header{Name: "bench", Mode: 0o755, Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := tw.Write(program); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	load := exec.CommandContext(ctx, "docker", "import", "-", dockerImage)
	load.Stdin = &layer
	if out, err := load.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("docker import: %w: %s", err, out)
	}
	return func() {
		// An image that cannot be removed is replaced by the next run.
		_ = exec.Command("docker", "image", "rm", "-f", dockerImage).Run()
	}, nil
}
