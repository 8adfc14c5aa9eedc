package reports

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/reports/pagetest"
	"stagetrace/tracer"
)

// openPage renders a run and opens its page, with its result.json.
func openPage(t *testing.T, in *Input) (*pagetest.Page, []byte) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "report <b>#1?.html")
	if err := os.WriteFile(name, render(t, "html", in), 0o644); err != nil {
		t.Fatal(err)
	}
	return pagetest.Open(t, name), render(t, "json", in)
}

// Names that would be something else on a page that does not watch out.
var pageAttacks = []string{
	"<script>document.title='owned'</script>", "</script><script>document.title='owned'</script>", "<img src=x onerror=\"document.title='owned'\">",
	"\"><svg onload=\"document.title='owned'\">", "${document.title='owned'}", "javascript:document.title='owned'", "<!--", "]]>", "__proto__", "constructor", "\u2028\u2029",
}

// TestPageInChromium holds a page against its result, and the page of a run in
// which every name is an attack against what it may do: nothing.
func TestPageInChromium(t *testing.T) {
	p, result := openPage(t, newFixture(28).input()) // enough operations for intervals
	if n := p.CheckFigures(result); n < 50 {
		t.Errorf("%d figures", n)
	}
	if n := pagetest.Eval[int](p, `document.querySelectorAll("data[data-from$='/lo'] ~ data[data-from$='/hi']").length`); n < 5 {
		t.Errorf("%d intervals", n)
	}
	p.Pictures("fixture")
	t.Run("comparison", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "compare.html")
		var b bytes.Buffer
		next := newFixture(7).result
		for i := range next.Operations {
			next.Operations[i].WallNs += 900_000
		}
		if err := writeComparisonHTML(&b, analysis.Compare(newFixture(7).result, next), &Input{}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		p := pagetest.Open(t, name)
		if n := pagetest.Eval[int](p, `document.querySelectorAll("tr.total").length`); n != 2 {
			t.Errorf("%d totals", n)
		}
		p.Pictures("comparison")
	})
	for i, attack := range pageAttacks {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			p, result := openPage(t, named(attack))
			p.CheckFigures(result)
			if title := pagetest.Eval[string](p, "document.title"); title == "owned" {
				t.Errorf("%s ran", attack)
			}
			if n := pagetest.Eval[int](p, `document.querySelectorAll("img, iframe, object, embed, svg [onload], script:not([id=data]) ~ script, [onerror]").length`); n > 0 {
				t.Errorf("%s made %d elements", attack, n)
			}
			if got := pagetest.Eval[string](p, `document.querySelector("h1").textContent`); !strings.Contains(got, Clean(attack)) {
				t.Errorf("the title %q does not show %q", got, attack)
			}
		})
	}
}

// bigRun has an operation of a million segments, and thousands of processes.
func bigRun(segments, processes int) *Input {
	f := newFixture(1)
	op := f.ops[0]
	stages := len(op.Set.Stages)
	op.Path.Segments = make([]analysis.Segment, segments)
	at := op.Begin
	for i := range op.Path.Segments {
		length := tracer.Time(50 + i%97)
		op.Path.Segments[i] = analysis.Segment{Begin: at, End: at + length, Task: tracer.TaskID(1 + i%3), Link: -1, Stage: stage.ID(i % stages), State: tracer.StateRunning}
		at += length
	}
	op.End, op.WallNs = at, int64(at-op.Begin)
	f.result.Operations[0].WallNs = op.WallNs
	f.result.Processes = nil
	for i := range processes {
		f.result.Processes = append(f.result.Processes, analysis.Process{PID: int32(i), Comm: "worker", Argv: []string{"worker", strings.Repeat("x", 200)}})
	}
	return f.input()
}

// TestLargePageInChromium: zooming works on a million events and 2,700 processes,
// and the page does not grow with them.
func TestLargePageInChromium(t *testing.T) {
	in := bigRun(1_000_000, 2700)
	if n := len(render(t, "html", in)); n > 1_500_000 {
		t.Errorf("the page has %d bytes", n)
	}
	p, _ := openPage(t, in)
	all := p.View()
	if all.Begin != 0 || all.End != float64(in.Result.Operations[0].WallNs) || all.Segments < 100 {
		t.Fatalf("it shows %+v", all)
	}
	for range 10 {
		p.Click("#zoom-in")
	}
	near := p.View()
	if length := near.End - near.Begin; length < all.End/1100 || length > all.End/900 || near.Segments == 0 {
		t.Errorf("ten times closer it shows %+v", near)
	}
	t.Logf("interactive after %.0f ms; a drawing takes %.1f ms", pagetest.Eval[float64](p, "performance.getEntriesByType('navigation')[0].domInteractive"),
		pagetest.Eval[float64](p, `(() => { const b = performance.now(); for (let i = 0; i < 20; i++) { document.getElementById("zoom-all").click(); document.getElementById("zoom-in").click(); } return (performance.now() - b) / 40; })()`))
}
