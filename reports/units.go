package reports

import (
	"math"
	"strconv"
	"strings"

	"stagetrace/analysis"
	"stagetrace/analysis/stats"
)

// timeUnit is one of the units in which durations are printed.
type timeUnit struct {
	name string
	ns   float64
	upTo float64 // values below this many ns are printed in it
}

// Milliseconds reach up to ten seconds: most operations are compared there,
// and one unit for all of them is easier to read than the shortest number.
var timeUnits = [...]timeUnit{
	{"ns", 1, 1e3},
	{"us", 1e3, 1e6},
	{"ms", 1e6, 1e10},
	{"s", 1e9, math.Inf(1)},
}

// columnUnit is the unit for a column whose largest value is ns nanoseconds.
func columnUnit(ns float64) timeUnit {
	ns = math.Abs(finite(ns))
	for _, u := range timeUnits[1:] {
		if ns < u.upTo {
			return u
		}
	}
	return timeUnits[len(timeUnits)-1]
}

// duration prints nanoseconds with three significant digits and a unit.
func duration(ns float64) string {
	ns = finite(ns)
	if ns == 0 {
		return "0"
	}
	u := timeUnits[0]
	for _, u = range timeUnits {
		if math.Abs(ns) < u.upTo {
			break
		}
	}
	return digits(ns/u.ns) + " " + u.name
}

// digits prints a number with three significant digits, at most three
// decimals and never an exponent: 1234, 412, 41.2, 4.12, 0.412, 0.041.
func digits(v float64) string {
	v = finite(v)
	decimals := 3
	switch a := math.Abs(v); {
	case a >= 99.95:
		decimals = 0
	case a >= 9.995:
		decimals = 1
	case a >= 0.9995:
		decimals = 2
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return "0"
	}
	return s
}

// cell prints nanoseconds in the unit of a column; what is there but too
// small to show is not 0.
func (u timeUnit) cell(ns float64) string {
	s := digits(ns / u.ns)
	if s == "0" && finite(ns) > 0 {
		return "<.001"
	}
	return s
}

func (u timeUnit) interval(lo, hi *float64, dots string) string {
	if lo == nil || hi == nil {
		return ""
	}
	return u.exact(*lo) + dots + u.exact(*hi)
}

// exact prints nanoseconds in the unit of a column, 0 for what is too small.
func (u timeUnit) exact(ns float64) string { return digits(ns / u.ns) }

// finite keeps numbers that no format can write, and the negative zero, out.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v == 0 {
		return 0
	}
	return v
}

// shares rounds fractions to hundredths of a percent so that, when the
// fractions add up to 1, the rounded ones add up to exactly 10000: the largest
// remainders are rounded up.
func shares(fractions []float64) []int {
	parts := make([]float64, len(fractions))
	for i, f := range fractions {
		parts[i] = 1e4 * finite(f)
	}
	out := make([]int, len(fractions))
	for i, n := range stats.Apportion(parts) {
		out[i] = int(n)
	}
	return out
}

// hundredths prints 4217 as 42.17.
func hundredths(n int) string {
	return strconv.FormatFloat(float64(n)/100, 'f', 2, 64)
}

// percent prints a fraction for a sentence: 42 %, 4.2 %, <0.1 %.
func percent(f float64) string {
	f = finite(f) * 100
	switch {
	case f == 0:
		return "0 %"
	case f < 0.1:
		return "<0.1 %"
	case f < 9.95:
		return strconv.FormatFloat(f, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(f, 'f', 0, 64) + " %"
}

// byteUnits are powers of 1024.
var byteUnits = [...]string{"B", "KiB", "MiB", "GiB", "TiB"}

func byteCount(v float64) string {
	v = finite(v)
	i := 0
	for ; math.Abs(v) >= 1023.5 && i < len(byteUnits)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return count(v) + " B"
	}
	return digits(v) + " " + byteUnits[i]
}

// quantity prints a metric's value, which is in one of the units of
// analysis.MetricResult, or in one that is printed as it came.
func quantity(v float64, unit string) string {
	switch unit {
	case "B":
		return byteCount(v)
	case "B/s":
		return byteCount(v) + "/s"
	case "ns":
		return duration(v)
	case "1/s":
		return digits(v) + "/s"
	case "ratio":
		return percent(v)
	case "":
		return count(v)
	}
	return digits(v) + " " + unit
}

// metricInterval prints the interval of a metric's median; "" when it has none.
func metricInterval(m *analysis.MetricSummary, dots string) string {
	if m.Value.Lo == nil || m.Value.Hi == nil {
		return ""
	}
	return quantity(*m.Value.Lo, m.Unit) + dots + quantity(*m.Value.Hi, m.Unit)
}

func count(v float64) string {
	v = finite(v)
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
