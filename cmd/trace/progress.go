package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"stagetrace/reports"
)

// progress tells on stderr how far a run is: one line that is rewritten on a
// terminal, else a plain line now and then, ever more seldom, so that a log
// shows that the run goes on and is not filled. A carriage return and an erase
// sequence are the only control bytes it ever writes, and only to a terminal
// that wants them.
type progress struct {
	w     io.Writer
	width int           // of the terminal; 0: plain lines
	ascii bool          // no bar of block characters
	every time.Duration // between two lines; doubles with each plain one
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
	p := &progress{w: w, ascii: ascii(), every: plainEvery, now: time.Now}
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
	if p.width == 0 {
		p.every *= 2
	}
	p.draw(p.line(phase, now, done, total))
}

// line is the state in words: what, how many of how many, how fast, how long
// it will still take.
func (p *progress) line(phase string, now time.Time, done, total int) string {
	line := fmt.Sprintf("%s  %d of %d", printable(phase, false), done, total)
	if ran := now.Sub(p.begun); done > 0 && ran > 0 {
		line += fmt.Sprintf("  %s  %s left", rate(float64(done)/ran.Seconds()), short(ran/time.Duration(done)*time.Duration(total-done)))
	}
	if p.width > 0 {
		line = p.bar(done, total) + line
	}
	return line
}

// rate is how many operations go by in a time that has at least some.
func rate(perSecond float64) string {
	if perSecond < 1 {
		return fmt.Sprintf("%.3g/min", 60*perSecond)
	}
	return fmt.Sprintf("%.3g/s", perSecond)
}

// bar is what is done in 20 cells, where the line has room for more.
func (p *progress) bar(done, total int) string {
	const cells, least = 20, 60
	if total <= 0 || p.width < least {
		return ""
	}
	full, part := "#", []string{""}
	if !p.ascii {
		full, part = "█", []string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}
	}
	n := min(cells*len(part)*done/total, cells*len(part))
	drawn := strings.Repeat(full, n/len(part)) + part[n%len(part)]
	return "[" + drawn + strings.Repeat(" ", cells-utf8.RuneCountInString(drawn)) + "] "
}

func (p *progress) draw(line string) {
	if p.width == 0 {
		fmt.Fprintln(p.w, line)
		return
	}
	// A line that wraps cannot be rewritten.
	fmt.Fprintf(p.w, "\r\x1b[K%s", reports.Fit(line, p.width-1))
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
