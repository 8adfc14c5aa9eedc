package reports

import (
	"strings"

	"stagetrace/analysis"
)

// pairsOf compares targets that differ in one part of their names (docker/none
// and docker/bridge): each with the first one before it that differs in just
// that part, for every part there is. A target that has no such relative is
// compared with the very first.
func pairsOf(r *analysis.Result) []analysis.TargetComparison {
	var out []analysis.TargetComparison
	for i := 1; i < len(r.Summary); i++ {
		for _, base := range relatives(r.Summary[:i], r.Summary[i].Target) {
			if c, ok := analysis.CompareTargets(r, base, r.Summary[i].Target); ok {
				out = append(out, c)
			}
		}
	}
	return out
}

func relatives(before []analysis.Summary, name string) []string {
	var out []string
	found := map[int]bool{}
	for i := range before {
		if part, ok := differsIn(before[i].Target, name); ok && !found[part] {
			found[part] = true
			out = append(out, before[i].Target)
		}
	}
	if len(out) == 0 {
		out = append(out, before[0].Target)
	}
	return out
}

// differsIn gives the only part in which two names of targets differ; false
// when there are others.
func differsIn(a, b string) (part int, ok bool) {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	if len(x) != len(y) {
		return 0, false
	}
	for i := range x {
		switch {
		case x[i] == y[i]:
		case ok:
			return 0, false
		default:
			part, ok = i, true
		}
	}
	return part, ok
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
