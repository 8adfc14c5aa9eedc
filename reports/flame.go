package reports

import (
	"cmp"
	"slices"

	"stagetrace/analysis"
)

// Frames with a smaller part of the whole than one of flameLeast, and those that
// are deeper, are left out of a flame graph; their time stays that of who called them.
const (
	flameLeast = 2000
	flameDepth = 250
)

// flame is a node of a flame graph: a frame as called from its parents.
type flame struct {
	name     string
	value    int64
	children map[string]*flame
}

func newFlame() *flame { return &flame{name: "all"} }

// add adds a stack, root first.
func (f *flame) add(frames []frame, stack []uint32, value int64) {
	f.value += value
	for _, id := range stack[:min(len(stack), flameDepth)] {
		name := frames[id].name
		child := f.children[name]
		if child == nil {
			if f.children == nil {
				f.children = map[string]*flame{}
			}
			child = &flame{name: name}
			f.children[name] = child
		}
		child.value += value
		f = child
	}
}

// addPath adds an operation's path, by stage first: the widths below the root are
// the shares of the table.
func (f *flame) addPath(s *stacks, op *analysis.Operation) {
	s.use(op.Trace)
	root := s.operation(op)
	for i := range op.Path.Segments {
		seg := &op.Path.Segments[i]
		stack := []uint32{root, s.pseudo("%s", op.StageName(seg))}
		f.add(s.frames, s.task(stack, op, moment{seg.Task, seg.Begin, seg.Stack, seg.Syscall, seg}), int64(seg.End-seg.Begin))
	}
}

// pageFlame is a flame graph in the page's data.
type pageFlame struct {
	Title string `json:"title"`
	About string `json:"about"`
	Root  []any  `json:"root"` // name, value in ns, children, largest first
}

// node is a frame and those it called that have at least least.
func (f *flame) node(d *pageData, least int64) []any {
	var kept []*flame
	for _, c := range f.children {
		if c.value >= max(least, 1) {
			kept = append(kept, c)
		}
	}
	slices.SortFunc(kept, func(a, b *flame) int { return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.name, b.name)) })
	children := make([]any, len(kept))
	for i, c := range kept {
		children[i] = c.node(d, least)
	}
	return []any{d.text(f.name), f.value, children}
}
