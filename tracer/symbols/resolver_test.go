package symbols

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"stagetrace/tracer"
)

//go:noinline
func resolved(n int) int { return n*n + 7 }

func needProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no /proc/PID/maps")
	}
}

// Our own code, by what /proc says of us.
func TestResolveSelf(t *testing.T) {
	needProc(t)
	r := NewResolver(nil, nil)
	pid := int32(os.Getpid())
	const later = tracer.Time(1) << 62
	pc := uint64(reflect.ValueOf(resolved).Pointer())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fn, object, id, off := r.User(pid, later, pc+1)
	if fn != "stagetrace/tracer/symbols.resolved" || object != exe || off == 0 {
		t.Errorf("own function is %q in %q at %#x", fn, object, off)
	}
	if f, err := OpenFile(exe); err != nil || f.BuildID() != id {
		t.Errorf("build id %q: %v", id, err)
	}
	// A return address that is the begin of the next function is the caller's.
	stack := r.Stack(pid, later, []uint64{pc, pc + 1, pc})
	if stack[0].Func != fn || stack[1].Func != fn || stack[2].Func == fn {
		t.Errorf("stack %+v", stack)
	}
	if fn, object, _, off := r.User(pid, later, 0x10); fn != "" || object != "" || off != 0x10 {
		t.Errorf("address of nothing is %q in %q", fn, object)
	}
	// A process that began after the time asked for is another one.
	if fn, _, _, _ := NewResolver(nil, nil).User(pid, 1, pc); fn != "" {
		t.Errorf("%q at a time before the process began", fn)
	}
}

func TestResolveVDSO(t *testing.T) {
	needProc(t)
	pid := int32(os.Getpid())
	maps, err := ReadProcMaps(pid)
	if err != nil {
		t.Fatal(err)
	}
	f := readVDSO()
	if f == nil || f.Len() == 0 {
		t.Skip("no vDSO here")
	}
	for _, m := range maps {
		if m.Path != ObjectVDSO {
			continue
		}
		off, ok := f.Offset(f.nameOf(0))
		fn, object, _, _ := NewResolver(nil, nil).User(pid, 1<<62, m.Start+off)
		if !ok || fn == "" || object != ObjectVDSO {
			t.Errorf("%q in %q", fn, object)
		}
		return
	}
}

