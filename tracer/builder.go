package tracer

import "encoding/binary"

// Builder makes a Trace. A backend interns what it meets and adds events in
// any order; Trace sorts them. Looking up something already interned
// allocates nothing, and an event costs the growth of one slice. A Builder
// belongs to one goroutine. The zero value is not ready: use NewBuilder.
type Builder struct {
	Meta Meta // copied into the trace; Begin, End and CPUs are taken from the events when unset

	events  []Event
	tasks   []Task
	strings []string
	args    []Args
	stacks  []Stack
	frames  []Frame

	taskIDs   map[TaskKey]TaskID
	stringIDs map[string]StringID
	argsIDs   map[string]ArgsID
	stackIDs  map[string]StackID
	frameIDs  map[Frame]uint32
	set       map[TaskID]taskFields // fields that Trace must leave alone though they look unset
	fixed     metaFields
	key       []byte // scratch for the keys of args and stacks
}

// RawArg is an Arg whose value still lies in a receive buffer.
type RawArg struct {
	Key   string
	Value []byte
}

// metaFields are the fields of Meta that were given and are not derived from
// the events.
type metaFields uint8

const (
	metaBegin metaFields = 1 << iota
	metaEnd
	metaCPUs
)

// NewBuilder returns a builder that holds the idle task and the empty entries
// of the tables.
func NewBuilder() *Builder {
	return &Builder{
		tasks:     []Task{{Leader: Idle, Parent: NoTask, Comm: "idle", Kernel: true}},
		strings:   []string{""},
		args:      []Args{nil},
		stacks:    []Stack{{}},
		taskIDs:   map[TaskKey]TaskID{{}: Idle},
		stringIDs: map[string]StringID{"": 0},
		argsIDs:   map[string]ArgsID{"": 0},
		stackIDs:  map[string]StackID{},
		frameIDs:  map[Frame]uint32{},
		set:       map[TaskID]taskFields{},
	}
}

// Grow makes room for n more events.
func (b *Builder) Grow(n int) {
	if n <= cap(b.events)-len(b.events) {
		return
	}
	grown := make([]Event, len(b.events), len(b.events)+n)
	copy(grown, b.events)
	b.events = grown
}

// Len is the number of events added so far.
func (b *Builder) Len() int { return len(b.events) }

// Add takes one event. Order does not matter, but events that come nearly
// sorted, or sorted per CPU, are sorted in linear time.
func (b *Builder) Add(e Event) { b.events = append(b.events, e) }

// String interns a text.
func (b *Builder) String(s string) StringID {
	if id, ok := b.stringIDs[s]; ok {
		return id
	}
	return b.addString(s)
}

// Bytes interns a text that lies in a receive buffer; it is copied only when
// it is new.
func (b *Builder) Bytes(p []byte) StringID {
	if id, ok := b.stringIDs[string(p)]; ok {
		return id
	}
	return b.addString(string(p))
}

func (b *Builder) addString(s string) StringID {
	id := StringID(len(b.strings))
	b.strings = append(b.strings, s)
	b.stringIDs[s] = id
	return id
}

// Text is the string of an id, for a backend that has to look again.
func (b *Builder) Text(id StringID) string { return b.strings[id] }

// Args interns an argument list by content and order.
func (b *Builder) Args(args Args) ArgsID {
	b.key = b.key[:0]
	for _, a := range args {
		b.key = appendLenString(b.key, a.Key)
		b.key = appendLenString(b.key, a.Value)
	}
	if id, ok := b.argsIDs[string(b.key)]; ok {
		return id
	}
	return b.addArgs(append(Args(nil), args...))
}

// RawArgs is Args for values in a receive buffer; they are copied only when
// the list is new.
func (b *Builder) RawArgs(args []RawArg) ArgsID {
	b.key = b.key[:0]
	for _, a := range args {
		b.key = appendLenString(b.key, a.Key)
		b.key = binary.AppendUvarint(b.key, uint64(len(a.Value)))
		b.key = append(b.key, a.Value...)
	}
	if id, ok := b.argsIDs[string(b.key)]; ok {
		return id
	}
	list := make(Args, len(args))
	for i, a := range args {
		list[i] = Arg{Key: a.Key, Value: string(a.Value)}
	}
	return b.addArgs(list)
}

