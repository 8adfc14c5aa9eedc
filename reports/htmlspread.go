package reports

import (
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis"
)

// stripWidth is the width of a strip in its own units.
const stripWidth = 1000

// pageSpread is distributions on one axis, which goes from Least to Most.
type pageSpread struct {
	Least, Most number
	Strips      []pageStrip
}

// pageStrip is one distribution: a mark for each operation, the median, and its
// interval as a band. Places are in units of a strip.
type pageStrip struct {
	Name, Kind       string
	Marks            string // SVG path
	Middle, Band, To string // To: the width of the band; "": there is no interval
	Median           number
}

// axis is the range of times that strips share, in ns.
type axis struct{ least, most float64 }

// at is the place of a time.
func (a axis) at(ns float64) float64 {
	if a.most <= a.least {
		return stripWidth / 2
	}
	return min(max(stripWidth*(finite(ns)-a.least)/(a.most-a.least), 0), stripWidth)
}

// marks draws each time once: what falls on one place is one mark.
func (a axis) marks(times []int64) string {
	places := make([]string, 0, len(times))
	slices.Sort(times)
	for _, ns := range times {
		places = append(places, coordinate(a.at(float64(ns))))
	}
	var b strings.Builder
	for _, p := range slices.Compact(places) {
		b.WriteString("M" + p + " 0V20")
	}
	return b.String()
}

// strip draws times with their median and its interval.
func (a axis) strip(name, kind string, times []int64, median number, middle float64, lo, hi *float64) pageStrip {
	s := pageStrip{Name: name, Kind: kind, Marks: a.marks(times), Middle: coordinate(a.at(middle)), Median: median}
	if lo != nil && hi != nil {
		s.Band, s.To = coordinate(a.at(*lo)), coordinate(a.at(*hi)-a.at(*lo))
	}
	return s
}

// counted gives the places, in the result, of a target's traced operations that
// its statistics are made of.
func counted(r *analysis.Result, s *analysis.Summary) []int {
	var places []int
	for i := range r.Operations {
		if op := &r.Operations[i]; op.Target == s.Target && !op.Failed && !op.Incomplete && !(s.ColdFirst && op.First) {
			places = append(places, i)
		}
	}
	return places
}

// endToEndSpread sets the times of all targets on one axis, what was measured
// with nothing attached above what was traced.
func endToEndSpread(r *analysis.Result) pageSpread {
	type row struct {
		name, kind, at string
		d              *analysis.Distribution
		times          []int64
	}
	var rows []row
	for i := range r.Summary {
		s := &r.Summary[i]
		name := orNone(Clean(s.Target))
		if s.Untraced {
			rows = append(rows, row{name, "untraced", fmt.Sprintf("/summary/%d/wall", i), &s.Wall, untracedTimes(r, s.Target)})
		}
		var times []int64
		for _, k := range counted(r, s) {
			times = append(times, r.Operations[k].WallNs)
		}
		rows = append(rows, row{name, "traced", fmt.Sprintf("/summary/%d/traced", i), &s.Traced, times})
	}
	rows = slices.DeleteFunc(rows, func(x row) bool { return len(x.times) < 2 || x.d.N < 2 })
	var p pageSpread
	if len(rows) == 0 {
		return p
	}
	least, most := rows[0], rows[0]
	for _, x := range rows[1:] {
		if x.d.Min < least.d.Min {
			least = x
		}
		if x.d.Max > most.d.Max {
			most = x
		}
	}
	p.Least, p.Most = figure(least.d.Min, duration(least.d.Min), "%s/min", least.at), figure(most.d.Max, duration(most.d.Max), "%s/max", most.at)
	scale := axis{least.d.Min, most.d.Max}
	for _, x := range rows {
		p.Strips = append(p.Strips, scale.strip(x.name, x.kind, x.times, figure(x.d.Median, duration(x.d.Median), "%s/median", x.at), x.d.Median, x.d.Lo, x.d.Hi))
	}
	return p
}

func untracedTimes(r *analysis.Result, target string) []int64 {
	var times []int64
	for i := range r.Untraced {
		if u := &r.Untraced[i]; u.Target == target && !u.Failed {
			times = append(times, u.WallNs)
		}
	}
	return times
}

// stageSpread sets the stages of a target on one axis, which begins at 0. An
// operation without a stage spent no time in it.
func stageSpread(r *analysis.Result, s *analysis.Summary, at string, shown []pageStage) pageSpread {
	ops := counted(r, s)
	if len(ops) < 2 {
		return pageSpread{}
	}
	shownNames := map[string]bool{}
	for i := range shown {
		shownNames[shown[i].Name] = true
	}
	times, most := map[string][]int64{}, number{Text: "0"}
	var scale axis
	for n, k := range ops {
		for i := range r.Operations[k].Stages {
			st := &r.Operations[k].Stages[i]
			if !shownNames[Clean(st.Name)] {
				continue
			}
			if times[st.Name] == nil {
				times[st.Name] = make([]int64, len(ops))
			}
			times[st.Name][n] = st.Ns
			if ns := float64(st.Ns); ns > scale.most {
				scale.most, most = ns, figure(ns, duration(ns), "/operations/%d/stages/%d/ns", k, i)
			}
		}
	}
	p := pageSpread{Least: number{Text: "0"}, Most: most}
	for i := range s.Stages {
		st := &s.Stages[i]
		if len(times[st.Name]) > 0 {
			p.Strips = append(p.Strips, scale.strip(Clean(st.Name), "traced", times[st.Name], figure(st.Median, duration(st.Median), "%s/stages/%d/median", at, i), st.Median, st.Lo, st.Hi))
		}
	}
	return p
}
