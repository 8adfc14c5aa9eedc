package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

// Reference values by exact permutation where samples are small.
func TestDescribe(t *testing.T) {
	sd := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name         string
		in           []float64
		median, mean float64
		sd           *float64
		mad          float64
		min, max     float64
		interval     bool
	}{
		{"nine", []float64{997, 1005, 998, 997, 991, 998, 1011, 1004, 1010}, 998, 1001.2222222222222, sd(6.666666666666667), 6, 991, 1011, true},
		{"nine more", []float64{1102, 1104, 1102, 1083, 1109, 1105, 1105, 1083, 1083}, 1102, 1097.3333333333333, sd(10.943034314119645), 3, 1083, 1109, true},
		{"one", []float64{1000}, 1000, 1000, nil, 0, 1000, 1000, false},
		{"all equal", []float64{500, 500, 500, 500, 500, 500}, 500, 500, sd(0), 0, 500, 500, true},
		{"five have no interval", []float64{1, 2, 3, 4, 5}, 3, 3, sd(1.5811388300841898), 1, 1, 5, false},
		{"even", []float64{4, 1, 3, 2}, 2.5, 2.5, sd(1.2909944487358056), 1, 1, 4, false},
	} {
		d := Describe(c.in)
		if d.N != len(c.in) || d.Median != c.median || !near(d.Mean, c.mean) || d.Min != c.min || d.Max != c.max || MAD(c.in) != c.mad {
			t.Errorf("%s: %+v", c.name, d)
		}
		if (d.Stddev == nil) != (c.sd == nil) || c.sd != nil && !near(*d.Stddev, *c.sd) {
			t.Errorf("%s: stddev %v", c.name, d.Stddev)
		}
		if (d.Lo != nil) != c.interval || (d.Hi != nil) != c.interval {
			t.Errorf("%s: interval %v %v", c.name, d.Lo, d.Hi)
		}
		if c.interval && (*d.Lo > d.Median || *d.Hi < d.Median) {
			t.Errorf("%s: the median %v lies outside of %v .. %v", c.name, d.Median, *d.Lo, *d.Hi)
		}
	}
	if d := Describe(nil); d != (Distribution{}) {
		t.Errorf("nothing: %+v", d)
	}
}

func TestNearestRank(t *testing.T) {
	upTo := func(n int) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = float64(i + 1)
		}
		return s
	}
	for _, c := range []struct {
		n    int
		p    float64
		want float64
	}{{1, .95, 1}, {10, .95, 10}, {19, .95, 19}, {20, .95, 19}, {100, .99, 99}, {99, .99, 99}, {200, .95, 190}, {0, .5, 0}, {3, 0, 1}} {
		if got := NearestRank(upTo(c.n), c.p); got != c.want {
			t.Errorf("n = %d, p = %v: %v, want %v", c.n, c.p, got, c.want)
		}
	}
}

func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		name     string
		a, b     []float64
		p        float64
		tellable bool
	}{
		{"clearly slower", []float64{997, 1005, 998, 997, 991, 998, 1011, 1004, 1010}, []float64{1102, 1104, 1102, 1083, 1109, 1105, 1105, 1083, 1083}, 4.1e-05, true},
		{"no change", []float64{973, 986, 1009, 999, 1016, 981, 1009, 1012, 980}, []float64{1052, 1017, 1036, 981, 978, 990, 997, 1019, 1007}, 0.306911, true},
		{"one each", []float64{1000}, []float64{1300}, 0, false},
		{"all equal", []float64{500, 500, 500, 500, 500, 500}, []float64{500, 500, 500, 500, 500, 500}, 1, true},
		{"empty", nil, []float64{1}, 0, false},
	} {
		p := Test(c.a, c.b)
		if (p != nil) != c.tellable {
			t.Errorf("%s: p %v", c.name, p)
			continue
		}
		// The reference is rounded to six digits.
		if p != nil && math.Abs(*p-c.p) > 2e-6+0.01*c.p {
			t.Errorf("%s: p %v, want %v", c.name, *p, c.p)
		}
	}
}

