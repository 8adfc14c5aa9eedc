package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// CommandName is the name of the row and of its one target.
const CommandName = "command"

// CommandOptions say how a command is run. The hooks are lines for the shell;
// they are not measured, and an empty one is none.
type CommandOptions struct {
	Setup    string   // once, before anything is measured
	Prepare  string   // before every operation
	Conclude string   // after every operation
	Cleanup  string   // once, after the run, also when it failed
	Dir      string   // "": the current one
	Env      []string // nil: the environment of this process
	// The command's standard files; nil: the null device. They are inherited
	// and never copied through a pipe of ours, whose end a daemon that the
	// command leaves behind could hold open for ever.
	Stdin, Stdout, Stderr *os.File
}

// Command is an instance whose operation is running argv until it exits, from
// fork to the reaped child, without a shell in between.
//
// The command has a process group of its own (unless it reads from a terminal,
// which only the foreground group may). When ctx is cancelled the group gets
// SIGTERM, and SIGKILL if that does not help; on Linux the command also dies
// with us. What it leaves behind after a normal exit is reported as leftovers
// and left alone.
func Command(argv []string, opts CommandOptions) Instance {
	return &command{argv: argv, opts: opts}
}

type command struct {
	argv []string
	opts CommandOptions

	path    string
	attr    os.ProcAttr
	null    *os.File
	group   bool // attr makes a process group
	running atomic.Pointer[os.Process]
	unwatch func() bool
}

func (c *command) Setup(ctx context.Context) error {
	if len(c.argv) == 0 {
		return errors.New("no command given")
	}
	path, err := findProgram(c.argv[0], c.opts.Dir)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	c.path, c.null = path, null
	files := []*os.File{c.opts.Stdin, c.opts.Stdout, c.opts.Stderr}
	for i := range files {
		if files[i] == nil {
			files[i] = null
		}
	}
	env := c.opts.Env
	if env == nil {
		env = os.Environ()
	}
	c.attr = os.ProcAttr{Dir: c.opts.Dir, Env: env, Files: files}
	c.attr.Sys, c.group = groupAttr(files[0])
	return c.hook(ctx, "setup", c.opts.Setup, 0)
}

func (c *command) Prepare(ctx context.Context, op int) error {
	if err := c.hook(ctx, "prepare", c.opts.Prepare, op); err != nil {
		return err
	}
	// Here and not in Do, which is timed.
	c.unwatch = context.AfterFunc(ctx, func() { c.kill() })
	return nil
}

func (c *command) Do(ctx context.Context, _ int) (Outcome, error) {
	p, err := os.StartProcess(c.path, c.argv, &c.attr)
	if err != nil {
		return Outcome{}, startError(c.argv[0], err)
	}
	c.running.Store(p)
	if ctx.Err() != nil {
		c.kill() // cancelled before there was a process to kill
	}
	state, err := p.Wait()
	c.running.Store(nil)
	if c.group && ctx.Err() != nil {
		killGroup(p.Pid) // those of the group that the SIGTERM did not end
	}
	if err != nil {
		return Outcome{}, fmt.Errorf("wait for %s: %w", c.argv[0], err)
	}
	out := Outcome{Units: 1, ExitCode: exitCode(state), Metrics: rusage(state)}
	if c.group {
		out.Group = p.Pid
	}
	return out, nil
}

func (c *command) Conclude(ctx context.Context, op int, _ Outcome) error {
	c.stopWatching()
	return c.hook(ctx, "conclude", c.opts.Conclude, op)
}

func (c *command) Cleanup(ctx context.Context) error {
	c.stopWatching()
	err := c.hook(ctx, "cleanup", c.opts.Cleanup, 0)
	if c.null != nil {
		err = errors.Join(err, c.null.Close())
		c.null = nil
	}
	return err
}

func (c *command) stopWatching() {
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
}

func (c *command) kill() {
	if p := c.running.Load(); p != nil {
		killProcess(p, c.group, func() bool { return c.running.Load() == p })
	}
}

func (c *command) hook(ctx context.Context, name, line string, op int) error {
	if line == "" {
		return nil
	}
	return runHook(ctx, hook{name: name, line: line, op: op, dir: c.opts.Dir, env: c.opts.Env})
}

// findProgram is where a program is, or an error that names it. A relative
// path with a separator is relative to dir, where the command will be run.
func findProgram(name, dir string) (string, error) {
	if dir != "" && strings.ContainsRune(filepath.ToSlash(name), '/') && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, exec.ErrDot):
		return path, nil // the user named it
	case err != nil && !strings.ContainsRune(filepath.ToSlash(name), '/'):
		return "", fmt.Errorf("program %q: not in PATH: %w", name, exec.ErrNotFound)
	case err != nil:
		return "", startError(name, err)
	}
	return filepath.Abs(path)
}

// startError names the program and the cause, and nothing in between.
func startError(name string, err error) error {
	var pe *os.PathError
	var xe *exec.Error
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &xe):
		err = xe.Err
	}
	return fmt.Errorf("program %q: %w", name, err)
}
