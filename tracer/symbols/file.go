package symbols

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// File holds the functions of one ELF file. Names are offsets into the file's
// own string tables, kept as they are: a daemon with 170,000 symbols costs
// 16 bytes a symbol and the strings, and no time for names nobody asks for.
type File struct {
	funcs   []function // by addr
	tables  [2][]byte  // string tables: ELF's, Go's
	loads   []load     // by offset
	text    []span     // executable sections, by start
	buildID string
	goID    string
}

// function is one symbol. The top bit of name says which string table the
// rest is an offset into.
type function struct {
	addr uint64
	size uint32 // 0: up to the next one
	name uint32
}

const goName = 1 << 31

// load is what of the file is mapped, and where: a PT_LOAD program header.
type load struct{ off, size, addr uint64 }

type span struct{ start, end uint64 }

const (
	maxStringTable = 512 << 20
	maxSymbolTable = 512 << 20
	maxNameLen     = 1 << 14
	// maxEnclosing is how many symbols before the nearest one are looked at for
	// one that spans the address: aliases and local labels inside of functions.
	maxEnclosing = 16
)

// OpenFile reads the symbols of a file.
func OpenFile(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readFile(f)
}

func readFile(f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", f.Name())
	}
	e, err := NewFile(f, st.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return e, nil
}

// NewFile reads the symbols of an ELF file of the given size. r is not used
// after it returns. Functions come from .symtab, or where there is none from
// .dynsym, and in Go programs from the table that the Go runtime itself uses.
// A file without symbols is no error; one that is no ELF file is.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	e, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	f := &File{}
	f.readLoads(e)
	f.readText(e)
	f.readNotes(e, r, size)
	src := &source{elf: e, r: r, size: uint64(max(size, 0)), f: f}
	if !src.symtab(".symtab", elf.SHT_SYMTAB) {
		src.symtab(".dynsym", elf.SHT_DYNSYM)
		src.pclntab()
	}
	f.finish()
	return f, nil
}

// BuildID is NT_GNU_BUILD_ID in hex, or "".
func (f *File) BuildID() string { return f.buildID }

// GoBuildID is the Go toolchain's build id, or "".
func (f *File) GoBuildID() string { return f.goID }

// Len is the number of functions.
func (f *File) Len() int { return len(f.funcs) }

// Addr translates an offset in the file to the address that the file was
// linked for.
func (f *File) Addr(offset uint64) (uint64, bool) {
	for _, l := range f.loads {
		if offset >= l.off && offset-l.off < l.size {
			return offset - l.off + l.addr, true
		}
	}
	return 0, false
}

// Func is the demangled name of the function at an offset in the file.
func (f *File) Func(offset uint64) (name string, ok bool) {
	addr, ok := f.Addr(offset)
	if !ok {
		return "", false
	}
	i := f.find(addr)
	if i < 0 {
		return "", false
	}
	return Demangle(f.nameOf(i)), true
}

func (f *File) find(addr uint64) int {
	i := sort.Search(len(f.funcs), func(i int) bool { return f.funcs[i].addr > addr }) - 1
	for j := i; j >= 0 && j > i-maxEnclosing; j-- {
		fn := &f.funcs[j]
		if addr-fn.addr < uint64(fn.size) {
			return j
		}
		// Without a size, up to the next symbol, but not into another section.
		if fn.size == 0 && j == i && f.sameSection(fn.addr, addr) {
			return j
		}
	}
	return -1
}

func (f *File) sameSection(a, b uint64) bool {
	if len(f.text) == 0 {
		return true
	}
	i := sort.Search(len(f.text), func(i int) bool { return f.text[i].start > a }) - 1
	return i >= 0 && b < f.text[i].end
}

func (f *File) nameOf(i int) string {
	n := f.funcs[i].name
	t := f.tables[0]
	if n&goName != 0 {
		t = f.tables[1]
	}
	return cString(t, uint64(n&^goName))
}

func cString(t []byte, off uint64) string {
	if off >= uint64(len(t)) {
		return ""
	}
	t = t[off:min(uint64(len(t)), off+maxNameLen)]
	for i, c := range t {
		if c == 0 {
			return string(t[:i])
		}
	}
	return string(t)
}

