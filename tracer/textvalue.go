package tracer

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// token is a word of a line: no white space outside of quotes and brackets.
type token struct {
	col  int // byte offset in the line
	text string
}

// valueError is what is wrong with a value, at an offset in it.
type valueError struct {
	off int
	msg string
}

func (e *valueError) Error() string { return e.msg }

func badValue(off int, format string, args ...any) error {
	return &valueError{off, fmt.Sprintf(format, args...)}
}

// tokenize splits a line into words and drops the comment.
func tokenize(line string) ([]token, error) {
	var toks []token
	for i := 0; i < len(line); {
		switch {
		case isBlank(line[i]):
			i++
			continue
		case line[i] == '#':
			return toks, nil
		}
		n, err := wordLen(line[i:])
		if err != nil {
			return nil, badValue(i+err.(*valueError).off, "%s", err.Error())
		}
		toks = append(toks, token{i, line[i : i+n]})
		i += n
	}
	return toks, nil
}

// wordLen is the length of the word that s begins with.
func wordLen(s string) (int, error) {
	open := -1
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			n, err := quotedLen(s[i:])
			if err != nil {
				return 0, badValue(i, "%s", err.Error())
			}
			i += n
			continue
		case c == '[' && open < 0:
			open = i
		case c == ']' && open >= 0:
			open = -1
		case isBlank(c) && open < 0:
			return i, nil
		}
		i++
	}
	if open >= 0 {
		return 0, badValue(open, "no closing bracket")
	}
	return len(s), nil
}

func quotedLen(s string) (int, error) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return 0, errors.New("not a quoted string as in Go (a closing quote missing, or a bad escape)")
	}
	return len(q), nil
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// piece is one element of a list, at an offset in it.
type piece struct {
	off  int
	text string
}

// split cuts s at any of the separator bytes outside of quotes. Empty
// elements are dropped when blank separates, an error otherwise.
func split(s, seps string) ([]piece, error) {
	var pieces []piece
	blank := strings.Contains(seps, " ")
	start := 0
	for i := 0; i <= len(s); {
		if i < len(s) && s[i] == '"' {
			n, err := quotedLen(s[i:])
			if err != nil {
				return nil, badValue(i, "%s", err.Error())
			}
			i += n
			continue
		}
		if i == len(s) || strings.IndexByte(seps, s[i]) >= 0 {
			switch {
			case i > start:
				pieces = append(pieces, piece{start, s[start:i]})
			case !blank:
				return nil, badValue(start, "empty element in list")
			}
			start = i + 1
		}
		i++
	}
	return pieces, nil
}

// parseString reads a bare word or a quoted string.
func parseString(s string) (string, error) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexByte(s, '"'); i >= 0 {
			return "", badValue(i, "quote inside of a bare word")
		}
		return s, nil
	}
	n, err := quotedLen(s)
	if err != nil {
		return "", badValue(0, "%s", err.Error())
	}
	if n != len(s) {
		return "", badValue(n, "text after the closing quote")
	}
	text, err := strconv.Unquote(s)
	if err != nil {
		return "", badValue(0, "not a quoted string as in Go")
	}
	return text, nil
}

// parseList reads [a b "c d"] (blanks or commas), or the short forms a,b and
// "a,b".
func parseList(s string) ([]string, error) {
	base, seps := 0, ","
	switch {
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") && len(s) > 1:
		base, seps, s = 1, ", \t\r", s[1:len(s)-1]
	case strings.HasPrefix(s, `"`):
		if text, err := parseString(s); err == nil {
			return strings.Split(text, ","), nil
		}
	}
	pieces, err := split(s, seps)
	if err != nil {
		return nil, shift(base, err)
	}
	var list []string
	for _, p := range pieces {
		text, err := parseString(p.text)
		if err != nil {
			return nil, shift(base+p.off, err)
		}
		list = append(list, text)
	}
	return list, nil
}

