package tracer

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// eventText is an event line; the writer and the parser each give the way
// from ids to text and back.
type eventText struct {
	Event
	stackName func(StackID) string
	text      func(StringID) string
	args      func(ArgsID) string
	nextSeq   uint32

	stackID  func(string) (StackID, error)
	stringID func(string) StringID
	argsID   func(Args) ArgsID
}

// eventAttrs are the attributes of event lines with the field each one is.
var eventAttrs = []struct {
	field Field // 0: every kind has it
	attr[eventText]
}{
	{HasClass, attr[eventText]{name: "class",
		get: func(e *eventText) string { return nameAt(ClassNames[:], int(e.Class)) },
		set: func(e *eventText, s string) error {
			i, err := nameIndex(ClassNames[:], s, "class")
			e.Class = Class(i)
			return err
		}}},
	{HasName, attr[eventText]{name: "name",
		get: func(e *eventText) string {
			if e.Name == 0 {
				return ""
			}
			return e.text(e.Name)
		},
		set: func(e *eventText, s string) error {
			text, err := parseString(s)
			e.Name = e.stringID(text)
			return err
		}}},
	{HasArgs, attr[eventText]{name: "args",
		get: func(e *eventText) string {
			if e.Args == 0 {
				return ""
			}
			return e.args(e.Args)
		},
		set: func(e *eventText, s string) error {
			args, err := parseArgs(s)
			e.Args = e.argsID(args)
			return err
		}}},
	{HasState, attr[eventText]{name: "state",
		get: func(e *eventText) string {
			if e.State == defaultState(&e.Event) {
				return ""
			}
			return nameAt(StateNames[:], int(e.State))
		},
		set: func(e *eventText, s string) error {
			i, err := nameIndex(StateNames[:], s, "state")
			e.State = TaskState(i)
			return err
		}}},
	{HasCtx, attr[eventText]{name: "ctx",
		get: func(e *eventText) string {
			if e.Ctx == CtxTask {
				return ""
			}
			return nameAt(ContextNames[:], int(e.Ctx))
		},
		set: func(e *eventText, s string) error {
			i, err := nameIndex(ContextNames[:], s, "context")
			e.Ctx = Context(i)
			return err
		}}},
	{HasFlow, attr[eventText]{name: "flow",
		get: func(e *eventText) string { return formatUint(e.Flow) },
		set: func(e *eventText, s string) (err error) { e.Flow, err = parseUint(s); return err }}},
	{HasValue, attr[eventText]{name: "value",
		get: func(e *eventText) string {
			if e.Value == 0 {
				return ""
			}
			return strconv.FormatInt(e.Value, 10)
		},
		set: func(e *eventText, s string) (err error) { e.Value, err = parseInt(s); return err }}},
	{HasStack, attr[eventText]{name: "stack",
		get: func(e *eventText) string {
			if e.Stack == 0 {
				return ""
			}
			return e.stackName(e.Stack)
		},
		set: func(e *eventText, s string) (err error) { e.Stack, err = e.stackID(s); return err }}},
	{0, attr[eventText]{name: "flags",
		get: func(e *eventText) string { return formatFlags(e.Flags) },
		set: func(e *eventText, s string) (err error) { e.Flags, err = parseFlags(s); return err }}},
	{0, attr[eventText]{name: "seq",
		get: func(e *eventText) string {
			if e.Seq == e.nextSeq {
				return ""
			}
			return strconv.FormatUint(uint64(e.Seq), 10)
		},
		set: func(e *eventText, s string) error {
			v, err := strconv.ParseUint(s, 10, 32)
			if err != nil {
				return badValue(0, "%q is not a sequence number", s)
			}
			e.Seq = uint32(v)
			return nil
		}}},
}

// defaultState is the state of an event line that gives none: a task that is
// switched away or listed is blocked, unless it was preempted or is idle.
func defaultState(e *Event) TaskState {
	switch {
	case Kinds[e.Kind].Fields&HasState == 0:
		return StateUnknown
	case e.Flags&FlagPreempt != 0 || e.Task == Idle:
		return StateRunnable
	}
	return StateBlocked
}

func formatFlags(f Flags) string {
	var words []string
	for i, name := range FlagNames {
		if f&(1<<i) != 0 {
			words = append(words, name)
		}
	}
	return strings.Join(words, ",")
}

