package reports

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"golang.org/x/perf/benchfmt"

	"stagetrace/analysis"
)

// named is a run in which every text is name, whoever chose it: those of the
// result, down to its last field, and those of the recording.
func named(name string) *Input {
	f := newFixture(3)
	rename(reflect.ValueOf(f.result), name)
	for _, op := range f.ops {
		op.Match = nil // it is bound to the texts of before
		rename(reflect.ValueOf(&op.OperationResult), name)
		rename(reflect.ValueOf(op.Trace), name)
		rename(reflect.ValueOf(&op.Set.Stages), name)
		rename(reflect.ValueOf(&op.Set.Waits), name)
		rename(reflect.ValueOf(&op.Off), name)
	}
	return f.input()
}

// rename sets every text that can be reached. A map keeps one element.
func rename(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			rename(v.Elem(), name)
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(name)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				rename(v.Field(i), name)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			rename(v.Index(i), name)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String || v.Len() == 0 {
			return
		}
		made := reflect.MakeMap(v.Type())
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(v.MapKeys()[0]))
		rename(value, name)
		made.SetMapIndex(reflect.ValueOf(name), value)
		v.Set(made)
	}
}

// allVisible fails for what must not be shown.
func allVisible(t *testing.T, format, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Fatalf("%s: not UTF-8", format)
	}
	for i, r := range text {
		if r != '\n' && !visible(r) {
			t.Fatalf("%s holds %U: %q", format, r, text[max(0, i-40):min(len(text), i+40)])
		}
	}
}

// harmless checks what a format promises whatever the names are. plain is the
// same report with a name that means nothing.
var harmless = map[string]func(t *testing.T, text, plain []byte){
	"table":      sameLines,
	"md":         harmlessMarkdown,
	"html":       sameElements,
	"csv":        harmlessCSV,
	"json":       validJSON,
	"chrome":     validJSON,
	"speedscope": validJSON,
	"folded":     harmlessFolded,
	"benchfmt":   harmlessBenchfmt,
	"pprof":      visibleProfile,
	"pprof-cpu":  visibleProfile,
	"perfetto":   visiblePackets,
}

// sameLines allows for lines that are wrapped, which are at least half full.
func sameLines(t *testing.T, text, plain []byte) {
	if got, want := bytes.Count(text, []byte("\n")), bytes.Count(plain, []byte("\n")); got > want+2*len(text)/plainWidth {
		t.Errorf("%d lines instead of %d", got, want)
	}
}

func harmlessMarkdown(t *testing.T, text, plain []byte) {
	lines, want := strings.Split(string(text), "\n"), strings.Split(string(plain), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d lines instead of %d", len(lines), len(want))
		return
	}
	escaped := regexp.MustCompile(`\\[^a-zA-Z0-9 ]`)
	for i, l := range lines {
		bare := escaped.ReplaceAllString(l, "")
		for _, markup := range []string{"|", "<", ">", "`", "@", "[", "]", "*", "~", "://"} {
			if strings.Count(bare, markup) != strings.Count(want[i], markup) {
				t.Errorf("line %q has another %s than %q", l, markup, want[i])
			}
		}
	}
}

var element = regexp.MustCompile(`</?[a-zA-Z!][a-zA-Z0-9]*`)

func sameElements(t *testing.T, text, plain []byte) {
	got, want := element.FindAllString(string(text), -1), element.FindAllString(string(plain), -1)
	if !slices.Equal(got, want) {
		t.Errorf("%d elements instead of %d: the names are markup", len(got), len(want))
	}
}

func harmlessCSV(t *testing.T, text, plain []byte) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Count(plain, []byte("\n")); len(rows) != want || bytes.Count(text, []byte("\n")) != want {
		t.Errorf("%d rows instead of %d", len(rows), want)
	}
	for _, row := range rows {
		for _, cell := range row {
			if strings.IndexAny(cell, "=+-@＝＋－＠\t\r") == 0 {
				t.Errorf("cell %q is a formula", cell)
			}
		}
	}
}

func validJSON(t *testing.T, text, _ []byte) {
	if !json.Valid(text) {
		t.Error("not JSON")
	}
}

var foldedLine = regexp.MustCompile(`^[^; ]+(;[^; ]+)* [0-9]+$`)

func harmlessFolded(t *testing.T, text, plain []byte) {
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for _, l := range lines {
		if !foldedLine.MatchString(l) {
			t.Errorf("line %q", l)
		}
	}
	if want := bytes.Count(plain, []byte("\n")); len(lines) > want {
		t.Errorf("%d lines instead of %d", len(lines), want)
	}
}

