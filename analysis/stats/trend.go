package stats

import "math"

// MinTrend is the least number of values in which a trend can be told at the
// 0.05 level: five values in order have p = 0.017, four 0.083.
const MinTrend = 5

// exactTrend is up to how many values, all different, the distribution of the
// Mann-Kendall statistic is counted out and not approximated.
const exactTrend = 40

// Trend is the Mann-Kendall test (Mann 1945, Kendall 1975) over values in run
// order: p of seeing this much rise or fall in a series without one, and tau
// in [-1, 1], the direction. The p is exact for few values without ties, else
// from the normal approximation. ok is false for fewer than MinTrend values
// and for a constant series.
func Trend(values []float64) (p, tau float64, ok bool) {
	n := len(values)
	if n < MinTrend {
		return 1, 0, false
	}
	var s int
	for i := range values {
		for j := i + 1; j < n; j++ {
			if values[j] > values[i] {
				s++
			} else if values[j] < values[i] {
				s--
			}
		}
	}
	nf := float64(n)
	pairs := nf * (nf - 1) / 2
	tied := ties(values)
	if len(tied) == 0 && n <= exactTrend {
		return kendall(n, s), float64(s) / pairs, true
	}
	variance := nf * (nf - 1) * (2*nf + 5)
	for _, t := range tied {
		variance -= t * (t - 1) * (2*t + 5)
	}
	variance /= 18
	if variance <= 0 {
		return 1, 0, false
	}
	// Continuity correction.
	z := max(math.Abs(float64(s))-1, 0) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2), float64(s) / pairs, true
}

// kendall is the probability that the order of n different values, all orders
// being as likely, has at least |s| more pairs of one kind than of the other:
// the distribution of the number of inversions, built up value by value.
func kendall(n, s int) float64 {
	ways := []float64{1} // share of the orders with so many inversions
	for k := 2; k <= n; k++ {
		next := make([]float64, len(ways)+k-1)
		for i, w := range ways {
			for j := range k {
				next[i+j] += w / float64(k)
			}
		}
		ways = next
	}
	if s < 0 {
		s = -s
	}
	few := (n*(n-1)/2 - s) / 2 // inversions of an order that is s pairs up
	var p float64
	for _, w := range ways[:few+1] {
		p += w
	}
	return min(2*p, 1)
}

func ties(values []float64) []float64 {
	count := map[float64]int{}
	for _, v := range values {
		count[v]++
	}
	var out []float64
	for _, c := range count {
		if c > 1 {
			out = append(out, float64(c))
		}
	}
	return out
}
