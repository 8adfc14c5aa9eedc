package reports

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ in, clean, csv, markdown string }{
		{"runc", "runc", "runc", "runc"},
		{"", "", "", ""},
		{"größe 日本 🙂", "größe 日本 🙂", "größe 日本 🙂", "größe 日本 🙂"},
		{"\x1b[31mRED\x1b[0m", `\x1b[31mRED\x1b[0m`, `\x1b[31mRED\x1b[0m`, `\\x1b\[31mRED\\x1b\[0m`},
		{"two\nlines\ttab\rcr", `two\x0alines\x09tab\x0dcr`, `two\x0alines\x09tab\x0dcr`, `two\\x0alines\\x09tab\\x0dcr`},
		{"\xff\xfe", `\xff\xfe`, `\xff\xfe`, `\\xff\\xfe`},
		{"\u009b31m", `\x9b31m`, `\x9b31m`, `\\x9b31m`},
		{"a\u202eb\u2066c\u200bd\u2028e\ufeff", `a\u{202e}b\u{2066}c\u{200b}d\u{2028}e\u{feff}`, `a\u{202e}b\u{2066}c\u{200b}d\u{2028}e\u{feff}`, `a\\u{202e}b\\u{2066}c\\u{200b}d\\u{2028}e\\u{feff}`},
		{"=1+1", "=1+1", "'=1+1", "=1+1"},
		{"@SUM(A1)", "@SUM(A1)", "'@SUM(A1)", "&#64;SUM(A1)"},
		{"-x", "-x", "'-x", "-x"},
		{"+x", "+x", "'+x", "+x"},
		{"\t=x", `\x09=x`, `\x09=x`, `\\x09=x`},
		{"a|b <b>&`c`", "a|b <b>&`c`", "a|b <b>&`c`", "a\\|b &lt;b&gt;&amp;\\`c\\`"},
		{"net.link.move_ns _x_", "net.link.move_ns _x_", "net.link.move_ns _x_", `net.link.move_ns \_x\_`},
		{"http://evil", "http://evil", "http://evil", "http&#58;//evil"},
		{"a\x00b\x7f", `a\x00b\x7f`, `a\x00b\x7f`, `a\\x00b\\x7f`},
	} {
		if got := Clean(c.in); got != c.clean {
			t.Errorf("Clean(%q) = %q, want %q", c.in, got, c.clean)
		}
		if got := cleanCSV(c.in); got != c.csv {
			t.Errorf("cleanCSV(%q) = %q, want %q", c.in, got, c.csv)
		}
		if got := cleanMarkdown(c.in); got != c.markdown {
			t.Errorf("cleanMarkdown(%q) = %q, want %q", c.in, got, c.markdown)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a", "\x1b[2J", "\xff", "\u202e", "日本", "=x", "a|b", "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("Clean(%q) = %q", s, got)
		}
		if Clean(got) != got {
			t.Fatalf("Clean(%q) is not stable", s)
		}
		if c := cleanCSV(s); c != "" && strings.ContainsRune("=+-@", rune(c[0])) {
			t.Fatalf("cleanCSV(%q) = %q", s, c)
		}
		if v := validText(s); !utf8.ValidString(v) {
			t.Fatalf("validText(%q) = %q", s, v)
		}
		for _, w := range []int{0, 1, 5} {
			fit(got, w, "…")
			wrap(got, w)
		}
	})
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		in    string
		cells int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 4, "日…"}, {"abc", 1, "."}, {"abc", 0, ""}, {"", 2, ""}} {
		if got := fit(c.in, c.cells, "…"); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.cells, got, c.want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "0", 1: "1.00 ns", 812: "812 ns", 45_123: "45.1 us", 412_345_678: "412 ms", 1_234_000_000: "1234 ms", 12_345_000_000: "12.3 s", 3_600_000_000_000: "3600 s", -1_500_000: "-1.50 ms",
	} {
		if got := duration(ns); got != want {
			t.Errorf("duration(%v) = %q, want %q", ns, got, want)
		}
	}
	zero := 0.0
	for _, bad := range []float64{zero / zero, 1 / zero, -1 / zero, -zero, zero * -1} {
		if got := duration(bad); got != "0" {
			t.Errorf("duration(%v) = %q", bad, got)
		}
	}
	for v, want := range map[float64]string{1234: "1234", 412: "412", 99.96: "100", 41.25: "41.2", 9.996: "10.0", 4.126: "4.13", 0.99951: "1.00", 0.41: "0.410", 0.04: "0.040", 0.0001: "0", -0.0001: "0"} {
		if got := digits(v); got != want {
			t.Errorf("digits(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestShares(t *testing.T) {
	third := 1.0 / 3
	got := shares([]float64{third, third, third})
	if got[0]+got[1]+got[2] != 10000 {
		t.Errorf("thirds: %v", got)
	}
	zero := 0.0
	if got := shares([]float64{zero / zero, 0.5, 0.5}); got[0] != 0 || got[1] != 5000 {
		t.Errorf("not finite: %v", got)
	}
	if got := shares(nil); len(got) != 0 {
		t.Errorf("none: %v", got)
	}
}
