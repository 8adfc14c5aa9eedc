package symbols

import (
	"fmt"
	"regexp"
	"strings"
)

// Function is a function of a file, where its code begins in the file.
type Function struct {
	Name   string // demangled
	Offset uint64
}

// FindFunctions finds the functions of a file of which begin and return can be
// probed, by a name or a pattern of names. The error says why there are none.
func FindFunctions(object, pattern string) ([]Function, error) {
	f, err := OpenFile(object)
	if err != nil {
		return nil, err
	}
	if f.GoBuildID() != "" {
		return nil, fmt.Errorf("%s is a Go program: Go moves its stacks, and a probe of a function's return would crash it", object)
	}
	if f.Len() == 0 {
		return nil, fmt.Errorf("there is no function %s: %s has no symbols (it was stripped)", pattern, object)
	}
	found := f.Functions(Pattern(pattern))
	if len(found) == 0 {
		return nil, fmt.Errorf("none of the %d functions of %s is called %s (nm -C lists them; * stands for any text)", f.Len(), object, pattern)
	}
	return found, nil
}

// Pattern compiles a name with * for any bytes, ? for one.
func Pattern(text string) func(name string) bool {
	if !strings.ContainsAny(text, "*?") {
		return func(name string) bool { return name == text }
	}
	expr := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(text))
	re := regexp.MustCompile(`(?s)\A` + expr + `\z`)
	return re.MatchString
}

// Functions are those with a name that matches, mangled or not, in the order of
// their addresses.
func (f *File) Functions(match func(name string) bool) (out []Function) {
	for i := range f.funcs {
		raw := f.nameOf(i)
		name := Demangle(raw)
		if !match(raw) && !match(name) {
			continue
		}
		if off, ok := f.offset(f.funcs[i].addr); ok {
			out = append(out, Function{Name: name, Offset: off})
		}
	}
	return out
}

// offset translates an address that the file was linked for to the place of
// its byte in the file.
func (f *File) offset(addr uint64) (uint64, bool) {
	for _, l := range f.loads {
		if addr >= l.addr && addr-l.addr < l.size {
			return addr - l.addr + l.off, true
		}
	}
	return 0, false
}
