package stage

import (
	"math/bits"

	"stagetrace/tracer"
)

// Matcher tells, for one trace, which stage a moment belongs to. It remembers
// every answer, so its cost grows with the number of different situations and
// stacks, not with the number of questions. Not for concurrent use.
type Matcher struct {
	set *Set
	tr  *tracer.Trace

	actors   []actorInfo // [0] is unknown
	actorIDs map[string]ActorID
	slots    []actorSlot // per task
	roles    map[program]RoleID

	spans   []spanNode // [0] is none
	spanIDs map[spanNode]SpansID

	frames stackTable
	memo   memo
	waits  map[waitKey]WaitID
	evals  int // rules were evaluated so many times
}

// spanNode is a span and what was open around it.
type spanNode struct {
	parent SpansID
	class  tracer.Class
	name   tracer.StringID
	args   tracer.ArgsID
}

// Bind prepares the set for a trace, which must not change any more.
func (s *Set) Bind(tr *tracer.Trace) *Matcher {
	m := &Matcher{
		set: s, tr: tr,
		actors: []actorInfo{{role: NoRole}}, actorIDs: map[string]ActorID{},
		slots: make([]actorSlot, len(tr.Tasks)), roles: map[program]RoleID{},
		spans: make([]spanNode, 1), spanIDs: map[spanNode]SpansID{},
		waits: map[waitKey]WaitID{},
	}
	m.frames.init(s, tr)
	m.memo.init(1 << 10)
	return m
}

// Spans is the id of a span inside of others.
func (m *Matcher) Spans(parent SpansID, class tracer.Class, name tracer.StringID, args tracer.ArgsID) SpansID {
	n := spanNode{parent, class, name, args}
	id, ok := m.spanIDs[n]
	if !ok {
		id = SpansID(len(m.spans))
		m.spans = append(m.spans, n)
		m.spanIDs[n] = id
	}
	return id
}

// SpansTop takes the innermost span off.
func (m *Matcher) SpansTop(id SpansID) (class tracer.Class, name tracer.StringID, args tracer.ArgsID, parent SpansID) {
	if int(id) >= len(m.spans) {
		return
	}
	n := &m.spans[id]
	return n.class, n.name, n.args, n.parent
}

// Stage is the stage that claims a situation: that of the first rule of the
// set that holds, or NoStage.
func (m *Matcher) Stage(s *Situation) ID {
	h := s.hash()
	if id, ok := m.memo.get(s, h); ok {
		return id
	}
	m.evals++
	q := question{s: s, actor: m.actor(s.Actor), stack: m.frames.bits(s.Stack)}
	id := m.first(&q, 0, -1)
	m.memo.put(s, h, id)
	return id
}

// question is a situation with what is looked up once for all rules.
type question struct {
	s     *Situation
	actor *actorInfo
	stack []uint64
	later []answer // what the rules from an index on would say
}

type answer struct {
	after, file int
	id          ID
}

// first gives the stage of the first rule, from an index on and not of one of
// the files, that holds.
func (m *Matcher) first(q *question, from, except int) ID {
	rules := m.set.rules
	for i := from; i < len(rules); i++ {
		if rules[i].file != except && m.holds(&rules[i], q) {
			return rules[i].stage
		}
	}
	return NoStage
}

// base is what the sets that come after a rule's own would say.
func (m *Matcher) base(q *question, r *rule) ID {
	for _, a := range q.later {
		if a.after == r.after && a.file == r.file {
			return a.id
		}
	}
	id := m.first(q, r.after, r.file)
	q.later = append(q.later, answer{r.after, r.file, id})
	return id
}

// holds tells whether every term of a rule holds; the cheap ones come first.
func (m *Matcher) holds(r *rule, q *question) bool {
	s := q.s
	switch {
	case r.states != 0 && r.states&(1<<s.State) == 0,
		r.phases != 0 && r.phases&s.Phase == 0,
		r.window >= 0 && s.Windows&(1<<r.window) == 0,
		r.waits != nil && (s.Wait < 0 || int(s.Wait) >= len(r.waits) || !r.waits[s.Wait]):
		return false
	}
	return q.actor.meets(&r.actor) && m.framesHold(r.frames, q.stack, s.Spans) && m.spansHold(r.spans, s.Spans) &&
		m.syscallHolds(r, s) && m.insteadHolds(r, q)
}

