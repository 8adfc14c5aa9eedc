package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"sort"
)

// The Go runtime's own table of functions (runtime.pcHeader, "pclntab") is in
// every Go program, stripped or not. The magic is debug/gosym's; a byte order
// mark in itself.
const (
	go12Magic  = 0xfffffffb // Go 1.2 to 1.15
	go116Magic = 0xfffffffa // Go 1.16, 1.17
	go118Magic = 0xfffffff0 // Go 1.18, 1.19
	go120Magic = 0xfffffff1 // Go 1.20 on
)

const (
	maxGoFuncs   = 1 << 23
	maxPclntab   = 1 << 30
	searchWindow = 1 << 20
)

// pclnHeader is a pclntab's header, in units of its file.
type pclnHeader struct {
	magic     uint32
	ptrSize   uint64
	nfunc     uint64
	textStart uint64 // since 1.18; 0 where the loader fills it in, and since 1.26
	names     uint64 // offset of the function names, up to
	namesEnd  uint64
	functab   uint64 // offset of the table of functions
}

// pclntab adds the functions of the Go runtime's table, if there is one that
// says more than the symbols do.
func (s *source) pclntab() {
	at, sec := s.findPclntab()
	if sec == nil {
		return
	}
	limit := sec.FileSize - at
	if limit > maxPclntab {
		limit = maxPclntab
	}
	r := io.NewSectionReader(s.r, int64(sec.Offset+at), int64(limit))
	head := make([]byte, pclnHeaderMax)
	n, _ := r.ReadAt(head, 0)
	h, ok := parsePclnHeader(head[:n], s.elf.ByteOrder)
	if !ok || h.nfunc == 0 || h.functab > limit || h.namesEnd > limit {
		return
	}
	text := h.textStart
	if text == 0 && (h.magic == go118Magic || h.magic == go120Magic) {
		text = s.goText(sec.Addr+at, h.ptrSize)
	}
	s.goFuncs(r, limit, h, text)
}

const pclnHeaderMax = 8 + 8*8

// parsePclnHeader reads a header and checks all that can be checked in it.
func parsePclnHeader(b []byte, order binary.ByteOrder) (h pclnHeader, ok bool) {
	if len(b) < 8 {
		return h, false
	}
	h.magic = order.Uint32(b)
	quantum, ptr := b[6], uint64(b[7])
	if b[4] != 0 || b[5] != 0 || (quantum != 1 && quantum != 2 && quantum != 4) || (ptr != 4 && ptr != 8) {
		return h, false
	}
	h.ptrSize = ptr
	if uint64(len(b)) < 8+8*ptr {
		return h, false
	}
	word := func(i uint64) uint64 {
		if ptr == 4 {
			return uint64(order.Uint32(b[8+i*4:]))
		}
		return order.Uint64(b[8+i*8:])
	}
	h.nfunc = word(0)
	switch h.magic {
	case go120Magic, go118Magic:
		h.textStart, h.names, h.namesEnd, h.functab = word(2), word(3), word(4), word(7)
	case go116Magic:
		h.names, h.namesEnd, h.functab = word(2), word(3), word(6)
	case go12Magic:
		h.functab = 8 + ptr // names are offsets from the table itself
	default:
		return h, false
	}
	return h, h.nfunc <= maxGoFuncs && h.names <= h.namesEnd && h.namesEnd < maxPclntab && h.functab < maxPclntab
}

// findPclntab looks for the table: in its own section, else by its magic
// number where linkers put it in position-independent and cgo programs.
func (s *source) findPclntab() (at uint64, sec *elf.Section) {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		if sec := s.elf.Section(name); sec != nil && s.inFile(sec) {
			return 0, sec
		}
	}
	for _, name := range []string{".data.rel.ro", ".rodata"} {
		if sec := s.elf.Section(name); sec != nil && s.inFile(sec) && s.isGo() {
			if at, ok := s.searchPclntab(sec); ok {
				return at, sec
			}
		}
	}
	return 0, nil
}