// finish sorts the functions and leaves one per address.
func (f *File) finish() {
	slices.SortStableFunc(f.funcs, func(a, b function) int { return cmp.Compare(a.addr, b.addr) })
	out := f.funcs[:0]
	for _, fn := range f.funcs {
		if n := len(out); n > 0 && out[n-1].addr == fn.addr {
			if out[n-1].size == 0 && fn.size != 0 {
				out[n-1] = fn
			}
			continue
		}
		out = append(out, fn)
	}
	f.funcs = slices.Clip(out)
}

func (f *File) readLoads(e *elf.File) {
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD && p.Filesz > 0 && p.Off+p.Filesz > p.Off {
			f.loads = append(f.loads, load{p.Off, p.Filesz, p.Vaddr})
		}
	}
	// A page that holds the end of one segment and the begin of the next is
	// mapped twice; the executable one is what code is looked up in.
	slices.SortStableFunc(f.loads, func(a, b load) int { return cmp.Compare(a.off, b.off) })
}

func (f *File) readText(e *elf.File) {
	for _, s := range e.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Flags&elf.SHF_ALLOC != 0 && s.Addr+s.Size > s.Addr {
			f.text = append(f.text, span{s.Addr, s.Addr + s.Size})
		}
	}
	slices.SortFunc(f.text, func(a, b span) int { return cmp.Compare(a.start, b.start) })
}

// source is an ELF file while its symbols are read.
type source struct {
	elf  *elf.File
	r    io.ReaderAt
	size uint64
	f    *File
}

var errNoData = errors.New("no data in the file")

// data reads a section as it lies in the file. Its size is checked against the
// file's first: a header may say anything.
func (s *source) data(sec *elf.Section, limit uint64) ([]byte, error) {
	if sec.Type == elf.SHT_NOBITS || sec.Flags&elf.SHF_COMPRESSED != 0 ||
		sec.FileSize > limit || sec.Offset > s.size || sec.FileSize > s.size-sec.Offset {
		return nil, errNoData
	}
	b := make([]byte, sec.FileSize)
	if _, err := s.r.ReadAt(b, int64(sec.Offset)); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// symtab adds the functions of a symbol table. False: there are none.
func (s *source) symtab(name string, typ elf.SectionType) bool {
	for _, sec := range s.elf.Sections {
		if sec.Type != typ || sec.Link == 0 || int(sec.Link) >= len(s.elf.Sections) {
			continue
		}
		syms, err := s.data(sec, maxSymbolTable)
		if err != nil {
			continue
		}
		strs, err := s.data(s.elf.Sections[sec.Link], maxStringTable)
		if err != nil {
			continue
		}
		s.f.tables[0] = strs
		if s.elf.Class == elf.ELFCLASS64 {
			s.symbols64(syms, len(strs))
		} else {
			s.symbols32(syms, len(strs))
		}
		return len(s.f.funcs) > 0
	}
	return false
}

const symSize64, symSize32 = 24, 16

func (s *source) symbols64(b []byte, strs int) {
	order := s.elf.ByteOrder
	s.f.funcs = make([]function, 0, countFuncs(b, symSize64, 4))
	for ; len(b) >= symSize64; b = b[symSize64:] {
		if name := order.Uint32(b); int64(name) < int64(strs) {
			s.add(name, b[4], order.Uint16(b[6:]), order.Uint64(b[8:]), order.Uint64(b[16:]))
		}
	}
}

func (s *source) symbols32(b []byte, strs int) {
	order := s.elf.ByteOrder
	s.f.funcs = make([]function, 0, countFuncs(b, symSize32, 12))
	for ; len(b) >= symSize32; b = b[symSize32:] {
		if name := order.Uint32(b); int64(name) < int64(strs) {
			s.add(name, b[12], order.Uint16(b[14:]), uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:])))
		}
	}
}

// countFuncs counts the function symbols of a table, so that the list is
// allocated once.
func countFuncs(b []byte, size, info int) (n int) {
	for ; len(b) >= size; b = b[size:] {
		if isFunc(b[info]) {
			n++
		}
	}
	return n
}

