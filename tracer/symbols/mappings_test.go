package symbols

import (
	"os"
	"runtime"
	"testing"

	"stagetrace/tracer"
)

const procMaps = `55d0c0a00000-55d0c0a20000 r--p 00000000 08:01 1234                       /usr/bin/bash
55d0c0a20000-55d0c0b00000 r-xp 00020000 08:01 1234                       /usr/bin/bash
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
7f0000002000-7f0000003000 r-xs 00001000 fd:1f 99                         /tmp/a b (deleted)
7f0000004000-7f0000005000 r-xp 00000000 00:05 7                          /memfd:jit (deleted)
7f0000006000-7f0000007000 r-xp 00000000 08:01 8                          /tmp/new\012line
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
5-4 r-xp 00000000 00:00 0
55d0c0a00000-
not a line
10-20 r-xp
10-20 r-xp 0
10-20 r-xp 0 0:
`

func TestParseProcMaps(t *testing.T) {
	want := []Mapping{
		{Start: 0x55d0c0a20000, End: 0x55d0c0b00000, Offset: 0x20000, Path: "/usr/bin/bash", Dev: Dev(8, 1), Inode: 1234},
		{Start: 0x7f0000000000, End: 0x7f0000001000},
		{Start: 0x7f0000002000, End: 0x7f0000003000, Offset: 0x1000, Path: "/tmp/a b (deleted)", Dev: Dev(0xfd, 0x1f), Inode: 99},
		{Start: 0x7f0000004000, End: 0x7f0000005000, Path: "/memfd:jit (deleted)", Dev: Dev(0, 5), Inode: 7},
		{Start: 0x7f0000006000, End: 0x7f0000007000, Path: "/tmp/new\nline", Dev: Dev(8, 1), Inode: 8},
		{Start: 0x7ffc00000000, End: 0x7ffc00002000, Path: "[vdso]"},
		{Start: 0xffffffffff600000, End: 0xffffffffff601000, Path: "[vsyscall]"},
	}
	got := parseProcMaps([]byte(procMaps), nil)
	if len(got) != len(want) {
		t.Fatalf("%d mappings, want %d: %+v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("mapping %d\ngot  %+v\nwant %+v", i, got[i], want[i])
		}
	}
	for i, backed := range []bool{true, false, true, false, true, false, false} {
		if got[i].fileBacked() != backed {
			t.Errorf("%q: file-backed is not %v", got[i].Path, backed)
		}
	}
}

func FuzzProcMaps(f *testing.F) {
	f.Add([]byte(procMaps))
	f.Add([]byte("10-20 r-xp 0 0:0 18446744073709551616 /x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range parseProcMaps(b, nil) {
			if m.End <= m.Start {
				t.Errorf("empty mapping %+v", m)
			}
		}
	})
}

// step is one thing that is recorded of a process.
type step func(m *Mappings)

func mmap(pid int32, at tracer.Time, start, end uint64, path string) step {
	return func(m *Mappings) { m.Add(pid, at, start, end, 0x100, path, "id-"+path, 1, 2) }
}

func fork(parent, child int32, at tracer.Time) step {
	return func(m *Mappings) { m.Fork(parent, child, at) }
}

func execed(pid int32, at tracer.Time) step { return func(m *Mappings) { m.Exec(pid, at) } }
func exited(pid int32, at tracer.Time) step { return func(m *Mappings) { m.Exit(pid, at) } }

// life is a process that forks a child, which execs and ends; then its pid is
// used again. In time order.
var life = []step{
	mmap(10, 1, 0x1000, 0x2000, "/bin/sh"),
	fork(10, 20, 5),
	mmap(10, 6, 0x3000, 0x4000, "/lib/late"),
	mmap(20, 7, 0x5000, 0x6000, "/lib/child"),
	execed(20, 10),
	mmap(20, 11, 0x1000, 0x2000, "/bin/true"),
	mmap(20, 12, 0x1800, 0x1900, "/bin/over"),
	exited(20, 15),
	fork(10, 20, 20),
	exited(20, 25),
	fork(10, 10, 26), // a thread
}

var lifeWant = []struct {
	pid  int32
	at   tracer.Time
	addr uint64
	path string
}{
	{10, 0, 0x1000, ""}, // before
	{10, 1, 0x1000, "/bin/sh"},
	{10, 5, 0x1fff, "/bin/sh"},
	{10, 5, 0x2000, ""},
	{10, 5, 0x3000, ""},
	{10, 6, 0x3000, "/lib/late"},
	{10, 30, 0x1000, "/bin/sh"},
	{20, 4, 0x1000, ""},
	{20, 5, 0x1000, "/bin/sh"}, // inherited
	{20, 8, 0x3000, ""},        // mapped by the parent after the fork
	{20, 8, 0x5000, "/lib/child"},
	{20, 10, 0x1000, ""},
	{20, 10, 0x5000, ""},
	{20, 11, 0x1850, "/bin/true"},
	{20, 12, 0x1850, "/bin/over"}, // mapped over
	{20, 12, 0x1950, "/bin/true"},
	{20, 17, 0x1950, "/bin/true"}, // dying still
	{20, 21, 0x1000, "/bin/sh"},   // the pid's next process
	{20, 21, 0x3000, "/lib/late"},
	{20, 30, 0x3000, "/lib/late"},
	{99, 1, 0x1000, ""},
}

