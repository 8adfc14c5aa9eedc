package main

import (
	"bytes"
	"io"
	"strings"

	"stagetrace/reports"
)

// wrapper breaks lines that are longer than a terminal is wide; what is broken
// off goes under the line's last column. It holds back a line until it is whole.
type wrapper struct {
	w     io.Writer
	width int // 0: nothing is broken
	line  []byte
}

// wrapped is stdout for lists.
func (t *terminal) wrapped() *wrapper { return &wrapper{w: t.out, width: columns(t.out)} }

func (w *wrapper) Write(p []byte) (int, error) {
	if w.width == 0 {
		return w.w.Write(p)
	}
	w.line = append(w.line, p...)
	for {
		line, rest, ok := bytes.Cut(w.line, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if _, err := io.WriteString(w.w, wrapLine(string(line), w.width)); err != nil {
			return 0, err
		}
		w.line = rest
	}
}

// wrapLine gives a line, or several, with their ends. The last column begins
// after the last gap of two spaces, if that leaves it half of the width.
func wrapLine(line string, width int) string {
	if reports.Fit(line, width) == line {
		return line + "\n"
	}
	start := len(line) - len(strings.TrimLeft(line, " "))
	under := start + 4
	if i := strings.LastIndex(line, "  ") + 2; i > start && i <= width/2 {
		start, under = i, i
	}
	parts := reports.Wrap(line[start:], width-under)
	return line[:start] + strings.Join(parts, "\n"+strings.Repeat(" ", under)) + "\n"
}