func harmlessBenchfmt(t *testing.T, text, plain []byte) {
	count := func(data []byte) (n int) {
		r := benchfmt.NewReader(bytes.NewReader(data), "results")
		for r.Scan() {
			switch rec := r.Result().(type) {
			case *benchfmt.Result:
				n++
			case *benchfmt.SyntaxError:
				t.Errorf("%v", rec)
			}
		}
		return n
	}
	if got, want := count(text), count(plain); got != want || want == 0 {
		t.Errorf("%d results instead of %d", got, want)
	}
}

func visibleProfile(t *testing.T, data, _ []byte) {
	allVisible(t, "pprof", string(profileAsText(t, data)))
}

func visiblePackets(t *testing.T, data, _ []byte) {
	v := decodePerfetto(t, data)
	for _, tr := range v.tracks {
		allVisible(t, "track", tr.name)
	}
	for _, s := range v.slices {
		allVisible(t, "slice", s.name)
		for k, a := range s.args {
			allVisible(t, "annotation", k+a)
		}
	}
}

// FuzzHostileNames writes every format of a run whose names are all the same
// bytes.
func FuzzHostileNames(f *testing.F) {
	for _, s := range []string{"", "\x1b[31mRED\x1b[0m\x1b]0;title\a", "two\r\nlines", "\x00\x7f\u0085\u009b31m", "\xff\xfe\xc3", "\u202eevil\u2066\u200b\ufeff\u2028",
		"=HYPERLINK(\"http://evil\")", "+1", "-1", "@SUM(A1)", "＝1", "\t=1", "'", "\"", ",;\"\n=1", "a|b", "[x](http://evil)", "![x](y)", "`x`", "*_~#", "&lt;", "\\", "\\|",
		"<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "<!-- -->", "\"><b onclick=x>", "javascript:alert(1)", "{{.}}", "${x}", "%s%n%d",
		"a;b c;d 5", "BenchmarkX 1 2 ns/op", "key: value", "日本語のとても長い名前です", "e\u0301\u0301\u0301\u0301\u0301\u0301", "\u0301", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u3164\u115f",
		"other", "unknown", strings.Repeat("long", 300), strings.Repeat("長", 300), "../../etc/passwd", "__proto__"} {
		f.Add(s)
	}
	plain := map[string][]byte{}
	f.Fuzz(func(t *testing.T, name string) {
		for _, format := range Formats() {
			if plain[format.Name] == nil {
				plain[format.Name] = render(t, format.Name, named("x"))
			}
			text := render(t, format.Name, named(name))
			if !format.Binary {
				allVisible(t, format.Name, string(text))
			}
			check := harmless[format.Name]
			if check == nil {
				t.Fatalf("nothing checks %s", format.Name)
			}
			if name == "" || name == otherStage || name == unknownStage { // what has no name, or another meaning, is shown in another way
				continue
			}
			check(t, text, plain[format.Name])
		}
		checkWidths(t, named(name))
		checkComparisons(t, name)
	})
}

// checkComparisons does the same for the formats of a comparison.
func checkComparisons(t *testing.T, name string) {
	write := func(f CompareFormat, name string, width int) []byte {
		var b bytes.Buffer
		if err := f.Write(&b, analysis.Compare(named(name).Result, named(name).Result), &Input{Width: width}); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		return b.Bytes()
	}
	for _, f := range CompareFormats() {
		text := write(f, name, 0)
		allVisible(t, "comparison as "+f.Name, string(text))
		check := harmless[f.Name]
		if check == nil {
			t.Fatalf("nothing checks a comparison as %s", f.Name)
		}
		if name == "" || name == otherStage || name == unknownStage {
			continue
		}
		check(t, text, write(f, "x", 0))
		for l := range strings.Lines(string(write(f, name, 80))) {
			if w := lipgloss.Width(strings.TrimSuffix(l, "\n")); f.Name == "table" && w > 80 {
				t.Errorf("a line of a comparison has %d cells: %q", w, l)
			}
		}
	}
}

// checkWidths fails when a line of a table is longer than the terminal is wide.
func checkWidths(t *testing.T, in *Input) {
	for _, width := range []int{40, 80, 160} {
		in.Width = width
		for l := range strings.Lines(string(render(t, "table", in))) {
			if w := lipgloss.Width(strings.TrimSuffix(l, "\n")); w > width {
				t.Errorf("at %d columns a line has %d: %q", width, w, l)
			}
		}
	}
}

// Every text of a result is renamed by rename, so that the fuzz test misses none.
func TestRenameReachesEverything(t *testing.T) {
	r := newFixture(2).result
	rename(reflect.ValueOf(r), "needle")
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if v != "needle" {
				t.Errorf("the text %q is left", v)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	if n := reflect.TypeFor[analysis.Result]().NumField(); n == 0 {
		t.Error("no fields")
	}
}
