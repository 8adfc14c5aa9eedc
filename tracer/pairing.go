package tracer

import "math"

// nested are the classes whose spans nest within a task. The others (a
// network namespace, a block request) begin in one task and end in another.
var nested = [classCount]bool{
	ClassSyscall: true, ClassFunc: true, ClassUser: true, ClassIRQ: true, ClassSoftirq: true, ClassWork: true,
	ClassTimer: true, ClassRCU: true, ClassSocket: true, ClassPipe: true, ClassFutex: true, ClassLock: true,
	ClassTracepoint: true,
}

// flat are the nested classes of which a task is in one at a time.
var flat = [classCount]bool{ClassSyscall: true, ClassWork: true}

// spanKey is who has spans of a class open. The idle task is one per CPU.
type spanKey struct {
	task  TaskID
	cpu   int16
	class Class
}

// pairing follows what must pair up over the events: spans, operations, the
// one status of a task, and that the dead stay dead. A trace promises pairs
// only up to its first loss: from then on an end may have lost its begin.
type pairing struct {
	v       *validator
	promise Time // of this time and later nothing is known for sure
	open    map[spanKey][]StringID
	seen    []bool            // the task had an event
	dead    []bool            // the task was switched away for good
	ops     map[uint64]TaskID // open operations; NoTask once they ended
	opOf    map[TaskID]uint64
}

func newPairing(v *validator) *pairing {
	return &pairing{v: v, promise: firstLoss(v.t), open: map[spanKey][]StringID{},
		seen: make([]bool, len(v.t.Tasks)), dead: make([]bool, len(v.t.Tasks)),
		ops: map[uint64]TaskID{}, opOf: map[TaskID]uint64{}}
}

// firstLoss is the beginning of the first stretch in which events were lost:
// a Lost event tells of the time since its CPU's last one.
func firstLoss(t *Trace) Time {
	first := Time(math.MaxInt64)
	since := map[int16]Time{}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != KindLost {
			continue
		}
		begin, ok := since[e.CPU]
		if !ok {
			begin = t.Meta.Begin
		}
		if since[e.CPU] = e.Time; e.Value > 0 {
			first = min(first, begin)
		}
	}
	return first
}

// pairRules are the checks of each kind.
var pairRules = [kindCount]func(p *pairing, i int, e *Event){
	KindStatus:  (*pairing).status,
	KindSwitch:  (*pairing).switched,
	KindExec:    (*pairing).exec,
	KindExit:    (*pairing).exit,
	KindBegin:   (*pairing).begin,
	KindEnd:     (*pairing).end,
	KindOpBegin: (*pairing).opBegin,
	KindOpEnd:   (*pairing).opEnd,
}

func (p *pairing) event(i int, e *Event) {
	if rule := pairRules[e.Kind]; rule != nil {
		rule(p, i, e)
	}
	if e.Task > Idle {
		p.seen[e.Task] = true
	}
	if e.Peer > Idle {
		p.seen[e.Peer] = true
	}
}

// status: a trace begins with what there is, so nothing of a task comes
// before its status.
func (p *pairing) status(i int, e *Event) {
	if p.seen[e.Task] {
		p.v.eventf(i, "status of a task that had an event before")
	}
}

func (p *pairing) switched(i int, e *Event) {
	if e.Peer > Idle && p.dead[e.Peer] && e.Time < p.promise {
		p.v.eventf(i, "runs a task that is dead")
	}
	if e.Task > Idle && e.State == StateDead {
		p.dead[e.Task] = true
	}
}

// exec: the thread that called goes on under the leader's identity, in the
// middle of a system call whose begin is on the other one.
func (p *pairing) exec(_ int, e *Event) {
	if e.Peer != NoTask {
		p.forget(e.Peer)
		p.forget(e.Task)
	}
}

func (p *pairing) exit(_ int, e *Event) { p.forget(e.Task) }

func (p *pairing) forget(id TaskID) {
	for c := Class(0); c < classCount; c++ {
		delete(p.open, spanKey{task: id, class: c})
	}
}

func key(e *Event) spanKey {
	k := spanKey{task: e.Task, class: e.Class}
	if e.Task <= Idle {
		k.cpu = e.CPU
	}
	return k
}

func (p *pairing) begin(i int, e *Event) {
	if !nested[e.Class] || e.Time >= p.promise {
		return
	}
	k := key(e)
	if n := len(p.open[k]); n > 0 && flat[e.Class] {
		p.v.eventf(i, "begins inside of %s %q, which did not end", e.Class, p.v.t.String(p.open[k][n-1]))
	}
	p.open[k] = append(p.open[k], e.Name)
}

// end: an end without a begin belongs to a span older than the trace, or than
// the following of its task (a child returns from the clone of its parent).
// An end without a name ends whatever is open (rt_sigreturn wipes the number
// of the system call).
func (p *pairing) end(i int, e *Event) {
	k := key(e)
	n := len(p.open[k])
	if !nested[e.Class] || e.Time >= p.promise || n == 0 {
		return
	}
	if top := p.open[k][n-1]; top != e.Name && e.Name != 0 {
		p.v.eventf(i, "ends %s %q, but %q is open", e.Class, p.v.t.String(e.Name), p.v.t.String(top))
	}
	p.open[k] = p.open[k][:n-1]
}

func (p *pairing) opBegin(i int, e *Event) {
	if _, ok := p.ops[e.Flow]; ok {
		p.v.eventf(i, "operation %d begins twice", e.Flow)
		return
	}
	if other, ok := p.opOf[e.Task]; ok {
		p.v.eventf(i, "its task is still carrying out operation %d", other)
	}
	p.ops[e.Flow] = e.Task
	p.opOf[e.Task] = e.Flow
}

// opEnd: marks come from the driver and are never lost.
func (p *pairing) opEnd(i int, e *Event) {
	switch task, ok := p.ops[e.Flow]; {
	case !ok || task == NoTask:
		p.v.eventf(i, "operation %d did not begin, or ended before", e.Flow)
	case task != e.Task:
		p.v.eventf(i, "operation %d was begun by task %d", e.Flow, task)
	default:
		p.ops[e.Flow] = NoTask
		delete(p.opOf, e.Task)
	}
}
