package analysis

import "testing"

// TestMetrics: figures come from untraced operations where they have them.
func TestMetrics(t *testing.T) {
	row := func(target, name string, value float64, traced bool) MetricResult {
		return MetricResult{Target: target, Name: name, Unit: "B", Value: value, Traced: traced}
	}
	base := Result{
		Untraced: []UntracedResult{{Target: "a", Index: 1, WallNs: 1}, {Target: "b", Index: 2, WallNs: 1}},
		Metrics: []MetricResult{row("a", "rss", 10, false), row("a", "rss", 99, true), row("b", "rss", 70, false), row("a", "files", 4, true),
			row("a", "rss", 30, false), row("a", "rss", 20, false)},
	}
	s := New(linuxSet(t), Options{}).Result(base).Summary
	if len(s) != 2 || len(s[0].Metrics) != 2 || len(s[1].Metrics) != 1 {
		t.Fatalf("summary is %+v", s)
	}
	for i, want := range []struct {
		name   string
		n      int
		median float64
		traced bool
	}{{"rss", 3, 20, false}, {"files", 1, 4, true}} {
		m := s[0].Metrics[i]
		if m.Name != want.name || m.Unit != "B" || m.Value.N != want.n || m.Value.Median != want.median || m.Traced != want.traced {
			t.Errorf("metric %d is %+v, want %+v", i, m, want)
		}
	}
	if m := s[1].Metrics[0]; m.Value.Median != 70 {
		t.Errorf("b has %+v", m)
	}
}
