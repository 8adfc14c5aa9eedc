package tracer

import (
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// attr is one key=value of a line about a T: get gives the value in the text
// form, "" when it is the default and left out; set reads it. A flag is an
// attr without a value: its get gives its name.
type attr[T any] struct {
	name string
	flag bool
	get  func(*T) string
	set  func(*T, string) error
}

func stringAttr[T any](name string, field func(*T) *string) attr[T] {
	return attr[T]{name: name,
		get: func(v *T) string {
			if *field(v) == "" {
				return ""
			}
			return quote(*field(v), "")
		},
		set: func(v *T, s string) (err error) { *field(v), err = parseString(s); return err }}
}

func timeAttr[T any](name string, field func(*T) *Time) attr[T] {
	return attr[T]{name: name,
		get: func(v *T) string {
			if *field(v) == 0 {
				return ""
			}
			return formatTime(*field(v))
		},
		set: func(v *T, s string) (err error) { *field(v), err = parseTime(s); return err }}
}

func listAttr[T any](name string, field func(*T) *[]string) attr[T] {
	return attr[T]{name: name,
		get: func(v *T) string {
			if len(*field(v)) == 0 {
				return ""
			}
			return formatList(*field(v))
		},
		set: func(v *T, s string) (err error) { *field(v), err = parseList(s); return err }}
}

func flagAttr[T any](name string, field func(*T) *bool) attr[T] {
	return attr[T]{name: name, flag: true,
		get: func(v *T) string {
			if *field(v) {
				return name
			}
			return ""
		},
		set: func(v *T, _ string) error { *field(v) = true; return nil }}
}

// intAttr is a whole number of a bounded size, left out when it equals what
// unset gives.
func intAttr[T any](name string, unset func(*T) int64, get func(*T) int64, set func(*T, int64), bits int) attr[T] {
	return attr[T]{name: name,
		get: func(v *T) string {
			if n := get(v); n != unset(v) {
				return strconv.FormatInt(n, 10)
			}
			return ""
		},
		set: func(v *T, s string) error {
			n, err := parseInt(s)
			if err != nil {
				return err
			}
			if limit := int64(1) << (bits - 1); bits < 64 && (n >= limit || n < -limit) {
				return badValue(0, "%s does not fit %d bits", s, bits)
			}
			set(v, n)
			return nil
		}}
}

func zero[T any](*T) int64 { return 0 }

// metaText is a meta line.
type metaText struct {
	Meta
	given metaFields
}

var metaAttrs = []attr[metaText]{
	always(timeAttr("begin", func(m *metaText) *Time { m.given |= metaBegin; return &m.Begin })),
	always(timeAttr("end", func(m *metaText) *Time { m.given |= metaEnd; return &m.End })),
	intAttr("cpus", func(*metaText) int64 { return -1 }, func(m *metaText) int64 { return int64(m.CPUs) },
		func(m *metaText, n int64) { m.CPUs = int(n); m.given |= metaCPUs }, 32),
	stringAttr("backend", func(m *metaText) *string { return &m.Backend }),
	stringAttr("host", func(m *metaText) *string { return &m.Host }),
	stringAttr("kernel", func(m *metaText) *string { return &m.Kernel }),
	stringAttr("machine", func(m *metaText) *string { return &m.Machine }),
	timeAttr("sleepstack", func(m *metaText) *Time { return &m.SleepStack }),
	timeAttr("sampleperiod", func(m *metaText) *Time { return &m.SamplePeriod }),
	intAttr("selfpid", zero[metaText], func(m *metaText) int64 { return int64(m.SelfPID) },
		func(m *metaText, n int64) { m.SelfPID = int32(n) }, 32),
	intAttr("runns", zero[metaText], func(m *metaText) int64 { return m.RunNs },
		func(m *metaText, n int64) { m.RunNs = n }, 64),
	listAttr("probes", func(m *metaText) *[]string { return &m.Probes }),
	listAttr("notes", func(m *metaText) *[]string { return &m.Notes }),
	{name: "extra",
		get: func(m *metaText) string {
			var args Args
			for k, v := range m.Extra {
				args = append(args, Arg{k, v})
			}
			sort.Slice(args, func(i, j int) bool { return args[i].Key < args[j].Key })
			return formatArgs(args)
		},
		set: func(m *metaText, s string) error {
			args, err := parseArgs(s)
			if err != nil {
				return err
			}
			m.Extra = map[string]string{}
			for _, a := range args {
				m.Extra[a.Key] = a.Value
			}
			return nil
		}},
}

// always is an attr that is written even when it is zero.
func always[T any](a attr[T]) attr[T] {
	get := a.get
	a.get = func(v *T) string {
		if s := get(v); s != "" {
			return s
		}
		return "0"
	}
	return a
}

// taskText is a task line. Labels of other tasks are kept as text until all
// tasks are known.
type taskText struct {
	Task
	label          string
	index          TaskID
	defaults       taskDefault
	leader, parent string
	comm           *string // given
	nspid, pid     *int32  // given
	given          taskFields
	image          Image // the program it ran when the trace began
}

// defaultTID, defaultPID, defaultNSPID and defaultComm are what a task line
// means that does not say.
func (t *taskText) defaultTID() int64   { return int64(t.index) }
func (t *taskText) defaultPID() int64   { return int64(t.TID) }
func (t *taskText) defaultNSPID() int64 { return int64(t.PID) }
func (t *taskText) defaultComm() string {
	return strings.TrimSuffix(t.label, "/"+strconv.Itoa(int(t.TID)))
}

var taskAttrs = []attr[taskText]{
	intAttr("tid", (*taskText).defaultTID, func(t *taskText) int64 { return int64(t.TID) },
		func(t *taskText, n int64) { t.TID = int32(n) }, 32),
	intAttr("pid", (*taskText).defaultPID, func(t *taskText) int64 { return int64(t.PID) },
		func(t *taskText, n int64) { v := int32(n); t.pid = &v }, 32),
	intAttr("nspid", (*taskText).defaultNSPID, func(t *taskText) int64 { return int64(t.NSPID) },
		func(t *taskText, n int64) { v := int32(n); t.nspid = &v }, 32),
	timeAttr("start", func(t *taskText) *Time { return &t.Start }),
	{name: "comm",
		get: func(t *taskText) string {
			if t.Comm == t.defaultComm() {
				return ""
			}
			return quote(t.Comm, "")
		},
		set: func(t *taskText, s string) error { c, err := parseString(s); t.comm = &c; return err }},
	{name: "leader",
		get: func(t *taskText) string { return t.leader },
		set: func(t *taskText, s string) error { t.leader = s; t.given |= taskLeader; return nil }},
	{name: "parent",
		get: func(t *taskText) string { return t.parent },
		set: func(t *taskText, s string) error { t.parent = s; t.given |= taskParent; return nil }},
	{name: "born",
		get: func(t *taskText) string {
			if t.Born == t.defaults.born {
				return ""
			}
			return formatTime(t.Born)
		},
		set: func(t *taskText, s string) (err error) { t.Born, err = parseTime(s); t.given |= taskBorn; return err }},
	flagAttr("kernel", func(t *taskText) *bool { return &t.Kernel }),
	flagAttr("tracer", func(t *taskText) *bool { return &t.Tracer }),
	stringAttr("cgroup", func(t *taskText) *string { return &t.Cgroup }),
	stringAttr("exe", func(t *taskText) *string { return &t.image.Exe }),
	listAttr("argv", func(t *taskText) *[]string { return &t.image.Argv }),
	flagAttr("cut", func(t *taskText) *bool { return &t.image.Cut }),
}

// imageText is an image line.
type imageText struct {
	Image
	comm *string // given
}

// defaultComm is what the kernel calls a program after its exec: the first 15
// bytes of the file's name (begin_new_exec, __set_task_comm).
func (i *imageText) defaultComm() string {
	if i.Exe == "" {
		return ""
	}
	name := path.Base(i.Exe)
	return name[:min(len(name), 15)]
}

var imageAttrs = []attr[imageText]{
	timeAttr("at", func(i *imageText) *Time { return &i.Time }),
	stringAttr("exe", func(i *imageText) *string { return &i.Exe }),
	{name: "comm",
		get: func(i *imageText) string {
			if i.Comm == i.defaultComm() {
				return ""
			}
			return quote(i.Comm, "")
		},
		set: func(i *imageText, s string) error { c, err := parseString(s); i.comm = &c; return err }},
	listAttr("argv", func(i *imageText) *[]string { return &i.Argv }),
	flagAttr("cut", func(i *imageText) *bool { return &i.Cut }),
}

// frameText is a frame line.
type frameText struct {
	fn, object, buildID string
	offset              uint64
	kernel              bool
}

var frameAttrs = []attr[frameText]{
	flagAttr("kernel", func(f *frameText) *bool { return &f.kernel }),
	stringAttr("func", func(f *frameText) *string { return &f.fn }),
	stringAttr("object", func(f *frameText) *string { return &f.object }),
	stringAttr("buildid", func(f *frameText) *string { return &f.buildID }),
	{name: "offset",
		get: func(f *frameText) string { return formatUint(f.offset) },
		set: func(f *frameText, s string) (err error) { f.offset, err = parseUint(s); return err }},
}

// kernelObject is the object of kernel frames that are written by name only.
const kernelObject = "[kernel]"

// plain says whether the frame is the one that its name alone stands for.
func (f *frameText) plain() bool {
	object := ""
	if f.kernel {
		object = kernelObject
	}
	return f.object == object && f.buildID == "" && f.offset == 0
}

// formatUint writes small numbers in decimal, others (addresses, pointers) in
// hexadecimal, and 0 as "".
func formatUint(v uint64) string {
	switch {
	case v == 0:
		return ""
	case v < 1<<16:
		return strconv.FormatUint(v, 10)
	}
	return "0x" + strconv.FormatUint(v, 16)
}

func parseUint(s string) (uint64, error) {
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, badValue(0, "%q is not a whole number from 0 to 2^64-1", s)
	}
	return v, nil
}

