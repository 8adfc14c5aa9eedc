package reports

import (
	"slices"
	"strings"

	"stagetrace/analysis"
)

// pairsOf compares every target but the first with the one it is closest to: of
// those before it the first whose name differs in one part (docker/bridge and
// docker/none), or else the very first.
func pairsOf(r *analysis.Result) []analysis.TargetComparison {
	var out []analysis.TargetComparison
	for i := range r.Summary {
		name := r.Summary[i].Target
		base := slices.IndexFunc(r.Summary[:i], func(s analysis.Summary) bool { return differing(s.Target, name) == 1 })
		if i == 0 {
			continue
		}
		if c, ok := analysis.CompareTargets(r, r.Summary[max(base, 0)].Target, name); ok {
			out = append(out, c)
		}
	}
	return out
}

// differing counts the parts in which two names of targets differ.
func differing(a, b string) int {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	if len(x) != len(y) {
		return max(len(x), len(y))
	}
	n := 0
	for i := range x {
		if x[i] != y[i] {
			n++
		}
	}
	return n
}

// ratiosToFirst is the wall time of every target against the first one's, by
// name.
func ratiosToFirst(r *analysis.Result) map[string]*analysis.Delta {
	out := map[string]*analysis.Delta{}
	for i := 1; i < len(r.Summary); i++ {
		if c, ok := analysis.CompareTargets(r, r.Summary[0].Target, r.Summary[i].Target); ok {
			out[r.Summary[i].Target] = &c.Wall
		}
	}
	return out
}

// differences writes what makes the targets of a matrix differ.
func (t *tableWriter) differences(r *analysis.Result) {
	pairs := pairsOf(r)
	for i := range pairs {
		t.b.WriteString("\n")
		t.comparison(&pairs[i])
	}
	t.partsNote(pairs)
}
