package reports

import (
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"stagetrace/analysis"
	"stagetrace/analysis/stage"
	"stagetrace/tracer"
)

// frame is one level of a stack in a profile: a real function, or a
// pseudo-frame (operation, process, system call, work item), which has a name
// only. Names are clean.
type frame struct {
	name    string
	object  string // file of a real function; [kernel.kallsyms] for the kernel
	buildID string
	address uint64 // offset in object; in the kernel, the address
}

// kernelObject is what perf and pprof call the kernel's mapping.
const kernelObject = "[kernel.kallsyms]"

// maxDepth bounds a stack, chain of waits included: a profile with endless
// ones cannot be drawn.
const maxDepth = 1024

// stacks makes stacks of frame ids, which are the same over all traces of a run.
type stacks struct {
	frames []frame
	ids    map[frame]uint32

	trace *tracer.Trace // whose frames known holds
	known []uint32      // by index into trace.Frames: id + 1

	match *stage.Matcher // whose spans the keys of tasks mean
	tasks map[taskKey][]uint32
}

// taskKey is all that the frames of a task depend on, within a trace. There
// are few of them for the moments there are.
type taskKey struct {
	task    tracer.TaskID
	image   *tracer.Image
	stack   tracer.StackID
	syscall tracer.StringID
	spans   stage.SpansID
}

func newStacks() *stacks { return &stacks{ids: map[frame]uint32{}} }

func (s *stacks) id(f frame) uint32 {
	id, ok := s.ids[f]
	if !ok {
		id = uint32(len(s.frames))
		s.frames = append(s.frames, f)
		s.ids[f] = id
	}
	return id
}

func (s *stacks) pseudo(format string, args ...any) uint32 {
	return s.id(frame{name: Clean(fmt.Sprintf(format, args...))})
}

// pack makes a map key of a stack.
func pack(stack []uint32) string {
	b := make([]byte, 0, 4*len(stack))
	for _, id := range stack {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	return string(b)
}

func unpack(key string) []uint32 {
	out := make([]uint32, len(key)/4)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32([]byte(key[4*i : 4*i+4]))
	}
	return out
}

func (s *stacks) use(tr *tracer.Trace) {
	if s.trace != tr {
		s.trace, s.known, s.tasks = tr, make([]uint32, len(tr.Frames)), map[taskKey][]uint32{}
	}
}

func (s *stacks) traceFrame(i uint32) uint32 {
	if int(i) >= len(s.known) {
		return s.pseudo("[unknown]")
	}
	if s.known[i] == 0 {
		f := s.trace.Frames[i]
		out := frame{name: Clean(s.trace.String(f.Func)), object: Clean(s.trace.String(f.Object)), buildID: Clean(s.trace.String(f.BuildID)), address: f.Offset}
		if f.Kernel {
			out.object = kernelObject
		}
		if out.name == "" {
			out.name = fmt.Sprintf("%s+0x%x", orNone(path.Base("/"+out.object)), f.Offset)
		}
		s.known[i] = s.id(out) + 1
	}
	return s.known[i] - 1
}

// task appends the frames of a task at a moment, root first: its process and
// thread, the work item it carries, its user frames, its kernel frames or the
// system call it is in.
func (s *stacks) task(stack []uint32, op *analysis.Operation, m moment) []uint32 {
	s.use(op.Trace)
	if s.match != op.Match {
		s.match, s.tasks = op.Match, map[taskKey][]uint32{}
	}
	k := taskKey{task: m.task, stack: m.stack, syscall: m.syscall}
	if m.task > 0 && int(m.task) < len(op.Trace.Tasks) {
		k.image = imageOf(op.Trace, op.Trace.Leader(m.task), m.at)
	}
	if m.segment != nil {
		k.spans = m.segment.Spans
	}
	frames, ok := s.tasks[k]
	if !ok {
		frames = s.taskFrames(op, m)
		s.tasks[k] = frames
	}
	return append(stack, frames...)
}

func (s *stacks) taskFrames(op *analysis.Operation, m moment) (stack []uint32) {
	process, thread := taskNames(op.Trace, m.task, m.at)
	if thread == process || thread == "" {
		stack = append(stack, s.pseudo("%s", process))
	} else {
		stack = append(stack, s.pseudo("%s", process), s.pseudo("[thread] %s", thread))
	}
	if item := s.item(op, m); item != "" {
		stack = append(stack, s.pseudo("%s", item))
	}
	kernel := false
	if int(m.stack) < len(op.Trace.Stacks) {
		frames := op.Trace.Stacks[m.stack].Frames
		for i := len(frames) - 1; i >= 0; i-- {
			id := s.traceFrame(frames[i])
			kernel = kernel || s.frames[id].object == kernelObject
			stack = append(stack, id)
		}
	}
	if name := op.Trace.String(m.syscall); !kernel && name != "" {
		stack = append(stack, s.pseudo("[system call] %s", name))
	}
	return stack
}

// moment is a task at a time, as far as frames go.
type moment struct {
	task    tracer.TaskID
	at      tracer.Time
	stack   tracer.StackID
	syscall tracer.StringID
	segment *analysis.Segment // for its spans; nil when it is no segment
}

// item names the innermost work item or softirq that a segment is inside of.
func (s *stacks) item(op *analysis.Operation, m moment) string {
	if op.Match == nil || m.segment == nil {
		return ""
	}
	id := m.segment.Spans
	for depth := 0; id != 0 && depth < maxDepth; depth++ {
		class, name, _, parent := op.Match.SpansTop(id)
		switch class {
		case tracer.ClassWork, tracer.ClassSoftirq, tracer.ClassIRQ, tracer.ClassTimer:
			return "[" + class.String() + "] " + op.Trace.String(name)
		}
		id = parent
	}
	return ""
}

