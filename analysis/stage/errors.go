package stage

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Error is a mistake in a stage file, with its place.
type Error struct {
	File         string
	Line, Column int // from 1; 0 when the mistake has no place
	Msg          string
	Source       string // the line
}

// Error gives the place, the mistake, the line and a caret under the place.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	text := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
	if e.Source == "" {
		return text
	}
	line := []rune(printable(e.Source))
	column := min(e.Column-1, len(line))
	return fmt.Sprintf("%s\n%5d | %s\n      | %s^", text, e.Line, string(line), blank(line[:column]))
}

// printable keeps a hostile file from speaking to the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// blank is as wide as line.
func blank(line []rune) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(line))
}

// pos is a place in a file; the zero pos is the file itself.
type pos struct{ line, column int }

// errorList collects the mistakes of a file, so that one reading shows them
// all; after maxErrors it stops.
type errorList struct {
	list []error
}

const maxErrors = 20

func (l *errorList) add(err error) {
	if len(l.list) < maxErrors {
		l.list = append(l.list, err)
	}
}

func (l *errorList) err() error { return errors.Join(l.list...) }

// nearest is the word of list that was probably meant, for a hint.
func nearest(word string, list []string) string {
	best, limit := "", 1+len(word)/3
	for _, w := range list {
		if d := distance(word, w); d <= limit {
			best, limit = w, d-1
		}
	}
	return best
}

// distance is how many letters have to be added, left out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		last := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			d := last
			if a[i-1] != b[j-1] {
				d++
			}
			last = row[j]
			row[j] = min(d, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// hint is ": did you mean X?" or what there is to choose from.
func hint(word string, list []string) string {
	if w := nearest(word, list); w != "" {
		return fmt.Sprintf("; did you mean %q?", w)
	}
	if len(list) <= 40 {
		return "; known: " + strings.Join(list, " ")
	}
	return ""
}