// A file that was replaced, deleted, or is in nobody's reach.
func TestResolveFiles(t *testing.T) {
	needProc(t)
	needTool(t, "gcc")
	out := build(t, "main.c", "int answer(void) { return 42; }\n",
		"gcc", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", "out", "main.c")
	f, err := OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	off, ok := f.Offset("answer")
	if !ok {
		t.Fatal("no answer")
	}
	st, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	dev, inode := identity(st)
	const nobody = 1 << 30
	ask := func(path, id string, dev, inode uint64) string {
		m := NewMappings()
		m.Add(nobody, 1, 0x10000, 0x90000, 0, path, id, dev, inode)
		fn, object, _, at := NewResolver(nil, m).User(nobody, 2, 0x10000+off)
		if object != strings.TrimSuffix(path, deletedSuffix) || at != off {
			t.Errorf("object %q, offset %#x", object, at)
		}
		return fn
	}
	for _, tc := range []struct {
		name, path, id string
		dev, inode     uint64
		want           string
	}{
		{"by build id", out, f.BuildID(), 0, 0, "answer"},
		{"another build id", out, "00112233", 0, 0, ""},
		{"by inode", out, "", dev, inode, "answer"},
		{"another inode", out, "", dev, inode + 1, ""},
		{"another disk", out, "", dev + 1<<20 + 1, inode, map[bool]string{true: "answer"}[dev>>20 == 0]},
		{"said to be deleted, still there", out + deletedSuffix, f.BuildID(), 0, 0, "answer"},
		{"nothing known", out, "", 0, 0, "answer"},
		{"missing", out + ".gone", f.BuildID(), 0, 0, ""},
		{"a folder", filepath.Dir(out), "", 0, 0, ""},
		{"a device", "/dev/null", "", 0, 0, ""},
	} {
		if got := ask(tc.path, tc.id, tc.dev, tc.inode); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A program whose file is deleted while it runs is read through /proc.
func TestResolveDeleted(t *testing.T) {
	needProc(t)
	needTool(t, "gcc")
	out := build(t, "main.c", "#include <stdio.h>\nint answer(void) { return getchar(); }\nint main(void) { puts(\"up\"); fflush(stdout); return answer() > 0; }\n",
		"gcc", "-o", "out", "main.c")
	f, err := OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	off, _ := f.Offset("answer")
	cmd := exec.Command(out)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	up, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait() // its exit code is what it read
	}()
	if _, err := io.ReadFull(up, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(out); err != nil {
		t.Fatal(err)
	}
	pid := int32(cmd.Process.Pid)
	m := NewMappings()
	if err := m.LoadProcess(pid, 5); err != nil {
		t.Fatal(err)
	}
	for _, t2 := range m.procs[pid][0].maps {
		if t2.Path != out+deletedSuffix || t2.Offset > off || off-t2.Offset >= t2.End-t2.Start {
			continue
		}
		fn, object, _, _ := NewResolver(nil, m).User(pid, 6, t2.Start+off-t2.Offset)
		if fn != "answer" || object != out {
			t.Errorf("%q in %q, want answer in %q", fn, object, out)
		}
		return
	}
	t.Errorf("%s is not mapped: %+v", out, m.procs[pid][0].maps)
}

// JIT code is named by the perf map, which may grow while it is asked.
func TestResolveJIT(t *testing.T) {
	needProc(t)
	pid := int32(os.Getpid())
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(path)
	defer f.Close()
	m := NewMappings()
	m.Add(pid, 1, 0x700000, 0x710000, 0, "//anon", "", 0, 0)
	m.Add(pid, 1, 0x720000, 0x730000, 0, "[heap]", "", 0, 0)
	r := NewResolver(nil, m)
	fmt.Fprintln(f, "700000 100 js one")
	if fn, object, _, off := r.User(pid, 2, 0x700010); fn != "js one" || object != ObjectJIT || off != 0x700010 {
		t.Errorf("%q in %q at %#x", fn, object, off)
	}
	if fn, object, _, _ := r.User(pid, 2, 0x700200); fn != "" || object != ObjectJIT {
		t.Errorf("%q in %q, not named yet", fn, object)
	}
	fmt.Fprintln(f, "700200 100 js two")
	if fn, _, _, _ := r.User(pid, 2, 0x700200); fn != "js two" {
		t.Errorf("%q, want what was added", fn)
	}
	if fn, object, _, _ := r.User(pid, 2, 0x720000); fn != "" || object != "[heap]" {
		t.Errorf("%q in %q", fn, object)
	}
}

// A perf map that its process removes at its end was opened before.
func TestResolveJITOfTheDead(t *testing.T) {
	needProc(t)
	c := exec.Command("cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	pid := int32(c.Process.Pid)
	m := NewMappings()
	defer m.Close()
	begin := time.Now()
	m.Add(pid, 1, 0x700000, 0x710000, 0, "//anon", "", 0, 0)
	m.KeepPerfMaps(begin) // nothing is there yet
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if err := os.WriteFile(path, []byte("700000 100 js one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.KeepPerfMaps(begin.Add(firstLook))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(in.Close(), c.Wait()); err != nil {
		t.Fatal(err)
	}
	if fn, object, _, _ := NewResolver(nil, m).User(pid, 2, 0x700010); fn != "js one" || object != ObjectJIT {
		t.Errorf("%q in %q", fn, object)
	}
	m.Exit(pid, 3)
	m.Prune(4)
	if f := m.keptPerfMap(pid); f != nil {
		t.Error("the map of a process that is gone is kept")
	}
}

func TestResolveKernel(t *testing.T) {
	r := NewResolver(parseKernel(t, kallsyms), nil)
	for range 2 { // the second time from the cache
		if name, ok := r.Kernel(0xffffffff81000011); !ok || name != "do_one_initcall" {
			t.Errorf("%q", name)
		}
		if name, ok := r.Kernel(0x10); ok {
			t.Errorf("%q", name)
		}
	}
	if name, ok := NewResolver(nil, nil).Kernel(0xffffffff81000011); ok {
		t.Errorf("%q without symbols", name)
	}
}

func TestProcTexts(t *testing.T) {
	for in, want := range map[string]int32{
		"Name:\tx\nNSpid:\t500\t7\t1\n": 1, "NSpid:\t500\n": 500, "NSpid:\n": 42, "NSpid:\tx\n": 42, "": 42, "NSpid:\t-3\n": 42,
	} {
		if got := namespacePID([]byte(in), 42); got != want {
			t.Errorf("namespacePID(%q) = %d, want %d", in, got, want)
		}
	}
	stat := "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 0 0"
	if got, ok := statStart([]byte(stat)); !ok || got != 123456 {
		t.Errorf("start %d %v", got, ok)
	}
	for _, in := range []string{"", "7 (x", "7 (x) S 1"} {
		if _, ok := statStart([]byte(in)); ok {
			t.Errorf("statStart(%q) is ok", in)
		}
	}
}

// Functions are found by name, and lie where Func finds them again.
func TestFunctions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(self)
	if err != nil {
		t.Skip(err) // not an ELF system
	}
	const name = "stagetrace/tracer/symbols.resolved"
	for _, pattern := range []string{name, "*symbols.resolved", "stagetrace/*/symbols.resolve?"} {
		found := f.Functions(Pattern(pattern))
		if len(found) != 1 || found[0].Name != name {
			t.Fatalf("%s: found %+v", pattern, found)
		}
		if got, ok := f.Func(found[0].Offset); !ok || got != name {
			t.Errorf("at %#x lies %q", found[0].Offset, got)
		}
	}
	if found := f.Functions(Pattern("symbols.resolved")); len(found) != 0 {
		t.Errorf("a part of a name found %+v", found)
	}
}
