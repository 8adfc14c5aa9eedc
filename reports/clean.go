package reports

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
)

// Clean makes a name that somebody else chose (comm, argv, path, label,
// target) safe to print on a terminal, in a table cell and in a log line: one
// line, valid UTF-8, nothing that moves the cursor, changes colours or
// reorders text. What is not printable is shown by its code: a byte that is not UTF-8 as
// \xNN, any other rune (controls, bidirectional overrides, zero-width
// characters, line separators) as \xNN or \u{NNNN}. Printable text of any
// script is left as it is.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
		i += n
	}
	return b.String()
}

func clean(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// validText keeps every rune and replaces only bytes that are not UTF-8, by
// \xNN: for JSON, which can carry anything else.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 {
			fmt.Fprintf(&b, `\x%02x`, s[i])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// cleanCSV is Clean, and keeps a spreadsheet from taking a name for a formula.
func cleanCSV(s string) string {
	s = Clean(s)
	if s != "" && strings.ContainsRune("=+-@|%", rune(s[0])) {
		return "'" + s
	}
	return s
}

// markdownEscapes are the bytes that would start markup, a table cell, an
// HTML element or a mention.
var markdownEscapes = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", `*`, `\*`, `[`, `\[`, `]`, `\]`, `|`, `\|`, `~`, `\~`, `#`, `\#`, `!`, `\!`,
	`&`, `&amp;`, `<`, `&lt;`, `>`, `&gt;`, `@`, `&#64;`, `://`, `&#58;//`)

// cleanMarkdown is Clean for a table cell of GitHub's Markdown. An underscore
// between letters is no emphasis there, so stage names stay readable.
func cleanMarkdown(s string) string {
	s = markdownEscapes.Replace(Clean(s))
	if !strings.Contains(s, "_") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '_' && !(i > 0 && i+1 < len(s) && wordByte(s[i-1]) && wordByte(s[i+1])) {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80
}

// fit cuts a clean text to a number of terminal cells.
func fit(s string, cells int, ellipsis string) string {
	if lipgloss.Width(s) <= cells {
		return s
	}
	room := cells - lipgloss.Width(ellipsis)
	if room <= 0 {
		return strings.Repeat(".", max(cells, 0))
	}
	used, end := 0, 0
	for i, r := range s {
		w := lipgloss.Width(string(r))
		if used+w > room {
			break
		}
		used, end = used+w, i+utf8.RuneLen(r)
	}
	return s[:end] + ellipsis
}
