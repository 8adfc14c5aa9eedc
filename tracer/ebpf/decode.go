//go:build linux

package ebpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"stagetrace/bpf"
	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

// le is the byte order of the records: programs are built for little endian.
var le = binary.LittleEndian

// wire is a record's fixed part in the generated layout. Slabs keep records
// aligned; short ones never come here.
func wire[T any](rec []byte) *T { return (*T)(unsafe.Pointer(unsafe.SliceData(rec))) }

// recordType is how one type of record is decoded.
type recordType struct {
	size   int // of the fixed part
	decode func(d *decoder, h *bpf.TraceHead, rec []byte)
}

// fixed is a type whose fixed part is a T.
func fixed[T any](fn func(d *decoder, r *T, rest []byte)) recordType {
	size := int(unsafe.Sizeof(*new(T)))
	return recordType{size, func(d *decoder, _ *bpf.TraceHead, rec []byte) { fn(d, wire[T](rec), rec[size:]) }}
}

// recordTypes is by TraceRecType.
var recordTypes = [...]recordType{
	bpf.TraceRecTypeREC_TASK:        fixed((*decoder).task),
	bpf.TraceRecTypeREC_STATUS:      fixed((*decoder).status),
	bpf.TraceRecTypeREC_SWITCH:      fixed((*decoder).switched),
	bpf.TraceRecTypeREC_WAKE:        fixed((*decoder).wake),
	bpf.TraceRecTypeREC_WAKE_IRQ:    fixed((*decoder).wakeIRQ),
	bpf.TraceRecTypeREC_FORK:        fixed((*decoder).fork),
	bpf.TraceRecTypeREC_EXEC:        fixed((*decoder).exec),
	bpf.TraceRecTypeREC_ARGV:        fixed((*decoder).argv),
	bpf.TraceRecTypeREC_COMM:        fixed((*decoder).comm),
	bpf.TraceRecTypeREC_EXIT:        fixed((*decoder).exit),
	bpf.TraceRecTypeREC_NETNS:       fixed((*decoder).netns),
	bpf.TraceRecTypeREC_SYS_ENTER:   fixed((*decoder).sysEnter),
	bpf.TraceRecTypeREC_SYS_EXIT:    fixed((*decoder).sysExit),
	bpf.TraceRecTypeREC_WORK_QUEUE:  fixed((*decoder).workQueue),
	bpf.TraceRecTypeREC_WORK_START:  fixed((*decoder).workStart),
	bpf.TraceRecTypeREC_WORK_END:    fixed((*decoder).workEnd),
	bpf.TraceRecTypeREC_TIMER:       fixed((*decoder).timer),
	bpf.TraceRecTypeREC_BLOCK_ISSUE: fixed((*decoder).blockIssue),
	bpf.TraceRecTypeREC_BLOCK_DONE:  fixed((*decoder).blockDone),
	bpf.TraceRecTypeREC_BIO:         fixed((*decoder).bio),
	bpf.TraceRecTypeREC_LOCK_BEGIN:  fixed((*decoder).lockBegin),
	bpf.TraceRecTypeREC_LOCK_END:    fixed((*decoder).lockEnd),
	bpf.TraceRecTypeREC_POINT:       fixed((*decoder).point),
	bpf.TraceRecTypeREC_SAMPLE:      fixed((*decoder).sample),
	bpf.TraceRecTypeREC_IRQ_NAME:    fixed((*decoder).irqName),

	bpf.TraceRecTypeREC_MESSAGE_SENT: fixed((*decoder).messageSent),
	bpf.TraceRecTypeREC_MESSAGE_READ: fixed((*decoder).messageRead),
	bpf.TraceRecTypeREC_USER:         fixed((*decoder).user),
}

// decoder turns the records of one recording into a trace. It goes over them
// in the order of time, so that at each record a tid means the task that had
// it then.
type decoder struct {
	b       *tracer.Builder
	res     *symbols.Resolver
	period  time.Duration
	self    int32
	drivers map[int32]bool // tids of our own process that carry out operations
	argvOf  map[int32]procArgv
	users   []userFunction // by number
	begin   tracer.Time    // of the trace: what comes before only sets the stage
	begun   bool
	end     tracer.Time // later than this some programs were detached already

	byTID    []tracer.TaskID // NoTask: not known
	first    map[uint32]tracer.TaskKey
	tasks    []taskInfo // by TaskID
	cpus     []cpuInfo
	names    decodedNames
	stacks   map[string]tracer.StackID
	userKeys []byte
	nets     map[uint64]bool // cookies of network namespaces seen
	torn     map[uint64]bool // and of those torn down
	frames   []uint32        // scratch
	args     argBuffer
	counts   decodeCounts
}