func (s *source) inFile(sec *elf.Section) bool {
	return sec.Type != elf.SHT_NOBITS && sec.Flags&elf.SHF_COMPRESSED == 0 &&
		sec.Offset <= s.size && sec.FileSize <= s.size-sec.Offset
}

// isGo says whether it is worth searching: megabytes of read-only data are read
// for it.
func (s *source) isGo() bool {
	return s.f.goID != "" || s.elf.Section(".go.buildinfo") != nil
}

// searchPclntab goes over a section in windows that overlap by a header.
func (s *source) searchPclntab(sec *elf.Section) (uint64, bool) {
	buf := make([]byte, min(searchWindow, sec.FileSize))
	for pos := uint64(0); pos < sec.FileSize; pos += searchWindow - pclnHeaderMax {
		n, err := s.r.ReadAt(buf[:min(uint64(len(buf)), sec.FileSize-pos)], int64(sec.Offset+pos))
		if n == 0 || (err != nil && err != io.EOF) {
			return 0, false
		}
		if i, ok := findPclnMagic(buf[:n], s.elf.ByteOrder, sec.FileSize-pos); ok {
			return pos + uint64(i), true
		}
		if uint64(n) < searchWindow {
			break
		}
	}
	return 0, false
}

// findPclnMagic is the offset of the first plausible header in b, of a section
// that goes on for size bytes from the begin of b.
func findPclnMagic(b []byte, order binary.ByteOrder, size uint64) (int, bool) {
	for _, magic := range []uint32{go120Magic, go118Magic, go116Magic, go12Magic} {
		var pat [6]byte // with its two zero bytes
		order.PutUint32(pat[:], magic)
		for from := 0; ; {
			i := bytes.Index(b[from:], pat[:])
			if i < 0 {
				break
			}
			i += from
			from = i + 1
			if i%4 != 0 {
				continue
			}
			if h, ok := parsePclnHeader(b[i:min(len(b), i+pclnHeaderMax)], order); ok &&
				h.nfunc > 0 && h.functab < size-uint64(i) && h.namesEnd <= h.functab {
				return i, true
			}
		}
	}
	return 0, false
}

// goFuncs reads the table of functions: pairs of an entry and the offset of a
// runtime._func, whose second word is the offset of the name, and a last entry
// that is the end. Since Go 1.18 entries are 4 bytes, counted from text.
func (s *source) goFuncs(r io.ReaderAt, limit uint64, h pclnHeader, text uint64) {
	b := make([]byte, 0)
	read := func(off, n uint64) []byte {
		if off > limit || n > limit-off {
			return nil
		}
		b := make([]byte, n)
		if m, _ := r.ReadAt(b, int64(off)); uint64(m) != n {
			return nil
		}
		return b
	}
	order := s.elf.ByteOrder
	word := uint64(4)
	if h.magic == go116Magic || h.magic == go12Magic {
		word = h.ptrSize
	}
	tabSize := (h.nfunc*2 + 1) * word
	if h.magic == go12Magic {
		b = read(0, limit) // functions and names lie anywhere in it
	} else if h.functab < limit {
		b = read(h.functab, limit-h.functab)
	}
	if uint64(len(b)) < tabSize {
		return
	}
	tab := b
	funcs := b
	if h.magic == go12Magic {
		if tab = b[min(uint64(len(b)), h.functab):]; uint64(len(tab)) < tabSize {
			return
		}
	}
	value := func(i uint64) uint64 {
		if word == 4 {
			return uint64(order.Uint32(tab[i*4:]))
		}
		return order.Uint64(tab[i*8:])
	}
	found := make([]function, 0, h.nfunc)
	for i := range h.nfunc {
		entry, end, off := value(2*i), value(2*i+2), value(2*i+1)
		if end <= entry || off > uint64(len(funcs)) || uint64(len(funcs))-off < word+4 {
			continue
		}
		name := order.Uint32(funcs[off+word:])
		if name&goName != 0 {
			continue
		}
		found = append(found, function{entry + text, uint32(min(end-entry, 1<<31)), name | goName})
	}
	if s.known(found) {
		return
	}
	names := b
	if h.magic != go12Magic {
		names = read(h.names, h.namesEnd-h.names)
	}
	s.f.tables[1] = names
	s.f.funcs = append(s.f.funcs, found...)
}