func parseFlags(s string) (Flags, error) {
	pieces, err := split(s, ",")
	if err != nil {
		return 0, err
	}
	var f Flags
	for _, p := range pieces {
		i, err := nameIndex(FlagNames[:], p.text, "flag")
		if err != nil {
			return 0, shift(p.off, err)
		}
		f |= 1 << i
	}
	return f, nil
}

// nameAt is the word for a value; a value without one gives its number.
func nameAt(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "?" + strconv.Itoa(i)
}

// textWriter writes the text form of one trace.
type textWriter struct {
	t      *Trace
	labels []string
	next   map[int16]uint32
	frames map[uint32]string // labels of frames that have a line of their own
	buf    []byte
}

func newTextWriter(t *Trace) *textWriter {
	return &textWriter{t: t, labels: taskLabels(t), next: map[int16]uint32{}, frames: map[uint32]string{}}
}

// WriteText writes the text form that ParseText reads. What Validate accepts
// reads back as the same trace, up to the numbering of strings, argument
// lists, stacks and frames, of which only those in use are kept.
func WriteText(w io.Writer, t *Trace) error {
	out := bufio.NewWriter(w)
	tw := newTextWriter(t)
	emit := func(line []byte) { out.Write(append(line, '\n')) } // a bufio.Writer keeps its error until Flush
	m := metaText{Meta: t.Meta}
	emit(formatAttrs([]byte("meta"), metaAttrs, &m))
	defaults := taskDefaults(t)
	for i := range t.Tasks {
		for _, line := range tw.taskLines(TaskID(i), defaults[i]) {
			emit(line)
		}
	}
	for i := range t.Frames {
		if line := tw.frameLine(uint32(i)); line != nil {
			emit(line)
		}
	}
	for i := 1; i < len(t.Stacks); i++ {
		emit(tw.stackLine(StackID(i)))
	}
	for i := range t.Events {
		emit(tw.event(&t.Events[i]))
	}
	return out.Flush()
}

// EventText is an event's line in the text form. Ids outside of the tables
// are written as numbers, so it serves for messages about broken events.
func (t *Trace) EventText(e *Event) string {
	tw := newTextWriter(t)
	tw.next[e.CPU] = e.Seq
	return string(tw.event(e))
}

// taskLabels gives every task a word of its own: its name when no other has
// it, otherwise name/tid.
func taskLabels(t *Trace) []string {
	count := map[string]int{"-": 2, "->": 2, "idle": 2}
	for i := range t.Tasks {
		count[labelWord(t.Tasks[i].Comm)]++
	}
	labels := make([]string, len(t.Tasks))
	used := map[string]bool{}
	for i := range t.Tasks {
		base := labelWord(t.Tasks[i].Comm)
		label := base
		if i == int(Idle) {
			label = "idle"
		} else if count[base] > 1 {
			label = fmt.Sprintf("%s/%d", base, t.Tasks[i].TID)
		}
		for n := i; used[label]; n++ {
			label = fmt.Sprintf("%s/%d.%d", base, t.Tasks[i].TID, n)
		}
		used[label] = true
		labels[i] = label
	}
	return labels
}

// labelWord makes a bare word of a task's name.
func labelWord(comm string) string {
	if comm == "" {
		return "task"
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"\\`,;[]#=", r) {
			return '_'
		}
		return r
	}, comm)
}

func (w *textWriter) label(id TaskID) string {
	switch {
	case id == NoTask:
		return "-"
	case id < 0 || int(id) >= len(w.labels):
		return "?" + strconv.Itoa(int(id))
	}
	return w.labels[id]
}

// taskLines is a task's line and those of its images. The idle task has one
// only if it is not as NewBuilder makes it.
func (w *textWriter) taskLines(id TaskID, defaults taskDefault) [][]byte {
	t := taskText{Task: w.t.Tasks[id], label: w.labels[id], index: id, defaults: defaults}
	if t.Leader != defaults.leader {
		t.leader = w.label(t.Leader)
	}
	if t.Parent != defaults.parent {
		t.parent = w.label(t.Parent)
	}
	images := t.Images
	if len(images) > 0 && images[0].Time == 0 && images[0].Comm == t.Comm &&
		(images[0].Exe != "" || len(images[0].Argv) > 0) {
		t.image, images = images[0], images[1:]
	}
	line := append([]byte("task "), t.label...)
	head := len(line)
	line = formatAttrs(line, idleAttrs(id), &t)
	var lines [][]byte
	if id != Idle || len(line) > head {
		lines = append(lines, line)
	}
	for _, image := range images {
		it := imageText{Image: image}
		lines = append(lines, formatAttrs(append([]byte("image "), t.label...), imageAttrs, &it))
	}
	return lines
}

