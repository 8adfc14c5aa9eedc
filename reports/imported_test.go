package reports

import (
	"bytes"
	"strings"
	"testing"

	"stagetrace/analysis"
)

// What was measured elsewhere stands in the same table, marked, and has no
// stages.
func TestImportedFiguresAreMarked(t *testing.T) {
	f := newFixture(3)
	f.result.Imported = []analysis.Imported{{Target: "elsewhere<b>", From: "other.json", Host: "far", Wall: analysis.Distribution{N: 30, Median: 2.55e6, P95: 4e6, P99: 4.7e6}}}
	for _, name := range []string{"table", "md", "html"} {
		format, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		in := f.input()
		in.Width = 120
		if err := format.Write(&b, in); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for _, want := range []string{"(imported)", "other.json", "host far", "2.55"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q", name, want)
			}
		}
		if name == "html" && strings.Contains(text, "elsewhere<b>") {
			t.Errorf("%s: a name is markup", name)
		}
	}
}
