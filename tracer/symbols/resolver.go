// Package symbols gives addresses their names: kernel functions by kallsyms,
// user functions by the ELF file that was mapped where the address lay when it
// was seen, JIT code by the compiler's perf map.
//
// It works after the fact. What was mapped where comes from records that the
// kernel made at the time (Mappings), so a process that lived for two
// milliseconds has names as well as one that still runs; only the files must
// still be there, under some path, with the same build id. What has no name
// keeps its object and offset; nothing is guessed.
//
// It refuses to unwind, to read DWARF, to fetch anything over a network.
package symbols

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"stagetrace/tracer"
)

// Objects that are not files.
const (
	ObjectKernel   = "[kernel]"
	ObjectJIT      = "[jit]"
	ObjectVDSO     = "[vdso]"
	ObjectVsyscall = "[vsyscall]"
)

// Resolver names the addresses of a trace. Safe for concurrent use.
type Resolver struct {
	kernel *Kernel
	maps   *Mappings
	files  *Files

	mu     sync.Mutex
	kcache map[uint64]string
	ucache map[funcKey]string
	jits   map[int32]*jitFile
	asked  map[int32]bool // pids whose /proc entry was read because no record told of them
}

type funcKey struct {
	file   *File
	offset uint64
}

// Location is a named address.
type Location struct {
	Func    string // demangled; "" when it has no name
	Object  string // path of the file, or one of the Object constants; "" when nothing was mapped there
	BuildID string // hex, of Object
	Offset  uint64 // in Object's file; the address where there is no file
}

// NewResolver names user addresses by what maps knows. Either may be nil.
func NewResolver(k *Kernel, m *Mappings) *Resolver {
	if k == nil {
		k = &Kernel{done: true, err: tracer.ErrUnsupported}
	}
	if m == nil {
		m = NewMappings()
	}
	return &Resolver{kernel: k, maps: m, files: NewFiles(),
		kcache: map[uint64]string{}, ucache: map[funcKey]string{}, jits: map[int32]*jitFile{}, asked: map[int32]bool{}}
}

// Kernel is the kernel function at addr, without what the compiler appended to
// its name. Pass a return address less 1: a call that does not return may be a
// function's last instruction.
func (r *Resolver) Kernel(addr uint64) (name string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, ok = r.kcache[addr]
	if !ok {
		if name, ok = r.kernel.Name(addr); ok {
			name = TrimSuffix(name)
		}
		r.kcache[addr] = name
	}
	return name, name != ""
}

// User is what lay at an address of a process (pid as in the records, of the
// initial namespace) at a time. Pass a return address less 1, or use Stack.
func (r *Resolver) User(pid int32, at tracer.Time, addr uint64) (fn, object, buildID string, offset uint64) {
	l := r.Location(pid, at, addr)
	return l.Func, l.Object, l.BuildID, l.Offset
}

// Stack names a user stack, leaf first. All addresses but the leaf are return
// addresses, looked up one byte before, where the call is.
func (r *Resolver) Stack(pid int32, at tracer.Time, addrs []uint64) []Location {
	out := make([]Location, len(addrs))
	for i, a := range addrs {
		if i > 0 && a > 0 {
			a--
		}
		out[i] = r.Location(pid, at, a)
	}
	return out
}

// vsyscallBase is where x86-64 keeps three functions in every process.
const vsyscallBase = 0xffffffffff600000

// Location is User as one value.
func (r *Resolver) Location(pid int32, at tracer.Time, addr uint64) Location {
	if addr&^0xfff == vsyscallBase {
		return Location{Object: ObjectVsyscall, Offset: addr - vsyscallBase}
	}
	m, mapped := r.find(pid, at, addr)
	if !mapped || !m.fileBacked() && m.Path != ObjectVDSO {
		fn, named := r.jit(pid, addr)
		switch {
		case named:
			return Location{Func: fn, Object: ObjectJIT, Offset: addr}
		case mapped:
			return Location{Object: anonymousObject(m.Path), Offset: addr}
		}
		return Location{Offset: addr}
	}
	off := addr - m.Start + m.Offset
	if m.Path == ObjectVDSO {
		off = addr - m.Start
	}
	l := Location{Object: strings.TrimSuffix(m.Path, deletedSuffix), BuildID: m.BuildID, Offset: off}
	f := r.files.File(pid, &m)
	if f == nil {
		return l
	}
	l.BuildID = f.BuildID()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := funcKey{f, off}
	fn, ok := r.ucache[key]
	if !ok {
		fn, _ = f.Func(off)
		r.ucache[key] = fn
	}
	l.Func = fn
	return l
}