// parseArgs reads key:value,key:value.
func parseArgs(s string) (Args, error) {
	pieces, err := split(s, ",")
	if err != nil {
		return nil, err
	}
	var args Args
	for _, p := range pieces {
		n := strings.IndexByte(p.text, ':')
		if strings.HasPrefix(p.text, `"`) {
			if n, err = quotedLen(p.text); err != nil {
				return nil, badValue(p.off, "%s", err.Error())
			}
		}
		if n < 0 || n >= len(p.text) || p.text[n] != ':' {
			return nil, badValue(p.off, "want key:value")
		}
		key, err := parseString(p.text[:n])
		if err != nil {
			return nil, shift(p.off, err)
		}
		value, err := parseString(p.text[n+1:])
		if err != nil {
			return nil, shift(p.off+n+1, err)
		}
		args = append(args, Arg{key, value})
	}
	return args, nil
}

func shift(off int, err error) error {
	var v *valueError
	if errors.As(err, &v) {
		return badValue(off+v.off, "%s", v.msg)
	}
	return err
}

// timeUnits are the suffixes of times, longest first.
var timeUnits = []struct {
	suffix   string
	ns       uint64
	decimals int // digits after the point that are whole nanoseconds
}{{"ns", 1, 0}, {"us", 1e3, 3}, {"ms", 1e6, 6}, {"s", 1e9, 9}, {"", 1, 0}}

// parseTime reads 5, 5ns, 1.25us, 3ms, 0.000000001s.
func parseTime(s string) (Time, error) {
	digits, negative := strings.CutPrefix(s, "-")
	for _, unit := range timeUnits {
		number, ok := strings.CutSuffix(digits, unit.suffix)
		if !ok {
			continue
		}
		whole, fraction, point := strings.Cut(number, ".")
		if point && fraction == "" {
			break
		}
		fraction = strings.TrimRight(fraction, "0")
		if len(fraction) > unit.decimals {
			return 0, badValue(0, "time %s is finer than a nanosecond", s)
		}
		w, err1 := strconv.ParseUint(whole, 10, 64)
		f, err2 := strconv.ParseUint("0"+fraction+strings.Repeat("0", unit.decimals-len(fraction)), 10, 64)
		if err1 != nil || err2 != nil {
			break
		}
		limit := uint64(math.MaxInt64)
		if negative {
			limit++
		}
		if w > (limit-f)/unit.ns {
			return 0, badValue(0, "time %s is out of range", s)
		}
		ns := w*unit.ns + f
		if negative {
			ns = -ns
		}
		return Time(ns), nil
	}
	return 0, badValue(0, "%q is not a time (5, 5ns, 1.5us, 3ms, 2s)", s)
}

// formatTime writes a time exactly, in microseconds.
func formatTime(t Time) string {
	if t == 0 {
		return "0"
	}
	sign, ns := "", uint64(t)
	if t < 0 {
		sign, ns = "-", -ns
	}
	s := sign + strconv.FormatUint(ns/1000, 10)
	if f := ns % 1000; f != 0 {
		s += strings.TrimRight("."+fmt.Sprintf("%03d", f), "0")
	}
	return s + "us"
}

// parseInt reads a decimal, hexadecimal (0x) or, for nanoseconds, a time.
func parseInt(s string) (int64, error) {
	if v, err := strconv.ParseInt(s, 0, 64); err == nil {
		return v, nil
	}
	if t, err := parseTime(s); err == nil {
		return int64(t), nil
	}
	return 0, badValue(0, "%q is not a whole number", s)
}

// quote writes a string as a bare word where that reads back, quoted
// otherwise. Bare words have none of the bytes in avoid.
func quote(s, avoid string) string {
	if s == "" || strings.ContainsAny(s, avoid) {
		return strconv.Quote(s)
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte("\"\\`,;[]#", c) >= 0 {
			return strconv.Quote(s)
		}
	}
	return s
}

func formatList(list []string) string {
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = quote(s, "")
	}
	return "[" + strings.Join(words, " ") + "]"
}

func formatArgs(args Args) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = quote(a.Key, ":") + ":" + quote(a.Value, "")
	}
	return strings.Join(words, ",")
}
