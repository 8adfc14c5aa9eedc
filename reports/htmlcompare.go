package reports

import (
	"html/template"
	"io"
	"math"

	"stagetrace/analysis"
)

// comparePage is what the template of a comparison shows.
type comparePage struct {
	CSP              string
	CSS              template.CSS
	Title, Base, New string
	PartsNote        string
	Warnings         []pageWarning
	Pairs            []pagePair
}

// pagePair is the comparison of two targets.
type pagePair struct {
	Name, Verdict, Note, Unit string
	Sentences                 []string
	Rows                      []pagePart
}

// pagePart is a stage's part in the difference, with a bar to the left of the
// middle (faster) or to the right (slower).
type pagePart struct {
	Name, Base, New, Difference, Interval, P, Verdict string
	Class, X, Width                                   string
	Total                                             bool
}

// writeComparisonHTML writes one page that needs nothing else, and no script.
func writeComparisonHTML(w io.Writer, c *analysis.Comparison, in *Input) error {
	return writePage(w, "comparison", &comparePage{CSP: policy(""), CSS: template.CSS(pageStyle), Title: "Comparison", Base: sideText(&c.Base), New: sideText(&c.New),
		PartsNote: sentence(partsNote), Warnings: pageWarnings(c.Warnings), Pairs: pagePairs(c.Targets, in.Wide)})
}

func pagePairs(cs []analysis.TargetComparison, all bool) (pairs []pagePair) {
	for i := range cs {
		c := &cs[i]
		p := pagePair{Name: orNone(Clean(pairName(c))), Verdict: c.Wall.Verdict + ratioText(&c.Wall, " – "), Note: c.Wall.Note}
		for _, s := range []string{medians(c), Clean(makes(c))} {
			if s != "" {
				p.Sentences = append(p.Sentences, sentence(s))
			}
		}
		u, rows := partRows(c, all)
		p.Unit = u.name
		p.rows(u, rows)
		pairs = append(pairs, p)
	}
	return pairs
}

func (p *pagePair) rows(u timeUnit, rows []partRow) {
	var widest float64
	for i := range rows {
		widest = max(widest, math.Abs(float64(rows[i].next-rows[i].base)))
	}
	for i := range rows {
		row := &rows[i]
		cells := row.cells(u, " – ")
		difference := float64(row.next - row.base)
		r := pagePart{Name: Clean(row.name), Base: cells[0], New: cells[1], Difference: cells[2], Interval: cells[3], P: cells[4], Verdict: cells[5],
			Class: "run", X: "500", Width: "0", Total: i == len(rows)-1}
		if widest > 0 {
			length := 500 * math.Abs(difference) / widest
			r.Width = coordinate(length)
			if difference < 0 {
				r.X = coordinate(500 - length)
			} else {
				r.Class = "doubt"
			}
		}
		p.Rows = append(p.Rows, r)
	}
}