func (m *Matcher) framesHold(refs []frameRef, stack []uint64, spans SpansID) bool {
	for i := range refs {
		f := &refs[i]
		if stack[f.bit/64]&(1<<(f.bit%64)) == 0 && (f.span.class == tracer.ClassNone || !m.inside(&f.span, spans, nil)) {
			return false
		}
	}
	return true
}

func (m *Matcher) spansHold(terms []spanTerm, spans SpansID) bool {
	for i := range terms {
		if !m.inside(&terms[i], spans, nil) {
			return false
		}
	}
	return true
}

// inside tells whether such a span, with such arguments, is open.
func (m *Matcher) inside(t *spanTerm, spans SpansID, args []argTerm) bool {
	for id := spans; id != 0 && int(id) < len(m.spans); id = m.spans[id].parent {
		n := &m.spans[id]
		if n.class == t.class && matchAny(t.globs, m.tr.String(n.name)) && m.argsMatch(args, n.args) {
			return true
		}
	}
	return false
}

func (m *Matcher) syscallHolds(r *rule, s *Situation) bool {
	switch {
	case len(r.syscalls) == 0:
		return true
	case r.noSyscall:
		return s.Syscall == 0 && !m.inside(&anySyscall, s.Spans, nil)
	case len(r.args) == 0 && s.Syscall != 0 && matchAny(r.syscalls, m.tr.String(s.Syscall)):
		return true
	}
	return m.inside(&spanTerm{tracer.ClassSyscall, r.syscalls}, s.Spans, r.args)
}

var anySyscall = spanTerm{tracer.ClassSyscall, []glob{{text: "*", star: true}}}

func (m *Matcher) insteadHolds(r *rule, q *question) bool {
	if r.instead == nil {
		return true
	}
	id := m.base(q, r)
	if id == NoStage {
		return r.insteadNone
	}
	return r.instead[id]
}

// argsMatch tells whether the arguments of a span are as asked.
func (m *Matcher) argsMatch(terms []argTerm, args tracer.ArgsID) bool {
	for i := range terms {
		t := &terms[i]
		if !t.holds(m.tr.Arg(args, t.key)) && (t.key != "path" || !t.holds(m.tr.Arg(args, "target"))) {
			return false
		}
	}
	return true
}

func (t *argTerm) holds(value string) bool {
	if value == "" {
		return false
	}
	if t.key != "flags" {
		return matchAny(t.globs, value)
	}
	for value != "" {
		word := value
		value = ""
		for i := 0; i < len(word); i++ {
			if word[i] == '|' {
				word, value = word[:i], word[i+1:]
				break
			}
		}
		if matchAny(t.globs, word) {
			return true
		}
	}
	return false
}

// memo is an open-addressing table from Situation to ID: a Go map hashes its
// key through memory, which takes five times as long.
type memo struct {
	slots []memoSlot
	used  int
}

type memoSlot struct {
	key  Situation
	hash uint32 // never 0 in a used slot
	id   ID
}

func (t *memo) init(size int) { t.slots, t.used = make([]memoSlot, size), 0 }

func (s *Situation) hash() uint32 {
	a := uint64(s.Actor) | uint64(s.Spans)<<32
	b := uint64(s.Stack) | uint64(s.Syscall)<<32
	c := uint64(uint16(s.Wait)) | uint64(s.State)<<16 | uint64(s.Phase)<<24
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	h := hi ^ lo
	hi, lo = bits.Mul64(h^s.Windows^0x8ebc6af09c88c6e3, c^0x589965cc75374cc3)
	h = hi ^ lo
	return uint32(h>>32) ^ uint32(h) | 1
}

func (t *memo) get(s *Situation, h uint32) (ID, bool) {
	mask := uint32(len(t.slots) - 1)
	for i := h >> 1 & mask; ; i = (i + 1) & mask {
		slot := &t.slots[i]
		if slot.hash == h && slot.key == *s {
			return slot.id, true
		}
		if slot.hash == 0 {
			return NoStage, false
		}
	}
}

func (t *memo) put(s *Situation, h uint32, id ID) {
	if t.used*2 >= len(t.slots) {
		old := t.slots
		t.init(2 * len(old))
		for i := range old {
			if old[i].hash != 0 {
				t.insert(old[i])
			}
		}
	}
	t.insert(memoSlot{*s, h, id})
}

func (t *memo) insert(slot memoSlot) {
	mask := uint32(len(t.slots) - 1)
	i := slot.hash >> 1 & mask
	for t.slots[i].hash != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
	t.used++
}