// known says whether the symbols already have these functions, by a few of
// them: Debian's dockerd exports every one.
func (s *source) known(found []function) bool {
	have := map[uint64]bool{}
	for _, f := range s.f.funcs {
		have[f.addr] = true
	}
	step := len(found)/32 + 1
	for i := 0; i < len(found); i += step {
		if !have[found[i].addr] {
			return false
		}
	}
	return true
}

// moduledata of the Go runtime: words from its first one, which points to the
// pclntab, to minpc and to text (six slices and findfunctab lie between).
const (
	moduleMinPC = 1 + 6*3 + 1
	moduleText  = moduleMinPC + 2
)

// goText is the address of runtime.text, which entries count from. With an
// internal link it begins .text; else C start-up code does, and it is found as
// the linker's runtime.moduledata says: as a word in the file, or in a
// position-independent program as a relocation.
func (s *source) goText(pclntab, ptr uint64) uint64 {
	if ptr == 8 && s.elf.Class == elf.ELFCLASS64 {
		if text, ok := s.moduleInRela(pclntab); ok {
			return text
		}
		if text, ok := s.moduleInData(pclntab); ok {
			return text
		}
	}
	if sec := s.elf.Section(".text"); sec != nil {
		return sec.Addr
	}
	return 0
}

func (s *source) moduleInData(pclntab uint64) (uint64, bool) {
	order := s.elf.ByteOrder
	var pat [8]byte
	order.PutUint64(pat[:], pclntab)
	for _, name := range []string{".go.module", ".noptrdata", ".data", ".data.rel.ro", ".data.rel"} {
		sec := s.elf.Section(name)
		if sec == nil {
			continue
		}
		b, err := s.data(sec, maxSymbolTable)
		if err != nil {
			continue
		}
		for from := 0; ; {
			i := bytes.Index(b[from:], pat[:])
			if i < 0 {
				break
			}
			i += from
			from = i + 1
			if len(b)-i < (moduleText+1)*8 {
				break
			}
			minPC, text := order.Uint64(b[i+moduleMinPC*8:]), order.Uint64(b[i+moduleText*8:])
			if s.f.isText(text) && minPC >= text && s.f.isText(minPC) {
				return text, true
			}
		}
	}
	return 0, false
}

const relaSize = 24

func (s *source) moduleInRela(pclntab uint64) (uint64, bool) {
	sec := s.elf.Section(".rela.dyn")
	if sec == nil {
		return 0, false
	}
	b, err := s.data(sec, maxSymbolTable)
	if err != nil {
		return 0, false
	}
	order := s.elf.ByteOrder
	n := len(b) / relaSize
	at := func(i int) (off, addend uint64) {
		return order.Uint64(b[i*relaSize:]), order.Uint64(b[i*relaSize+16:])
	}
	addendAt := func(off uint64, from int) (uint64, bool) {
		i := from + sort.Search(n-from, func(i int) bool { o, _ := at(from + i); return o >= off })
		if i >= n {
			return 0, false
		}
		o, a := at(i)
		return a, o == off
	}
	for i := range n {
		off, addend := at(i)
		if addend != pclntab {
			continue
		}
		minPC, ok1 := addendAt(off+moduleMinPC*8, i)
		text, ok2 := addendAt(off+moduleText*8, i)
		if ok1 && ok2 && s.f.isText(text) && minPC >= text && s.f.isText(minPC) {
			return text, true
		}
	}
	return 0, false
}
