package reports

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	"stagetrace/analysis"
)

var update = flag.Bool("update", false, "write golden files instead of comparing with them")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what is written now (go test -update, then read the diff):\n%s", path, got)
	}
}

func render(t *testing.T, format string, in *Input) []byte {
	t.Helper()
	f, err := Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, in); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return b.Bytes()
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file, format string
		in           func() *Input
	}{
		{"table-plain.txt", "table", func() *Input { return newFixture(7).input() }},
		{"table-80.txt", "table", func() *Input { in := newFixture(7).input(); in.Width = 80; return in }},
		{"table-160.txt", "table", func() *Input { in := newFixture(7).input(); in.Width = 160; return in }},
		{"table-80-ascii.txt", "table", func() *Input { in := many().input(); in.Width, in.ASCII = 80, true; return in }},
		{"table-20.txt", "table", func() *Input { in := newFixture(2).input(); in.Width = 20; return in }},
		{"table-many.txt", "table", func() *Input { return many().input() }},
		{"report.md", "md", func() *Input { return newFixture(7).input() }},
		{"stages.csv", "csv", func() *Input { return newFixture(3).input() }},
		{"result.json", "json", func() *Input { return newFixture(3).input() }},
		{"wall.folded", "folded", func() *Input { return newFixture(3).input() }},
		{"stages.bench.txt", "benchfmt", func() *Input { return newFixture(3).input() }},
		{"report.html", "html", func() *Input { return newFixture(3).input() }},
		{"trace.json", "chrome", func() *Input { return oneAfterTheOther(2) }},
		{"wall.speedscope.json", "speedscope", func() *Input { return newFixture(3).input() }},
		{"wall.pb.txt", "pprof", func() *Input { return newFixture(3).input() }},
		{"cpu.pb.txt", "pprof-cpu", func() *Input { return newFixture(3).input() }},
		{"trace.pftrace.txt", "perfetto", func() *Input { return oneAfterTheOther(2) }},
	} {
		t.Run(c.file, func(t *testing.T) {
			text := render(t, c.format, c.in())
			if asText := binaryAsText[c.format]; asText != nil {
				text = asText(t, text)
			}
			golden(t, c.file, text)
		})
	}
}

// binaryAsText makes of a binary format what can be read as a diff.
var binaryAsText = map[string]func(*testing.T, []byte) []byte{"pprof": profileAsText, "pprof-cpu": profileAsText, "perfetto": perfettoAsText}

// Every format has a golden file.
func TestEveryFormatIsGolden(t *testing.T) {
	source, err := os.ReadFile("golden_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats() {
		if !regexp.MustCompile(`\{"[^"]+", "` + f.Name + `", func`).Match(source) {
			t.Errorf("%s has no golden file", f.Name)
		}
		if f.Binary != (binaryAsText[f.Name] != nil) {
			t.Errorf("%s: whether it is binary", f.Name)
		}
	}
}

// extremes are results that trip arithmetic and layout.
func extremes() map[string]*Input {
	out := map[string]*Input{"nothing": {Result: &analysis.Result{}, Operations: func(func(*analysis.Operation) error) error { return nil }}}
	out["no operations"] = newFixture(0).input()
	out["one operation"] = newFixture(1).input()
	out["some"] = newFixture(7).input()
	lossy := newFixture(3)
	lossy.result.Totals.Incomplete = true
	for i := range lossy.ops {
		lossy.ops[i].Incomplete = true
		lossy.ops[i].Path = analysis.Path{}
		lossy.ops[i].Stages = nil
		lossy.result.Operations[i] = lossy.ops[i].OperationResult
	}
	out["incomplete"] = lossy.input()
	zero := newFixture(2)
	zero.result.Summary[0] = analysis.Summary{Target: "zero", N: 2, Wall: analysis.Distribution{N: 2}, Traced: analysis.Distribution{N: 2}, Stages: []analysis.StageSummary{{Name: "x"}}}
	out["zero times"] = zero.input()
	nan := newFixture(2)
	bad := 0.0
	bad /= bad
	nan.result.Summary[0].Stages[0].Median, nan.result.Summary[0].Stages[0].Share = bad, bad
	nan.result.Summary[1].Overhead = &analysis.Overhead{Ratio: 1 / (bad - bad), Lo: &bad, Hi: &bad}
	nan.result.Totals.WallStddevNs = &bad
	nan.result.Summary[1].Wall.Median = -0.00001
	out["not finite"] = nan.input()
	return out
}

var notNumbers = regexp.MustCompile(`\bNaN\b|[+-]?\bInf\b|-0\.0+ ?(ms|us|ns|%)|[^0-9e-]-0(\.0+)?[^0-9.]`)