// nameIndex finds a word in a table of names.
func nameIndex(names []string, word, what string) (int, error) {
	if i := slices.Index(names, word); i >= 0 && word != "" {
		return i, nil
	}
	known := slices.DeleteFunc(slices.Clone(names), func(s string) bool { return s == "" })
	return 0, badValue(0, "unknown %s %q (known: %s)", what, word, strings.Join(known, " "))
}

// formatAttrs appends the attrs that are not at their defaults.
func formatAttrs[T any](buf []byte, attrs []attr[T], v *T) []byte {
	for _, a := range attrs {
		s := a.get(v)
		if s == "" {
			continue
		}
		buf = append(buf, ' ')
		if !a.flag {
			buf = append(append(buf, a.name...), '=')
		}
		buf = append(buf, s...)
	}
	return buf
}

// parseAttrs reads the words of a line into v.
func parseAttrs[T any](attrs []attr[T], v *T, toks []token) (int, error) {
	for _, tok := range toks {
		name, value, hasValue := strings.Cut(tok.text, "=")
		i := slices.IndexFunc(attrs, func(a attr[T]) bool { return a.name == name })
		switch {
		case i < 0:
			return tok.col, badValue(0, "unknown attribute %q (known: %s)", name, attrNames(attrs))
		case attrs[i].flag && hasValue:
			return tok.col, badValue(0, "%s takes no value", name)
		case !attrs[i].flag && (!hasValue || value == ""):
			return tok.col, badValue(0, "%s needs a value: %s=... (\"\" for none)", name, name)
		}
		if err := attrs[i].set(v, value); err != nil {
			return tok.col + len(name) + 1, err
		}
	}
	return 0, nil
}

func attrNames[T any](attrs []attr[T]) string {
	names := make([]string, len(attrs))
	for i, a := range attrs {
		names[i] = a.name
	}
	return strings.Join(names, " ")
}
