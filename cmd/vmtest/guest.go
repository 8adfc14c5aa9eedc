//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// What init writes to the results port around the output of the jobs.
const (
	markReady = "::vmtest ready"
	markBegin = "::vmtest begin"
	markEnd   = "::vmtest end"
	markDone  = "::vmtest done"
)

// outcome is what is known of a job.
type outcome struct {
	ended   bool
	code    int
	passed  int      // tests
	skipped []string // tests
}

// guest is a machine to be booted.
type guest struct {
	opt    options
	kernel *kernel
	initrd string
	out    io.Writer // what the jobs print
	log    io.Writer
}

// errNotUp says that the machine never came to init.
var errNotUp = errors.New("the guest did not come up")

// boot runs the guest until it turns itself off. One that does not come up is
// started again: with TCG now and then one dies while the kernel patches its
// own text, and /dev/kvm may open and yet not run this image.
func (g *guest) boot(ctx context.Context) (map[string]outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, g.opt.timeout)
	defer cancel()
	accels := []string{g.opt.accel}
	if g.opt.accel == "auto" {
		accels = []string{"tcg"}
		if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
			f.Close()
			accels = []string{"kvm", "tcg"}
		}
	}
	var err error
	for _, accel := range accels {
		tries := g.opt.boots
		if accel == "kvm" {
			tries = 1
		}
		for range tries {
			var got map[string]outcome
			if got, err = g.once(ctx, accel); !errors.Is(err, errNotUp) || ctx.Err() != nil {
				return got, err
			}
			fmt.Fprintf(g.log, "vmtest: %s: %v\n", accel, err)
		}
	}
	return nil, err
}

// patience is how long a guest may take until init runs.
var patience = map[string]time.Duration{"kvm": 20 * time.Second, "tcg": 2 * time.Minute}

// qemuArgs are those of a machine with nothing but two serial ports.
func (g *guest) qemuArgs(accel, console string) []string {
	if accel == "tcg" {
		accel = "tcg,thread=single"
	}
	return []string{"-machine", "q35", "-accel", accel, "-cpu", "max", "-smp", "2", "-m", strconv.Itoa(g.opt.memory),
		"-display", "none", "-no-reboot", "-nic", "none", "-monitor", "none",
		"-serial", "file:" + console, "-serial", "stdio",
		"-kernel", g.kernel.image, "-initrd", g.initrd,
		"-append", "console=ttyS0 panic=-1 mitigations=off tsc=reliable lsm=capability,bpf"}
}

func (g *guest) once(ctx context.Context, accel string) (map[string]outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	console := filepath.Join(filepath.Dir(g.initrd), "console-"+accel)
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", g.qemuArgs(accel, console)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (Debian has it in qemu-system-x86)", err)
	}
	late := time.AfterFunc(patience[accel], cancel)
	r := &results{out: g.out, jobs: map[string]outcome{}, ready: func() { late.Stop() }}
	r.read(pipe)
	late.Stop()
	if r.done {
		cancel() // it may hang in the power-off
	}
	err = cmd.Wait()
	switch {
	case r.done:
		return r.jobs, nil
	case !r.up:
		g.tail(console)
		return nil, fmt.Errorf("%w with %s: %v %s", errNotUp, accel, err, strings.TrimSpace(stderr.String()))
	}
	g.tail(console)
	return r.jobs, fmt.Errorf("the guest went away: %w %s", errors.Join(err, ctx.Err()), strings.TrimSpace(stderr.String()))
}

// tail shows the end of what the kernel said, or all of it with -v.
func (g *guest) tail(console string) {
	b, err := os.ReadFile(console)
	if err != nil {
		fmt.Fprintln(g.log, "vmtest:", err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if n := len(lines) - 25; n > 0 && !g.opt.verbose {
		lines = lines[n:]
	}
	for _, l := range lines {
		fmt.Fprintf(g.log, "console: %q\n", strings.TrimRight(l, "\r"))
	}
}

// results reads what comes over the results port.
type results struct {
	out   io.Writer
	jobs  map[string]outcome
	ready func()
	up    bool
	done  bool
	now   string // the job that runs
}

var testLine = regexp.MustCompile(`^\s*--- (PASS|SKIP|FAIL): (\S+)`)

func (r *results) read(from io.Reader) {
	s := bufio.NewScanner(from)
	s.Buffer(nil, 1<<20)
	for !r.done && s.Scan() {
		r.line(strings.TrimRight(s.Text(), "\r"))
	}
}

func (r *results) line(l string) {
	f := strings.Fields(l)
	switch {
	case l == markReady:
		r.up = true
		r.ready()
	case l == markDone:
		r.done = true
	case strings.HasPrefix(l, markBegin+" ") && len(f) == 3:
		r.now = f[2]
		r.jobs[r.now] = outcome{}
		fmt.Fprintf(r.out, "== %s\n", r.now)
	case strings.HasPrefix(l, markEnd+" ") && len(f) == 4:
		o := r.jobs[f[2]]
		code, err := strconv.Atoi(f[3])
		if err != nil {
			code = -1
		}
		o.ended, o.code = true, code
		r.jobs[f[2]] = o
		r.now = ""
	default:
		fmt.Fprintln(r.out, l)
		r.test(l)
	}
}

// test counts the line in which a test says how it ended.
func (r *results) test(l string) {
	m := testLine.FindStringSubmatch(l)
	if m == nil || r.now == "" {
		return
	}
	o := r.jobs[r.now]
	switch m[1] {
	case "PASS":
		o.passed++
	case "SKIP":
		o.skipped = append(o.skipped, m[2])
	}
	r.jobs[r.now] = o
}