func TestExtremesInEveryFormat(t *testing.T) {
	for name, in := range extremes() {
		for _, f := range Formats() {
			for _, width := range []int{0, 1, 20, 40, 80, 100, 160, 300} {
				if width > 0 && f.Name != "table" {
					continue
				}
				in.Width, in.ASCII = width, width == 100
				text := render(t, f.Name, in)
				if f.Binary {
					continue
				}
				if !utf8.Valid(text) {
					t.Errorf("%s of %s: not UTF-8", f.Name, name)
				}
				plain := string(text)
				if f.Name != "html" && f.Name != "json" && f.Name != "csv" {
					if m := notNumbers.FindString(plain); m != "" {
						t.Errorf("%s of %s: holds %q:\n%s", f.Name, name, m, plain)
					}
				}
				if strings.Contains(plain, "NaN") {
					t.Errorf("%s of %s: holds NaN", f.Name, name)
				}
			}
		}
	}
}

// Names must not reach a terminal with what makes terminals do things, nor
// add lines.
func TestHostileNamesInTables(t *testing.T) {
	for _, f := range Formats() {
		if f.Binary || f.Name == "json" {
			continue
		}
		text := render(t, f.Name, newFixture(7).input())
		for _, b := range []byte{0x1b, 0x07, '\r'} {
			if bytes.IndexByte(text, b) >= 0 {
				t.Errorf("%s holds byte %#x", f.Name, b)
			}
		}
		if bytes.Contains(text, []byte("\u202e")) {
			t.Errorf("%s holds a bidirectional override", f.Name)
		}
	}
	harmless := newFixture(7)
	names := map[string]string{}
	for i := range harmless.result.Summary {
		s := &harmless.result.Summary[i]
		names[s.Target] = fmt.Sprint("t", i)
		s.Target = names[s.Target]
	}
	for i := range harmless.result.Operations {
		harmless.result.Operations[i].Target = names[harmless.result.Operations[i].Target]
	}
	for i := range harmless.result.Untraced {
		harmless.result.Untraced[i].Target = names[harmless.result.Untraced[i].Target]
	}
	nasty, plain := render(t, "table", newFixture(7).input()), render(t, "table", harmless.input())
	if a, b := bytes.Count(nasty, []byte("\n")), bytes.Count(plain, []byte("\n")); a > b+2 {
		t.Errorf("names make %d lines of %d", a, b)
	}
}

func TestTableFits(t *testing.T) {
	for name, in := range extremes() {
		for _, width := range []int{40, 72, 80, 100, 120, 160, 200} {
			in.Width = width
			for _, l := range strings.Split(string(render(t, "table", in)), "\n") {
				if w := lipgloss.Width(l); w > width {
					t.Errorf("%s at %d columns: line of %d: %s", name, width, w, l)
				}
			}
		}
	}
}

func TestTerminalColours(t *testing.T) {
	for _, c := range []struct {
		environ []string
		escapes bool
	}{
		{[]string{"TERM=dumb"}, false},
		{[]string{"TERM=xterm-256color"}, false}, // not a terminal
		{[]string{"TERM=xterm-256color", "CLICOLOR_FORCE=1"}, true},
	} {
		var b bytes.Buffer
		in := newFixture(7).input()
		in.Width = 80
		if err := writeTable(Terminal(&b, c.environ), in); err != nil {
			t.Fatal(err)
		}
		if got := bytes.IndexByte(b.Bytes(), 0x1b) >= 0; got != c.escapes {
			t.Errorf("%v: escapes %v", c.environ, got)
		}
	}
	if bytes.IndexByte(render(t, "table", newFixture(7).input()), 0x1b) >= 0 {
		t.Error("escapes without a width")
	}
}

// The shares of a table add up to 100.00 as printed.
func TestSharesAddUp(t *testing.T) {
	text := string(render(t, "table", many().input()))
	for _, block := range strings.Split(text, "share %")[1:] {
		var sum int
		for _, m := range regexp.MustCompile(`(?m)^ +(\d+)\.(\d\d)  (\S+)`).FindAllStringSubmatch(block, -1) {
			n := atoi(m[1])*100 + atoi(m[2])
			if m[3] == "total" {
				if n != 10000 || sum != n {
					t.Errorf("total %d, rows add up to %d", n, sum)
				}
				break
			}
			sum += n
		}
	}
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = 10*n + int(c-'0')
	}
	return n
}

func TestLookup(t *testing.T) {
	for in, want := range map[string]string{"text": "table", "TABLE": "table", "markdown": "md", "pprof-wall": "pprof", " json ": "json", "perfetto": "perfetto"} {
		if f, err := Lookup(in); err != nil || f.Name != want {
			t.Errorf("%s: %v %v", in, f.Name, err)
		}
	}
	_, err := Lookup("\x1bpdf")
	if err == nil || !strings.Contains(err.Error(), "benchfmt") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("error %v", err)
	}
	seen := map[string]bool{}
	for _, f := range Formats() {
		if seen[f.Name] || seen[f.File] || f.Summary == "" || f.Write == nil {
			t.Errorf("row %+v", f)
		}
		seen[f.Name], seen[f.File] = true, true
		if f.NeedsOperations {
			if err := f.Write(&bytes.Buffer{}, &Input{Result: &analysis.Result{}}); err == nil {
				t.Errorf("%s: no error without a recording", f.Name)
			}
		}
	}
	for alias, name := range aliases {
		if f, err := Lookup(alias); err != nil || f.Name != name {
			t.Errorf("alias %s: %v", alias, err)
		}
	}
}
