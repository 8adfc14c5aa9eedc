package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// build runs a compiler in a folder of its own and gives the path of what it
// made of the source.
func build(t *testing.T, file, source string, command ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return filepath.Join(dir, "out")
}

const goSource = `package main

//go:noinline
func leaf(n int) int { return n * 3 }

type server struct{ n int }

//go:noinline
func (s *server) handle() int { return leaf(s.n) }

func main() { println((&server{2}).handle()) }
`

// cgo has an internal linker's program begin with C.
const cgoSource = "package main\n\n// static int c_leaf(int n) { return n + 1; }\nimport \"C\"\n\nfunc init() { println(C.c_leaf(1)) }\n" +
	"\n//go:noinline\nfunc leaf(n int) int { return n * 3 }\n\ntype server struct{ n int }\n\n" +
	"//go:noinline\nfunc (s *server) handle() int { return leaf(s.n) }\n\nfunc main() { println((&server{2}).handle()) }\n"

// goPrograms are the ways that a Go program may have been linked and stripped.
var goPrograms = []struct {
	name   string
	cgo    bool
	args   []string
	modify [][]string // commands on the program after the build
}{
	{name: "plain"},
	{name: "stripped", args: []string{"-ldflags=-s -w"}},
	{name: "pie", args: []string{"-buildmode=pie", "-ldflags=-s -w"}},
	{name: "cgo", cgo: true, args: []string{"-ldflags=-s -w -linkmode=external"}},
	{name: "cgo-pie", cgo: true, args: []string{"-buildmode=pie", "-ldflags=-s -w -linkmode=external"}},
	{name: "section-renamed", args: []string{"-ldflags=-s -w"}, modify: [][]string{{"objcopy", "--rename-section", ".gopclntab=.data.rel.ro", "out"}}},
	{name: "cgo-pie-section-renamed", cgo: true, args: []string{"-buildmode=pie", "-ldflags=-linkmode=external"},
		modify: [][]string{{"strip", "out"}, {"objcopy", "--rename-section", ".gopclntab=.rodata", "--rename-section", ".rodata=.other", "out"}}},
}

func TestGoPrograms(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("builds ELF programs of this system")
	}
	for _, p := range goPrograms {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			source := goSource
			if p.cgo {
				needTool(t, "gcc")
				source = cgoSource
			}
			for _, m := range p.modify {
				needTool(t, m[0])
			}
			out := build(t, "main.go", source, append(append([]string{"go", "build", "-o", "out"}, p.args...), "main.go")...)
			truth := goTruth(t, p.cgo, source, p.args)
			for _, m := range p.modify {
				cmd := exec.Command(m[0], m[1:]...)
				cmd.Dir = filepath.Dir(out)
				if b, err := cmd.CombinedOutput(); err != nil {
					t.Skipf("%s: %v\n%s", m, err, b)
				}
			}
			f, err := OpenFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if f.GoBuildID() == "" {
				t.Error("no Go build id")
			}
			for _, want := range []string{"main.leaf", "main.(*server).handle", "runtime.mallocgc", "runtime.main"} {
				checkSymbol(t, f, truth, want)
			}
		})
	}
}

// goTruth is where the same build without stripping has its functions.
func goTruth(t *testing.T, cgo bool, source string, args []string) map[string]elf.Symbol {
	t.Helper()
	unstripped := []string{"go", "build", "-o", "out"}
	for _, a := range args {
		unstripped = append(unstripped, strings.Replace(a, "-s -w", "", 1))
	}
	return symtab(t, build(t, "main.go", source, append(unstripped, "main.go")...))
}

func symtab(t *testing.T, path string) map[string]elf.Symbol {
	t.Helper()
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	syms, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]elf.Symbol{}
	for _, s := range syms {
		out[s.Name] = s
	}
	return out
}