func (b *Builder) addArgs(args Args) ArgsID {
	id := ArgsID(len(b.args))
	b.args = append(b.args, args)
	b.argsIDs[string(b.key)] = id
	return id
}

// Frame interns a frame; the result goes into Stack.
func (b *Builder) Frame(f Frame) uint32 {
	if id, ok := b.frameIDs[f]; ok {
		return id
	}
	id := uint32(len(b.frames))
	b.frames = append(b.frames, f)
	b.frameIDs[f] = id
	return id
}

// Stack interns a stack of frame ids, leaf first. The slice is copied.
func (b *Builder) Stack(frames []uint32, cut bool) StackID {
	if len(frames) == 0 && !cut {
		return 0
	}
	b.key = b.key[:0]
	for _, f := range frames {
		b.key = binary.LittleEndian.AppendUint32(b.key, f)
	}
	if cut {
		b.key = append(b.key, 1)
	}
	if id, ok := b.stackIDs[string(b.key)]; ok {
		return id
	}
	id := StackID(len(b.stacks))
	b.stacks = append(b.stacks, Stack{Frames: append([]uint32(nil), frames...), Cut: cut})
	b.stackIDs[string(b.key)] = id
	return id
}

// Task is the id of a task; a task not seen before is added with nothing
// known but its key. The zero key is Idle.
func (b *Builder) Task(key TaskKey) TaskID {
	if id, ok := b.taskIDs[key]; ok {
		return id
	}
	id := TaskID(len(b.tasks))
	b.tasks = append(b.tasks, Task{TID: key.TID, Start: key.Start, Leader: NoTask, Parent: NoTask})
	b.taskIDs[key] = id
	return id
}

// Lookup is Task without adding.
func (b *Builder) Lookup(key TaskKey) (TaskID, bool) {
	id, ok := b.taskIDs[key]
	return id, ok
}

// Tasks is the number of tasks so far, the idle task included.
func (b *Builder) Tasks() int { return len(b.tasks) }

// TaskInfo is what is known of a task, to fill in. TID and Start are its
// identity and must not be changed. The pointer is good until the next call
// of Task.
func (b *Builder) TaskInfo(id TaskID) *Task { return &b.tasks[id] }

// Trace sorts the events, fills in what follows from them, and returns the
// trace; the builder is empty afterwards, ready for the next one. What is
// filled in, where it was left unset: PID (TID), Leader (the task whose TID
// is the PID), Parent and Born (from the Fork event), Meta.Begin and End (the
// first and last event) and Meta.CPUs (the highest).
func (b *Builder) Trace() *Trace {
	sortEvents(b.events)
	t := &Trace{Meta: b.Meta, Events: b.events, Tasks: b.tasks, Strings: b.strings,
		Args: b.args, Stacks: b.stacks, Frames: b.frames}
	for i := range t.Tasks {
		if t.Tasks[i].PID == 0 {
			t.Tasks[i].PID = t.Tasks[i].TID
		}
	}
	for i, d := range taskDefaults(t) {
		d.apply(&t.Tasks[i], b.set[TaskID(i)])
	}
	b.fillMeta(&t.Meta)
	*b = *NewBuilder()
	return t
}

// fillMeta takes Begin, End and CPUs from the events where they were not
// given. Begin == End == 0 means that neither was.
func (b *Builder) fillMeta(m *Meta) {
	if m.Begin != 0 || m.End != 0 {
		b.fixed |= metaBegin | metaEnd
	}
	if m.CPUs != 0 {
		b.fixed |= metaCPUs
	}
	if n := len(b.events); n > 0 {
		if b.fixed&metaBegin == 0 {
			m.Begin = b.events[0].Time
		}
		if b.fixed&metaEnd == 0 {
			m.End = b.events[n-1].Time
		}
	}
	if b.fixed&metaCPUs == 0 {
		m.CPUs = 1
		for i := range b.events {
			m.CPUs = max(m.CPUs, int(b.events[i].CPU)+1)
		}
	}
}

func appendLenString(buf []byte, s string) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(s)))
	return append(buf, s...)
}
