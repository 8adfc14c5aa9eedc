package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// Bounds on what the page draws; the recording has all of it.
const (
	pageSegments   = 20_000 // of one operation: what is shorter than a pixel is drawn with its neighbours
	pageOperations = 12     // timelines
	pageFrames     = 48     // of one stack
)

// pageData is what the page's scripts draw: the timelines of some operations and
// the flame graphs of all. Texts are numbers, indexes into Strings, which are
// clean; 0 is none.
type pageData struct {
	Strings    []string        `json:"strings"`
	Stacks     [][]int         `json:"stacks"` // frames, leaf first
	Operations []pageOperation `json:"operations"`
	Flames     []pageFlame     `json:"flames"`

	texts  map[string]int
	stacks map[string]int
}

// pageOperation is one timeline. A segment is its length in ns, lane, state,
// stage, wait, system call, stack, thread; a piece off the path its begin,
// length, lane, stage, name.
type pageOperation struct {
	Name     string     `json:"name"`
	Index    int        `json:"index"`
	WallNs   int64      `json:"wall_ns"`
	Lanes    []pageLane `json:"lanes"`
	Segments []int64    `json:"segments"` // eight numbers each, in time order; they touch and cover the operation
	Off      []int64    `json:"off"`      // five numbers each: work off the path
	Merged   int        `json:"merged"`   // segments that were drawn with their neighbours
}

// pageLane is the line of a process, or of the kernel threads of one kind.
type pageLane struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

func newPageData() *pageData {
	return &pageData{Strings: []string{""}, Stacks: [][]int{{}}, Operations: []pageOperation{}, Flames: []pageFlame{},
		texts: map[string]int{"": 0}, stacks: map[string]int{"": 0}}
}

func (d *pageData) text(clean string) int {
	n, ok := d.texts[clean]
	if !ok {
		n = len(d.Strings)
		d.texts[clean] = n
		d.Strings = append(d.Strings, clean)
	}
	return n
}

// pickOperations chooses, of each target's operations that count, the median, the
// slowest and the fastest: what each is, by its index, and their order.
func pickOperations(r *analysis.Result) (picked map[int]string, order []int) {
	picked = map[int]string{}
	for i := range r.Summary {
		target := r.Summary[i].Target
		var ops []*analysis.OperationResult
		for k := range r.Operations {
			if op := &r.Operations[k]; op.Target == target && !op.Failed && !op.Incomplete {
				ops = append(ops, op)
			}
		}
		if len(ops) == 0 {
			continue
		}
		slices.SortFunc(ops, func(a, b *analysis.OperationResult) int {
			return cmp.Or(cmp.Compare(a.WallNs, b.WallNs), cmp.Compare(a.Index, b.Index))
		})
		for _, c := range []struct {
			name string
			at   int
		}{{"median", len(ops) / 2}, {"slowest", len(ops) - 1}, {"fastest", 0}} {
			if index := ops[c.at].Index; picked[index] == "" && len(picked) < pageOperations {
				picked[index] = c.name
				order = append(order, index)
			}
		}
	}
	return picked, order
}

// addOperation adds the timeline of an operation.
func (d *pageData) addOperation(s *stacks, op *analysis.Operation, which string) {
	o := pageOperation{Name: fmt.Sprintf("%s: %s, %s (operation %d)", orNone(Clean(op.Target)), which, duration(float64(op.WallNs)), op.Index),
		Index: op.Index, WallNs: op.WallNs, Lanes: []pageLane{}, Segments: []int64{}, Off: []int64{}}
	lanes := map[string]int64{}
	lane := func(id tracer.TaskID, at tracer.Time) (number int64, thread string) {
		process, thread := s.names(op.Trace, id, at)
		key, role := process, ""
		if t := taskOf(op.Trace, id); !t.Kernel && t.PID > 0 {
			key = fmt.Sprintf("%s %d", process, t.PID)
			role = op.RoleName(id, at)
		}
		number, ok := lanes[key]
		if !ok {
			number = int64(len(o.Lanes))
			lanes[key] = number
			o.Lanes = append(o.Lanes, pageLane{Name: key, Role: Clean(role)})
		}
		return number, thread
	}
	segs := thin(op.Path.Segments, tracer.Time(op.WallNs/pageSegments))
	o.Merged = len(op.Path.Segments) - len(segs)
	for i := range segs {
		seg := &segs[i]
		number, thread := lane(seg.Task, seg.Begin)
		wait := ""
		if seg.State != tracer.StateRunning {
			wait = Clean(op.WaitName(seg))
		}
		o.Segments = append(o.Segments, int64(seg.End-seg.Begin), number, pageState(seg.State), int64(d.text(Clean(op.StageName(seg)))),
			int64(d.text(wait)), int64(d.text(Clean(op.Trace.String(seg.Syscall)))), int64(d.stack(s, op.Trace, seg.Stack)), int64(d.text(thread)))
	}
	for i := range op.Off {
		off := &op.Off[i]
		if off.End <= off.Begin || off.Task < 0 || i >= pageSegments {
			continue
		}
		number, _ := lane(off.Task, off.Begin)
		o.Off = append(o.Off, int64(off.Begin-op.Begin), int64(off.End-off.Begin), number,
			int64(d.text(Clean(op.StageName(&analysis.Segment{Stage: off.Stage})))), int64(d.text(Clean(off.Name))))
	}
	d.Operations = append(d.Operations, o)
}