type decodeCounts struct {
	repaired, ended, unknown, malformed, noStack int
}

// cpuInfo is what a CPU was last seen to do.
type cpuInfo struct {
	running tracer.TaskID
	known   bool
}

// decodedNames are the ids of strings that come up all the time.
type decodedNames struct {
	calls    []tracer.StringID // by number
	rows     []call
	fns      map[uint64]tracer.StringID
	hrtimers map[uint64]tracer.StringID
	timers   map[uint64]tracer.StringID
	irqs     map[uint32]tracer.StringID
	softirqs [16]tracer.StringID
	whats    [16]tracer.StringID
}

func newDecoder(b *tracer.Builder, res *symbols.Resolver) *decoder {
	d := &decoder{b: b, res: res, first: map[uint32]tracer.TaskKey{}, stacks: map[string]tracer.StackID{},
		nets: map[uint64]bool{}, torn: map[uint64]bool{}, drivers: map[int32]bool{}, tasks: make([]taskInfo, 1),
		end: math.MaxInt64}
	d.tasks[0].running = true
	d.names.init(b)
	return d
}

func (n *decodedNames) init(b *tracer.Builder) {
	n.calls = make([]tracer.StringID, len(syscallNames))
	n.rows = make([]call, len(syscallNames))
	for nr, name := range syscallNames {
		n.calls[nr] = b.String(name)
		n.rows[nr] = callRow(name)
	}
	for i, name := range softirqNames {
		n.softirqs[i] = b.String(name)
	}
	for i, name := range whatNames {
		n.whats[i] = b.String(name)
	}
	n.fns = map[uint64]tracer.StringID{}
	n.hrtimers = map[uint64]tracer.StringID{}
	n.timers = map[uint64]tracer.StringID{}
	n.irqs = map[uint32]tracer.StringID{}
}

// ref is one record in the order of decoding. A trace has one per event: it is
// small.
type ref struct {
	ts   uint64
	at   place
	seq  uint32
	lost uint32 // records of this CPU lost right before this one
	cpu  uint16
	typ  uint8
}

func compareRefs(a, b ref) int {
	switch {
	case a.ts != b.ts:
		return cmp.Compare(a.ts, b.ts)
	case a.cpu != b.cpu:
		return int(a.cpu) - int(b.cpu)
	}
	return cmp.Compare(a.seq, b.seq)
}

// index lists the records in order of time, and finds the holes in each
// CPU's numbers. Records that are no records are counted and left out.
func (d *decoder) index(raw *rawRecords) []ref {
	refs := make([]ref, 0, raw.count)
	var onCPU []int32 // how many, by CPU
	raw.each(func(at place, rec []byte) {
		const headSize = int(unsafe.Sizeof(bpf.TraceHead{}))
		if len(rec) < headSize {
			d.counts.malformed++
			return
		}
		h := wire[bpf.TraceHead](rec)
		if int(h.Type) >= len(recordTypes) || recordTypes[h.Type].decode == nil || len(rec) < recordTypes[h.Type].size || h.Cpu >= maxCPUs {
			d.counts.malformed++
			return
		}
		for int(h.Cpu) >= len(onCPU) {
			onCPU = append(onCPU, 0)
		}
		onCPU[h.Cpu]++
		refs = append(refs, ref{ts: h.Ts, at: at, seq: h.Seq, cpu: h.Cpu, typ: h.Type})
	})
	findLost(refs, onCPU)
	// The ring buffer holds them nearly in order.
	sortNearly(refs, compareRefs)
	return refs
}

