package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/perf/benchmath"
)

// MinCompare is the least number of values a side from which ranks can tell
// anything at the 0.05 level: with 4 against 4 the smallest p is 0.029.
const MinCompare = 4

// SmallestP is the least p that Test can give for n against m values: that of
// samples which do not overlap, 2 of all the ways in which n+m ranks can fall
// on two sides.
func SmallestP(n, m int) float64 {
	p := 2.0
	for i := 1; i <= n; i++ {
		p *= float64(i) / float64(m+i)
	}
	return min(p, 1)
}

// Test is the Mann-Whitney U test (two-sided): the probability of samples at
// least this far apart when both come from the same source. Nil when either
// side is too small for any answer to be below 0.05. Samples that are all one
// value give 1.
func Test(a, b []float64) *float64 {
	a, b = sorted(a), sorted(b)
	if len(a) < MinCompare || len(b) < MinCompare {
		return nil
	}
	th := &benchmath.Thresholds{CompareAlpha: 1 - Confidence}
	c := benchmath.AssumeNothing.Compare(benchmath.NewSample(a, th), benchmath.NewSample(b, th))
	p := c.P
	if !finite(p) {
		p = 1
	}
	p = min(max(p, 0), 1)
	return &p
}

// RatioResult is a ratio of two medians with its interval at Confidence.
type RatioResult struct {
	Ratio  float64
	Lo, Hi *float64 // nil when a side has fewer than 6 values
}

const (
	ratioRounds = 2000
	ratioMin    = 6
)

// Ratio is median(a)/median(b). The interval is a percentile bootstrap that
// draws from both sides; its generator is seeded with a constant, so the same
// samples always give the same interval. Reports false when there is no ratio:
// a side is empty or b's median is not above 0.
func Ratio(a, b []float64) (RatioResult, bool) {
	a, b = sorted(a), sorted(b)
	if len(a) == 0 || len(b) == 0 || middle(b) <= 0 {
		return RatioResult{}, false
	}
	r := RatioResult{Ratio: middle(a) / middle(b)}
	if len(a) < ratioMin || len(b) < ratioMin {
		return r, true
	}
	rng := rand.New(rand.NewPCG(0x5eed, uint64(len(a))<<32|uint64(len(b))))
	ratios := make([]float64, 0, ratioRounds)
	for range ratioRounds {
		den := resampledMedian(rng, b)
		if num := resampledMedian(rng, a); den > 0 {
			ratios = append(ratios, num/den)
		}
	}
	slices.Sort(ratios)
	tail := (1 - Confidence) / 2
	lo, hi := NearestRank(ratios, tail), NearestRank(ratios, 1-tail)
	// Medians of few values take few values: the estimate itself belongs inside.
	lo, hi = min(lo, r.Ratio), max(hi, r.Ratio)
	r.Lo, r.Hi = &lo, &hi
	return r, true
}

// resampledMedian is the median of as many values drawn with replacement as
// there are, without drawing them all: ranks of the drawn values are those of
// uniform numbers, whose k-th smallest of n has the distribution Beta(k, n+1-k).
func resampledMedian(rng *rand.Rand, ascending []float64) float64 {
	n := len(ascending)
	value := func(u float64) float64 { return ascending[min(int(u*float64(n)), n-1)] }
	k := (n + 1) / 2
	u := beta(rng, float64(k), float64(n+1-k))
	if n%2 == 1 {
		return value(u)
	}
	// Of the n-k larger ones, uniform above u, the smallest.
	next := u + (1-u)*(1-math.Pow(rng.Float64(), 1/float64(n-k)))
	return value(u)/2 + value(next)/2
}

func beta(rng *rand.Rand, a, b float64) float64 {
	x, y := gamma(rng, a), gamma(rng, b)
	return x / (x + y)
}

// gamma draws from the gamma distribution of shape a >= 1 (Marsaglia and Tsang
// 2000).
func gamma(rng *rand.Rand, a float64) float64 {
	d := a - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := 1 + c*x
		v *= v * v
		if v > 0 && math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// Holm adjusts p-values for being looked at together (Holm 1979): an adjusted
// value below 0.05 holds for the family. Nil entries stay nil and do not count.
func Holm(ps []*float64) []*float64 {
	idx := make([]int, 0, len(ps))
	for i, p := range ps {
		if p != nil {
			idx = append(idx, i)
		}
	}
	slices.SortStableFunc(idx, func(a, b int) int {
		switch {
		case *ps[a] < *ps[b]:
			return -1
		case *ps[a] > *ps[b]:
			return 1
		}
		return 0
	})
	out := make([]*float64, len(ps))
	var running float64
	for rank, i := range idx {
		running = max(running, min(1, *ps[i]*float64(len(idx)-rank)))
		adj := running
		out[i] = &adj
	}
	return out
}

// FirstDiffers reports whether a first value stands clearly above the rest: a
// cold cache, a program loaded for the first time. It must exceed the rest's
// median by five deviations (MAD) and by a quarter, so that neither a noisy
// nor a very quiet machine cries wolf. With fewer than three others there is
// no deviation: it must exceed their largest by a quarter.
func FirstDiffers(first float64, rest []float64) bool {
	s := sorted(rest)
	if len(s) == 0 || !finite(first) {
		return false
	}
	m := middle(s)
	if len(s) < 3 {
		return first > 1.25*s[len(s)-1] && m > 0
	}
	return first > m+5*MAD(s) && first > 1.25*m
}

// Outliers are the indexes, in the order given, of values further from the
// median than 10 deviations (MAD, with at least 5 % of the median as a
// deviation so that near-constant samples have none). Needs 6 values.
func Outliers(values []float64) []int {
	s := sorted(values)
	if len(s) < 6 {
		return nil
	}
	m := middle(s)
	limit := 10 * max(MAD(s), 0.05*math.Abs(m))
	if limit == 0 {
		return nil
	}
	var out []int
	for i, v := range values {
		if finite(v) && math.Abs(v-m) > limit {
			out = append(out, i)
		}
	}
	return out
}
