// Package stats describes and compares samples of durations without assuming
// a distribution: timings are skewed, have tails and drift, so it speaks of
// medians, order statistics and ranks. What too few values cannot tell is nil,
// never 0. It refuses to guess: no smoothing, no outlier removal.
package stats

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Confidence is the level of every interval.
const Confidence = 0.95

// Distribution describes n values. Lo and Hi enclose the median at Confidence
// by order statistics; they are nil for n < 6, where no such interval exists.
// Stddev is the sample standard deviation, nil for n < 2. All fields are
// finite; for n = 0 they are 0.
type Distribution struct {
	N      int
	Median float64
	Lo, Hi *float64
	P95    float64 // nearest rank; the maximum for n < 20
	P99    float64 // the maximum for n < 100
	Min    float64
	Max    float64
	Mean   float64
	Stddev *float64
}

// Describe summarises values, which it leaves alone. Values that are not
// finite are ignored.
func Describe(values []float64) Distribution {
	s := sorted(values)
	if len(s) == 0 {
		return Distribution{}
	}
	d := Distribution{
		N: len(s), Median: middle(s), P95: NearestRank(s, 0.95), P99: NearestRank(s, 0.99),
		Min: s[0], Max: s[len(s)-1],
	}
	d.Mean, d.Stddev = moments(s)
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(slices.Clone(s), &benchmath.Thresholds{CompareAlpha: 1 - Confidence}), Confidence)
	if finite(sum.Lo) && finite(sum.Hi) {
		d.Lo, d.Hi = &sum.Lo, &sum.Hi
	}
	return d
}

// Median is the middle value, the mean of the two middle ones for an even
// count, 0 for none.
func Median(values []float64) float64 {
	if s := sorted(values); len(s) > 0 {
		return middle(s)
	}
	return 0
}

// NearestRank is the smallest value that at least a share p of the ascending
// values does not exceed; 0 for none.
func NearestRank(ascending []float64, p float64) float64 {
	n := len(ascending)
	if n == 0 {
		return 0
	}
	// The tolerance keeps 0.95*20 = 19.000000000000004 at rank 19.
	rank := int(math.Ceil(p*float64(n) - 1e-9))
	return ascending[min(max(rank, 1), n)-1]
}

// MAD is the median absolute deviation from the median, unscaled.
func MAD(values []float64) float64 {
	m := Median(values)
	dev := make([]float64, len(values))
	for i, v := range values {
		dev[i] = math.Abs(v - m)
	}
	return Median(dev)
}

func sorted(values []float64) []float64 {
	s := make([]float64, 0, len(values))
	for _, v := range values {
		if finite(v) {
			s = append(s, v)
		}
	}
	slices.Sort(s)
	return s
}

func middle(s []float64) float64 {
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return s[n/2-1]/2 + s[n/2]/2
}

// moments uses Welford's update: sums of squares of nanoseconds lose digits.
func moments(s []float64) (mean float64, stddev *float64) {
	var m2 float64
	for i, v := range s {
		d := v - mean
		mean += d / float64(i+1)
		m2 += d * (v - mean)
	}
	if len(s) < 2 {
		return mean, nil
	}
	sd := math.Sqrt(max(m2, 0) / float64(len(s)-1))
	return mean, &sd
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