// findLost tells each record how many of its CPU's numbers before its own are
// missing.
func findLost(refs []ref, onCPU []int32) {
	lists := make([][]int32, len(onCPU)) // numbers of refs
	all := make([]int32, len(refs))
	for cpu, n := range onCPU {
		lists[cpu], all = all[:0:n], all[n:]
	}
	for i := range refs {
		l := &lists[refs[i].cpu]
		*l = append(*l, int32(i))
	}
	for _, l := range lists {
		sortNearly(l, func(a, b int32) int { return cmp.Compare(refs[a].seq, refs[b].seq) })
		next := uint32(0)
		for _, i := range l {
			if r := &refs[i]; r.seq > next {
				r.lost = r.seq - next
			}
			next = refs[i].seq + 1
		}
	}
}

// sortNearly is a stable sort that takes linear time where little is out of
// order, and that not by far.
func sortNearly[T any](s []T, compare func(a, b T) int) {
	budget := 4*len(s) + 1<<12
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) <= 0 {
			continue
		}
		v, j := s[i], i
		for ; j > 0 && compare(s[j-1], v) > 0; j-- {
			s[j] = s[j-1]
		}
		s[j] = v
		if budget -= i - j; budget < 0 {
			slices.SortStableFunc(s, compare)
			return
		}
	}
}

const maxCPUs = 1 << 12

// run decodes all records. The trace begins right after the last record of the
// snapshot: by then the state of every task is known.
func (d *decoder) run(raw *rawRecords, refs []ref) {
	events := len(refs)
	for i := range refs {
		r := &refs[i]
		switch bpf.TraceRecType(r.typ) {
		case bpf.TraceRecTypeREC_SYS_EXIT:
			events++ // begin and end
		case bpf.TraceRecTypeREC_STATUS:
			d.begin = max(d.begin, tracer.Time(r.ts))
		case bpf.TraceRecTypeREC_TASK:
			if t := wire[bpf.TraceRecTask](raw.record(r.at)); d.first[t.Tid] == (tracer.TaskKey{}) {
				d.first[t.Tid] = tracer.TaskKey{TID: int32(t.Tid), Start: tracer.Time(t.Start)}
			}
		}
	}
	if d.begin == 0 && len(refs) > 0 {
		d.begin = tracer.Time(refs[0].ts)
	}
	d.b.Grow(events + events/32 + 1<<10) // statuses, losses and marks besides
	for i := range refs {
		r := &refs[i]
		if !d.begun && tracer.Time(r.ts) > d.begin {
			d.start()
		}
		rec := raw.record(r.at)
		h := wire[bpf.TraceHead](rec)
		if r.lost > 0 {
			d.add(h, tracer.Event{Kind: tracer.KindLost, Value: int64(r.lost)}, subLost)
			d.cpu(r.cpu).known = false
		}
		recordTypes[r.typ].decode(d, h, rec)
	}
	if !d.begun {
		d.start()
	}
}

// start adds what is known of every task at the beginning of the trace.
func (d *decoder) start() {
	d.begun = true
	for id := 1; id < len(d.tasks); id++ {
		t := &d.tasks[id]
		if !t.exists {
			continue
		}
		d.b.Add(tracer.Event{Time: d.begin, Seq: uint32(id), Kind: tracer.KindStatus, Task: tracer.TaskID(id), State: t.stateNow(),
			Flags: t.flags, Name: t.call, Stack: t.stack})
	}
}

// Several events of one record differ in the low bits of their numbers.
const (
	subLost = iota
	subFirst
	subEvent
	subLast
	subBits = 2
)

// seq is the number of an event in its CPU.
func seqOf(n uint32, sub uint32) uint32 { return n<<subBits | sub }

// add adds an event at a record's time and place, if it lies in the trace.
func (d *decoder) add(h *bpf.TraceHead, e tracer.Event, sub uint32) {
	e.Time, e.CPU, e.Seq = tracer.Time(h.Ts), int16(h.Cpu), seqOf(h.Seq, sub)
	if e.Time > d.begin && e.Time <= d.end {
		d.b.Add(e)
	}
}

func (d *decoder) cpu(n uint16) *cpuInfo {
	for int(n) >= len(d.cpus) {
		d.cpus = append(d.cpus, cpuInfo{})
	}
	return &d.cpus[n]
}

// call is the name of a system call number; 0 for none.
func (d *decoder) call(nr int16) tracer.StringID {
	if nr < 0 || int(nr) >= len(d.names.calls) {
		return 0
	}
	return d.names.calls[nr]
}

