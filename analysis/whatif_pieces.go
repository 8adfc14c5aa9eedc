package analysis

import (
	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// piece is time of a task, up to end, of one stage.
type piece struct {
	end tracer.Time
	row int16
}

// rowOf is the row of a segment of the path.
func (r *replayer) rowOf(s *Segment) int16 {
	if s.Stage >= 0 {
		return int16(s.Stage)
	}
	if stageName(r.set, s.Stage, s.Leaf) == StageUnknown {
		return r.g.other + 1
	}
	return r.g.other
}

// rowName is the reverse, the name of a row.
func rowName(set *stage.Set, row int) string {
	switch row -= len(set.Stages); row {
	case 0:
		return StageOther
	case 1:
		return StageUnknown
	}
	return set.Stages[row+len(set.Stages)].Name
}

// rowBeside is the row of something that is not on the path: it has no waiter
// there to take its name from, and takes it from the wait that it ends.
func (r *replayer) rowBeside(s *Segment) int16 {
	s.Stage = r.stageOf(s)
	return r.orInherit(r.rowOf(s))
}

func (r *replayer) orInherit(row int16) int16 {
	if row == r.g.other {
		return rowInherit
	}
	return row
}

// endOf is when an interval of a task ends, at the latest with the operation.
func (r *replayer) endOf(id tracer.TaskID, k int32) tracer.Time {
	if ivs := r.tl.iv.of(id); int(k)+1 < len(ivs) {
		return min(ivs[k+1].start, r.end)
	}
	return r.end
}

// sleep asks the walk about a sleep: whether another task's doings end it, or
// why not.
func (r *replayer) sleep(id tracer.TaskID, iv *interval, end tracer.Time) Segment {
	seg := Segment{Begin: iv.start, End: end, Task: id, Link: -1, State: tracer.StateBlocked, Stack: iv.stack, Syscall: iv.sys, Spans: r.ix.spansAt(id, end)}
	seg.Wait = r.match.Wait(iv.stack, iv.sys, seg.Spans, iv.flags)
	_, seg.Leaf = r.cause(id, iv, &seg)
	return seg
}

// fill splits the interval that a task comes into by stage: as the path has it
// where it is on the path, else by the same rules.
func (r *replayer) fill(id tracer.TaskID, c *clock, iv *interval) {
	c.pieces, c.still, c.timed, c.slept, c.row = c.pieces[:0], false, false, noNode, rowFixed
	end := r.endOf(id, c.iv)
	switch iv.state {
	case tracer.StateDead:
		c.still = true
		return
	case tracer.StateBlocked:
		seg := r.sleep(id, iv, end)
		if r.marks.during(id, iv.start, end) {
			c.row = rowUnnamed
		}
		c.still, c.timed, c.slept = seg.Leaf == LeafNone, seg.Leaf == LeafTimer, c.node
		if c.still {
			return
		}
	}
	at, onPath := c.at, false
	for ; c.seg < len(c.segs); c.seg++ {
		s := &r.path.Segments[c.segs[c.seg]]
		if s.Begin >= end {
			break
		}
		if s.End <= at {
			continue
		}
		r.beside(id, c, at, min(s.Begin, end))
		at = min(s.End, end)
		c.pieces, onPath = append(c.pieces, piece{at, r.rowOf(s)}), true
		if s.End > end {
			break
		}
	}
	r.beside(id, c, at, end)
	if it := r.ix.itemAt(id, c.at); runs(iv) && (it == nil || it.begin > c.at) { // an item says whose it is at its begin
		c.away = !onPath && !r.marks.during(id, c.at, end)
	}
}

// beside lets [a, b), which is not on the path, wait for its name.
func (r *replayer) beside(id tracer.TaskID, c *clock, a, b tracer.Time) {
	if a >= b {
		return
	}
	row := rowFixed
	if r.marks.during(id, a, b) {
		row = rowUnnamed
	}
	c.pieces = append(c.pieces, piece{b, row})
}

// name puts a node in the graph that is not on the path: by the same rules, it
// may be of several stages one after the other.
func (r *replayer) name(n node) {
	end := r.begin + n.at
	begin := end - n.len
	iv := r.tl.before(n.task, end)
	switch {
	case iv == nil:
		n.row = rowFixed
	case iv.state == tracer.StateRunning && n.len > 0:
		r.walker.path.Segments, r.lo = r.walker.path.Segments[:0], end
		r.running(n.task, begin, end, -1)
		for i := len(r.walker.path.Segments) - 1; i >= 0; i-- {
			s := &r.walker.path.Segments[i]
			n.prev = r.g.add(node{at: s.End - r.begin, len: s.End - s.Begin, prev: n.prev, from: noNode, row: r.orInherit(r.rowOf(s))})
		}
		return
	case iv.state == tracer.StateRunnable:
		seg := r.runnable(n.task, iv, begin, end, -1)
		n.row = r.rowBeside(&seg)
	case iv.state == tracer.StateBlocked:
		seg := r.sleep(n.task, iv, end)
		n.row = r.rowBeside(&seg)
	default:
		n.row = rowFixed
	}
	r.g.add(n)
}
