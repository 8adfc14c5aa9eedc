package tracer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SyntaxError says where a text trace cannot be read, and why.
type SyntaxError struct {
	Line, Col int    // from 1; Col in bytes
	Msg       string // what is wrong
	Text      string // the line
}

// Error gives the position, the message, the line and a caret below the place.
func (e *SyntaxError) Error() string {
	text, at := excerpt(e.Text, e.Col-1)
	return fmt.Sprintf("line %d, column %d: %s\n  %s\n  %s^", e.Line, e.Col, e.Msg, text, strings.Repeat(" ", at))
}

// excerpt cuts a line to what fits beside a caret, and gives the caret's place.
func excerpt(line string, at int) (string, int) {
	const width = 100
	at = min(max(at, 0), len(line))
	if from := at - width/2; from > 0 {
		line, at = line[from:], at-from
	}
	line = line[:min(len(line), width)]
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, line)
	return clean, utf8.RuneCountInString(line[:min(at, len(line))])
}

// textParser reads the text form into a Builder.
type textParser struct {
	b      *Builder
	no     int // of the line, from 1
	line   string
	tasks  map[string]TaskID
	frames map[string]uint32
	stacks map[string]StackID
	refs   []taskRef
	next   map[int16]uint32
}

// taskRef is a leader= or parent= of a task line, to be looked up when all
// tasks are known.
type taskRef struct {
	no    int
	line  string
	col   int
	label string
	set   func(TaskID)
}

// statement is a kind of line that declares something.
type statement struct {
	word  string
	parse func(p *textParser, name token, rest []token) error
	named bool // the second word is its label
}

var statements = []statement{
	{"meta", (*textParser).meta, false},
	{"task", (*textParser).task, true},
	{"image", (*textParser).image, true},
	{"frame", (*textParser).frame, true},
	{"stack", (*textParser).stack, true},
}

// ParseText reads a trace in its text form, which is what tests and bug
// reports are written in. It checks the grammar, not the sense: that is
// Validate's. An error is a *SyntaxError.
//
// A line is one declaration or one event; # begins a comment. Declarations
// may stand anywhere, but a task, frame or stack comes before the lines that
// build on it (image, stack); events may come in any order.
//
//	meta  begin=TIME end=TIME cpus=N backend= host= kernel= machine= sleepstack=TIME
//	      sampleperiod=TIME selfpid=N runns=N probes=LIST notes=LIST extra=ARGS
//	task  LABEL tid=N pid=N nspid=N start=TIME comm= leader=LABEL parent=LABEL born=TIME
//	      kernel tracer cgroup= exe= argv=LIST cut
//	image LABEL at=TIME exe= comm= argv=LIST cut
//	frame LABEL kernel func= object= buildid= offset=N
//	stack LABEL kernel=FRAME;FRAME user=FRAME;FRAME cut
//	TIME CPU KIND [TASK [-> PEER]] class= name= args=ARGS state= ctx= flow=N value=N
//	      stack=LABEL flags=FLAG,FLAG seq=N
//
// Everything after the label, or the peer, is optional and in any order.
// KIND, class, state, ctx and FLAG are the words of Kinds, ClassNames,
// StateNames, ContextNames and FlagNames; which attributes a kind has is in
// Kinds. A TIME is nanoseconds, or a decimal number with ns, us, ms or s. A
// text is a bare word, or quoted as in Go. A LIST is [a b "c d"], or a,b or
// "a,b" for short. ARGS are key:value,key:value. A FRAME is a function's
// name, or @LABEL of a frame line for one with an object, build id or offset;
// leaf first. TASK is a label, idle, or - for none.
//
// What is left out: meta's begin, end and cpus come from the events. A task's
// tid is its number (the first task line is 1), pid the tid, nspid the pid,
// start 0, comm the label (up to /tid), leader the task whose tid is the pid,
// parent and born those of its fork event. exe, argv and cut of a task line
// are the image that its process had when the trace began; image lines tell
// the programs it ran later, comm being the file's name. State is blocked, or
// runnable for idle and flags=preempt. Ctx is task, peer is none, everything
// else 0 or empty. seq counts up per CPU in the order of lines.
func ParseText(text []byte) (*Trace, error) {
	p := &textParser{b: NewBuilder(), tasks: map[string]TaskID{"idle": Idle, "-": NoTask},
		frames: map[string]uint32{}, stacks: map[string]StackID{}, next: map[int16]uint32{}}
	if err := p.eachLine(text, (*textParser).declaration); err != nil {
		return nil, err
	}
	for _, ref := range p.refs {
		id, ok := p.tasks[ref.label]
		if !ok {
			p.no, p.line = ref.no, ref.line
			return nil, p.errorf(ref.col, "unknown task %q", ref.label)
		}
		ref.set(id)
	}
	if err := p.eachLine(text, (*textParser).event); err != nil {
		return nil, err
	}
	return p.b.Trace(), nil
}