func TestRatio(t *testing.T) {
	a := []float64{110, 111, 109, 110, 112, 108, 110}
	b := []float64{100, 101, 99, 100, 102, 98, 100}
	r, ok := Ratio(a, b)
	if !ok || !near(r.Ratio, 1.1) || r.Lo == nil || *r.Lo > 1.1 || *r.Hi < 1.1 || *r.Lo < 1.05 || *r.Hi > 1.15 {
		t.Errorf("ratio %+v", r)
	}
	again, _ := Ratio(a, b)
	if *again.Lo != *r.Lo || *again.Hi != *r.Hi {
		t.Error("the interval is not deterministic")
	}
	if r, ok := Ratio([]float64{2}, []float64{1}); !ok || r.Ratio != 2 || r.Lo != nil {
		t.Errorf("one each: %+v", r)
	}
	for _, c := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{1}, {0}}} {
		if _, ok := Ratio(c[0], c[1]); ok {
			t.Errorf("%v has no ratio", c)
		}
	}
}

// The median of a sample that was drawn again has the distribution that
// drawing gives.
func TestResampledMedian(t *testing.T) {
	for _, n := range []int{6, 7, 30} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i * i)
		}
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		var drawn, made []float64
		buf := make([]float64, n)
		for range 4000 {
			for i := range buf {
				buf[i] = values[rng.IntN(n)]
			}
			drawn = append(drawn, Median(buf))
			made = append(made, resampledMedian(rng, values))
		}
		slices.Sort(drawn)
		slices.Sort(made)
		step := values[n-1] - values[n-2]
		for _, q := range []float64{0.025, 0.25, 0.5, 0.75, 0.975} {
			if a, b := NearestRank(drawn, q), NearestRank(made, q); math.Abs(a-b) > step {
				t.Errorf("n = %d: quantile %v is %v drawn and %v made", n, q, a, b)
			}
		}
	}
}

func TestSmallestP(t *testing.T) {
	for _, n := range []int{4, 5, 8} {
		a, b := make([]float64, n), make([]float64, n+1)
		for i := range b {
			b[i] = float64(100 + i)
		}
		for i := range a {
			a[i] = float64(i)
		}
		if got, want := SmallestP(n, n+1), *Test(a, b); !near(got, want) {
			t.Errorf("%d against %d: %v, want %v", n, n+1, got, want)
		}
	}
	if got := SmallestP(0, 3); got != 1 {
		t.Errorf("nothing: %v", got)
	}
}

// The middle half of eight is the four in the middle, whatever the ends are.
func TestMiddle(t *testing.T) {
	table := Table{Total: []float64{900, 5, 1, 4, 3, 6, 2, 8}, Parts: [][]float64{{800, 3, 1, 2, 1, 2, 2, 5}, {100, 2, 0, 2, 2, 4, 0, 3}}}
	total, parts := table.Middle()
	if total != 4.5 || parts[0] != 2 || parts[1] != 2.5 {
		t.Errorf("%v %v", total, parts)
	}
	if total, parts := (&Table{Parts: [][]float64{{}}}).Middle(); total != 0 || parts[0] != 0 {
		t.Errorf("nothing: %v %v", total, parts)
	}
}

func TestPartIntervals(t *testing.T) {
	var base, next Table
	base.Parts, next.Parts = make([][]float64, 2), make([][]float64, 2)
	for i := range 12 {
		noise := float64(i * 5 % 12)
		add := func(t *Table, a float64) {
			t.Parts[0], t.Parts[1], t.Total = append(t.Parts[0], a), append(t.Parts[1], noise), append(t.Total, a+noise)
		}
		add(&base, 100)
		add(&next, 150)
	}
	got := PartIntervals(&base, &next)
	if got[0] != (Interval{50, 50}) || got[1].Lo > 0 || got[1].Hi < 0 || got[1].Hi > 8 {
		t.Errorf("%+v", got)
	}
	if got := PartIntervals(&Table{Total: []float64{1}}, &next); got != nil {
		t.Errorf("one value has no interval: %v", got)
	}
}

func TestHolm(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	got := Holm([]*float64{v(0.01), nil, v(0.04), v(0.03)})
	if got[1] != nil || !near(*got[0], 0.03) || !near(*got[3], 0.06) || !near(*got[2], 0.06) {
		t.Errorf("holm: %v %v %v", *got[0], *got[2], *got[3])
	}
}

