//go:build linux

package ebpf

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"stagetrace/bpf"
	"stagetrace/tracer"
)

// taskInfo is what the decoder knows of a task at the record it is at.
type taskInfo struct {
	exists  bool // had a status in the snapshot, or was born before the trace begins
	tracer  bool
	running bool
	dead    bool
	state   tracer.TaskState
	flags   tracer.Flags
	call    tracer.StringID
	stack   tracer.StackID
	work    openWork // of a kworker
	inCall  bool     // the begin of a call was added, not its end
	entered uint64   // when that call was entered
	inUser  []inUser // user functions it is in, outermost first
	program string   // bprm->filename of its last exec
}

// openWork is the item a kworker is at.
type openWork struct {
	work  uint64
	value uint64
	fn    tracer.StringID
}

func (t *taskInfo) stateNow() tracer.TaskState {
	if t.running {
		return tracer.StateRunning
	}
	return t.state
}

// info is what is known of a task; the pointer is good until the next new one.
func (d *decoder) info(id tracer.TaskID) *taskInfo {
	for int(id) >= len(d.tasks) {
		d.tasks = append(d.tasks, taskInfo{})
	}
	return &d.tasks[max(id, 0)]
}

// resolve is the task that has a tid now. One that nobody described yet is the
// first that will be: a tid does not change hands without a fork.
func (d *decoder) resolve(tid uint32) tracer.TaskID {
	if tid == 0 {
		return tracer.Idle
	}
	if int(tid) < len(d.byTID) && d.byTID[tid] != tracer.NoTask {
		return d.byTID[tid]
	}
	key, ok := d.first[tid]
	if !ok {
		key = tracer.TaskKey{TID: int32(tid)}
		d.counts.unknown++
	}
	id := d.b.Task(key)
	d.setTID(tid, id)
	return id
}

const maxTID = 1 << 22 // PID_MAX_LIMIT

func (d *decoder) setTID(tid uint32, id tracer.TaskID) {
	d.info(id)
	if tid > maxTID {
		return
	}
	for int(tid) >= len(d.byTID) {
		d.byTID = append(d.byTID, tracer.NoTask)
	}
	d.byTID[tid] = id
}

// appendPath turns components, leaf first, into a path.
func appendPath(buf, components []byte) []byte {
	components = bytes.TrimSuffix(components, []byte{0})
	if len(components) == 0 {
		return append(buf, '/')
	}
	parts := bytes.Split(components, []byte{0})
	if len(parts) == 1 && isAnonymous(parts[0]) {
		return append(buf, parts[0]...)
	}
	for i := len(parts) - 1; i >= 0; i-- {
		buf = append(append(buf, '/'), parts[i]...)
	}
	return buf
}

// isAnonymous says whether a name is that of an anonymous file, which is in no
// folder: memfd:NAME and the like.
func isAnonymous(name []byte) bool {
	return bytes.HasPrefix(name, []byte("memfd:")) || bytes.HasPrefix(name, []byte("[")) || bytes.HasPrefix(name, []byte("anon_inode:"))
}

// take cuts n bytes from the front of rest.
func take(rest *[]byte, n int) []byte {
	n = min(n, len(*rest))
	b := (*rest)[:n]
	*rest = (*rest)[n:]
	return b
}

