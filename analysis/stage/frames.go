package stage

import "stagetrace/tracer"

// scheduler are the functions between a sleep and what it is for. Some kernels
// leave them out of a sleeper's stack (they lie in .sched.text), others do
// not, so leaf looks past them.
var scheduler = []string{
	"schedule", "__schedule", "schedule_*", "preempt_schedule*", "io_schedule*", "finish_task_switch", "context_switch",
	"__cond_resched", "yield", "wait_for_completion*", "__wait_for_common", "wait_for_common", "mutex_lock*", "__mutex_lock*", "__ww_mutex_lock*",
	"down", "down_*", "__down*", "rwsem_down_*", "rt_mutex_*", "__rt_mutex_*", "percpu_down_write", "__percpu_down_read", "percpu_rwsem_wait",
	"bit_wait*", "__wait_on_bit*", "out_of_line_wait_on_bit*", "do_nanosleep", "do_wait_intr*", "__bpf_trampoline*", "__traceiter_*",
}

// stackTable answers the set's questions about stacks: one bit per frame
// term, computed once per stack that is asked about.
type stackTable struct {
	set     *Set
	tr      *tracer.Trace
	words   int // per bit set
	noUnder []uint64
	skip    []glob

	kernel  map[tracer.StringID]*funcBits
	user    map[userFunc][]uint64
	offsets []int32 // per stack: place in done + 1; 0: not yet
	done    []uint64
	none    []uint64
}

// funcBits is what one kernel function means to the terms.
type funcBits struct {
	fn, under, leaf []uint64
	sched           bool
}

type userFunc struct{ name, object tracer.StringID }

func (t *stackTable) init(s *Set, tr *tracer.Trace) {
	*t = stackTable{set: s, tr: tr, words: (len(s.frames) + 63) / 64, kernel: map[tracer.StringID]*funcBits{}, user: map[userFunc][]uint64{}}
	t.offsets = make([]int32, len(tr.Stacks))
	t.none = make([]uint64, t.words)
	t.noUnder = make([]uint64, t.words)
	for i := range s.frames {
		if len(s.frames[i].under) == 0 {
			t.noUnder[i/64] |= 1 << (i % 64)
		}
	}
	for _, text := range scheduler {
		if g, err := compileGlob(text, false); err == nil {
			t.skip = append(t.skip, g)
		}
	}
}

// bits is the answers for a stack. Valid until the next call.
func (t *stackTable) bits(id tracer.StackID) []uint64 {
	if id == 0 || int(id) >= len(t.offsets) {
		return t.none
	}
	if t.offsets[id] == 0 {
		t.offsets[id] = int32(len(t.done)) + 1
		t.done = append(t.done, t.compute(&t.tr.Stacks[id])...)
	}
	at := int(t.offsets[id]) - 1
	return t.done[at : at+t.words]
}

func (t *stackTable) compute(st *tracer.Stack) []uint64 {
	hits, under := make([]uint64, t.words), make([]uint64, t.words)
	var leaf *funcBits
	for i := len(st.Frames) - 1; i >= 0; i-- { // from the root: under is what was seen so far
		if int(st.Frames[i]) >= len(t.tr.Frames) {
			continue
		}
		f := &t.tr.Frames[st.Frames[i]]
		if !f.Kernel {
			or(hits, t.userBits(userFunc{f.Func, f.Object}))
			continue
		}
		k := t.kernelBits(f.Func)
		for w := range hits {
			hits[w] |= k.fn[w] & (t.noUnder[w] | under[w])
			under[w] |= k.under[w]
		}
		if !k.sched {
			leaf = k
		}
	}
	if leaf != nil {
		or(hits, leaf.leaf)
	}
	return hits
}

func or(a, b []uint64) {
	for i := range b {
		a[i] |= b[i]
	}
}

func (t *stackTable) kernelBits(id tracer.StringID) *funcBits {
	k := t.kernel[id]
	if k != nil {
		return k
	}
	k = &funcBits{fn: make([]uint64, t.words), under: make([]uint64, t.words), leaf: make([]uint64, t.words)}
	name := FuncName(t.tr.String(id))
	for i := range t.set.frames {
		f := &t.set.frames[i]
		word, bit := i/64, uint64(1)<<(i%64)
		if f.kind == frameFunc && matchAny(f.names, name) {
			k.fn[word] |= bit
		}
		if f.kind == frameLeaf && matchAny(f.names, name) {
			k.leaf[word] |= bit
		}
		if matchAny(f.under, name) {
			k.under[word] |= bit
		}
	}
	k.sched = matchAny(t.skip, name)
	t.kernel[id] = k
	return k
}

func (t *stackTable) userBits(u userFunc) []uint64 {
	hits, ok := t.user[u]
	if ok {
		return hits
	}
	hits = make([]uint64, t.words)
	name, object := t.tr.String(u.name), t.tr.String(u.object)
	for i := range t.set.frames {
		f := &t.set.frames[i]
		if f.kind == frameUser && matchAny(f.names, name) && (len(f.objects) == 0 || matchAny(f.objects, object)) {
			hits[i/64] |= 1 << (i % 64)
		}
	}
	t.user[u] = hits
	return hits
}
