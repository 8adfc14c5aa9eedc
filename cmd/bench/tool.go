//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// tool is something that slows loads down.
type tool struct {
	name  string
	why   string   // it is not here: why; else ""
	only  []string // loads it is for; nil: all
	stops bool     // it stops the process at every system call
	// around carries out the load, given as a command line, under the tool.
	around func(ctx context.Context, argv []string) (figures, error)
}

func (t *tool) serves(l load) bool {
	if len(t.only) == 0 {
		return true
	}
	for _, name := range t.only {
		if name == l.name {
			return true
		}
	}
	return false
}

// alone is the baseline and the A/A row: nothing is attached.
func alone(ctx context.Context, argv []string) (figures, error) { return runLoad(ctx, argv) }

// wrapped is a tool that starts the load itself.
func wrapped(prefix ...string) func(context.Context, []string) (figures, error) {
	return func(ctx context.Context, argv []string) (figures, error) {
		return runLoad(ctx, append(append([]string{}, prefix...), argv...))
	}
}

// runLoad runs a command line that ends in a load and reads what it prints.
func runLoad(ctx context.Context, argv []string) (figures, error) {
	var f figures
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("%s: %w: %s", argv[0], err, lastLine(errs.String()))
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &f) == nil && f.N > 0 {
			return f, nil
		}
	}
	return f, fmt.Errorf("%s: the load printed no figures", argv[0])
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// beside is a system-wide tool that runs beside the load. It is attached when
// a line of its output contains ready, and ends with an interrupt.
func beside(ready string, command ...string) func(context.Context, []string) (figures, error) {
	return func(ctx context.Context, argv []string) (f figures, err error) {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
		r, w, err := os.Pipe()
		if err != nil {
			return f, err
		}
		cmd.Stdout, cmd.Stderr = w, w
		err = cmd.Start()
		_ = w.Close() // the child has its own
		if err != nil {
			_ = r.Close() // nothing was read
			return f, err
		}
		lines := make(chan string, 1)
		go scan(r, ready, lines)
		defer func() {
			err = errors.Join(err, interrupt(cmd))
			_ = r.Close() // the tool is gone
		}()
		select {
		case line, ok := <-lines:
			if !ok {
				return f, fmt.Errorf("%s ended before it was attached", command[0])
			}
			if !strings.Contains(line, ready) {
				return f, fmt.Errorf("%s: %s", command[0], line)
			}
		case <-time.After(time.Minute):
			return f, fmt.Errorf("%s: not attached after a minute", command[0])
		case <-ctx.Done():
			return f, ctx.Err()
		}
		return runLoad(ctx, argv)
	}
}

// scan sends the first line that contains ready, then reads on so that the
// tool is never held up.
func scan(r io.Reader, ready string, lines chan<- string) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if strings.Contains(line, ready) {
			lines <- line
			break
		}
		if err != nil {
			close(lines)
			return
		}
	}
	_, _ = io.Copy(io.Discard, in) // ends with the tool
}

// interrupt ends a tool as Ctrl-C does; one that does not go is killed.
func interrupt(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	patience := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer patience.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// missing gives the reason why a command cannot be run, or "".
func missing(command string) string {
	if _, err := exec.LookPath(command); err != nil {
		return command + " is not installed"
	}
	return ""
}

// The scripts that people write for these questions.
const (
	countScript = `BEGIN { printf("ready\n"); }
tracepoint:sched:sched_switch { @switches[args->prev_comm] = count(); }
tracepoint:sched:sched_waking { @wakes[args->comm] = count(); }
tracepoint:raw_syscalls:sys_enter { @begun[tid] = nsecs; }
tracepoint:raw_syscalls:sys_exit /@begun[tid]/ { @ns[args->id] = sum(nsecs - @begun[tid]); delete(@begun[tid]); }`
	offCPUScript = `BEGIN { printf("ready\n"); }
tracepoint:sched:sched_switch {
  if (args->prev_state != 0) { @since[args->prev_pid] = nsecs; @where[args->prev_pid] = kstack; }
  $t = @since[args->next_pid];
  if ($t != 0) { @us[@where[args->next_pid], args->next_comm] = sum((nsecs - $t) / 1000); delete(@since[args->next_pid]); delete(@where[args->next_pid]); }
}`
)

// otherTools are the tools of others, present or not.
func otherTools() []tool {
	tools := []tool{
		{name: "strace -f -c", why: missing("strace"), stops: true, around: wrapped("strace", "-f", "-c", "-o", "/dev/null")},
		{name: "perf trace -s", why: missing("perf"), stops: true, around: wrapped("perf", "trace", "-s", "-o", "/dev/null", "--")},
		{name: "bpftrace sched+syscalls", why: missing("bpftrace"), around: beside("ready", "bpftrace", "-B", "none", "-e", countScript)},
		{name: "bpftrace off-CPU stacks", why: missing("bpftrace"), around: beside("ready", "bpftrace", "-B", "none", "-e", offCPUScript)},
	}
	return append(tools, offCPUTime())
}

// offCPUTime is libbpf-tools' or bcc's offcputime.
func offCPUTime() tool {
	t := tool{name: "offcputime", why: missing("offcputime")}
	command := []string{"offcputime"}
	if t.why != "" && missing("offcputime-bpfcc") == "" {
		t.why, command = "", []string{"offcputime-bpfcc"}
	}
	if missing("stdbuf") == "" {
		command = append([]string{"stdbuf", "-oL"}, command...)
	}
	t.around = beside("Tracing off-CPU", command...)
	return t
}
