package reports

import (
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

// column is one column of a grid of text.
type column struct {
	head     string
	right    bool
	limit    int  // widest a cell may be; 0: any
	optional bool // left out where it does not fit
}

// line is a row: its cells, an optional style, and text under it. The texts
// are clean already.
type line struct {
	cells  []string
	style  *lipgloss.Style
	detail string
}

// grid lays rows out in columns without borders: what lines up needs no lines,
// and what has none can be cut by awk.
type grid struct {
	cols     []column
	lines    []line
	indent   string
	gap      string
	ellipsis string
}

func (g *grid) widths() []int {
	w := make([]int, len(g.cols))
	for i, c := range g.cols {
		w[i] = lipgloss.Width(c.head)
		for _, l := range g.lines {
			w[i] = max(w[i], lipgloss.Width(l.cells[i]))
		}
		if c.limit > 0 {
			w[i] = min(w[i], c.limit)
		}
	}
	return w
}

// width is the number of cells a row takes.
func (g *grid) width() int {
	n := len(g.indent) + len(g.gap)*(len(g.cols)-1)
	for _, w := range g.widths() {
		n += w
	}
	return n
}

// fitTo leaves optional columns out, from the right, until a row fits.
func (g *grid) fitTo(width int) {
	for i := len(g.cols) - 1; i >= 0 && g.width() > width; i-- {
		if !g.cols[i].optional {
			continue
		}
		g.drop(i)
	}
}

// without leaves the column of a heading out, if there is one.
func (g *grid) without(head string) *grid {
	if i := slices.IndexFunc(g.cols, func(c column) bool { return c.head == head }); i >= 0 {
		g.drop(i)
	}
	return g
}

// drop leaves a column out.
func (g *grid) drop(i int) {
	g.cols = slices.Delete(g.cols, i, i+1)
	for j := range g.lines {
		g.lines[j].cells = slices.Delete(g.lines[j].cells, i, i+1)
	}
}

// write appends the grid to b; head styles the heading, detail the texts under rows.
func (g *grid) write(b *strings.Builder, head, detail *lipgloss.Style) {
	w := g.widths()
	heads := make([]string, len(g.cols))
	for i, c := range g.cols {
		heads[i] = c.head
	}
	g.row(b, w, heads, head)
	for _, l := range g.lines {
		g.row(b, w, l.cells, l.style)
		if l.detail != "" {
			b.WriteString(g.indent + styled(detail, l.detail) + "\n")
		}
	}
}

func (g *grid) row(b *strings.Builder, w []int, cells []string, style *lipgloss.Style) {
	var s strings.Builder
	for i, c := range cells {
		if i > 0 {
			s.WriteString(g.gap)
		}
		c = fit(c, w[i], g.ellipsis)
		pad := strings.Repeat(" ", w[i]-lipgloss.Width(c))
		if g.cols[i].right {
			s.WriteString(pad + c)
		} else {
			s.WriteString(c + pad)
		}
	}
	b.WriteString(g.indent + styled(style, strings.TrimRight(s.String(), " ")) + "\n")
}

func styled(style *lipgloss.Style, s string) string {
	if style == nil || s == "" {
		return s
	}
	return style.Render(s)
}

// wrap breaks text into lines of at most width cells, at spaces where it can.
func wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var out []string
	cur := ""
	for _, word := range strings.Fields(text) {
		for lipgloss.Width(word) > width {
			if cur != "" {
				out, cur = append(out, cur), ""
			}
			head := fit(word, width, "")
			if head == "" || strings.Trim(head, ".") == "" && !strings.HasPrefix(word, head) {
				break
			}
			out, word = append(out, head), word[len(head):]
		}
		switch {
		case cur == "":
			cur = word
		case lipgloss.Width(cur)+1+lipgloss.Width(word) <= width:
			cur += " " + word
		default:
			out, cur = append(out, cur), word
		}
	}
	if cur != "" {
		out = append(out, cur)
	}
	return out
}