// checkSymbol asks for a function by the offset that its symbol gives.
func checkSymbol(t *testing.T, f *File, truth map[string]elf.Symbol, want string) {
	t.Helper()
	sym, ok := truth[want]
	if !ok {
		t.Errorf("the program has no %s", want)
		return
	}
	for _, delta := range []uint64{0, 1, sym.Size - 1} {
		i := f.find(sym.Value + delta)
		if i < 0 || Demangle(f.nameOf(i)) != Demangle(want) {
			got := ""
			if i >= 0 {
				got = f.nameOf(i)
			}
			t.Errorf("%s+%d (%#x) is %q", want, delta, sym.Value+delta, got)
		}
	}
}

func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
	}
}

const cppSource = `#include <vector>
namespace app { struct Shape { virtual double area(std::vector<int> const& v) const; };
__attribute__((noinline)) double Shape::area(std::vector<int> const& v) const { return v.size() * 2.0; } }
extern "C" __attribute__((noinline)) int plain_c(int n) { return n + 1; }
int main(int argc, char**) { std::vector<int> v(argc); return int(app::Shape().area(v)) + plain_c(argc); }
`

func TestCPlusPlus(t *testing.T) {
	needTool(t, "g++")
	out := build(t, "main.cc", cppSource, "g++", "-O1", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567", "-o", "out", "main.cc")
	f, err := OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if f.BuildID() != "0123456789abcdef0123456789abcdef01234567" {
		t.Errorf("build id %q", f.BuildID())
	}
	truth := symtab(t, out)
	mangled := "_ZNK3app5Shape4areaERKSt6vectorIiSaIiEE"
	checkSymbol(t, f, truth, mangled)
	checkSymbol(t, f, truth, "plain_c")
	off, ok := f.Offset(mangled)
	if !ok {
		t.Fatal("no offset")
	}
	if name, ok := f.Func(off + 1); !ok || name != "app::Shape::area" {
		t.Errorf("demangled to %q", name)
	}
	end := truth["plain_c"].Value + truth["plain_c"].Size
	if i := f.find(end); i >= 0 && f.nameOf(i) == "plain_c" {
		t.Error("the byte behind a function belongs to it")
	}
}

const asmSource = `
	.text
	.globl no_size
	.type no_size, @function
no_size: nop
	nop
	.globl sized
	.type sized, @function
sized:	nop
inner:	nop
	.size sized, .-sized
	nop
	nop
	.section .other,"ax",@progbits
	.globl other
other:	nop
`

// A function without a size goes up to the next one, one with a size not
// beyond its end, and a section is a bound for all.
func TestSizes(t *testing.T) {
	needTool(t, "gcc")
	out := build(t, "main.S", asmSource, "gcc", "-nostdlib", "-shared", "-o", "out", "main.S")
	f, err := OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	truth := symtab(t, out)
	start := truth["no_size"].Value
	for delta, want := range []string{"no_size", "no_size", "sized", "sized", "", ""} {
		got := ""
		if i := f.find(start + uint64(delta)); i >= 0 {
			got = f.nameOf(i)
		}
		if got != want {
			t.Errorf("+%d is %q, want %q", delta, got, want)
		}
	}
	other := truth["other"].Value
	if i := f.find(other); i < 0 || f.nameOf(i) != "other" {
		t.Error("other is not found")
	}
	if i := f.find(other + 1); i >= 0 {
		t.Errorf("behind the section is %q", f.nameOf(i))
	}
	if _, ok := f.Func(1 << 40); ok {
		t.Error("a function beyond the file")
	}
}

func TestStrippedC(t *testing.T) {
	needTool(t, "gcc")
	needTool(t, "strip")
	out := build(t, "lib.c", "int exported(int n) { return n + 1; }\nstatic int hidden(int n) { return n * 2; }\nint (*p)(int) = hidden;\n",
		"gcc", "-shared", "-fPIC", "-o", "out", "lib.c")
	truth := symtab(t, out)
	if b, err := exec.Command("strip", out).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, b)
	}
	f, err := OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	checkSymbol(t, f, truth, "exported")
	if i := f.find(truth["hidden"].Value); i >= 0 {
		t.Errorf("a function without a symbol is called %q", f.nameOf(i))
	}
}

