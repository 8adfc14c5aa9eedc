package workloads

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// httpLoading is a load that goes on.
type httpLoading struct {
	cmd  *exec.Cmd
	hold io.Closer
}

func (l *httpLoading) stop() error {
	_ = l.hold.Close() // it may be gone already
	if err := l.cmd.Wait(); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

// builtinLoad makes load in a process of its own, and waits for the report of
// its window. The load is nil when it is over.
func builtinLoad(ctx context.Context, l httpLoad) (*httpLoading, *httpReport, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, exe, httpCommand, "load", string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr, _ = groupAttr(nil)
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("load: %w", err)
	}
	loading := &httpLoading{cmd: cmd, hold: hold}
	var rep httpReport
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&rep); err != nil {
		_ = cmd.Process.Kill()
		_ = loading.stop() // it was killed
		return nil, nil, fmt.Errorf("report of the load: %w", err)
	}
	if l.Hold {
		return loading, &rep, nil
	}
	return nil, &rep, loading.stop()
}

// wrkLoad lets wrk make the load: whole seconds, one at least.
func wrkLoad(ctx context.Context, l httpLoad) (*httpLoading, *httpReport, error) {
	threads := max(1, runtime.NumCPU()/4)
	seconds := max(1, int(l.Window/time.Second))
	cmd := exec.CommandContext(ctx, "wrk", "-t", strconv.Itoa(threads), "-c", strconv.Itoa(max(threads, l.Connections)),
		"-d", fmt.Sprintf("%ds", seconds), "--latency", "http://"+l.Place.Addr+l.Place.Path)
	cmd.SysProcAttr, _ = groupAttr(nil)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("wrk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	rep, err := parseWrk(string(out))
	return nil, rep, err
}

var (
	wrkTotal   = regexp.MustCompile(`(?m)^\s*(\d+) requests in ([\d.]+\w+),`)
	wrkLatency = regexp.MustCompile(`(?m)^\s*(50|99)%\s+([\d.]+\w+)`)
	wrkStatus  = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkSockets = regexp.MustCompile(`Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
)

// parseWrk reads what wrk prints with --latency.
func parseWrk(text string) (*httpReport, error) {
	m := wrkTotal.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("wrk said no number of requests: %s", strings.TrimSpace(text))
	}
	var rep httpReport
	var err error
	if rep.Requests, err = strconv.Atoi(m[1]); err != nil {
		return nil, err
	}
	if rep.Took, err = time.ParseDuration(m[2]); err != nil {
		return nil, err
	}
	for _, m := range wrkLatency.FindAllStringSubmatch(text, -1) {
		d, err := time.ParseDuration(m[2])
		if err != nil {
			return nil, err
		}
		if m[1] == "50" {
			rep.P50 = d
		} else {
			rep.P99 = d
		}
	}
	bad := 0
	if m := wrkStatus.FindStringSubmatch(text); m != nil {
		bad, _ = strconv.Atoi(m[1]) // digits
	}
	rep.Errors, rep.Requests = bad, rep.Requests-bad
	if m := wrkSockets.FindStringSubmatch(text); m != nil {
		for _, n := range m[1:] {
			k, _ := strconv.Atoi(n) // digits
			rep.Errors += k
		}
	}
	return &rep, nil
}
