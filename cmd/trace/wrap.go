package main

import (
	"bytes"
	"io"
	"strings"

	"stagetrace/reports"
)

// wrapper breaks lines that are longer than a terminal is wide; what is broken
// off goes under a column of the line. It holds back a line until it is whole.
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

// wrapLine gives a line, or several, with their ends. A column begins after a
// gap of two spaces; the last one that has a third of the width left is wrapped,
// with what comes after it.
func wrapLine(line string, width int) string {
	if reports.Fit(line, width) == line {
		return line + "\n"
	}
	start := len(line) - len(strings.TrimLeft(line, " "))
	under := start + 4
	if i := strings.LastIndex(line[:min(width*2/3, len(line))], "  "); i > start {
		start, under = i+2, i+2
	}
	parts := reports.Wrap(line[start:], width-under)
	return line[:start] + strings.Join(parts, "\n"+strings.Repeat(" ", under)) + "\n"
}
