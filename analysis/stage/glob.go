package stage

import (
	"fmt"
	"strings"
)

// glob is a compiled pattern. `*` and `?` match any characters in names; in
// paths they stop at a slash and `**` does not. A leading `**/` also matches
// nothing, so that **/runc matches a bare runc.
type glob struct {
	text string
	path bool
	star bool // has a wildcard
}

// compileGlob refuses what people write in other languages of patterns, so
// that a mistake is an error and not a rule that never matches.
func compileGlob(text string, path bool) (glob, error) {
	g := glob{text: text, path: path, star: strings.ContainsAny(text, "*?")}
	switch {
	case text == "":
		return g, fmt.Errorf("empty pattern")
	case strings.Contains(text, "***"):
		return g, fmt.Errorf("bad pattern %q: more than two * in a row", text)
	case !path && strings.Contains(text, "**"):
		return g, fmt.Errorf("bad pattern %q: ** is for paths, here * matches everything", text)
	case strings.ContainsAny(text, "[]{}\\"):
		return g, fmt.Errorf("bad pattern %q: only *, ** and ? are special, and [ ] { } \\ are not allowed", text)
	}
	return g, nil
}

func (g *glob) match(s string) bool {
	if !g.star {
		return g.text == s
	}
	if g.path && strings.HasPrefix(g.text, "**/") && wildcard(g.text[3:], s, true) {
		return true
	}
	return wildcard(g.text, s, g.path)
}

// retry is a place to which a failed match returns: the pattern after a star,
// and how much of the text the star has taken.
type retry struct{ pattern, text int }

// wildcard matches with one place of retry for each kind of star, which makes
// it polynomial whatever the pattern.
func wildcard(p, s string, path bool) bool {
	one, two := retry{-1, 0}, retry{-1, 0}
	i, j := 0, 0
	for j < len(s) || i < len(p) {
		switch {
		case i < len(p) && p[i] == '*' && path && i+1 < len(p) && p[i+1] == '*':
			i += 2
			two, one = retry{i, j}, retry{-1, 0}
			continue
		case i < len(p) && p[i] == '*':
			i++
			one = retry{i, j}
			continue
		case i < len(p) && j < len(s) && (p[i] == s[j] || p[i] == '?' && !(path && s[j] == '/')):
			i, j = i+1, j+1
			continue
		}
		if one.pattern >= 0 && one.text < len(s) && !(path && s[one.text] == '/') {
			one.text++
			i, j = one.pattern, one.text
		} else if two.pattern >= 0 && two.text < len(s) {
			two.text++
			i, j, one = two.pattern, two.text, retry{-1, 0}
		} else {
			return false
		}
	}
	return true
}

func matchAny(globs []glob, s string) bool {
	for i := range globs {
		if globs[i].match(s) {
			return true
		}
	}
	return false
}

// suffixes are what compilers append to a function of which they made
// another version.
var suffixes = []string{".isra.", ".constprop.", ".part.", ".cold", ".llvm."}

// entries are the names that the architectures give to the function behind a
// system call.
var entries = []string{"__x64_sys_", "__arm64_sys_", "__riscv_sys_", "__s390x_sys_", "__ia32_sys_", "__ia32_compat_sys_", "__se_sys_", "__do_sys_"}

// FuncName reduces a kernel function's name to what rules speak of: without
// offset, without compiler suffixes, and a system call's function by any
// architecture's name as sys_NAME.
func FuncName(s string) string {
	if i := strings.IndexByte(s, '+'); i > 0 {
		s = s[:i]
	}
	for _, suffix := range suffixes {
		if i := strings.Index(s, suffix); i > 0 {
			s = s[:i]
		}
	}
	for _, e := range entries {
		if strings.HasPrefix(s, e) {
			return "sys_" + s[len(e):]
		}
	}
	return s
}