// idleAttrs are the attributes of a task's line: the idle task is always a
// kernel thread.
func idleAttrs(id TaskID) []attr[taskText] {
	if id != Idle {
		return taskAttrs
	}
	return slices.DeleteFunc(slices.Clone(taskAttrs), func(a attr[taskText]) bool { return a.name == "kernel" })
}

func (w *textWriter) frame(id uint32) frameText {
	if int(id) >= len(w.t.Frames) {
		return frameText{fn: "?" + strconv.Itoa(int(id))}
	}
	f := &w.t.Frames[id]
	return frameText{fn: w.t.String(f.Func), object: w.t.String(f.Object), buildID: w.t.String(f.BuildID),
		offset: f.Offset, kernel: f.Kernel}
}

// frameLine is the line of a frame that its name alone does not tell; nil for
// the others.
func (w *textWriter) frameLine(id uint32) []byte {
	f := w.frame(id)
	if f.plain() {
		return nil
	}
	w.frames[id] = "f" + strconv.Itoa(int(id))
	return formatAttrs(append([]byte("frame "), w.frames[id]...), frameAttrs, &f)
}

func stackLabel(id StackID) string { return "s" + strconv.Itoa(int(id)) }

func (w *textWriter) stackLine(id StackID) []byte {
	line := append([]byte("stack "), stackLabel(id)...)
	side := ""
	for _, f := range w.t.Stacks[id].Frames {
		frame := w.frame(f)
		word, ok := w.frames[f]
		if ok {
			word = "@" + word
		} else if word = quote(frame.fn, ""); strings.HasPrefix(word, "@") {
			word = strconv.Quote(frame.fn)
		}
		now := " user="
		if frame.kernel {
			now = " kernel="
		}
		if now == side {
			line = append(append(line, ';'), word...)
		} else {
			line = append(append(line, now...), word...)
		}
		side = now
	}
	if w.t.Stacks[id].Cut {
		line = append(line, " cut"...)
	}
	return line
}

// event is an event's line. The slice is good until the next call.
func (w *textWriter) event(e *Event) []byte {
	e2 := eventText{Event: *e, nextSeq: w.next[e.CPU],
		stackName: stackLabel,
		text:      func(id StringID) string { return w.string(id) },
		args:      func(id ArgsID) string { return w.args(id) }}
	w.next[e.CPU] = e.Seq + 1
	b := append(w.buf[:0], formatTime(e.Time)...)
	b = strconv.AppendInt(append(b, ' '), int64(e.CPU), 10)
	if e.Kind >= kindCount {
		w.buf = fmt.Appendf(b, " ?%d", e.Kind)
		return w.buf
	}
	fields := Kinds[e.Kind].Fields
	b = append(append(b, ' '), Kinds[e.Kind].Name...)
	if fields&HasTask != 0 || e.Task != 0 {
		b = append(append(b, ' '), w.label(e.Task)...)
	}
	if none := e.Peer == NoTask; fields&HasPeer != 0 && !none || fields&HasPeer == 0 && e.Peer != 0 {
		b = append(append(b, " -> "...), w.label(e.Peer)...)
	}
	for i := range eventAttrs {
		if s := eventAttrs[i].get(&e2); s != "" {
			b = append(append(append(append(b, ' '), eventAttrs[i].name...), '='), s...)
		}
	}
	w.buf = b
	return b
}

func (w *textWriter) string(id StringID) string {
	if int(id) >= len(w.t.Strings) {
		return "?" + strconv.Itoa(int(id))
	}
	return quote(w.t.Strings[id], "")
}

func (w *textWriter) args(id ArgsID) string {
	if int(id) >= len(w.t.Args) {
		return "?" + strconv.Itoa(int(id))
	}
	return formatArgs(w.t.Args[id])
}
