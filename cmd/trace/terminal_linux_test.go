package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/sys/unix"

	"stagetrace/analysis"
	"stagetrace/reports"
	"stagetrace/tracer/tracetest"
)

// onTerminal runs trace on a terminal of so many columns and returns all that
// the terminal was sent, and the exit code. The environment is that of a login
// shell, changed by env.
func onTerminal(t *testing.T, cols int, env []string, args ...string) (sent string, code int) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal to be had: %v", err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	defer master.Close()
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: uint16(cols)})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=/", "TERM=xterm-256color", "LC_ALL=C.UTF-8"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, master) // ends with EIO, when the last user of the terminal is gone
		read <- b.String()
	}()
	_ = cmd.Wait() // the exit code says it
	return <-read, cmd.ProcessState.ExitCode()
}

// terminalNames are names that break layouts.
var terminalNames = []string{"plain", "日本語のコンテナ実行環境とても長い名前の対象です", "e\u0301\u0301\u0301\u0301\u0301\u0301\u0301", "\u0301leading mark", "\x1b[31mRED\x1b[2J\x1b]0;title\a",
	"two\r\nlines\ttab", "\u202eright to left\u2066", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f", "\xff\xfe\x9b31m", strings.Repeat("long-", 60), "\u3164\u115f\u200b"}

// hostileResult is a folder whose result has these names everywhere.
func hostileResult(t *testing.T) string {
	t.Helper()
	r := &analysis.Result{Tool: "test", Label: terminalNames[4], Workload: terminalNames[1], Command: terminalNames, Params: map[string]string{terminalNames[6]: terminalNames[9]},
		Host: analysis.Host{Name: terminalNames[7], CPU: terminalNames[1]}, Warnings: []analysis.Warning{{ID: "x", Text: strings.Join(terminalNames, " "), Hint: terminalNames[9]}},
		Totals: analysis.Totals{Incomplete: true, LostEvents: 3}}
	for _, target := range terminalNames {
		d := analysis.Distribution{N: 30, Median: 48.9e6, P95: 66e6, P99: 77e6, Min: 40e6, Max: 77e6, Mean: 50e6}
		lo, hi := 43.7e6, 55.3e6
		d.Lo, d.Hi = &lo, &hi
		s := analysis.Summary{Target: target, N: 30, Wall: d, Untraced: true, Traced: d, Overhead: &analysis.Overhead{Ratio: 1.04, Lo: &lo, Hi: &hi}}
		for i, name := range terminalNames {
			s.Stages = append(s.Stages, analysis.StageSummary{Name: name, Title: name, Median: 4e6, Mean: 4.5e6, Lo: &lo, Hi: &hi, Share: []float64{0.6, 0.04}[min(i, 1)], RunningNs: 1e6, RunnableNs: 1e6,
				BlockedNs: 2e6, OffPathNs: float64(i) * 1e6, Count: 3, Waits: map[string]int64{name: 2e6, "rcu.barrier": 1e6}})
			s.OffPath = append(s.OffPath, analysis.StageSummary{Name: name, Median: 1e6, CPUNs: 1e5, AfterEndNs: 3e5, Count: 2})
		}
		r.Summary = append(r.Summary, s)
	}
	dir := t.TempDir()
	f, err := reports.Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, &reports.Input{Result: r}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "result.json"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

var sgr = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// checkScreen fails for a line that is longer than the terminal is wide, and
// for anything sent to it but text and colours.
func checkScreen(t *testing.T, cols int, sent string) {
	t.Helper()
	for line := range strings.SplitSeq(strings.ReplaceAll(sent, "\r\n", "\n"), "\n") {
		text := sgr.ReplaceAllString(line, "")
		if w := ansi.StringWidth(text); w > cols {
			t.Errorf("a line of %d cells on %d columns: %q", w, cols, line)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e || r == 0x200b }); i >= 0 {
			t.Errorf("control characters: %q", line)
		}
	}
}

// Tables fit the terminal, whatever the names are; wide ones use it.
func TestTerminalTables(t *testing.T) {
	dir := hostileResult(t)
	for _, c := range []struct {
		name    string
		env     []string
		colours bool
		full    string // of a bar
	}{
		{"colours", nil, true, "█"},
		{"few colours", []string{"TERM=xterm"}, true, "█"},
		{"NO_COLOR", []string{"NO_COLOR=1"}, false, "█"},
		{"dumb", []string{"TERM=dumb"}, false, "█"},
		{"dumb, and said to be able", []string{"TERM=dumb", "COLORTERM=truecolor"}, false, "█"},
		{"not UTF-8", []string{"LC_ALL=C"}, true, "#"},
		{"no locale", []string{"LC_ALL="}, true, "#"},
	} {
		t.Run(c.name, func(t *testing.T) {
			widest := map[int]int{}
			for _, cols := range []int{80, 160} {
				sent, code := onTerminal(t, cols, c.env, "report", dir)
				if code != 0 {
					t.Fatalf("exit code %d: %s", code, sent)
				}
				checkScreen(t, cols, sent)
				if strings.Contains(sent, "\x1b") != c.colours {
					t.Errorf("%d columns: escape sequences are %v", cols, !c.colours)
				}
				if cols == 160 && !strings.Contains(sent, c.full) {
					t.Errorf("no bars of %s", c.full)
				}
				for line := range strings.Lines(sgr.ReplaceAllString(sent, "")) {
					widest[cols] = max(widest[cols], ansi.StringWidth(strings.TrimSpace(line)))
				}
			}
			if widest[160] <= 100 {
				t.Errorf("of 160 columns %d are used", widest[160])
			}
		})
	}
}

// --wide shows the rows and columns that are left out otherwise.
func TestTerminalWide(t *testing.T) {
	dir := hostileResult(t)
	short, _ := onTerminal(t, 80, nil, "report", dir)
	wide, code := onTerminal(t, 80, nil, "report", "--wide", dir)
	if code != 0 || len(wide) < len(short) {
		t.Errorf("exit code %d, %d bytes, %d without --wide", code, len(wide), len(short))
	}
	checkScreen(t, 80, short)
}

// What is not text does not go to a terminal, by whatever name.
func TestTerminalRefusesBinary(t *testing.T) {
	dir := hostileResult(t)
	events := filepath.Join(dir, eventsFile)
	if err := os.WriteFile(events, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range reports.Formats() {
		if !f.Binary {
			continue
		}
		for _, where := range []string{"", "-", "/dev/stdout", "/dev/tty", "/dev/stderr"} {
			args := []string{"report", dir, "--format", f.Name}
			if where != "" {
				args = append(args, "--out", where)
			}
			sent, code := onTerminal(t, 80, nil, args...)
			if code == 0 || strings.ContainsAny(strings.ReplaceAll(sent, "\r\n", ""), "\x00\x1b\x1f") {
				t.Errorf("%s to %q: exit code %d, %q", f.Name, where, code, sent)
			}
		}
	}
}

// Lists fit the terminal, and nothing of them is cut off.
func TestTerminalLists(t *testing.T) {
	for _, what := range []string{"workloads", "targets", "stages", "formats", "backends"} {
		for _, cols := range []int{80, 160} {
			sent, code := onTerminal(t, cols, nil, "list", what)
			if code != 0 {
				t.Errorf("%s: exit code %d", what, code)
			}
			checkScreen(t, cols, sent)
		}
	}
	sent, _ := onTerminal(t, 80, nil, "doctor") // it may have something to find
	checkScreen(t, 80, sent)
}

func TestWrapLine(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"short", "short\n"},
		{"name  what it is in a few more words", "name  what it is in\n      a few more\n      words\n"},
		{"  no column of its own in this line", "  no column of\n      its own in\n      this line\n"},
		{"a column that begins so late  that it has no room", "a column that\n    begins so late\n    that it has no\n    room\n"},
		{"name  first column  what it is in words", "name  first column\n      what it is in\n      words\n"},
		{"", "\n"},
	} {
		if got := wrapLine(c.in, 20); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// A run on a terminal shows a line that it takes away again; the table stays.
func TestTerminalRun(t *testing.T) {
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
	for _, cols := range []int{80, 160} {
		sent, code := onTerminal(t, cols, nil, "run", "--runs", "3", "--wide", "--out", filepath.Join(t.TempDir(), "out"), "--", "true")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, sent)
		}
		const erase = "\r\x1b[K"
		if !strings.Contains(sent, erase) || !strings.Contains(sent, "6 of 6") || !strings.Contains(sent, " left"+erase) {
			t.Errorf("no progress: %q", sent)
		}
		var left []string // what is still to be seen
		for line := range strings.SplitSeq(sent, "\r\n") {
			if strings.HasPrefix(line, "result: ") || strings.HasPrefix(line, "flame graph: ") {
				continue // paths are for copying
			}
			parts := strings.Split(line, erase)
			for _, p := range parts {
				checkScreen(t, cols, p)
			}
			left = append(left, parts[len(parts)-1])
		}
		screen := strings.Join(left, "\n")
		if strings.Contains(screen, " of 6") || !strings.Contains(screen, "total") {
			t.Errorf("the screen at the end:\n%s", screen)
		}
	}
}
