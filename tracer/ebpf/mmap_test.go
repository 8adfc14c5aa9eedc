//go:build linux

package ebpf

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

// record puts a perf record together: header, body, and the id of time 77 on
// CPU 3.
func record(typ uint32, misc uint16, body []byte) []byte {
	order := binary.NativeEndian
	b := order.AppendUint32(nil, typ)
	b = order.AppendUint16(b, misc)
	b = order.AppendUint16(b, uint16(perfHeaderSize+len(body)+sampleIDSize))
	b = append(b, body...)
	b = order.AppendUint32(b, 10)
	b = order.AppendUint32(b, 11)
	b = order.AppendUint64(b, 77)
	b = order.AppendUint32(b, 3)
	return order.AppendUint32(b, 0)
}

func words(v ...any) (b []byte) {
	for _, x := range v {
		switch x := x.(type) {
		case uint32:
			b = binary.NativeEndian.AppendUint32(b, x)
		case uint64:
			b = binary.NativeEndian.AppendUint64(b, x)
		case string:
			b = append(b, x...)
		}
	}
	return b
}

func mmapRecord() []byte {
	return record(unix.PERF_RECORD_MMAP2, 0, words(uint32(10), uint32(11), uint64(0x1000), uint64(0x2000), uint64(0x300),
		uint32(8), uint32(1), uint64(99), uint64(0), uint32(unix.PROT_READ|unix.PROT_EXEC), uint32(0), "/bin/a b\x00\x00\x00\x00\x00\x00\x00\x00"))
}

func mmapBuildIDRecord() []byte {
	id := "\x04\x00\x00\x00" + "\xde\xad\xbe\xef" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	return record(unix.PERF_RECORD_MMAP2, miscBuildID, words(uint32(10), uint32(11), uint64(0x1000), uint64(0x2000), uint64(0x300),
		id, uint32(unix.PROT_EXEC), uint32(0), "[vdso]\x00\x00"))
}

func TestParseMapRecord(t *testing.T) {
	task := words(uint32(20), uint32(10), uint32(21), uint32(11), uint64(77))
	for _, tc := range []struct {
		name string
		rec  []byte
		want MapEvent
		ok   bool
	}{
		{"mmap2", mmapRecord(), MapEvent{Kind: MapMmap, PID: 10, TID: 11, Start: 0x1000, End: 0x3000, Offset: 0x300,
			Dev: symbols.Dev(8, 1), Inode: 99, Path: "/bin/a b"}, true},
		{"mmap2 with build id", mmapBuildIDRecord(), MapEvent{Kind: MapMmap, PID: 10, TID: 11, Start: 0x1000, End: 0x3000,
			Offset: 0x300, BuildID: "deadbeef", Path: "[vdso]"}, true},
		{"mmap2 of data", record(unix.PERF_RECORD_MMAP2, 0, words(uint32(1), uint32(1), uint64(1), uint64(1), uint64(0),
			uint32(0), uint32(0), uint64(0), uint64(0), uint32(unix.PROT_READ), uint32(0), "x\x00")), MapEvent{}, false},
		{"fork", record(unix.PERF_RECORD_FORK, 0, task), MapEvent{Kind: MapFork, PID: 20, PPID: 10, TID: 21, PTID: 11}, true},
		{"exit", record(unix.PERF_RECORD_EXIT, 0, task), MapEvent{Kind: MapExit, PID: 20, PPID: 10, TID: 21, PTID: 11}, true},
		{"exec", record(unix.PERF_RECORD_COMM, miscCommExec, words(uint32(10), uint32(11), "cc1\x00\x00\x00\x00\x00")),
			MapEvent{Kind: MapExec, PID: 10, TID: 11, Comm: "cc1"}, true},
		{"rename", record(unix.PERF_RECORD_COMM, 0, words(uint32(10), uint32(11), "cc1\x00\x00\x00\x00\x00")), MapEvent{}, false},
		{"lost", record(unix.PERF_RECORD_LOST, 0, words(uint64(1), uint64(5))), MapEvent{Kind: MapLost, Lost: 5}, true},
		{"sample", record(unix.PERF_RECORD_SAMPLE, 0, words(uint64(1), uint64(5))), MapEvent{}, false},
		{"cut", mmapRecord()[:40], MapEvent{}, false},
	} {
		got, ok := parseMapRecord(tc.rec)
		if ok != tc.ok {
			t.Errorf("%s: ok = %v", tc.name, ok)
			continue
		}
		if !ok {
			continue
		}
		tc.want.Time, tc.want.CPU = 77, 3
		if got != tc.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

func FuzzMapRecord(f *testing.F) {
	f.Add(mmapRecord())
	f.Add(mmapBuildIDRecord())
	f.Add(record(unix.PERF_RECORD_COMM, miscCommExec, words(uint32(10), uint32(11), "cc1\x00")))
	f.Add(record(unix.PERF_RECORD_LOST, 0, words(uint64(1), uint64(5))))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseMapRecord(b); ok {
			e.Feed(symbols.NewMappings())
		}
	})
}

