package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress tells on stderr how far a run is: one line that is rewritten on a
// terminal, else a plain line every few seconds. A carriage return and an
// erase sequence are the only control bytes it ever writes, and only to a
// terminal that wants them.
type progress struct {
	w     io.Writer
	width int           // of the terminal; 0: plain lines
	every time.Duration // between two lines
	now   func() time.Time
	begun time.Time
	last  time.Time
	shown bool
}

const (
	redrawEvery = 100 * time.Millisecond
	plainEvery  = 5 * time.Second
)

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, every: plainEvery, now: time.Now}
	if c := columns(w); c > 0 && !plain() {
		p.width, p.every = c, redrawEvery
	}
	p.begun = p.now()
	p.last = p.begun
	return p
}

// update is told of every operation that is over; done counts up to total.
func (p *progress) update(phase string, done, total int) {
	now := p.now()
	if now.Sub(p.last) < p.every && (p.width == 0 || done < total) {
		return
	}
	p.last = now
	p.draw(p.line(phase, now, done, total))
}

// line is the state in words: what, how many of how many, how fast, how long
// it will still take.
func (p *progress) line(phase string, now time.Time, done, total int) string {
	line := fmt.Sprintf("%s  %d of %d", printable(phase, false), done, total)
	ran := now.Sub(p.begun)
	if done > 0 && ran > 0 {
		each := ran / time.Duration(done)
		line += fmt.Sprintf("  %s each  %s left", short(each), short(each*time.Duration(total-done)))
	}
	if p.width > 0 {
		line = bar(done, total, p.width, line)
	}
	return line
}

// bar puts a bar before the line where there is room, and cuts what is too
// long: a line that wraps cannot be rewritten.
func bar(done, total, width int, line string) string {
	const cells = 20
	if total > 0 && len(line)+cells+4 < width {
		full := min(cells*done/total, cells)
		line = "[" + strings.Repeat("#", full) + strings.Repeat(" ", cells-full) + "] " + line
	}
	if len(line) >= width {
		line = line[:max(width-1, 0)]
	}
	return line
}

func (p *progress) draw(line string) {
	if p.width == 0 {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
	p.shown = true
}

// note writes a line of its own.
func (p *progress) note(format string, args ...any) {
	p.clear()
	fmt.Fprintln(p.w, printable(fmt.Sprintf(format, args...), false))
}

// clear removes the line, before something else is written.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.shown = false
	}
}

// short is a duration with three digits or so.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Nanosecond).String()
}
