package tracer

import "sort"

// Arg is one decoded argument: "path", "fstype", "flags", "netlink", "address",
// "fd" ...; see ArgKeys.
type Arg struct{ Key, Value string }

// Args is the decoded arguments of one span.
type Args []Arg

// ArgKeys lists the keys a backend may use in Args, and what their values are.
var ArgKeys = map[string]string{
	"path":    "absolute path of the file or Unix socket, as the caller's namespace names it",
	"target":  "second path: mount point, link or rename target",
	"flags":   "flag words as the system call's header calls them, joined by | (CLONE_NEWNET|CLONE_NEWNS)",
	"fstype":  "file system type of a mount",
	"netlink": "netlink message type (RTM_NEWLINK, NFT_MSG ...)",
	"address": "socket address: unix:PATH, inet:IP:PORT, inet6:..., netlink:PROTOCOL",
	"op":      "sub-operation of a multiplexed call (seccomp, prctl, bpf, fsconfig, keyctl ...)",
	"fd":      "file descriptor number",
}

// Frame is one function of a stack.
type Frame struct {
	Func    StringID // demangled; 0 when it has no name
	Object  StringID // path of the file it lies in, or "[kernel]", "[jit]"
	BuildID StringID // hex, of Object
	Offset  uint64   // in Object's file; in the kernel, the address
	Kernel  bool
}

// Stack is frames, leaf first: kernel frames, then user frames.
type Stack struct {
	Frames []uint32 // indexes into Trace.Frames
	Cut    bool     // deeper than what could be taken
}

// Meta says how a trace came to be.
type Meta struct {
	Backend      string
	Host         string // node name
	Kernel       string // release
	Machine      string // amd64, arm64
	CPUs         int
	Begin, End   Time     // the trace says nothing outside of [Begin, End]
	SleepStack   Time     // sleeps at least this long have stacks; < 0: none
	SamplePeriod Time     // 0: no samples
	SelfPID      int32    // the tracing process
	Probes       []string // what was attached
	RunNs        int64    // time the kernel spent in the tracer's programs, if it could be measured
	Notes        []string // what the backend had to repair or leave out
	Extra        map[string]string
}

// Trace is one contiguous recording: nothing was attached before Meta.Begin
// or after Meta.End. Events are sorted by (Time, CPU, Seq).
type Trace struct {
	Meta    Meta
	Events  []Event
	Tasks   []Task   // [0] is the idle task
	Strings []string // [0] is ""
	Args    []Args   // [0] is nil
	Stacks  []Stack  // [0] is empty
	Frames  []Frame
}

// String is the text of an id; unknown ids give "".
func (t *Trace) String(id StringID) string {
	if int(id) < len(t.Strings) {
		return t.Strings[id]
	}
	return ""
}

// Arg gives the value of a key in an argument list, or "".
func (t *Trace) Arg(id ArgsID, key string) string {
	if int(id) < len(t.Args) {
		for _, a := range t.Args[id] {
			if a.Key == key {
				return a.Value
			}
		}
	}
	return ""
}

// Leader is the task whose Images are those of the task's process.
func (t *Trace) Leader(id TaskID) TaskID {
	if id <= 0 || int(id) >= len(t.Tasks) {
		return id
	}
	if l := t.Tasks[id].Leader; l > 0 && int(l) < len(t.Tasks) {
		return l
	}
	return id
}

// ImageAt is the index, in the leader's Images, of the program that the
// task's process ran at a time; -1 when it is not known.
func (t *Trace) ImageAt(id TaskID, at Time) int {
	if id <= 0 || int(id) >= len(t.Tasks) {
		return -1
	}
	im := t.Tasks[t.Leader(id)].Images
	return sort.Search(len(im), func(i int) bool { return im[i].Time > at }) - 1
}

// Lost is the number of events that could not be recorded.
func (t *Trace) Lost() (n uint64) {
	for i := range t.Events {
		if t.Events[i].Kind == KindLost {
			n += uint64(t.Events[i].Value)
		}
	}
	return n
}
