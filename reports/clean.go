package reports

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// Clean makes a name that somebody else chose (comm, argv, path, label,
// target) safe to print on a terminal, in a table cell and in a log line: one
// line, valid UTF-8, nothing that moves the cursor, changes colours, reorders
// text, takes no room, or grows over the lines above. What is not printable is
// shown by its code: a byte that is not UTF-8 as \xNN, any other rune (controls,
// bidirectional overrides, zero-width characters, line separators, more marks
// than a script puts on a letter) as \xNN or \u{NNNN}. Printable text of any script
// is left as it is.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	marks := maxMarks // there is no letter yet
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark := unicode.Is(unicode.M, r)
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
			marks = maxMarks
		case visible(r) && !(mark && marks == maxMarks):
			b.WriteRune(r)
			if marks++; !mark {
				marks = 0
			}
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
			marks = maxMarks
		default:
			fmt.Fprintf(&b, `\u{%x}`, r)
			marks = maxMarks
		}
		i += n
	}
	return b.String()
}

// maxMarks is how many combining marks a letter may carry: Vietnamese and
// vocalised Hebrew and Arabic need two, few scripts three.
const maxMarks = 3

// unseen are runes that Unicode counts as letters or marks and that are drawn
// as nothing.
var unseen = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

func visible(r rune) bool { return unicode.IsPrint(r) && !unicode.In(r, unseen...) }

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

// escapeJSON writes what is not visible in a JSON text by its \u code, which
// means the same: the text may be shown on a terminal.
func escapeJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) { // what JSON text has outside of strings is ASCII
		switch {
		case visible(r) || r == '\n':
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// cleanCSV is Clean, and keeps a spreadsheet from taking a name for a formula.
func cleanCSV(s string) string {
	s = Clean(s)
	if strings.IndexAny(s, "=+-@|%＝＋－＠") == 0 {
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

// Fit cuts a clean text to a number of terminal cells.
func Fit(s string, cells int) string { return fit(s, cells, "..") }

// Wrap breaks a clean text into lines of at most so many terminal cells, at
// spaces where it can.
func Wrap(s string, cells int) []string { return wrap(s, max(cells, 10)) }

// fit cuts a clean text to a number of terminal cells, between what a terminal
// draws as one character.
func fit(s string, cells int, ellipsis string) string {
	if lipgloss.Width(s) <= cells {
		return s
	}
	if cells <= lipgloss.Width(ellipsis) {
		return strings.Repeat(".", max(cells, 0))
	}
	return ansi.Truncate(s, cells, ellipsis)
}
