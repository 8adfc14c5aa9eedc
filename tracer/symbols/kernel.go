package symbols

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"

	"stagetrace/tracer"
)

// maxKernelFunc bounds how far behind the last symbol before a gap an address
// may lie: /proc/kallsyms has no sizes, and no kernel function is this long.
const maxKernelFunc = 1 << 20

// maxKallsyms bounds what is read of a kallsyms file. The largest distribution
// kernels with all modules loaded stay under 20 MB.
const maxKallsyms = 256 << 20

// Kernel names kernel addresses by /proc/kallsyms: functions of the kernel, of
// modules and of BPF programs. It is loaded by Load, or by the first lookup;
// all methods may be called concurrently, so `go k.Load()` at the start hides
// the 0.1 s it takes.
type Kernel struct {
	path string
	mu   sync.Mutex
	done bool
	err  error
	tab  *kernelTable
}

// NewKernel names the addresses of the running kernel.
func NewKernel() *Kernel { return &Kernel{path: "/proc/kallsyms"} }

// NewKernelFrom names addresses by a kallsyms text.
func NewKernelFrom(r io.Reader) (*Kernel, error) {
	tab, err := parseKallsyms(r)
	if err != nil {
		return nil, err
	}
	return &Kernel{done: true, tab: tab}, nil
}

// Load reads the symbols, once. The error is a tracer.UnsupportedError where
// the system does not show addresses.
func (k *Kernel) Load() error {
	_, err := k.table()
	return err
}

// Reload reads the symbols again: modules and BPF programs come and go. The
// old ones stay when it cannot.
func (k *Kernel) Reload() error {
	if k.path == "" {
		return nil
	}
	tab, err := loadKallsyms(k.path)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil && k.tab != nil {
		return err
	}
	k.done, k.tab, k.err = true, tab, err
	return err
}

func (k *Kernel) table() (*kernelTable, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.done {
		k.tab, k.err = loadKallsyms(k.path)
		k.done = true
	}
	return k.tab, k.err
}

// Len is the number of symbols; 0 when there are none to be had.
func (k *Kernel) Len() int {
	t, _ := k.table()
	if t == nil {
		return 0
	}
	return len(t.addr)
}

// Name is the function that addr lies in. Of several names at one address it
// is the one that the kernel itself would print (get_symbol_pos in
// kernel/kallsyms.c). Compiler suffixes are kept; see TrimSuffix.
func (k *Kernel) Name(addr uint64) (name string, ok bool) {
	name, _, ok = k.Symbol(addr)
	return name, ok
}

// Symbol is Name and the offset of addr in that function.
func (k *Kernel) Symbol(addr uint64) (name string, offset uint64, ok bool) {
	t, err := k.table()
	if err != nil {
		return "", 0, false
	}
	i := t.find(addr)
	if i < 0 {
		return "", 0, false
	}
	return t.name(i), addr - t.addr[i], true
}

// Addr is where functions of this name begin; static functions may share one.
func (k *Kernel) Addr(name string) []uint64 {
	t, err := k.table()
	if err != nil {
		return nil
	}
	var out []uint64
	for i, n := range t.size {
		if int(n) == len(name) && t.name(i) == name {
			out = append(out, t.addr[i])
		}
	}
	return out
}

// kernelTable holds the text symbols in order of their addresses; symbols of
// the same address are in kallsyms order. The name of i is
// names[pos[i]:pos[i]+size[i]].
type kernelTable struct {
	addr  []uint64
	pos   []uint32
	size  []uint16
	names []byte
}

func (t *kernelTable) name(i int) string {
	return string(t.names[t.pos[i]:][:t.size[i]])
}

func (t *kernelTable) find(addr uint64) int {
	i := sort.Search(len(t.addr), func(i int) bool { return t.addr[i] > addr }) - 1
	if i < 0 || addr-t.addr[i] >= maxKernelFunc {
		return -1
	}
	for i > 0 && t.addr[i-1] == t.addr[i] {
		i--
	}
	if t.size[i] == 0 { // the end of the text
		return -1
	}
	return i
}

func loadKallsyms(path string) (*kernelTable, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unsupportedKallsyms("a readable "+path, err)
	}
	defer f.Close()
	return parseInto(newKernelTable(usualFuncs), f)
}

// usualFuncs is about how many functions the kernel of a distribution has.
const usualFuncs = 1 << 17

func newKernelTable(room int) *kernelTable {
	return &kernelTable{addr: make([]uint64, 0, room), pos: make([]uint32, 0, room), size: make([]uint16, 0, room), names: make([]byte, 0, room*24)}
}

func unsupportedKallsyms(needs string, err error) error {
	return &tracer.UnsupportedError{
		Feature: "kernel symbols", Needs: needs, Err: err,
		Cost: "kernel functions have no names",
	}
}