func TestDemangle(t *testing.T) {
	for in, want := range map[string]string{
		"main": "main", "_ZN3app5Shape4areaEv": "app::Shape::area", "_RNvC6_123foo3bar": "123foo::bar",
		"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE": "core::fmt::Formatter::pad",
		"_Z": "_Z", "": "", "_Zgarbage": "_Zgarbage", "net/http.(*conn).serve": "net/http.(*conn).serve",
	} {
		if got := Demangle(in); got != want {
			t.Errorf("Demangle(%q) = %q, want %q", in, got, want)
		}
	}
}

// Debian's dockerd is stripped, position-independent, and has its Go table in
// .data.rel.ro; it exports its functions.
func TestDockerd(t *testing.T) {
	f, err := OpenFile("/usr/sbin/dockerd")
	if err != nil {
		t.Skip(err)
	}
	off, ok := f.Offset("runtime.main")
	if !ok {
		t.Fatal("dockerd without runtime.main")
	}
	if name, ok := f.Func(off + 1); !ok || name != "runtime.main" {
		t.Errorf("runtime.main+1 is %q", name)
	}
	if f.Len() < 10000 || f.BuildID() == "" {
		t.Errorf("%d functions, build id %q", f.Len(), f.BuildID())
	}
	// The same by the Go table alone.
	g := pclntabOnly(t, "/usr/sbin/dockerd")
	addr, _ := f.Addr(off)
	if i := g.find(addr + 1); i < 0 || g.nameOf(i) != "runtime.main" {
		t.Error("runtime.main is not where the Go table has it")
	}
}

func pclntabOnly(t *testing.T, path string) *File {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	st, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	e, err := elf.NewFile(r)
	if err != nil {
		t.Fatal(err)
	}
	f := &File{}
	f.readLoads(e)
	f.readText(e)
	f.readNotes(e, r, st.Size())
	(&source{elf: e, r: r, size: uint64(st.Size()), f: f}).pclntab()
	f.finish()
	return f
}