// task: from here on its tid means it.
func (d *decoder) task(r *bpf.TraceRecTask, rest []byte) {
	if r.Tid == 0 || r.Tgid == 0 {
		return
	}
	id := d.b.Task(tracer.TaskKey{TID: int32(r.Tid), Start: tracer.Time(r.Start)})
	leader := id
	if r.Tgid != r.Tid {
		leader = d.b.Task(tracer.TaskKey{TID: int32(r.Tgid), Start: tracer.Time(r.LeaderStart)})
		l := d.b.TaskInfo(leader)
		l.PID, l.Leader = int32(r.Tgid), leader
		d.info(leader)
	}
	d.setTID(r.Tid, id)
	exe, cgroup := take(&rest, int(r.ExeLen)), take(&rest, int(r.CgLen))
	parent := tracer.NoTask
	if r.Parent != 0 && r.Parent != r.Tid {
		parent = d.resolve(r.Parent)
	}
	t := d.b.TaskInfo(id)
	t.PID, t.NSPID, t.Leader = int32(r.Tgid), int32(r.Nspid), leader
	t.Kernel = r.H.Flags&taskKernel != 0
	t.Comm = string(cString(int8s(r.Comm[:])))
	t.Tracer = d.self != 0 && t.PID == d.self && !d.drivers[t.TID]
	if t.Parent == tracer.NoTask && parent != id {
		t.Parent = parent
	}
	if len(cgroup) > 0 {
		t.Cgroup = string(appendPath(nil, cgroup))
	}
	if len(exe) > 0 && leader == id && len(t.Images) == 0 {
		t.Images = append(t.Images, tracer.Image{Exe: string(appendPath(nil, exe)), Comm: t.Comm})
	}
	in := d.info(id)
	in.tracer = t.Tracer
	d.network(&r.H, id, r.Net)
}

// Flags of the record heads (event.h).
const (
	taskKernel   = 1
	exitGroup    = 1
	argvCut      = 1
	sysBegun     = 1
	wakeSpurious = 1

	swPreempt = 1
	swIOWait  = 2
	swNoStack = 4
	swOnCPU   = 8
	swOnRQ    = 16
)

func (d *decoder) status(r *bpf.TraceRecSwitch, rest []byte) {
	id := d.resolve(r.Prev)
	if id <= tracer.Idle {
		return
	}
	stack := d.kernelStack(rest, int(r.Nstack), r.Nstack == sleepDepth)
	t := d.info(id)
	t.exists = true
	t.running = r.H.Flags&swOnCPU != 0
	t.state, t.flags = decodeState(uint32(r.State), r.H.Flags)
	if r.H.Flags&(swOnCPU|swOnRQ) != 0 {
		t.state, t.flags = tracer.StateRunnable, 0
	}
	t.call = d.call(r.Nr)
	if t.stack = 0; t.state == tracer.StateBlocked {
		t.stack = stack
	}
	t.dead = t.state == tracer.StateDead
}

func (d *decoder) fork(r *bpf.TraceRecFork, _ []byte) {
	parent, child := d.resolve(r.Parent), d.resolve(r.Child)
	if child <= tracer.Idle || parent == child {
		return
	}
	t := d.b.TaskInfo(child)
	if parent >= 0 {
		t.Parent = parent
	}
	if tracer.Time(r.H.Ts) > d.begin {
		t.Born = tracer.Time(r.H.Ts)
	}
	if p := d.b.TaskInfo(max(parent, 0)).Leader; t.Leader == child && p > 0 && len(t.Images) == 0 {
		if im := d.b.TaskInfo(p).Images; len(im) > 0 {
			last := im[len(im)-1]
			last.Time = tracer.Time(r.H.Ts)
			t.Images = append(t.Images, last)
		}
	}
	in := d.info(child)
	in.state = tracer.StateRunnable
	in.exists = !d.begun
	if parent > 0 {
		d.add(&r.H, tracer.Event{Kind: tracer.KindFork, Task: parent, Peer: child, Value: int64(r.CloneFlags)}, subEvent)
	}
}

func (d *decoder) exec(r *bpf.TraceRecExec, rest []byte) {
	id := d.resolve(r.Tid)
	if id <= tracer.Idle {
		return
	}
	exe := string(appendPath(nil, take(&rest, int(r.ExeLen))))
	cgroup := take(&rest, int(r.CgLen))
	d.info(id).inCall = false // it returns under this identity, or never
	d.info(id).inUser = nil
	d.info(id).program = string(cString(take(&rest, int(r.NameLen))))
	t := d.b.TaskInfo(id)
	t.Comm = string(cString(int8s(r.Comm[:])))
	if len(cgroup) > 0 {
		t.Cgroup = string(appendPath(nil, cgroup))
	}
	if t.Leader == id || t.Leader == tracer.NoTask {
		t.Images = append(t.Images, tracer.Image{Time: tracer.Time(r.H.Ts), Exe: exe, Comm: t.Comm})
	}
	peer := tracer.NoTask
	if r.Old != r.Tid && r.Old != 0 {
		if peer = d.resolve(r.Old); peer == id {
			peer = tracer.NoTask
		}
	}
	if peer > 0 {
		// The thread goes on under the leader's identity; its own is gone.
		from := d.info(peer)
		from.running, from.exists = false, false
		d.info(id).running = true
		if c := d.cpu(r.H.Cpu); c.known && c.running == peer {
			c.running = id
		}
	}
	d.add(&r.H, tracer.Event{Kind: tracer.KindExec, Task: id, Peer: peer, Name: d.b.String(exe)}, subEvent)
}

