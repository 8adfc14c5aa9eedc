//go:build linux

package ebpf

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

// MapKind says what a MapEvent reports.
type MapKind uint8

const (
	MapNone MapKind = iota
	MapExec         // the process began a new program, Comm: what it had mapped is gone
	MapMmap         // the process mapped [Start, End) of Path at Offset to execute it
	MapFork         // PPID/PTID created PID/TID
	MapExit         // TID of PID ended
	MapLost         // Lost records of this CPU did not fit its ring
)

// MapEvent is one record of the kernel's perf side band: what it takes to say,
// later, which file an address of a process lay in. Pids are those of the pid
// namespace that the reader was opened in.
type MapEvent struct {
	Kind       MapKind
	CPU        int
	Time       tracer.Time
	PID, TID   int32
	PPID, PTID int32
	Start, End uint64
	Offset     uint64
	Dev, Inode uint64 // 0 where BuildID was recorded in their place
	BuildID    string // hex
	Path       string // "//anon" for memory of no file, "[vdso]" ...
	Comm       string
	Lost       uint64
}

// Feed applies the event to what is known of address spaces.
func (e *MapEvent) Feed(m *symbols.Mappings) {
	switch e.Kind {
	case MapExec:
		m.Exec(e.PID, e.Time)
	case MapMmap:
		m.Add(e.PID, e.Time, e.Start, e.End, e.Offset, e.Path, e.BuildID, e.Dev, e.Inode)
	case MapFork:
		m.Fork(e.PPID, e.PID, e.Time)
	case MapExit:
		if e.PID == e.TID {
			m.Exit(e.PID, e.Time)
		}
	}
}

// Bits of perf_event_attr that x/sys has no names for.
const perfBitBuildID = 1 << 34 // since Linux 5.12

const (
	mapRingPages = 128 // per CPU; a program's start takes about 1.5 KB of records
	minRingPages = 1
	// mapSampleType is what follows every record (sample_id_all): pid and tid,
	// time, CPU, each 8 bytes.
	mapSampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU
	sampleIDSize  = 24
)

// MapReader reads the perf side band of a set of CPUs: one dummy software
// event and one ring each. It costs nothing but at mmap, fork, exec and exit.
type MapReader struct {
	rings    []*mapRing
	BuildIDs bool // records carry build ids in place of device and inode
}

type mapRing struct {
	cpu  int
	fd   int
	mem  []byte // a header page and the data
	data []byte
	rec  []byte // record being put together
}

// OpenMapReader opens an event on each CPU, not enabled yet. The error is a
// tracer.UnsupportedError.
func OpenMapReader(cpus []int) (*MapReader, error) {
	r := &MapReader{BuildIDs: true}
	for _, cpu := range cpus {
		ring, err := r.openRing(cpu)
		if err != nil {
			r.Close()
			return nil, &tracer.UnsupportedError{Feature: "perf mmap records", Err: err,
				Needs: "perf_event_open(2) of all processes (CAP_PERFMON or CAP_SYS_ADMIN, no seccomp filter on it)",
				Cost:  "functions of processes that end during the trace have no names"}
		}
		r.rings = append(r.rings, ring)
	}
	return r, nil
}

func mapAttr(buildIDs bool) *unix.PerfEventAttr {
	attr := &unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config:      unix.PERF_COUNT_SW_DUMMY,
		Sample_type: mapSampleType,
		Bits: unix.PerfBitDisabled | unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec |
			unix.PerfBitTask | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitExcludeKernel,
		Clockid: unix.CLOCK_MONOTONIC,
	}
	if buildIDs {
		attr.Bits |= perfBitBuildID
	}
	return attr
}

