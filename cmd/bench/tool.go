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
	"path/filepath"
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

// beside is a system-wide tool that runs beside the load.
func beside(ready string, command ...string) func(context.Context, []string) (figures, error) {
	return func(ctx context.Context, argv []string) (f figures, err error) {
		err = during(ctx, io.Discard, ready, command, func() error {
			f, err = runLoad(ctx, argv)
			return err
		})
		return f, err
	}
}

// during does something while a system-wide tool is attached: it is when a line
// of its output contains ready or, where a tool says nothing (ready is ""), when
// it holds a BPF link. It ends with an interrupt. All that it prints after it was
// attached has been written to out when during returns.
func during(ctx context.Context, out io.Writer, ready string, command []string, do func() error) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PYTHONUNBUFFERED=1", "BPFTRACE_MAP_KEYS_MAX=65536")
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &errs
	err = cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		_ = r.Close() // nothing was read
		return err
	}
	said, read := make(chan bool, 1), make(chan struct{})
	go func() {
		scan(r, ready, said, out)
		close(read)
	}()
	failed := attached(ctx, cmd.Process.Pid, ready, said)
	if failed == nil {
		err = do()
	}
	err = errors.Join(err, interrupt(cmd))
	<-read
	_ = r.Close() // the tool is gone
	if failed != nil {
		err = errors.Join(fmt.Errorf("%s: %w: %s", command[0], failed, lastLine(errs.String())), err)
	}
	return err
}

// attached waits until a tool is.
func attached(ctx context.Context, pid int, ready string, said <-chan bool) error {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	patience := time.After(time.Minute)
	for {
		select {
		case ok := <-said:
			if !ok {
				return errors.New("it ended before it was attached")
			}
			return nil
		case <-look.C:
			if ready == "" && holdsLink(pid) {
				return nil
			}
		case <-patience:
			return errors.New("not attached after a minute")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// holdsLink tells that a process has attached a BPF program.
func holdsLink(pid int) bool {
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(fds)
	if err != nil {
		return false // it is gone, and said will tell
	}
	for _, fd := range list {
		if to, err := os.Readlink(filepath.Join(fds, fd.Name())); err == nil && strings.Contains(to, "bpf_link") {
			return true
		}
	}
	return false
}

// scan says when a line contains ready, if that is what to wait for, then
// copies the rest, so that the tool is never held up. It closes said at the end.
func scan(r io.Reader, ready string, said chan<- bool, out io.Writer) {
	defer close(said)
	in := bufio.NewReader(r)
	for ready != "" {
		line, err := in.ReadString('\n')
		if strings.Contains(line, ready) {
			said <- true
			break
		}
		if err != nil {
			return
		}
	}
	_, _ = io.Copy(out, in) // ends with the tool
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

// packages says which Debian package has a command.
var packages = map[string]string{"strace": "strace", "perf": "linux-perf", "bpftrace": "bpftrace", "offcputime": "libbpf-tools", "docker": "docker.io"}

// missing gives the reason why a command cannot be run, or "".
func missing(command string) string {
	if _, err := exec.LookPath(command); err != nil {
		return fmt.Sprintf("%s is not installed (Debian package %s)", command, packages[command])
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
	command, ready, why := offCPUCommand()
	return tool{name: "offcputime", why: why, around: beside(ready, command...)}
}

// offCPUCommand prefers libbpf-tools': bcc's needs kprobes. Only the latter
// says when it is ready.
func offCPUCommand() (command []string, ready, why string) {
	const python = "offcputime-bpfcc"
	if why = missing("offcputime"); why == "" {
		return []string{"offcputime"}, "", ""
	}
	if _, err := exec.LookPath(python); err == nil {
		return []string{python}, "Tracing off-CPU", ""
	}
	return nil, "", why
}