func isFunc(info byte) bool {
	t := elf.ST_TYPE(info)
	return t == elf.STT_FUNC || t == elf.STT_GNU_IFUNC
}

func (s *source) add(name uint32, info byte, shndx uint16, addr, size uint64) {
	if name == 0 || name&goName != 0 || shndx == uint16(elf.SHN_UNDEF) {
		return
	}
	if !isFunc(info) {
		// Assembly may leave the type out (_start); what is not in an
		// executable section is data, a local one a label.
		if elf.ST_TYPE(info) != elf.STT_NOTYPE || elf.ST_BIND(info) == elf.STB_LOCAL || !s.f.isText(addr) {
			return
		}
	}
	if s.elf.Machine == elf.EM_ARM {
		addr &^= 1 // the Thumb bit
	}
	s.f.funcs = append(s.f.funcs, function{addr, uint32(min(size, math.MaxUint32)), name})
}

func (f *File) isText(addr uint64) bool {
	i := sort.Search(len(f.text), func(i int) bool { return f.text[i].start > addr }) - 1
	return i >= 0 && addr < f.text[i].end
}

const (
	ntGNUBuildID = 3
	ntGoBuildID  = 4
	maxNotes     = 1 << 20
)

// readNotes finds the build ids. Segments come first: they are what the kernel
// reads (lib/buildid.c), and a file without section headers has them too.
func (f *File) readNotes(e *elf.File, r io.ReaderAt, size int64) {
	read := func(off, n uint64, align uint64) {
		if n > maxNotes || off > uint64(size) || n > uint64(size)-off {
			return
		}
		b := make([]byte, n)
		if _, err := r.ReadAt(b, int64(off)); err == nil || err == io.EOF {
			f.parseNotes(b, e.ByteOrder, align)
		}
	}
	for _, p := range e.Progs {
		if p.Type == elf.PT_NOTE {
			read(p.Off, p.Filesz, p.Align)
		}
	}
	for _, s := range e.Sections {
		if s.Type == elf.SHT_NOTE && s.Flags&elf.SHF_COMPRESSED == 0 && (f.buildID == "" || f.goID == "") {
			read(s.Offset, s.FileSize, s.Addralign)
		}
	}
}

func (f *File) parseNotes(b []byte, order binary.ByteOrder, align uint64) {
	if align != 8 {
		align = 4
	}
	pad := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(b) >= 12 {
		nameLen, descLen, typ := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:])), order.Uint32(b[8:])
		b = b[12:]
		descAt := pad(12+nameLen) - 12
		if nameLen > uint64(len(b)) || descAt > uint64(len(b)) || descLen > uint64(len(b))-descAt {
			return
		}
		desc := b[descAt:][:descLen]
		switch name := strings.TrimRight(string(b[:nameLen]), "\x00"); {
		case name == "GNU" && typ == ntGNUBuildID && f.buildID == "" && len(desc) <= 64:
			f.buildID = hex.EncodeToString(desc)
		case name == "Go" && typ == ntGoBuildID && f.goID == "":
			f.goID = string(desc)
		}
		b = b[min(uint64(len(b)), descAt+pad(descLen)):]
	}
}

// demangleMax bounds a demangled name to 2^12 bytes: some mangled names of a
// hundred bytes stand for megabytes.
const demangleMax = 12

// Demangle makes a C++ or Rust symbol readable, without parameter types.
// Other names are returned as they are.
func Demangle(name string) string {
	if len(name) < 3 || !(strings.HasPrefix(name, "_Z") || strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "__Z")) {
		return name
	}
	return demangle.Filter(name, demangle.NoParams, demangle.MaxLength(demangleMax))
}

// Offset is where in the file the function of a name (as the file spells it)
// begins; where a probe on it goes.
func (f *File) Offset(name string) (uint64, bool) {
	for i := range f.funcs {
		if f.nameOf(i) != name {
			continue
		}
		addr := f.funcs[i].addr
		for _, l := range f.loads {
			if addr >= l.addr && addr-l.addr < l.size {
				return addr - l.addr + l.off, true
			}
		}
	}
	return 0, false
}
