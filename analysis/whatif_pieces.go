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
	if row := r.rowOf(s); row != r.g.other {
		return row
	}
	return rowInherit
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
			c.row = r.rowBeside(&seg)
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
		r.name(id, c, iv, at, min(s.Begin, end))
		at = min(s.End, end)
		c.pieces, onPath = append(c.pieces, piece{at, r.rowOf(s)}), true
		if s.End > end {
			break
		}
	}
	r.name(id, c, iv, at, end)
	if it := r.ix.itemAt(id, c.at); runs(iv) && (it == nil || it.begin > c.at) { // an item says whose it is at its begin
		c.away = !onPath && !r.marks.during(id, c.at, end)
	}
}

// name splits [a, b) of an interval, which is not on the path.
func (r *replayer) name(id tracer.TaskID, c *clock, iv *interval, a, b tracer.Time) {
	if a >= b {
		return
	}
	row := rowFixed
	if !r.marks.during(id, a, b) {
		c.pieces = append(c.pieces, piece{b, row})
		return
	}
	switch iv.state {
	case tracer.StateRunning:
		r.walker.path.Segments, r.lo = r.walker.path.Segments[:0], b
		r.running(id, a, b, -1)
		for i := len(r.walker.path.Segments) - 1; i >= 0; i-- {
			s := &r.walker.path.Segments[i]
			if row = r.rowOf(s); row == r.g.other {
				row = rowInherit
			}
			c.pieces = append(c.pieces, piece{s.End, row})
		}
		return
	case tracer.StateRunnable:
		seg := r.runnable(id, iv, a, b, -1)
		row = r.rowBeside(&seg)
	case tracer.StateBlocked:
		row = c.row
	}
	c.pieces = append(c.pieces, piece{b, row})
}
