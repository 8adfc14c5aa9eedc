package analysis

import (
	"fmt"
	"sort"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// Names of the two rows that no stage file defines.
const (
	StageOther   = "other"   // the path was there, and no stage claims it
	StageUnknown = "unknown" // what the operation waited for was not seen
)

// StageName is the row of the table that a segment belongs to.
func (o *Operation) StageName(s *Segment) string { return stageName(o.Set, s.Stage, s.Leaf) }

func stageName(set *stage.Set, id stage.ID, leaf Leaf) string {
	if id >= 0 {
		return set.Stages[id].Name
	}
	switch leaf {
	case LeafUnknown, LeafLost, LeafBefore:
		return StageUnknown
	}
	return StageOther
}

// checkPath proves that a path is a partition of [begin, end): contiguous,
// forward, exact. It runs on every operation.
func checkPath(p *Path, begin, end tracer.Time) error {
	at := begin
	for i := range p.Segments {
		s := &p.Segments[i]
		if s.Begin != at || s.End <= s.Begin {
			return fmt.Errorf("critical path of [%d, %d] is not contiguous at segment %d: [%d, %d] after %d", begin, end, i, s.Begin, s.End, at)
		}
		at = s.End
	}
	if at != end {
		return fmt.Errorf("critical path of [%d, %d] ends at %d", begin, end, at)
	}
	return nil
}

// breakdown sums a path by stage. The ns of the rows add up to end - begin.
func breakdown(set *stage.Set, p *Path) []StageResult {
	rows := map[string]*StageResult{}
	queue := set.WaitNamed("runqueue")
	last := ""
	for i := range p.Segments {
		s := &p.Segments[i]
		name := stageName(set, s.Stage, s.Leaf)
		r := rows[name]
		if r == nil {
			r = &StageResult{Name: name}
			rows[name] = r
		}
		d := int64(s.End - s.Begin)
		r.Ns += d
		if name != last {
			r.Count++
		}
		last = name
		switch s.State {
		case tracer.StateRunning:
			r.RunningNs += d
			continue
		case tracer.StateRunnable:
			r.RunnableNs += d
			if s.Wait == queue { // the plain case is what the state says
				continue
			}
		default:
			r.BlockedNs += d
		}
		if r.Waits == nil {
			r.Waits = map[string]int64{}
		}
		r.Waits[waitName(set, s.Wait)] += d
	}
	out := make([]StageResult, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	sort.Slice(out, func(i, j int) bool { return largerFirst(out[i].Ns, out[j].Ns, out[i].Name, out[j].Name) })
	return out
}

// largerFirst is the order of the rows of a table: by falling size, then name.
func largerFirst[T int64 | float64](a, b T, nameA, nameB string) bool {
	if a != b {
		return a > b
	}
	return nameA < nameB
}

func waitName(set *stage.Set, w stage.WaitID) string {
	if w < 0 {
		return "unknown"
	}
	return set.Waits[w].Name
}

// RoleName is the role that a task's process has at a time; "" for none.
func (o *Operation) RoleName(id tracer.TaskID, at tracer.Time) string {
	if o.Match == nil || id < 0 {
		return ""
	}
	if r := o.Match.Role(o.Match.Actor(id, at)); r >= 0 {
		return o.Set.Roles[r].Name
	}
	return ""
}

// WaitName is the reason a blocked segment waited for.
func (o *Operation) WaitName(s *Segment) string { return waitName(o.Set, s.Wait) }