func (r *MapReader) openRing(cpu int) (*mapRing, error) {
	fd, err := unix.PerfEventOpen(mapAttr(r.BuildIDs), -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if r.BuildIDs && (errors.Is(err, unix.EINVAL) || errors.Is(err, unix.E2BIG)) {
		r.BuildIDs = false
		fd, err = unix.PerfEventOpen(mapAttr(false), -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("perf_event_open on cpu %d: %w", cpu, err)
	}
	ring := &mapRing{cpu: cpu, fd: fd}
	page := os.Getpagesize()
	// Without CAP_IPC_LOCK, sysctl kernel.perf_event_mlock_kb limits the rings
	// of a user: a smaller ring is better than none.
	for pages := mapRingPages; ; pages /= 2 {
		ring.mem, err = unix.Mmap(fd, 0, (1+pages)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			ring.data = ring.mem[page:]
			return ring, nil
		}
		if pages == minRingPages || !(errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOMEM)) {
			unix.Close(fd)
			return nil, fmt.Errorf("mmap of a perf ring of %d pages: %w", pages, err)
		}
	}
}

// Enable begins to record.
func (r *MapReader) Enable() error { return r.ioctl(unix.PERF_EVENT_IOC_ENABLE) }

// Disable ceases to record; what is in the rings stays.
func (r *MapReader) Disable() error { return r.ioctl(unix.PERF_EVENT_IOC_DISABLE) }

func (r *MapReader) ioctl(req uint) error {
	for _, ring := range r.rings {
		if err := unix.IoctlSetInt(ring.fd, req, 0); err != nil {
			return fmt.Errorf("perf event of cpu %d: %w", ring.cpu, err)
		}
	}
	return nil
}

// Close releases events and rings. A Close of a closed reader does nothing.
func (r *MapReader) Close() error {
	var errs []error
	for _, ring := range r.rings {
		errs = append(errs, unix.Munmap(ring.mem), unix.Close(ring.fd))
	}
	r.rings = nil
	return errors.Join(errs...)
}

// Drain hands every record there is to fn, in order per CPU. It must be called
// often enough for the rings (a few times a second), by one goroutine.
func (r *MapReader) Drain(fn func(MapEvent)) {
	for _, ring := range r.rings {
		ring.drain(fn)
	}
}

// Offsets of data_head and data_tail in struct perf_event_mmap_page.
const (
	dataHeadAt = 1024
	dataTailAt = 1032
)

func (ring *mapRing) drain(fn func(MapEvent)) {
	head := atomic.LoadUint64((*uint64)(unsafe.Pointer(&ring.mem[dataHeadAt])))
	tailp := (*uint64)(unsafe.Pointer(&ring.mem[dataTailAt]))
	tail := *tailp
	size := uint64(len(ring.data))
	for head-tail >= perfHeaderSize {
		var h [perfHeaderSize]byte
		ring.copy(h[:], tail)
		n := uint64(binary.NativeEndian.Uint16(h[6:]))
		if n < perfHeaderSize || n > head-tail || n > size {
			tail = head // not a record: the ring is damaged, begin anew
			break
		}
		if uint64(cap(ring.rec)) < n {
			ring.rec = make([]byte, 1<<16)
		}
		rec := ring.rec[:n]
		ring.copy(rec, tail)
		tail += n
		if e, ok := parseMapRecord(rec); ok {
			if e.Kind == MapLost {
				e.CPU = ring.cpu
			}
			fn(e)
		}
	}
	atomic.StoreUint64(tailp, tail)
	runtime.KeepAlive(ring)
}

func (ring *mapRing) copy(dst []byte, at uint64) {
	at &= uint64(len(ring.data)) - 1
	n := copy(dst, ring.data[at:])
	copy(dst[n:], ring.data)
}

const (
	perfHeaderSize = 8
	miscBuildID    = 1 << 14 // PERF_RECORD_MISC_MMAP_BUILD_ID
	miscCommExec   = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC
)

// parseMapRecord decodes one record: struct perf_event_header, the fields of
// its type (perf_event_type in uapi/linux/perf_event.h), and the sample id.
// False: another type, or cut.
func parseMapRecord(b []byte) (e MapEvent, ok bool) {
	if len(b) < perfHeaderSize+sampleIDSize {
		return e, false
	}
	order := binary.NativeEndian
	typ, misc := order.Uint32(b), order.Uint16(b[4:])
	id := b[len(b)-sampleIDSize:]
	body := b[perfHeaderSize : len(b)-sampleIDSize]
	e.Time = tracer.Time(order.Uint64(id[8:]))
	e.CPU = int(order.Uint32(id[16:]))
	parse, ok := mapRecords[typ]
	if !ok || len(body) < parse.min {
		return e, false
	}
	return e, parse.fields(&e, body, misc)
}

// mapRecord is how to read one type of record: at least min bytes.
type mapRecord struct {
	min    int
	fields func(e *MapEvent, b []byte, misc uint16) bool
}

var mapRecords = map[uint32]mapRecord{
	unix.PERF_RECORD_MMAP2: {64, mmap2Fields},
	unix.PERF_RECORD_FORK:  {24, func(e *MapEvent, b []byte, _ uint16) bool { return taskFields(e, b, MapFork) }},
	unix.PERF_RECORD_EXIT:  {24, func(e *MapEvent, b []byte, _ uint16) bool { return taskFields(e, b, MapExit) }},
	unix.PERF_RECORD_COMM:  {8, commFields},
	unix.PERF_RECORD_LOST:  {16, lostFields},
}

// mmap2Fields: pid, tid u32; addr, len, pgoff u64; then maj, min u32, ino, gen
// u64, or build id size u8, 3 reserved, 20 bytes; prot, flags u32; name.
func mmap2Fields(e *MapEvent, b []byte, misc uint16) bool {
	order := binary.NativeEndian
	e.Kind = MapMmap
	e.PID, e.TID = int32(order.Uint32(b)), int32(order.Uint32(b[4:]))
	e.Start = order.Uint64(b[8:])
	e.End = e.Start + order.Uint64(b[16:])
	e.Offset = order.Uint64(b[24:])
	if misc&miscBuildID != 0 {
		e.BuildID = hex.EncodeToString(b[36 : 36+min(int(b[32]), 20)])
	} else {
		e.Dev = symbols.Dev(order.Uint32(b[32:]), order.Uint32(b[36:]))
		e.Inode = order.Uint64(b[40:])
	}
	e.Path = zeroEnded(b[64:])
	return e.End > e.Start && order.Uint32(b[56:])&unix.PROT_EXEC != 0
}

// taskFields: pid, ppid, tid, ptid u32; time u64.
func taskFields(e *MapEvent, b []byte, kind MapKind) bool {
	order := binary.NativeEndian
	e.Kind = kind
	e.PID, e.PPID = int32(order.Uint32(b)), int32(order.Uint32(b[4:]))
	e.TID, e.PTID = int32(order.Uint32(b[8:])), int32(order.Uint32(b[12:]))
	return true
}

// commFields: pid, tid u32; comm. Only those of an exec are of interest.
func commFields(e *MapEvent, b []byte, misc uint16) bool {
	e.Kind = MapExec
	e.PID, e.TID = int32(binary.NativeEndian.Uint32(b)), int32(binary.NativeEndian.Uint32(b[4:]))
	e.Comm = zeroEnded(b[8:])
	return misc&miscCommExec != 0
}

// lostFields: id, lost u64.
func lostFields(e *MapEvent, b []byte, _ uint16) bool {
	e.Kind = MapLost
	e.Lost = binary.NativeEndian.Uint64(b[8:])
	return true
}

func zeroEnded(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
