//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"stagetrace/reports/pagetest"
	"stagetrace/tracer/tracetest"
)

// TestRealPage looks at the page of 30 container starts as its reader does.
func TestRealPage(t *testing.T) {
	requireRecording(t)
	tracetest.RequireDocker(t)
	r, res := measured(t, "--workload", "container-start", "--target", "docker", "-p", "network=bridge", "--warmup", "2", "--runs", "30", "--untraced", "2")
	name := filepath.Join(r.dir, "report.html")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 1_500_000 {
		t.Errorf("the page has %d bytes", info.Size())
	}
	result, err := os.ReadFile(filepath.Join(r.dir, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := pagetest.Open(t, name)
	t.Logf("%d bytes; interactive after %.0f ms", info.Size(), pagetest.Eval[float64](p, "performance.getEntriesByType('navigation')[0].domInteractive"))
	if n := p.CheckFigures(result); n < 200 {
		t.Errorf("%d figures", n)
	}
	walls := map[float64]bool{}
	for i := range res.Operations {
		walls[float64(res.Operations[i].WallNs)] = true
	}
	median := p.View()
	if median.Begin != 0 || !walls[median.End] || median.Segments < 100 {
		t.Errorf("at first it shows %+v", median)
	}
	if n := pagetest.Eval[int](p, `document.getElementById("operation").options.length`); n != 3 {
		t.Errorf("there are %d operations to choose from", n)
	}
	p.Enter("#operation", "1")
	if other := p.View(); other.End == median.End || !walls[other.End] {
		t.Errorf("of another operation it shows %+v", other)
	}
	all := p.View()
	p.Click("#zoom-in")
	p.Click("#zoom-in")
	near := p.View()
	if got, want := near.End-near.Begin, all.End/4; got < want-2 || got > want+2 {
		t.Errorf("zoomed in twice it shows %+v of %+v", near, all)
	}
	const canvas = "#timeline canvas"
	p.Key(canvas, "ArrowRight")
	if moved := p.View(); moved.Begin <= near.Begin || moved.End-moved.Begin != near.End-near.Begin {
		t.Errorf("moved to the right it shows %+v, before %+v", moved, near)
	}
	p.Key(canvas, "n")
	if text := pagetest.Eval[string](p, `document.querySelector("#timeline .info").textContent`); len(text) < 30 {
		t.Errorf("of a chosen segment it says %q", text)
	}
	p.Key(canvas, "0")
	if back := p.View(); back != all {
		t.Errorf("all of it is %+v, was %+v", back, all)
	}
	p.Enter("#flames input", "rcu_barrier")
	if text := pagetest.Eval[string](p, `document.querySelector("#flames .info").textContent`); text == "" || pagetest.Eval[int](p, `document.querySelectorAll("#flames canvas").length`) != 2 {
		t.Errorf("of found frames it says %q", text)
	}
	p.Pictures("docker")
}
