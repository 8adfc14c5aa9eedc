package reports

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"stagetrace/analysis"
)

func TestCompareFormats(t *testing.T) {
	a, b := newFixture(7).result, newFixture(7).result
	for i := range b.Operations {
		op := &b.Operations[i]
		op.WallNs += 900_000
		op.Stages[0].Ns += 900_000
	}
	for i := range b.Untraced {
		b.Untraced[i].WallNs += 900_000
	}
	b.Host.Kernel = "6.1\x1b[0m"
	one := newFixture(1).result
	for _, c := range []struct {
		file       string
		base, next *analysis.Result
		width      int
		change     bool
	}{
		{"compare-slower.txt", a, b, 0, true},
		{"compare-same.txt", a, a, 0, false},
		{"compare-80.txt", a, b, 80, true},
		{"compare-one.txt", one, one, 0, false},
		{"compare-nothing.txt", &analysis.Result{}, &analysis.Result{}, 0, false},
	} {
		cmp := analysis.Compare(c.base, c.next)
		for _, f := range CompareFormats() {
			var out bytes.Buffer
			if err := f.Write(&out, cmp, &Input{Width: c.width}); err != nil {
				t.Fatalf("%s of %s: %v", f.Name, c.file, err)
			}
			switch f.Name {
			case "table":
				golden(t, c.file, out.Bytes())
			case "md":
				if c.width == 0 { // it has none
					golden(t, strings.TrimSuffix(c.file, "txt")+"md", out.Bytes())
				}
			case "html":
				if c.file == "compare-slower.txt" {
					golden(t, "compare.html", out.Bytes())
				}
			case "json":
				if !json.Valid(out.Bytes()) {
					t.Errorf("%s: not JSON", c.file)
				}
			}
			if c.width == 0 && bytes.IndexByte(out.Bytes(), 0x1b) >= 0 {
				t.Errorf("%s as %s holds escapes", c.file, f.Name)
			}
			if !c.change && regexp.MustCompile(`(?i)"significant": *true|regress|improv|NaN|"p_value": *0(\.0+)?[,}]`).Match(out.Bytes()) {
				t.Errorf("%s as %s claims a change:\n%s", c.file, f.Name, out.String())
			}
		}
	}
}