func checkLife(t *testing.T, m *Mappings, name string) {
	t.Helper()
	for _, w := range lifeWant {
		path, off, id, ok := m.Lookup(w.pid, w.at, w.addr)
		if path != w.path || ok != (w.path != "") {
			t.Errorf("%s: pid %d at %d, %#x: %q %v, want %q", name, w.pid, w.at, w.addr, path, ok, w.path)
		}
		if ok && (id != "id-"+path || off < 0x100) {
			t.Errorf("%s: %q at %#x has build id %q, offset %#x", name, path, w.addr, id, off)
		}
	}
}

// Records arrive in order per CPU only: every rotation and the reverse must
// give the same answers.
func TestMappingsOverTime(t *testing.T) {
	for r := range life {
		m := NewMappings()
		for i := range life {
			life[(i+r)%len(life)](m)
		}
		checkLife(t, m, "rotated")
	}
	m := NewMappings()
	for i := range life {
		life[len(life)-1-i](m)
	}
	checkLife(t, m, "reversed")
}

func TestMappingsPrune(t *testing.T) {
	m := NewMappings()
	for _, s := range []step{
		mmap(10, 1, 0x1000, 0x2000, "/bin/sh"),
		fork(10, 20, 5),
		mmap(20, 6, 0x1800, 0x2000, "/over"),
		exited(10, 8),
		fork(20, 30, 9),
		mmap(40, 1, 0x1000, 0x2000, "/gone"),
		exited(40, 7),
	} {
		s(m)
	}
	m.Prune(8)
	if _, _, _, ok := m.Lookup(10, 9, 0x1000); !ok {
		t.Error("what ended at 8 is gone before 8")
	}
	if m.Known(40, 2) {
		t.Error("process 40 is still known")
	}
	m.Prune(100)
	if m.Known(10, 2) {
		t.Error("process 10 is still known")
	}
	for _, w := range []struct {
		pid  int32
		addr uint64
		path string
	}{{20, 0x1000, "/bin/sh"}, {20, 0x1900, "/over"}, {30, 0x1000, "/bin/sh"}, {30, 0x1900, "/over"}} {
		if path, _, _, _ := m.Lookup(w.pid, 50, w.addr); path != w.path {
			t.Errorf("pid %d, %#x: %q, want %q: its parent is pruned, it is not", w.pid, w.addr, path, w.path)
		}
	}
}

// A process that maps code without end, and one that forks without end, cost
// bounded memory and time.
func TestMappingsBounds(t *testing.T) {
	m := NewMappings()
	for i := range tracer.Time(maxSpaceMaps + 10) {
		m.Add(1, i, uint64(i)<<12, uint64(i+1)<<12, 0, "//anon", "", 0, 0)
	}
	if n := len(m.procs[1][0].maps); n > maxSpaceMaps {
		t.Errorf("%d mappings of one process", n)
	}
	if _, _, _, ok := m.Lookup(1, 1<<40, uint64(maxSpaceMaps+9)<<12); !ok {
		t.Error("the latest mapping is not there")
	}
	m.Fork(2, 3, 5)
	m.Fork(3, 2, 5) // each the other's parent
	if _, _, _, ok := m.Lookup(2, 10, 0x1000); ok {
		t.Error("found in a ring of forks")
	}
	m.Prune(100)
}

func TestMappingsLoad(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no /proc/PID/maps")
	}
	m := NewMappings()
	pid := int32(os.Getpid())
	if err := m.LoadAll(100); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	found := func(at tracer.Time) bool {
		for _, s := range m.procs[pid] {
			for _, mp := range s.maps {
				if path, _, _, ok := m.Lookup(pid, at, mp.Start); ok && path == exe {
					return true
				}
			}
		}
		return false
	}
	if !found(1) || !found(1000) {
		t.Errorf("own program %s is not mapped", exe)
	}
	n := len(m.procs[pid][0].maps)
	if err := m.LoadProcess(pid, 100); err != nil {
		t.Fatal(err)
	}
	if got := len(m.procs[pid][0].maps); got > n+8 {
		t.Errorf("loading again makes %d mappings of %d", got, n)
	}
	if err := m.LoadProcess(1<<30, 0); err == nil {
		t.Error("a process that cannot be was loaded")
	}
}
