package reports

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSpreadShowsEveryOperation: each time has its mark on the one axis, in
// order, and the median lies in its band.
func TestSpreadShowsEveryOperation(t *testing.T) {
	r := newFixture(7).result
	p := endToEndSpread(r)
	if len(p.Strips) == 0 || p.Least.From == "" || p.Most.From == "" {
		t.Fatalf("%+v", p)
	}
	for _, s := range p.Strips {
		checkStrip(t, s)
	}
	if kinds := p.Strips[0].Kind + " " + p.Strips[1].Kind; kinds != "untraced traced" {
		t.Errorf("the first strips are %s", kinds)
	}
	places := counted(r, &r.Summary[0])
	for _, k := range places {
		if op := &r.Operations[k]; op.Failed || op.Incomplete || op.Target != r.Summary[0].Target {
			t.Errorf("operation %d counts", op.Index)
		}
	}
	if len(places) != r.Summary[0].N {
		t.Errorf("%d operations, the summary counts %d", len(places), r.Summary[0].N)
	}
}

func TestSpreadOfStages(t *testing.T) {
	r := newFixture(7).result
	p := stageSpread(r, &r.Summary[0], "/summary/0", []pageStage{{Name: "net.link.move_ns"}, {Name: "not.there"}})
	if len(p.Strips) != 1 || p.Strips[0].Name != "net.link.move_ns" {
		t.Fatalf("%+v", p.Strips)
	}
	checkStrip(t, p.Strips[0])
	if !strings.HasPrefix(p.Most.From, "/operations/") {
		t.Errorf("the axis ends at %+v", p.Most)
	}
}

func TestSpreadOfNothing(t *testing.T) {
	r := newFixture(7).result
	r.Operations, r.Untraced = nil, nil
	if p := endToEndSpread(r); len(p.Strips) != 0 {
		t.Errorf("%+v", p)
	}
	if p := stageSpread(r, &r.Summary[0], "/summary/0", nil); len(p.Strips) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestAxisOfOneTime: operations that all took as long lie in the middle.
func TestAxisOfOneTime(t *testing.T) {
	if got := (axis{5, 5}).marks([]int64{5, 5, 5}); got != "M500.0 0V20" {
		t.Errorf("marks %q", got)
	}
	if got := (axis{0, 10}).marks([]int64{10, 0, 20}); got != "M0.0 0V20M1000.0 0V20" {
		t.Errorf("marks %q", got)
	}
}

func checkStrip(t *testing.T, s pageStrip) {
	t.Helper()
	last := -1.0
	marks := regexp.MustCompile(`M([0-9.]+) 0V20`).FindAllStringSubmatch(s.Marks, -1)
	if len(marks) == 0 {
		t.Errorf("%s %s has no marks", s.Name, s.Kind)
	}
	for _, m := range marks {
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil || x <= last || x > stripWidth {
			t.Errorf("%s %s: a mark at %s after %g", s.Name, s.Kind, m[1], last)
		}
		last = x
	}
	if s.To == "" {
		return
	}
	var v [3]float64
	for i, text := range []string{s.Band, s.Middle, s.To} {
		v[i], _ = strconv.ParseFloat(text, 64)
	}
	if v[1] < v[0]-0.1 || v[1] > v[0]+v[2]+0.2 {
		t.Errorf("%s %s: the median at %s is outside of its band %s + %s", s.Name, s.Kind, s.Middle, s.Band, s.To)
	}
}