// anonymousObject is what code outside of files is called.
func anonymousObject(path string) string {
	if strings.HasPrefix(path, "[") && !strings.HasPrefix(path, "[anon") {
		return path
	}
	return ObjectJIT
}

// find is Mappings.Find. A process that no record told of is read from /proc,
// if it is still the same one.
func (r *Resolver) find(pid int32, at tracer.Time, addr uint64) (Mapping, bool) {
	m, ok := r.maps.Find(pid, at, addr)
	if ok || r.maps.Known(pid, at) {
		return m, ok
	}
	r.mu.Lock()
	asked := r.asked[pid]
	r.asked[pid] = true
	r.mu.Unlock()
	if asked || !startedBefore(pid, at) || r.maps.LoadProcess(pid, at) != nil {
		return Mapping{}, false
	}
	return r.maps.Find(pid, at, addr)
}

// jit looks an address up in the perf map of a process, reading what the
// compiler has added when it is not there.
func (r *Resolver) jit(pid int32, addr uint64) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, seen := r.jits[pid]
	if j != nil {
		if fn, ok := j.Name(addr); ok {
			return Demangle(fn), true
		}
	} else if seen {
		return "", false
	}
	f := openPerfMap(pid)
	if f != nil {
		defer f.Close()
	} else if f = r.maps.keptPerfMap(pid); f == nil {
		if j == nil {
			r.jits[pid] = nil
		}
		return "", false
	}
	if j == nil {
		j = &jitFile{}
		r.jits[pid] = j
	}
	if !j.refresh(f) {
		return "", false
	}
	fn, ok := j.Name(addr)
	return Demangle(fn), ok
}

// openPerfMap opens /tmp/perf-PID.map of a process as it named it itself: in
// its own root, with its pid in its own namespace. After its end the file of a
// process of our own namespace is still there.
func openPerfMap(pid int32) *os.File {
	nsPID := pid
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		nsPID = namespacePID(b, pid)
	}
	if f, err := openInRoot(pid, fmt.Sprintf("/tmp/perf-%d.map", nsPID)); err == nil {
		return f
	}
	if f, err := openPlain(fmt.Sprintf("/tmp/perf-%d.map", pid)); err == nil {
		return f
	}
	return nil
}

// namespacePID is a process's id in its own pid namespace: the last of the
// NSpid line of its status.
func namespacePID(status []byte, pid int32) int32 {
	for line := range bytes.Lines(status) {
		rest, ok := bytes.CutPrefix(line, []byte("NSpid:"))
		if !ok {
			continue
		}
		f := bytes.Fields(rest)
		if len(f) == 0 {
			break
		}
		if n, err := strconv.ParseInt(string(f[len(f)-1]), 10, 32); err == nil && n > 0 {
			return int32(n)
		}
	}
	return pid
}

// clockTick is the unit of start times in /proc/PID/stat: USER_HZ, which is 100
// on every architecture that Go runs on.
const clockTick = 10_000_000

// startedBefore says whether the process that has a pid now began before a
// time, so that it is not another one that got the same pid.
func startedBefore(pid int32, at tracer.Time) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return false
	}
	ticks, ok := statStart(b)
	// The start counts suspended time too, which only makes it look later.
	return ok && tracer.Time(ticks)*clockTick <= at
}

// statStart is field 22 of /proc/PID/stat. The name, field 2, is in brackets
// and may hold any character.
func statStart(b []byte) (uint64, bool) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, false
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(f[19]), 10, 62)
	return n, err == nil
}