func BenchmarkOpenFile(b *testing.B) {
	for _, path := range []string{"/usr/sbin/dockerd", "/usr/bin/node", "/usr/sbin/runc"} {
		b.Run(filepath.Base(path), func(b *testing.B) {
			if _, err := os.Stat(path); err != nil {
				b.Skip(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := OpenFile(path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// smallELF is a program of some 9 KB without symbols of its own, small enough
// to be mutated.
func smallELF() []byte {
	order := binary.LittleEndian
	b := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	b = order.AppendUint16(b, uint16(elf.ET_EXEC))
	b = order.AppendUint16(b, uint16(elf.EM_X86_64))
	b = order.AppendUint32(b, 1)
	const phoff, shoff = 64, 64 + 2*56
	for _, v := range []uint64{0x401000, phoff, shoff} {
		b = order.AppendUint64(b, v)
	}
	b = order.AppendUint32(b, 0)
	for _, v := range []uint16{64, 56, 2, 64, 5, 4} {
		b = order.AppendUint16(b, v)
	}
	phdr := func(typ, flags uint32, off, addr, size uint64) {
		b = order.AppendUint32(b, typ)
		b = order.AppendUint32(b, flags)
		for _, v := range []uint64{off, addr, addr, size, size, 4} {
			b = order.AppendUint64(b, v)
		}
	}
	const text = shoff + 5*64
	note := []byte("\x04\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00GNU\x00\xde\xad\xbe\xef")
	names := []byte("\x00.text\x00.symtab\x00.strtab\x00.shstrtab\x00")
	strs := []byte("\x00first\x00second\x00")
	noteAt := uint64(text + 32)
	symAt := noteAt + uint64(len(note))
	strAt := symAt + 3*symSize64
	namesAt := strAt + uint64(len(strs))
	phdr(uint32(elf.PT_LOAD), 5, 0, 0x400000, namesAt)
	phdr(uint32(elf.PT_NOTE), 4, noteAt, 0x400000+noteAt, uint64(len(note)))
	shdr := func(name, typ, link uint32, flags, addr, off, size, ent uint64) {
		b = order.AppendUint32(b, name)
		b = order.AppendUint32(b, typ)
		for _, v := range []uint64{flags, addr, off, size} {
			b = order.AppendUint64(b, v)
		}
		b = order.AppendUint32(b, link)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint64(b, 1)
		b = order.AppendUint64(b, ent)
	}
	shdr(0, 0, 0, 0, 0, 0, 0, 0)
	shdr(1, uint32(elf.SHT_PROGBITS), 0, uint64(elf.SHF_ALLOC|elf.SHF_EXECINSTR), 0x400000+text, text, 32, 0)
	shdr(7, uint32(elf.SHT_SYMTAB), 3, 0, 0, symAt, 3*symSize64, symSize64)
	shdr(15, uint32(elf.SHT_STRTAB), 0, 0, 0, strAt, uint64(len(strs)), 0)
	shdr(23, uint32(elf.SHT_STRTAB), 0, 0, 0, namesAt, uint64(len(names)), 0)
	b = append(b, make([]byte, 32)...)
	b = append(b, note...)
	sym := func(name uint32, info byte, shndx uint16, addr, size uint64) {
		b = order.AppendUint32(b, name)
		b = append(b, info, 0)
		b = order.AppendUint16(b, shndx)
		b = order.AppendUint64(b, addr)
		b = order.AppendUint64(b, size)
	}
	sym(0, 0, 0, 0, 0)
	sym(1, byte(elf.STT_FUNC)|byte(elf.STB_GLOBAL)<<4, 1, 0x400000+text, 8)
	sym(7, byte(elf.STT_FUNC), 1, 0x400000+text+8, 0)
	b = append(b, strs...)
	return append(b, names...)
}

func TestSmallELF(t *testing.T) {
	b := smallELF()
	f, err := NewFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	const text = 64 + 2*56 + 5*64
	for off, want := range map[uint64]string{text: "first", text + 7: "first", text + 8: "second", text + 31: "second", text + 32: ""} {
		if got, _ := f.Func(off); got != want {
			t.Errorf("%d is %q, want %q", off, got, want)
		}
	}
	if f.BuildID() != "deadbeef" {
		t.Errorf("build id %q", f.BuildID())
	}
}

func FuzzFile(f *testing.F) {
	f.Add(smallELF(), uint64(500))
	f.Add([]byte("\x7fELF"), uint64(0))
	f.Add([]byte{}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, off uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e, err := NewFile(bytes.NewReader(b), int64(len(b)))
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20+uint64(len(b))*64 {
			t.Errorf("%d bytes allocated for a file of %d", n, len(b))
		}
		if err == nil {
			e.Func(off)
			e.Offset("first")
		}
	})
}

func FuzzPclntab(f *testing.F) {
	head := make([]byte, pclnHeaderMax)
	copy(head, "\xf1\xff\xff\xff\x00\x00\x01\x08\x02")
	f.Add(head)
	copy(head, "\xfb\xff\xff\xff\x00\x00\x01\x08\x02")
	f.Add(append([]byte("....."), head...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if i, ok := findPclnMagic(b, binary.LittleEndian, uint64(len(b))); ok && (i < 0 || i >= len(b)) {
			t.Errorf("found at %d of %d", i, len(b))
		}
		// The table of a file that is nothing else.
		e := &elf.File{FileHeader: elf.FileHeader{ByteOrder: binary.LittleEndian, Class: elf.ELFCLASS64}}
		e.Sections = []*elf.Section{{SectionHeader: elf.SectionHeader{Name: ".gopclntab", Type: elf.SHT_PROGBITS, Size: uint64(len(b)), FileSize: uint64(len(b))}}}
		file := &File{}
		s := &source{elf: e, r: bytes.NewReader(b), size: uint64(len(b)), f: file}
		s.pclntab()
		file.finish()
		for i := range file.funcs {
			file.nameOf(i)
		}
	})
}