// eachLine calls f for every line that is not empty.
func (p *textParser) eachLine(text []byte, f func(*textParser) error) error {
	p.no = 0
	for line := range bytes.Lines(text) {
		p.no++
		p.line = strings.TrimRight(string(line), " \t\r\n")
		if strings.TrimLeft(p.line, " \t\r") == "" {
			continue
		}
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}

func (p *textParser) errorf(col int, format string, args ...any) error {
	return &SyntaxError{Line: p.no, Col: col + 1, Msg: fmt.Sprintf(format, args...), Text: p.line}
}

// at places a value's error in the line.
func (p *textParser) at(col int, err error) error {
	var v *valueError
	if errors.As(err, &v) {
		return p.errorf(col+v.off, "%s", v.msg)
	}
	return err
}

// isEvent says whether a line is an event: it begins with a time.
func isEvent(line string) bool {
	c := strings.TrimLeft(line, " \t\r")[0]
	return c >= '0' && c <= '9' || c == '-' || c == '.'
}

func (p *textParser) declaration() error {
	if isEvent(p.line) {
		return nil
	}
	toks, err := tokenize(p.line)
	if err != nil || len(toks) == 0 {
		return p.at(0, err)
	}
	for _, s := range statements {
		if s.word != toks[0].text {
			continue
		}
		if !s.named {
			return s.parse(p, token{}, toks[1:])
		}
		if len(toks) < 2 || strings.ContainsAny(toks[1].text, "=\"") {
			return p.errorf(toks[0].col+len(s.word), "%s needs a label", s.word)
		}
		return s.parse(p, toks[1], toks[2:])
	}
	return p.errorf(toks[0].col, "%q begins neither an event (a time) nor a declaration (meta task image frame stack)", toks[0].text)
}

func (p *textParser) meta(_ token, rest []token) error {
	m := metaText{Meta: p.b.Meta, given: p.b.fixed}
	if col, err := parseAttrs(metaAttrs, &m, rest); err != nil {
		return p.at(col, err)
	}
	p.b.Meta, p.b.fixed = m.Meta, m.given
	return nil
}

func (p *textParser) task(name token, rest []token) error {
	t := taskText{label: name.text, index: TaskID(p.b.Tasks())}
	t.TID = int32(t.index)
	idle := name.text == "idle"
	if idle {
		t.index, t.Task = Idle, *p.b.TaskInfo(Idle)
	} else if _, ok := p.tasks[name.text]; ok || name.text == "->" {
		return p.errorf(name.col, "task %q is declared twice, or reserved", name.text)
	}
	if col, err := parseAttrs(taskAttrs, &t, rest); err != nil {
		return p.at(col, err)
	}
	t.fill()
	key := TaskKey{t.TID, t.Start}
	if other, ok := p.b.Lookup(key); ok != idle || idle && other != Idle {
		return p.errorf(name.col, "tid %d with start %s is another task's", t.TID, formatTime(t.Start))
	}
	id := p.b.Task(key)
	t.Leader, t.Parent = NoTask, NoTask
	*p.b.TaskInfo(id) = t.Task
	p.b.set[id] = t.given
	p.tasks[t.label] = id
	p.ref(rest, "leader", t.leader, func(to TaskID) { p.b.TaskInfo(id).Leader = to })
	p.ref(rest, "parent", t.parent, func(to TaskID) { p.b.TaskInfo(id).Parent = to })
	return nil
}

// fill sets what a task line leaves to its defaults.
func (t *taskText) fill() {
	t.PID, t.Comm = int32(t.defaultPID()), t.defaultComm()
	if t.pid != nil {
		t.PID = *t.pid
	}
	t.NSPID = int32(t.defaultNSPID())
	if t.nspid != nil {
		t.NSPID = *t.nspid
	}
	if t.comm != nil {
		t.Comm = *t.comm
	}
	if t.image.Exe != "" || len(t.image.Argv) > 0 || t.image.Cut {
		t.image.Comm = t.Comm
		t.Images = []Image{t.image}
	}
}

func (p *textParser) ref(toks []token, attr, label string, set func(TaskID)) {
	if label == "" {
		return
	}
	i := slices.IndexFunc(toks, func(t token) bool { return strings.HasPrefix(t.text, attr+"=") })
	p.refs = append(p.refs, taskRef{p.no, p.line, toks[i].col + len(attr) + 1, label, set})
}

func (p *textParser) image(name token, rest []token) error {
	id, err := p.lookupTask(name)
	if err != nil {
		return err
	}
	if id == NoTask {
		return p.errorf(name.col, "no task cannot have an image")
	}
	var i imageText
	if col, err := parseAttrs(imageAttrs, &i, rest); err != nil {
		return p.at(col, err)
	}
	i.Comm = i.defaultComm()
	if i.comm != nil {
		i.Comm = *i.comm
	}
	t := p.b.TaskInfo(id)
	t.Images = append(t.Images, i.Image)
	return nil
}

func (p *textParser) lookupTask(tok token) (TaskID, error) {
	id, ok := p.tasks[tok.text]
	if !ok {
		return 0, p.errorf(tok.col, "unknown task %q (declare it: task %s tid=...)", tok.text, tok.text)
	}
	return id, nil
}

func (p *textParser) frame(name token, rest []token) error {
	var f frameText
	if col, err := parseAttrs(frameAttrs, &f, rest); err != nil {
		return p.at(col, err)
	}
	if _, ok := p.frames[name.text]; ok {
		return p.errorf(name.col, "frame %q is declared twice", name.text)
	}
	p.frames[name.text] = p.intern(&f)
	return nil
}

func (p *textParser) intern(f *frameText) uint32 {
	return p.b.Frame(Frame{Func: p.b.String(f.fn), Object: p.b.String(f.object), BuildID: p.b.String(f.buildID),
		Offset: f.offset, Kernel: f.kernel})
}

// stack reads its attributes in their order, which is that of the frames.
func (p *textParser) stack(name token, rest []token) error {
	if _, ok := p.stacks[name.text]; ok {
		return p.errorf(name.col, "stack %q is declared twice", name.text)
	}
	var frames []uint32
	cut := false
	for _, tok := range rest {
		side, list, _ := strings.Cut(tok.text, "=")
		switch {
		case tok.text == "cut":
			cut = true
		case side != "kernel" && side != "user" || list == "":
			return p.errorf(tok.col, "want kernel=FRAME;FRAME, user=FRAME;FRAME or cut")
		default:
			ids, err := p.frameList(list, side == "kernel")
			if err != nil {
				return p.at(tok.col+len(side)+1, err)
			}
			frames = append(frames, ids...)
		}
	}
	p.stacks[name.text] = p.b.Stack(frames, cut)
	return nil
}

func (p *textParser) frameList(list string, kernel bool) ([]uint32, error) {
	pieces, err := split(list, ";")
	if err != nil {
		return nil, err
	}
	ids := make([]uint32, len(pieces))
	for i, piece := range pieces {
		if label, ok := strings.CutPrefix(piece.text, "@"); ok {
			id, ok := p.frames[label]
			if !ok || p.b.frames[id].Kernel != kernel {
				return nil, badValue(piece.off, "no such frame on this side of the stack: %q", label)
			}
			ids[i] = id
			continue
		}
		f := frameText{kernel: kernel}
		if kernel {
			f.object = kernelObject
		}
		if f.fn, err = parseString(piece.text); err != nil {
			return nil, shift(piece.off, err)
		}
		ids[i] = p.intern(&f)
	}
	return ids, nil
}

func (p *textParser) event() error {
	if !isEvent(p.line) {
		return nil
	}
	toks, err := tokenize(p.line)
	if err != nil {
		return p.at(0, err)
	}
	if len(toks) < 3 {
		return p.errorf(len(p.line), "an event is TIME CPU KIND ...")
	}
	var e eventText
	if e.Time, err = parseTime(toks[0].text); err != nil {
		return p.at(toks[0].col, err)
	}
	cpu, err := strconv.ParseInt(toks[1].text, 10, 16)
	if err != nil {
		return p.errorf(toks[1].col, "%q is not a CPU number", toks[1].text)
	}
	e.CPU = int16(cpu)
	kind := slices.IndexFunc(Kinds[:], func(k KindSpec) bool { return k.Name == toks[2].text })
	if kind < 0 {
		return p.errorf(toks[2].col, "unknown kind %q (known: %s)", toks[2].text, kindNames())
	}
	e.Kind = Kind(kind)
	rest, err := p.eventTasks(&e.Event, toks[3:], toks[2])
	if err != nil {
		return err
	}
	return p.eventRest(&e, rest)
}

// eventTasks reads TASK [-> PEER], as far as the kind has them.
func (p *textParser) eventTasks(e *Event, toks []token, kind token) (rest []token, err error) {
	fields := Kinds[e.Kind].Fields
	if fields&HasPeer != 0 {
		e.Peer = NoTask
	}
	if fields&HasTask == 0 {
		return toks, nil
	}
	if len(toks) == 0 {
		return nil, p.errorf(kind.col+len(kind.text), "%s needs a task", kind.text)
	}
	if e.Task, err = p.lookupTask(toks[0]); err != nil {
		return nil, err
	}
	if len(toks) < 2 || toks[1].text != "->" {
		return toks[1:], nil
	}
	if fields&HasPeer == 0 || len(toks) < 3 {
		return nil, p.errorf(toks[1].col, "%s has no peer, or it is missing", kind.text)
	}
	e.Peer, err = p.lookupTask(toks[2])
	return toks[3:], err
}

// eventRest reads the attributes and adds the event.
func (p *textParser) eventRest(e *eventText, toks []token) error {
	e.stringID, e.argsID = p.b.String, p.b.Args
	e.stackID = func(label string) (StackID, error) {
		id, ok := p.stacks[label]
		if !ok {
			return 0, badValue(0, "unknown stack %q", label)
		}
		return id, nil
	}
	fields := Kinds[e.Kind].Fields
	var attrs []attr[eventText]
	for i := range eventAttrs {
		if f := eventAttrs[i].field; f == 0 || fields&f != 0 {
			attrs = append(attrs, eventAttrs[i].attr)
		}
	}
	e.Seq = p.next[e.CPU]
	given := func(name string) bool {
		return slices.ContainsFunc(toks, func(t token) bool { return strings.HasPrefix(t.text, name+"=") })
	}
	if col, err := parseAttrs(attrs, e, toks); err != nil {
		var v *valueError
		if errors.As(err, &v) {
			err = badValue(v.off, "%s: %s", e.Kind, v.msg)
		}
		return p.at(col, err)
	}
	if !given("state") {
		e.State = defaultState(&e.Event)
	}
	p.next[e.CPU] = e.Seq + 1
	p.b.Add(e.Event)
	return nil
}

func kindNames() string {
	names := make([]string, kindCount)
	for i := range Kinds {
		names[i] = Kinds[i].Name
	}
	return strings.Join(names, " ")
}
