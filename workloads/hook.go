package workloads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"
)

// hook is a shell line that is run around operations.
type hook struct {
	name string // setup, prepare, conclude, cleanup
	line string
	op   int // 0: not of one operation
	dir  string
	env  []string
}

const (
	hookTailBytes = 2048 // of its output that an error shows
	hookTailLines = 10
)

// runHook runs the line in the shell until it exits. Its output goes to a
// file, not through a pipe: a hook may well start a daemon.
func runHook(ctx context.Context, h hook) error {
	out, err := os.CreateTemp("", "stagetrace-hook-")
	if err != nil {
		return fmt.Errorf("%s command: %w", h.name, err)
	}
	defer os.Remove(out.Name())
	defer out.Close()

	argv := []string{"/bin/sh", "-c", h.line}
	if runtime.GOOS == "windows" {
		argv = []string{"cmd", "/C", h.line}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = h.dir, out, out
	cmd.Env = h.env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	if h.op > 0 {
		cmd.Env = append(cmd.Env, "TRACE_OPERATION="+strconv.Itoa(h.op))
	}
	var group bool
	cmd.SysProcAttr, group = groupAttr(nil)
	ended := make(chan struct{})
	cmd.Cancel = func() error {
		killProcess(cmd.Process, group, func() bool {
			select {
			case <-ended:
				return false
			default:
				return true
			}
		})
		return nil
	}
	cmd.WaitDelay = 2 * killPatience
	// The hook dies with the thread that started it (see groupAttr).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	close(ended)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return hookError(h, err, tail(out))
}

func hookError(h hook, err error, output string) error {
	where := ""
	if h.op > 0 {
		where = fmt.Sprintf(" of operation %d", h.op)
	}
	var xe *exec.ExitError
	if errors.As(err, &xe) {
		err = &ExitError{Code: exitCode(xe.ProcessState)}
	}
	if output == "" {
		return fmt.Errorf("%s command%s (%s): %w, without output", h.name, where, h.line, err)
	}
	return fmt.Errorf("%s command%s (%s): %w; its output ends:\n%s", h.name, where, h.line, err, output)
}

// tail is the last lines of a file.
func tail(f *os.File) string {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	b := make([]byte, min(size, hookTailBytes))
	n, err := f.ReadAt(b, size-int64(len(b)))
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	lines := bytes.Split(bytes.TrimRight(b[:n], "\r\n"), []byte("\n"))
	if cut := len(lines) - hookTailLines; cut > 0 {
		lines = lines[cut:]
	}
	return string(bytes.ToValidUTF8(bytes.Join(lines, []byte("\n")), []byte("\uFFFD")))
}

// killPatience is how long a process has between SIGTERM and SIGKILL.
const killPatience = 3 * time.Second