// operation is the root frame: it says which target, and when the stacks below
// it are not to be trusted.
func (s *stacks) operation(op *analysis.Operation) uint32 {
	name := "operation " + op.Target
	switch {
	case op.LostEvents > 0:
		name += " [lost events]"
	case op.Incomplete:
		name += " [incomplete]"
	case op.Failed:
		name += " [failed]"
	}
	return s.pseudo("%s", name)
}

// path calls f for each segment of an operation's path with its stack, root
// first: the operation, the chain of waits, the segment's own frames. The
// stack is valid during the call. An operation without a path is one
// segment-less call for all of its time. The error says that the segments do
// not add up to the wall time.
func (s *stacks) path(op *analysis.Operation, f func(seg *analysis.Segment, stack []uint32, ns int64)) error {
	s.use(op.Trace)
	root := s.operation(op)
	if len(op.Path.Segments) == 0 {
		if op.WallNs > 0 {
			f(nil, []uint32{root, s.pseudo("[unknown]")}, op.WallNs)
		}
		return nil
	}
	chains := make([][]uint32, len(op.Path.Links))
	var sum int64
	for i := range op.Path.Segments {
		seg := &op.Path.Segments[i]
		prefix := s.chain(op, chains, seg.Link, root, seg.Begin)
		stack := s.task(prefix[:len(prefix):len(prefix)], op, moment{seg.Task, seg.Begin, seg.Stack, seg.Syscall, seg})
		ns := int64(seg.End - seg.Begin)
		sum += ns
		f(seg, shorten(stack), ns)
	}
	if sum != op.WallNs {
		return fmt.Errorf("operation %d of %s: the path covers %d ns of %d ns", op.Index, Clean(op.Target), sum, op.WallNs)
	}
	return nil
}

// chain is the frames of the waits that lead to a link, memoised: at is a
// moment at which the waiters were waiting.
func (s *stacks) chain(op *analysis.Operation, chains [][]uint32, link int32, root uint32, at tracer.Time) []uint32 {
	if link < 0 || int(link) >= len(chains) {
		return []uint32{root}
	}
	if chains[link] == nil {
		l := &op.Path.Links[link]
		parent := l.Parent
		if parent >= link { // links are made from the root down
			parent = -1
		}
		prefix := s.chain(op, chains, parent, root, at)
		chains[link] = s.task(prefix[:len(prefix):len(prefix)], op, moment{task: l.Waiter, at: at, stack: l.Stack})
	}
	return chains[link]
}

// shorten cuts the middle out of a stack that is too deep.
func shorten(stack []uint32) []uint32 {
	if len(stack) <= maxDepth {
		return stack
	}
	return append(stack[:maxDepth/2:maxDepth/2], stack[len(stack)-maxDepth/2:]...)
}

// offPath calls f for each piece of work the operation did not wait for.
func (s *stacks) offPath(op *analysis.Operation, f func(off *analysis.OffPath, stack []uint32)) {
	s.use(op.Trace)
	root := []uint32{s.operation(op), s.pseudo("[off the path]")}
	for i := range op.Off {
		off := &op.Off[i]
		stack := s.task(root[:len(root):len(root)], op, moment{task: off.Task, at: off.Begin})
		if process, thread := taskNames(op.Trace, off.Task, off.Begin); off.Name != "" && off.Name != process && off.Name != thread {
			stack = append(stack, s.pseudo("%s", off.Name))
		}
		f(off, stack)
	}
}

// taskNames are the process and the thread name of a task at a time. Per-CPU
// kernel threads go by their kind (kworker/1:2 is kworker), so that profiles
// of different runs have the same frames. A program is called by its file, as
// comm lies for programs that execute themselves ("exe").
func taskNames(tr *tracer.Trace, id tracer.TaskID, at tracer.Time) (process, thread string) {
	if id == tracer.Idle {
		return "[idle]", ""
	}
	if id < 0 || int(id) >= len(tr.Tasks) {
		return "[unknown]", ""
	}
	t := &tr.Tasks[id]
	if t.Kernel {
		name, _, _ := strings.Cut(t.Comm, "/")
		return "[" + orNone(name) + "]", ""
	}
	leader := tr.Leader(id)
	if id != leader { // a main thread is the process; its comm may be from before the exec
		thread = t.Comm
	}
	im := imageOf(tr, leader, at)
	if im == nil {
		return orNone(tr.Tasks[leader].Comm), thread
	}
	if thread == im.Comm {
		thread = ""
	}
	return orNone(programName(im)), thread
}

// maxForks bounds how far up a process looks for the program that it runs.
const maxForks = 16

// imageOf is the program that a process runs at a time. One that was forked
// and has not executed anything yet runs its parent's.
func imageOf(tr *tracer.Trace, leader tracer.TaskID, at tracer.Time) *tracer.Image {
	for range maxForks {
		if leader <= 0 || int(leader) >= len(tr.Tasks) {
			return nil
		}
		t := &tr.Tasks[leader]
		if i := tr.ImageAt(leader, at); i >= 0 && i < len(t.Images) {
			return &t.Images[i]
		}
		if t.Born == 0 || t.Kernel {
			return nil
		}
		leader = tr.Leader(t.Parent)
	}
	return nil
}

func programName(im *tracer.Image) string {
	base := path.Base(im.Exe)
	if im.Exe == "" || base == "exe" || strings.HasPrefix(base, "memfd:") {
		if len(im.Argv) > 0 && im.Argv[0] != "" {
			return path.Base(im.Argv[0])
		}
		return im.Comm
	}
	return strings.TrimSuffix(base, " (deleted)")
}
