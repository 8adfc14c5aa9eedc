package analysis

import (
	"sort"

	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// running covers [a, hi) of a task on a CPU, cut where its spans, its program
// or its windows change, and shared equally among the samples taken in each
// piece.
func (w *walker) running(th tracer.TaskID, a, hi tracer.Time, link int32) {
	cuts := w.cuts(th, a, hi)
	for i := len(cuts) - 1; i > 0; i-- {
		w.piece(th, cuts[i-1], cuts[i], link)
	}
}

// cuts gives a, hi and the moments between them at which what is known about
// the task changes.
func (w *walker) cuts(th tracer.TaskID, a, hi tracer.Time) []tracer.Time {
	c := append(w.cutBuf[:0], a)
	inside := func(t tracer.Time) {
		if t > a && t < hi {
			c = append(c, t)
		}
	}
	p := w.ix.points.of(th)
	for i := w.ix.points.search(th, func(p *spanPoint) bool { return p.at > a }); i < len(p) && p[i].at < hi; i++ {
		if p[i].at > c[len(c)-1] { // one span may end where the next begins
			c = append(c, p[i].at)
		}
	}
	n := len(c)
	l := w.tr.Leader(th)
	if l > 0 {
		im := w.tr.Tasks[l].Images
		for i := w.tr.ImageAt(l, a) + 1; i < len(im) && im[i].Time < hi; i++ {
			inside(im[i].Time)
		}
		for _, win := range w.windows(th, a) {
			inside(win.Begin)
			inside(win.End)
		}
		inside(w.exits[th])
	}
	c = append(c, hi)
	if len(c) > n+1 {
		sort.Slice(c, func(i, j int) bool { return c[i] < c[j] })
		k := 1
		for _, t := range c[1:] {
			if t != c[k-1] {
				c[k] = t
				k++
			}
		}
		c = c[:k]
	}
	w.cutBuf = c
	return c
}

// piece emits [a, b), in which nothing changes but where the samples point.
func (w *walker) piece(th tracer.TaskID, a, b tracer.Time, link int32) {
	base := Segment{Begin: a, End: b, Task: th, Link: link, State: tracer.StateRunning, Wait: stage.NoWait, Spans: w.ix.spansAt(th, b)}
	base.Syscall = w.openSyscall(base.Spans)
	ss := w.ix.samplesIn(th, a, b)
	if len(ss) == 0 || tracer.Time(len(ss)) > b-a {
		if base.Syscall == 0 && w.insideExec(th, a, b) {
			base.Syscall = w.execve
		}
		w.emit(base)
		return
	}
	n := tracer.Time(len(ss))
	for i := n - 1; i >= 0; i-- {
		e := &w.tr.Events[ss[i]]
		seg := base
		seg.Begin, seg.End = a+(b-a)*i/n, a+(b-a)*(i+1)/n
		seg.Stack, seg.Samples = e.Stack, 1
		if e.Name != 0 {
			seg.Syscall = e.Name
		}
		w.emit(seg)
	}
}

// insideExec tells of an unsampled piece that the task was executing a program
// all through it: it was so when it lost the CPU before and still is at the
// end, by a switch-out or by the exec itself. Nothing calls execve twice in a
// row, as it may read.
func (a *traceAnalysis) insideExec(th tracer.TaskID, from, to tracer.Time) bool {
	ivs := a.tl.iv.of(th)
	i := a.tl.iv.search(th, func(iv *interval) bool { return iv.start > from })
	began := false
	for j := i - 2; j >= 0 && ivs[j].state != tracer.StateRunning; j-- {
		began = began || ivs[j].sys == a.execve
	}
	if !began || i == 0 || ivs[i-1].start != from {
		return false
	}
	if i < len(ivs) && ivs[i].start == to {
		return ivs[i].sys == a.execve
	}
	k := a.tr.ImageAt(th, to)
	return k >= 0 && a.tr.Tasks[a.tr.Leader(th)].Images[k].Time == to
}

// openSyscall is the innermost system call among open spans.
func (a *traceAnalysis) openSyscall(id stage.SpansID) tracer.StringID {
	for id != 0 {
		class, name, _, parent := a.match.SpansTop(id)
		if class == tracer.ClassSyscall {
			return name
		}
		id = parent
	}
	return 0
}

// stageOf asks the stage set about a segment.
func (a *traceAnalysis) stageOf(s *Segment) stage.ID {
	q := stage.Situation{
		Actor: a.match.Actor(s.Task, s.Begin), Spans: s.Spans, Stack: s.Stack, Syscall: s.Syscall,
		Wait: s.Wait, State: s.State, Phase: a.phase(s.Task, s.Begin),
	}
	if a.match.HasWindows(q.Actor) {
		for _, w := range a.windows(s.Task, s.Begin) {
			if w.Begin <= s.Begin && s.Begin < w.End {
				q.Windows |= 1 << w.Bit
			}
		}
	}
	return a.match.Stage(&q)
}

// phase is the part of its process's life that a task is in.
func (a *traceAnalysis) phase(id tracer.TaskID, at tracer.Time) stage.Phase {
	if id <= 0 {
		return stage.PhaseRunning
	}
	if x := a.exits[id]; x != 0 && at >= x {
		return stage.PhaseExiting
	}
	l := a.tr.Leader(id)
	t := &a.tr.Tasks[l]
	if t.Born > 0 { // a child that never executes anything does its own work: a forking server's
		if i := a.tr.ImageAt(l, at); i+1 < len(t.Images) && (i < 0 || t.Images[i].Time <= t.Born) {
			return stage.PhaseBeforeExec
		}
	}
	return stage.PhaseRunning
}

// procKey is a program run of a process.
type procKey struct {
	leader tracer.TaskID
	image  int
}

// windows gives the windows of the program that a task's process runs at a
// time. Computed once per program run.
func (a *traceAnalysis) windows(id tracer.TaskID, at tracer.Time) []stage.Window {
	actor := a.match.Actor(id, at)
	if !a.match.HasWindows(actor) {
		return nil
	}
	k := procKey{a.tr.Leader(id), a.tr.ImageAt(id, at)}
	if w, ok := a.winCache[k]; ok {
		return w
	}
	begin, end := a.imageLife(k)
	w := a.match.Windows(actor, begin, end, a.moments(k, begin, end))
	a.winCache[k] = w
	return w
}

// imageLife is when a process ran a program.
func (a *traceAnalysis) imageLife(k procKey) (begin, end tracer.Time) {
	t := &a.tr.Tasks[k.leader]
	begin, end = a.tr.Meta.Begin, a.tr.Meta.End
	if k.image >= 0 {
		begin = max(begin, t.Images[k.image].Time)
	}
	if k.image+1 < len(t.Images) {
		return begin, t.Images[k.image+1].Time
	}
	last := tracer.Time(0)
	for _, id := range a.threads[k.leader] {
		last = max(last, a.gone[id])
	}
	if g := a.gone[k.leader]; g != 0 {
		end = max(last, g)
	}
	return begin, end
}

// moments lists what happened to a process's threads in [begin, end], for
// window rules.
func (a *traceAnalysis) moments(k procKey, begin, end tracer.Time) []stage.Moment {
	var out []stage.Moment
	ev := a.tr.Events
	mine := func(id tracer.TaskID) bool { return id > 0 && a.tr.Leader(id) == k.leader }
	for i := sort.Search(len(ev), func(i int) bool { return ev[i].Time >= begin }); i < len(ev) && ev[i].Time <= end; i++ {
		e := &ev[i]
		m := stage.Moment{Time: e.Time, Task: e.Task}
		switch {
		case e.Kind == tracer.KindWake && mine(e.Peer) && e.Ctx == tracer.CtxTask && e.Task > 0 && !mine(e.Task):
			m.What, m.Task, m.Waker = stage.MomentWoken, e.Peer, a.match.Actor(e.Task, e.Time)
		case !mine(e.Task):
			continue
		case e.Kind == tracer.KindExec:
			m.What, m.Actor = stage.MomentExec, a.match.Actor(e.Task, e.Time)
		case e.Kind == tracer.KindExit:
			m.What = stage.MomentExit
		case e.Kind == tracer.KindBegin, e.Kind == tracer.KindEnd:
			m.What, m.Class, m.Name, m.Args = stage.MomentBegin, e.Class, e.Name, e.Args
			if e.Kind == tracer.KindEnd {
				m.What = stage.MomentEnd
			}
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}
