package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// frozen is a progress whose clock is the test's.
func frozen(out *bytes.Buffer, clock *time.Time) *progress {
	*clock = time.Unix(0, 0)
	return &progress{w: out, every: plainEvery, now: func() time.Time { return *clock }, begun: *clock, last: *clock}
}

// Without a terminal there are few lines, and the fewer the longer it takes.
func TestProgressPlain(t *testing.T) {
	var out bytes.Buffer
	var clock time.Time
	p := frozen(&out, &clock)
	for i := range 500 {
		clock = clock.Add(200 * time.Millisecond)
		p.update("traced \x1b[31mcommand\r", i+1, 500)
	}
	p.note("done\n")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Errorf("100 s of progress took %d lines: %q", len(lines), lines)
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("control bytes: %q", out.String())
	}
	if !strings.Contains(lines[0], "25 of 500  5/s  1m35s left") {
		t.Errorf("first line: %q", lines[0])
	}
}

func TestProgressWidth(t *testing.T) {
	for _, phase := range []string{"traced builtin", "traced 日本語のとても長い名前です/とても", "untraced e\u0301\u0301\u0301\u0301\x1b[2J"} {
		for _, width := range []int{1, 2, 20, 59, 60, 80, 200} {
			var out bytes.Buffer
			var clock time.Time
			p := frozen(&out, &clock)
			p.width, p.every, p.ascii = width, redrawEvery, width == 80
			clock = clock.Add(10 * time.Second)
			p.update(phase, 3, 10)
			line := strings.TrimPrefix(out.String(), "\r\x1b[K")
			if ansi.StringWidth(line) >= max(width, 2) || strings.ContainsAny(line, "\r\n\x1b") {
				t.Errorf("width %d: %q", width, line)
			}
			if full := map[bool]string{true: "#", false: "█"}[p.ascii]; (strings.Count(line, full) == 6) != (width >= 60) {
				t.Errorf("width %d: the bar of %q", width, line)
			}
			if width == 200 && !strings.Contains(line, "3 of 10  18/min  23.3s left") {
				t.Errorf("line %q", line)
			}
			p.clear()
			if !strings.HasSuffix(out.String(), "\r\x1b[K") {
				t.Error("the line stays")
			}
		}
	}
}