func (d *decoder) argv(r *bpf.TraceRecArgv, rest []byte) {
	id := d.resolve(r.Tid)
	im := d.b.TaskInfo(max(id, 0)).Images
	if id <= tracer.Idle || len(im) == 0 {
		return
	}
	last := &im[len(im)-1]
	last.Argv = splitArgv(take(&rest, int(r.Len)))
	last.Cut = r.H.Flags&argvCut != 0
}

// splitArgv splits an argument area: strings, each ended by a zero byte.
func splitArgv(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	var out []string
	for s := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		out = append(out, string(s))
	}
	return out
}

func (d *decoder) comm(r *bpf.TraceRecComm, _ []byte) {
	if id := d.resolve(r.Tid); id > tracer.Idle {
		d.b.TaskInfo(id).Comm = string(cString(int8s(r.Comm[:])))
	}
}

func (d *decoder) exit(r *bpf.TraceRecExit, _ []byte) {
	id := d.resolve(r.Tid)
	if id <= tracer.Idle {
		return
	}
	e := tracer.Event{Kind: tracer.KindExit, Task: id, Value: int64(r.Code)}
	if r.Code != 0 {
		e.Flags |= tracer.FlagFailed
	}
	if r.H.Flags&exitGroup != 0 {
		e.Flags |= tracer.FlagGroup
	}
	d.add(&r.H, e, subEvent)
}

// network notices a network namespace that nobody was in before.
func (d *decoder) network(h *bpf.TraceHead, id tracer.TaskID, cookie uint64) {
	if cookie == 0 || d.nets[cookie] {
		return
	}
	d.nets[cookie] = true
	creator := id
	if p := d.b.TaskInfo(id).Parent; p > 0 && bpf.TraceRecType(h.Type) == bpf.TraceRecTypeREC_TASK {
		creator = p // a child that was cloned into it
	}
	d.add(h, tracer.Event{Kind: tracer.KindPoint, Class: tracer.ClassNetns, Name: d.b.String("create"), Task: creator, Flow: cookie}, subEvent)
}

func (d *decoder) netns(r *bpf.TraceRecNetns, _ []byte) {
	if id := d.resolve(r.Tid); id > tracer.Idle {
		d.network(&r.H, id, r.Cookie)
	}
}

// procArgv is the arguments of a process that is older than the trace.
type procArgv struct {
	at   tracer.Time // when they were read
	argv []string
}

// readArgvs reads the arguments of all processes there are.
func readArgvs() map[int32]procArgv {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	out := make(map[int32]procArgv, len(entries))
	for _, e := range entries {
		pid, err := strconv.ParseInt(e.Name(), 10, 32)
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || len(b) == 0 {
			continue // gone, or a kernel thread
		}
		out[int32(pid)] = procArgv{now(), splitArgv(b)}
	}
	return out
}

// oldArgvs gives the processes older than the trace their arguments, unless
// they were another program by the time these were read.
func (d *decoder) oldArgvs() {
	for id := 1; id < d.b.Tasks(); id++ {
		t := d.b.TaskInfo(tracer.TaskID(id))
		if len(t.Images) == 0 || t.Images[0].Time != 0 || t.Images[0].Argv != nil {
			continue
		}
		p, ok := d.argvOf[t.PID]
		if !ok || tracer.Time(t.Start) > p.at || len(t.Images) > 1 && t.Images[1].Time < p.at {
			continue
		}
		t.Images[0].Argv = p.argv
	}
}

// now is the trace's clock.
func now() tracer.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // it cannot fail
	}
	return tracer.Time(ts.Nano())
}
