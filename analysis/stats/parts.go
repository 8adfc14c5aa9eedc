package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Table is a sample of totals and of the parts that each one is the sum of.
// Parts are as long as Total.
type Table struct {
	Total []float64
	Parts [][]float64
}

// Middle is what the operations in the middle of a sample took on average: the
// mean over the middle half of the totals (n/4 dropped at either end, the
// interquartile mean). Unlike medians the middles of parts add up to the middle
// of the totals, for all are means over the same operations; and unlike the
// mean over everything it does not follow a few outliers.
func (t *Table) Middle() (total float64, parts []float64) {
	order := make([]int, len(t.Total))
	for i := range order {
		order[i] = i
	}
	return t.middle(order, make([]float64, len(t.Parts)))
}

// middle is Middle of the operations in rows, which it sorts; parts is filled.
func (t *Table) middle(rows []int, parts []float64) (total float64, _ []float64) {
	clear(parts)
	slices.SortFunc(rows, func(a, b int) int { return cmp.Or(cmp.Compare(t.Total[a], t.Total[b]), cmp.Compare(a, b)) })
	cut := len(rows) / 4
	half := rows[cut : len(rows)-cut]
	if len(half) == 0 {
		return 0, parts
	}
	n := float64(len(half))
	for _, r := range half {
		total += t.Total[r]
	}
	for k, p := range t.Parts {
		for _, r := range half {
			parts[k] += p[r]
		}
		parts[k] /= n
	}
	return total / n, parts
}

// Interval is an interval at Confidence.
type Interval struct{ Lo, Hi float64 }

// Rounds of the bootstrap of parts: fewer where a round takes long.
const (
	partRounds, fewestRounds = 1000, 200
	partWork                 = 50_000_000 // values looked at, in all
)

// PartIntervals gives, for each part, the interval of the difference of its
// middles, next minus base: a percentile bootstrap that draws whole operations,
// so that parts which grow and shrink together stay together. It is seeded with
// a constant. Both tables have the same parts. Nil when a side has fewer than 6
// operations.
func PartIntervals(base, next *Table) []Interval {
	nb, nn := len(base.Total), len(next.Total)
	if nb < ratioMin || nn < ratioMin {
		return nil
	}
	rng := rand.New(rand.NewPCG(0x5eed, uint64(nb)<<32|uint64(nn)))
	rowsB, rowsN := make([]int, nb), make([]int, nn)
	b, n := make([]float64, len(base.Parts)), make([]float64, len(next.Parts))
	diffs := make([][]float64, len(base.Parts))
	rounds := min(max(partWork/((nb+nn)*(len(base.Parts)+1)), fewestRounds), partRounds)
	for range rounds {
		draw(rng, rowsB)
		draw(rng, rowsN)
		base.middle(rowsB, b)
		next.middle(rowsN, n)
		for k := range diffs {
			diffs[k] = append(diffs[k], n[k]-b[k])
		}
	}
	out := make([]Interval, len(diffs))
	tail := (1 - Confidence) / 2
	_, b = base.Middle()
	_, n = next.Middle()
	for k, d := range diffs {
		slices.Sort(d)
		out[k] = Interval{min(NearestRank(d, tail), n[k]-b[k]), max(NearestRank(d, 1-tail), n[k]-b[k])}
	}
	return out
}

func draw(rng *rand.Rand, rows []int) {
	for i := range rows {
		rows[i] = rng.IntN(len(rows))
	}
}

// Apportion rounds parts to integers that add up to their rounded sum exactly:
// those with the largest remainders are rounded up.
func Apportion(parts []float64) []int64 {
	out := make([]int64, len(parts))
	order := make([]int, len(parts))
	var sum float64
	var got int64
	for i, p := range parts {
		order[i] = i
		sum += p
		out[i] = int64(math.Floor(p))
		got += out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(parts[b]-math.Floor(parts[b]), parts[a]-math.Floor(parts[a]))
	})
	missing := int64(math.Round(sum)) - got
	for i := 0; missing > 0 && len(order) > 0; i++ {
		out[order[i%len(order)]]++
		missing--
	}
	return out
}