// pageState numbers states as the scripts do.
func pageState(s tracer.TaskState) int64 {
	switch s {
	case tracer.StateRunning:
		return 0
	case tracer.StateRunnable:
		return 1
	case tracer.StateBlocked:
		return 2
	}
	return 3
}

// thin leaves one segment in place of neighbours that are together shorter than
// least: the longest of them.
func thin(segs []analysis.Segment, least tracer.Time) []analysis.Segment {
	if len(segs) <= pageSegments {
		return segs
	}
	var out []analysis.Segment
	for i := 0; i < len(segs); {
		longest, j := segs[i], i+1
		for ; j < len(segs) && segs[j].End-segs[i].Begin < least; j++ {
			if segs[j].End-segs[j].Begin > longest.End-longest.Begin {
				longest = segs[j]
			}
		}
		longest.Begin, longest.End = segs[i].Begin, segs[j-1].End
		out = append(out, longest)
		i = j
	}
	return out
}

func (d *pageData) stack(s *stacks, tr *tracer.Trace, id tracer.StackID) int {
	if id <= 0 || int(id) >= len(tr.Stacks) || len(tr.Stacks[id].Frames) == 0 {
		return 0
	}
	s.use(tr)
	var names []string
	for _, f := range tr.Stacks[id].Frames {
		if len(names) == pageFrames {
			names = append(names, "...")
			break
		}
		names = append(names, s.frames[s.traceFrame(f)].name)
	}
	key := strings.Join(names, "\n")
	n, ok := d.stacks[key]
	if !ok {
		n = len(d.Stacks)
		d.stacks[key] = n
		frames := make([]int, len(names))
		for i, name := range names {
			frames[i] = d.text(name)
		}
		d.Stacks = append(d.Stacks, frames)
	}
	return n
}

// drawings collects what the page draws in one pass over the operations. Without
// a recording there is nothing to draw.
func drawings(in *Input, r *analysis.Result) (*pageData, error) {
	d := newPageData()
	if in.Operations == nil {
		return d, nil
	}
	picked, order := pickOperations(r)
	path, cpu := newFlame(), newFlame()
	s, samples := newStacks(), newSampler(len(cpuTypes))
	err := in.Operations(func(op *analysis.Operation) error {
		if which := picked[op.Index]; which != "" {
			d.addOperation(s, op, which)
		}
		samples.addSamples(op)
		path.addPath(s, op)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(d.Operations, func(a, b pageOperation) int {
		return cmp.Compare(slices.Index(order, a.Index), slices.Index(order, b.Index))
	})
	for id, key := range samples.samples.list {
		cpu.add(samples.frames, unpack(samples.stackIDs.list[key.stack]), samples.values[id*samples.width+1])
	}
	for _, f := range []struct {
		title, about string
		tree         *flame
	}{
		{"Critical path", "wall time of all operations by stage, process and stack", path},
		{"CPU", "CPU samples of everything that took part", cpu},
	} {
		if f.tree.value > 0 {
			d.Flames = append(d.Flames, pageFlame{Title: f.title, About: f.about, Root: f.tree.node(d, f.tree.value/flameLeast)})
		}
	}
	return d, nil
}