func TestFirstDiffers(t *testing.T) {
	for _, c := range []struct {
		name  string
		first float64
		rest  []float64
		want  bool
	}{
		{"cold cache", 250, []float64{20, 21, 20, 22, 20, 19, 20}, true},
		{"within noise", 24, []float64{20, 21, 20, 22, 20, 19, 20}, false},
		{"noisy machine", 60, []float64{20, 40, 30, 50, 25, 45}, false},
		{"faster first", 5, []float64{20, 20, 20}, false},
		{"nothing else", 250, nil, false},
		{"two, apart", 250, []float64{20, 21}, true},
		{"two, alike", 22, []float64{20, 21}, false},
		{"constant rest", 100, []float64{99, 99, 99, 99}, false},
	} {
		if got := FirstDiffers(c.first, c.rest); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestOutliers(t *testing.T) {
	got := Outliers([]float64{20, 21, 20, 400, 19, 20, 22, 20})
	if len(got) != 1 || got[0] != 3 {
		t.Errorf("outliers %v", got)
	}
	if got := Outliers([]float64{0, 0, 0, 0, 0, 0, 5}); got != nil {
		t.Errorf("no deviation to measure by: %v", got)
	}
	if got := Outliers([]float64{1, 1000}); got != nil {
		t.Errorf("two values: %v", got)
	}
}

func TestTrend(t *testing.T) {
	rising := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	if p, tau, ok := Trend(rising); !ok || p > 0.001 || tau != 1 {
		t.Errorf("rising: p %v tau %v %v", p, tau, ok)
	}
	if p, _, ok := Trend([]float64{5, 1, 4, 2, 6, 3, 5, 2, 4, 3}); !ok || p < 0.3 {
		t.Errorf("none: p %v", p)
	}
	if _, _, ok := Trend([]float64{5, 5, 5, 5, 5, 5, 5, 5}); ok {
		t.Error("a constant series has no trend")
	}
	// By hand: 2 of the 5! orders are as extreme as one without an inversion,
	// 2 * (1 + 4) as one with at most one.
	if p, _, ok := Trend(rising[:5]); !ok || !near(p, 2./120) {
		t.Errorf("five in order: p %v", p)
	}
	if p, tau, ok := Trend([]float64{5, 4, 3, 1, 2}); !ok || !near(p, 10./120) || !near(tau, -0.8) {
		t.Errorf("five, one pair swapped: p %v tau %v", p, tau)
	}
	if _, _, ok := Trend(rising[:4]); ok {
		t.Error("four values are too few")
	}
	// The approximation, for ties and for many values, is within a factor of 2.
	long := make([]float64, 40)
	for i := range long {
		long[i] = float64(i%7*10) + float64(i)
	}
	exact, _, _ := Trend(long)
	approximate, _, _ := Trend(append(long, long[39]))
	if exact <= 0 || math.Abs(math.Log2(exact/approximate)) > 1 {
		t.Errorf("exact %v, approximate %v", exact, approximate)
	}
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 0, 40).Draw(t, "a")
		b := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 0, 40).Draw(t, "b")
		d := Describe(a)
		for _, v := range []float64{d.Median, d.P95, d.P99, d.Min, d.Max, d.Mean} {
			if !finite(v) {
				t.Fatalf("%+v", d)
			}
		}
		if len(a) > 0 && (d.Min > d.Median || d.Median > d.P95 || d.P95 > d.P99 || d.P99 > d.Max) {
			t.Fatalf("out of order: %+v", d)
		}
		if d.Lo != nil && (*d.Lo > d.Median || *d.Hi < d.Median) {
			t.Fatalf("median outside of its interval: %+v", d)
		}
		var sum int64
		var whole float64
		for i, p := range Apportion(a) {
			sum, whole = sum+p, whole+a[i]
			if math.Abs(float64(p)-a[i]) > 1 {
				t.Fatalf("%v apportioned as %d", a[i], p)
			}
		}
		if sum != int64(math.Round(whole)) {
			t.Fatalf("parts add up to %d, their sum is %v", sum, whole)
		}
		if p := Test(a, b); p != nil && (*p < 0 || *p > 1) {
			t.Fatalf("p %v", *p)
		}
		if r, ok := Ratio(a, b); ok && (!finite(r.Ratio) || r.Lo != nil && (*r.Lo > r.Ratio || *r.Hi < r.Ratio)) {
			t.Fatalf("%+v", r)
		}
		if p := Test(a, a); p != nil && *p < 0.9 && len(a) > 0 {
			t.Fatalf("a sample against itself: p %v", *p)
		}
	})
}
