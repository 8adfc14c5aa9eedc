package reports

import (
	"io"

	"stagetrace/analysis"
)

func writeComparisonMarkdown(w io.Writer, c *analysis.Comparison, in *Input) error {
	m := &markdownWriter{}
	m.line("## %s", cleanMarkdown(sideText(&c.New)))
	m.line("")
	m.line("Base: %s", cleanMarkdown(sideText(&c.Base)))
	m.line("")
	m.comparisons(c.Targets, in.Wide)
	m.warnings(c.Warnings)
	_, err := io.WriteString(w, m.b.String())
	return err
}

// comparisons writes what makes targets differ.
func (m *markdownWriter) comparisons(cs []analysis.TargetComparison, all bool) {
	noted := true
	for i := range cs {
		c := &cs[i]
		m.line("### %s: %s%s", cleanMarkdown(pairName(c)), c.Wall.Verdict, ratioText(&c.Wall, " .. "))
		m.line("")
		for _, s := range []string{medians(c), c.Wall.Note, makes(c)} {
			if s != "" {
				m.line("%s", sentence(htmlLess(cleanMarkdown(s)))+".")
				m.line("")
			}
		}
		u, rows := partRows(c, all)
		if len(rows) == 0 {
			continue
		}
		noted = false
		m.row("stage", "base "+u.name, "new "+u.name, "difference", "95 % interval", "p", "verdict")
		m.row(":--", "--:", "--:", "--:", ":-:", "--:", ":--")
		for j := range rows {
			cells := rows[j].cells(u, " .. ")
			cells[4] = htmlLess(cells[4])
			m.row(append([]string{cleanMarkdown(rows[j].name)}, cells...)...)
		}
		m.line("")
	}
	if !noted {
		m.line("%s.", sentence(partsNote))
		m.line("")
	}
}
