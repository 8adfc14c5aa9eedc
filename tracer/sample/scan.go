package sample

import (
	"context"
	"path/filepath"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"stagetrace/tracer"
)

// scanner looks at processes and keeps what changed as events.
type scanner struct {
	b       *tracer.Builder
	self    int32
	roots   map[int32]bool
	parents map[int32]int32 // of all processes of the last look
	procs   map[int32]*proc // the followed ones
	tids    map[int32]tracer.TaskID
	fresh   map[int32]bool // processes that the last look did not see; empty at the first look
	begin   tracer.Time
	looked  bool
	seq     uint32
}

type proc struct {
	p     *process.Process
	task  tracer.TaskID
	seen  tracer.Time
	cpu   time.Duration
	exe   string
	young bool // began during the recording
}

// settling is how long a new process's program is looked at again: between
// fork and exec it still is its parent's.
const settling = tracer.Time(200 * time.Millisecond)

func newScanner(self int32, roots map[int32]bool) *scanner {
	return &scanner{b: tracer.NewBuilder(), self: self, roots: roots, parents: map[int32]int32{},
		procs: map[int32]*proc{}, tids: map[int32]tracer.TaskID{}, fresh: map[int32]bool{}, begin: now()}
}

func (s *scanner) add(e tracer.Event) {
	s.seq++
	e.Seq = s.seq
	s.b.Add(e)
}

// look compares the processes that exist with those of the last look. What
// cannot be read of one (it ended, it is another user's) is left out.
func (s *scanner) look(ctx context.Context) {
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return // a look that fails is a look missed
	}
	at := now()
	live := make(map[int32]bool, len(pids))
	for _, pid := range pids {
		live[pid] = true
	}
	for pid := range s.parents {
		if !live[pid] {
			delete(s.parents, pid)
		}
	}
	for pid, p := range s.procs {
		if !live[pid] {
			s.add(tracer.Event{Kind: tracer.KindExit, Time: at, Task: p.task, Flags: tracer.FlagGroup})
			delete(s.procs, pid)
			delete(s.tids, pid)
		}
	}
	s.learnParents(ctx, pids)
	for _, pid := range pids {
		if s.procs[pid] == nil && s.followed(pid) {
			s.discover(ctx, pid, at)
		}
	}
	for _, p := range s.procs {
		s.sample(ctx, p, at)
	}
	s.looked = true
}

// learnParents reads the parent of processes that are new since the last
// look: reading those of all would take most of the time.
func (s *scanner) learnParents(ctx context.Context, pids []int32) {
	clear(s.fresh)
	for _, pid := range pids {
		if _, ok := s.parents[pid]; ok {
			continue
		}
		parent, err := (&process.Process{Pid: pid}).PpidWithContext(ctx)
		if err != nil {
			parent = 0
		}
		s.parents[pid] = parent
		s.fresh[pid] = s.looked
	}
}

// followed says whether a process descends from a root, or did when it was
// new.
func (s *scanner) followed(pid int32) bool {
	for range 64 { // deeper than trees are; ids may form a ring when one was reused
		if s.roots[pid] || s.procs[pid] != nil {
			return true
		}
		parent, ok := s.parents[pid]
		if !ok || parent == 0 || parent == pid {
			return false
		}
		pid = parent
	}
	return false
}

// discover adds a process that is new to the recording: a Fork when its parent
// was there before, else a Status.
func (s *scanner) discover(ctx context.Context, pid int32, at tracer.Time) {
	if s.procs[pid] != nil {
		return
	}
	parent := s.parents[pid]
	if parent != pid && s.followed(parent) {
		s.discover(ctx, parent, at) // no-op when it is known
	}
	p := &process.Process{Pid: pid}
	created, err := p.CreateTimeWithContext(ctx)
	if err != nil {
		return
	}
	start := at - tracer.Time(time.Since(time.UnixMilli(created)))
	task := s.b.Task(tracer.TaskKey{TID: pid, Start: start})
	info := s.b.TaskInfo(task)
	info.PID = pid
	info.Comm, _ = p.NameWithContext(ctx) // a name is for the reader only
	s.procs[pid] = &proc{p: p, task: task, seen: at, young: s.fresh[pid]}
	s.tids[pid] = task
	if from := s.procs[parent]; from != nil && s.fresh[pid] {
		s.add(tracer.Event{Kind: tracer.KindFork, Time: at, Task: from.task, Peer: task})
		return
	}
	s.add(tracer.Event{Kind: tracer.KindStatus, Time: at, Task: task, State: tracer.StateUnknown})
	if from := s.procs[parent]; from != nil {
		s.b.TaskInfo(task).Parent = from.task
	}
}

// sample takes a process's program, while it may still change, and its CPU
// time since the last look.
func (s *scanner) sample(ctx context.Context, p *proc, at tracer.Time) {
	if at-p.seen <= settling {
		s.image(ctx, p, at)
	}
	times, err := p.p.TimesWithContext(ctx)
	if err != nil {
		return
	}
	cpu := time.Duration((times.User + times.System) * float64(time.Second))
	// What a process used before it was first looked at is of this recording
	// only when it was not there at the look before.
	if used := cpu - p.cpu; used > 0 && (at != p.seen || p.young) {
		s.add(tracer.Event{Kind: tracer.KindSample, Time: at, Task: p.task, Value: int64(used)})
	}
	p.cpu = max(p.cpu, cpu)
}

func (s *scanner) image(ctx context.Context, p *proc, at tracer.Time) {
	exe, err := p.p.ExeWithContext(ctx)
	if err != nil || exe == p.exe {
		return
	}
	argv, err := p.p.CmdlineSliceWithContext(ctx)
	if err != nil {
		argv = nil
	}
	info := s.b.TaskInfo(p.task)
	im := tracer.Image{Exe: exe, Argv: argv, Comm: filepath.Base(exe)}
	if p.exe != "" {
		im.Time = at
		info.Comm = im.Comm
		s.add(tracer.Event{Kind: tracer.KindExec, Time: at, Task: p.task, Peer: tracer.NoTask, Name: s.b.String(exe)})
	}
	info.Images = append(s.b.TaskInfo(p.task).Images, im)
	p.exe = exe
}

// mark adds an operation's begin or end.
func (s *scanner) mark(m tracer.Mark) {
	e := tracer.Event{Kind: m.Kind, Time: m.Time, Task: s.thread(m.TID), Flow: m.Op, Name: s.b.String(m.Target), Flags: m.Flags}
	if m.Kind == tracer.KindOpEnd {
		e.Value = m.Value
	}
	s.begin = min(s.begin, m.Time)
	s.add(e)
}

// thread is the task of a thread id: a process that is followed, else a thread
// of ours.
func (s *scanner) thread(tid int) tracer.TaskID {
	id := int32(tid)
	if id <= 0 {
		id = s.self
	}
	if t, ok := s.tids[id]; ok {
		return t
	}
	leader := s.procs[s.self]
	key := tracer.TaskKey{TID: id}
	if leader != nil {
		key.Start = s.b.TaskInfo(leader.task).Start
	}
	t := s.b.Task(key)
	s.b.TaskInfo(t).PID = s.self
	if leader != nil {
		s.b.TaskInfo(t).Leader = leader.task
		s.b.TaskInfo(t).Comm = s.b.TaskInfo(leader.task).Comm
	}
	s.tids[id] = t
	return t
}

func (s *scanner) trace(meta tracer.Meta) *tracer.Trace {
	meta.Begin, meta.End = s.begin, now()
	s.b.Meta = meta
	return s.b.Trace()
}