var errHidden = errors.New("all addresses of kallsyms read as zero")

func parseKallsyms(r io.Reader) (*kernelTable, error) { return parseInto(&kernelTable{}, r) }

// parseInto reads "ffffffff81000000 T name[\t[module]]" lines. Lines of
// another form are passed over. It makes one pass over blocks of the file: the
// kernel formats each read anew, so large reads are what makes it quick.
func parseInto(t *kernelTable, r io.Reader) (*kernelTable, error) {
	p := kallsymsParser{t: t}
	buf := make([]byte, 256<<10)
	fill, total := 0, 0
	for total < maxKallsyms {
		n, err := r.Read(buf[fill:])
		total += n
		fill += n
		end := bytes.LastIndexByte(buf[:fill], '\n') + 1
		p.lines(buf[:end])
		fill = copy(buf, buf[end:fill])
		if fill == len(buf) { // a line longer than the buffer is no symbol
			fill = 0
		}
		if err == io.EOF {
			p.line(buf[:fill])
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read kallsyms: %w", err)
		}
	}
	if p.seen > 0 && !p.nonzero {
		return nil, unsupportedKallsyms("sysctl kernel.kptr_restrict=0, or 1 and CAP_SYSLOG", errHidden)
	}
	if len(t.addr) == 0 {
		return nil, unsupportedKallsyms("a kernel with CONFIG_KALLSYMS", errors.New("kallsyms holds no functions"))
	}
	t.sort()
	return t, nil
}

type kallsymsParser struct {
	t       *kernelTable
	seen    int
	nonzero bool
}

func (p *kallsymsParser) lines(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			i = len(b) - 1
		}
		p.line(b[:i])
		b = b[i+1:]
	}
}

func (p *kallsymsParser) line(b []byte) {
	addr, n := parseHex(b)
	if n == 0 || len(b) < n+4 || b[n] != ' ' || b[n+2] != ' ' {
		return
	}
	p.seen++
	p.nonzero = p.nonzero || addr != 0
	name := b[n+3:]
	if i := bytes.IndexByte(name, '\t'); i >= 0 {
		name = name[:i]
	}
	if len(name) == 0 || len(name) > 1<<12 {
		return
	}
	switch typ := b[n+1]; {
	case string(name) == "_etext" || string(name) == "_einittext":
		name = nil // a bound, not a function
	case typ != 'T' && typ != 't' && typ != 'W' && typ != 'w':
		return
	case addr == 0:
		return
	}
	t := p.t
	t.addr = append(t.addr, addr)
	t.pos = append(t.pos, uint32(len(t.names)))
	t.size = append(t.size, uint16(len(name)))
	t.names = append(t.names, name...)
}

// parseHex reads a hexadecimal number of at most 16 digits from the front of b and
// says how many digits it took.
func parseHex(b []byte) (v uint64, n int) {
	for n < len(b) && n < 17 {
		c := b[n]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return v, n
		}
		v = v<<4 | uint64(c)
		n++
	}
	if n > 16 {
		return 0, 0
	}
	return v, n
}

// sort orders the table by address. The kernel's own part of kallsyms is in
// order already, modules and BPF programs are not.
func (t *kernelTable) sort() {
	if slices.IsSorted(t.addr) {
		return
	}
	order := make([]int32, len(t.addr))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch x, y := t.addr[a], t.addr[b]; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	addr, pos, size := make([]uint64, len(order)), make([]uint32, len(order)), make([]uint16, len(order))
	for i, o := range order {
		addr[i], pos[i], size[i] = t.addr[o], t.pos[o], t.size[o]
	}
	t.addr, t.pos, t.size = addr, pos, size
}

// compilerSuffixes are what GCC and Clang append to functions that they clone,
// split or specialise.
var compilerSuffixes = []string{".isra.", ".constprop.", ".part.", ".cold", ".llvm.", ".lto_priv."}

// TrimSuffix removes what a compiler appended to a function's name:
// "foo.isra.0.cold" is "foo". Names that only look alike are left whole.
func TrimSuffix(name string) string {
	cut := len(name)
	for _, s := range compilerSuffixes {
		i := strings.Index(name, s)
		if i <= 0 || i >= cut {
			continue
		}
		if s == ".cold" && i+len(s) < len(name) && name[i+len(s)] != '.' {
			continue
		}
		cut = i
	}
	return name[:cut]
}

// CheckKernel says whether this process may see the addresses of the kernel's
// functions: nil, or a tracer.UnsupportedError. It reads a small part.
func CheckKernel() error {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return unsupportedKallsyms("a readable /proc/kallsyms", err)
	}
	defer f.Close()
	_, err = parseKallsyms(io.LimitReader(f, 64<<10))
	return err
}