// A ring hands out records that go over its end, in order, and does not run
// away on a damaged one.
func TestMapRingWraps(t *testing.T) {
	page := os.Getpagesize()
	ring := &mapRing{mem: make([]byte, 2*page)}
	ring.data = ring.mem[page:]
	rec := mmapRecord()
	start := uint64(page - len(rec)/2)
	for i, c := range rec {
		ring.data[(start+uint64(i))%uint64(page)] = c
	}
	binary.NativeEndian.PutUint64(ring.mem[dataTailAt:], start)
	binary.NativeEndian.PutUint64(ring.mem[dataHeadAt:], start+uint64(len(rec)))
	n := 0
	ring.drain(func(e MapEvent) {
		n++
		if e.Path != "/bin/a b" {
			t.Errorf("path %q", e.Path)
		}
	})
	if n != 1 {
		t.Errorf("%d records, want 1", n)
	}
	binary.NativeEndian.PutUint64(ring.mem[dataHeadAt:], start+uint64(len(rec))+64) // zeros: no record
	ring.drain(func(MapEvent) { t.Error("a record out of nothing") })
	if tail := binary.NativeEndian.Uint64(ring.mem[dataTailAt:]); tail != start+uint64(len(rec))+64 {
		t.Errorf("tail %d stays behind a damaged ring", tail)
	}
}

func openMapReader(t *testing.T) *MapReader {
	t.Helper()
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	r, err := OpenMapReader(cpus)
	if errors.Is(err, tracer.ErrUnsupported) && os.Getuid() != 0 {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// A program that lives for a moment is seen with what it mapped, and its
// addresses still have names when it is gone.
func TestMapReaderShortProcess(t *testing.T) {
	r := openMapReader(t)
	exe, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		t.Fatal(err)
	}
	if err := r.Enable(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := r.Disable(); err != nil {
		t.Fatal(err)
	}
	pid := int32(cmd.Process.Pid)
	maps := symbols.NewMappings()
	var execs, forks, exits int
	var code, libc MapEvent
	r.Drain(func(e MapEvent) {
		e.Feed(maps)
		if e.PID != pid {
			return
		}
		switch e.Kind {
		case MapExec:
			execs++
		case MapFork:
			forks++
		case MapExit:
			exits++
		case MapMmap:
			if e.Path == exe {
				code = e
			}
			if filepath.Base(e.Path) == "libc.so.6" {
				libc = e
			}
		}
	})
	if execs != 1 || forks != 1 || exits != 1 {
		t.Errorf("%d execs, %d forks, %d exits of the process, want one each", execs, forks, exits)
	}
	if code.Path == "" {
		t.Fatalf("the mapping of %s was not seen", exe)
	}
	if r.BuildIDs && code.BuildID == "" {
		t.Errorf("mapping without a build id: %+v", code)
	}
	path, off, id, ok := maps.Lookup(pid, code.Time+1, code.Start+8)
	if !ok || path != exe || off != code.Offset+8 || id != code.BuildID {
		t.Errorf("lookup gives %q %#x %q %v", path, off, id, ok)
	}
	if libc.Path == "" {
		return // linked statically
	}
	file, err := symbols.OpenFile(libc.Path)
	if err != nil || file.Len() == 0 {
		t.Skip("libc has no symbols", err)
	}
	off, ok = file.Offset("malloc")
	if !ok {
		t.Fatal("libc without malloc")
	}
	res := symbols.NewResolver(nil, maps)
	if fn, obj, _, _ := res.User(pid, libc.Time+1, libc.Start+off-libc.Offset); fn != "malloc" || obj != libc.Path {
		t.Errorf("resolved to %q in %q, want malloc in %q", fn, obj, libc.Path)
	}
}

func TestMapReaderClosesTwice(t *testing.T) {
	r := openMapReader(t)
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}