// fn is the name of a kernel function by its address, with a prefix; the
// address where it has no name.
func (d *decoder) fn(cache map[uint64]tracer.StringID, prefix string, addr uint64) tracer.StringID {
	if id, ok := cache[addr]; ok {
		return id
	}
	name, ok := d.res.Kernel(addr)
	if !ok {
		name = fmt.Sprintf("%#x", addr)
	}
	id := d.b.String(prefix + name)
	cache[addr] = id
	return id
}

// cString is the bytes before the first zero.
func cString(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// int8s is a C char array as bytes.
func int8s(a []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a))), len(a))
}

// frameKernel interns a kernel address. A return address may be the first
// byte of the next function, so the byte before is looked up.
func (d *decoder) frameKernel(addr uint64, exact bool) uint32 {
	at := addr
	if !exact {
		at--
	}
	name, _ := d.res.Kernel(at)
	return d.b.Frame(tracer.Frame{Func: d.b.String(name), Object: d.b.String(symbols.ObjectKernel), Offset: addr, Kernel: true})
}

// kernelStack interns a stack of n frames at the front of rest.
func (d *decoder) kernelStack(rest []byte, n int, cut bool) tracer.StackID {
	n = min(n, len(rest)/8)
	if n == 0 {
		return 0
	}
	raw := rest[:n*8]
	if id, ok := d.stacks[string(raw)]; ok {
		return id
	}
	d.frames = d.frames[:0]
	for i := range n {
		d.frames = append(d.frames, d.frameKernel(le.Uint64(raw[i*8:]), false))
	}
	id := d.b.Stack(d.frames, cut)
	d.stacks[string(raw)] = id
	return id
}

// sampleStack interns a sample's stack: kernel frames, then user frames of the
// program that the task's process ran.
func (d *decoder) sampleStack(id tracer.TaskID, at tracer.Time, rest []byte, kernel, user int) tracer.StackID {
	kernel = min(kernel, len(rest)/8)
	user = min(user, len(rest)/8-kernel)
	raw := rest[:(kernel+user)*8]
	leader := d.b.TaskInfo(id).Leader
	pid, images := d.b.TaskInfo(id).PID, 0
	if leader > 0 {
		images = len(d.b.TaskInfo(leader).Images)
	}
	key := append(d.userKeys[:0], 's', byte(kernel))
	if user > 0 {
		key = le.AppendUint32(key, uint32(leader))
		key = le.AppendUint32(key, uint32(images))
	}
	key = append(key, raw...)
	d.userKeys = key
	if id, ok := d.stacks[string(key)]; ok {
		return id
	}
	d.frames = d.frames[:0]
	for i := range kernel {
		d.frames = append(d.frames, d.frameKernel(le.Uint64(raw[i*8:]), i == 0))
	}
	for i := kernel; i < kernel+user; i++ {
		addr := le.Uint64(raw[i*8:])
		if i > 0 {
			addr-- // a return address; with kernel frames above, the call's
		}
		l := d.res.Location(pid, at, addr)
		d.frames = append(d.frames, d.b.Frame(tracer.Frame{Func: d.b.String(l.Func), Object: d.b.String(l.Object),
			BuildID: d.b.String(l.BuildID), Offset: l.Offset}))
	}
	stack := d.b.Stack(d.frames, kernel == sampleDepth || user == sampleDepth)
	d.stacks[string(key)] = stack
	return stack
}

// sampleDepth and sleepDepth are SAMPLE_DEPTH and STACK_DEPTH of the programs.
const (
	sampleDepth = 96
	sleepDepth  = 64
)

// notes says what was repaired or left out.
func (d *decoder) notes() (notes []string) {
	for _, n := range []struct {
		count int
		what  string
	}{
		{d.counts.repaired, "switches were not seen and were put in"},
		{d.counts.ended, "ends of spans were not seen and were put in"},
		{d.counts.unknown, "tasks were never described"},
		{d.counts.malformed, "records could not be read"},
		{d.counts.noStack, "sleeps over the threshold have no stack"},
	} {
		if n.count > 0 {
			notes = append(notes, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	return notes
}

// machine is the architecture as in Meta.Machine.
func machine() string { return runtime.GOARCH }
