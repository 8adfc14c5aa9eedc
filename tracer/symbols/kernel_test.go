package symbols

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"stagetrace/tracer"
)

const kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000010 t do_one_initcall.isra.0
ffffffff81000040 T __x64_sys_read
ffffffff81000040 t alias_of_read
ffffffff81000080 t show
ffffffff810000c0 t show
ffffffff81000100 T last_core_function
ffffffff81000200 T _etext
ffffffff82000000 D some_data
ffffffff82000010 R some_rodata
ffffffffc0400000 t veth_xmit	[veth]
ffffffffc0300000 T mod_init	[overlay]
ffffffffc0500000 t bpf_prog_0123456789abcdef_sched_switch	[bpf]
garbage
ffffffff81000044
ffffffff81000044 T
zzzz T not_hex
ffffffff81000045X T no_space
`

func parseKernel(t *testing.T, s string) *Kernel {
	t.Helper()
	k, err := NewKernelFrom(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKernelName(t *testing.T) {
	k := parseKernel(t, kallsyms)
	for _, tc := range []struct {
		addr   uint64
		name   string
		offset uint64
	}{
		{0, "", 0},
		{0xffffffff80ffffff, "", 0},
		{0xffffffff81000000, "_stext", 0}, // the first of one address, as the kernel prints it
		{0xffffffff81000011, "do_one_initcall.isra.0", 1},
		{0xffffffff8100007f, "__x64_sys_read", 0x3f},
		{0xffffffff81000080, "show", 0},
		{0xffffffff810001ff, "last_core_function", 0xff},
		{0xffffffff81000200, "", 0}, // _etext
		{0xffffffff82000004, "", 0}, // data is no function
		{0xffffffffc0300001, "mod_init", 1},
		{0xffffffffc0400001, "veth_xmit", 1},
		{0xffffffffc0500010, "bpf_prog_0123456789abcdef_sched_switch", 0x10},
		{0xffffffffffffffff, "", 0}, // too far behind the last one
	} {
		name, offset, ok := k.Symbol(tc.addr)
		if name != tc.name || offset != tc.offset || ok != (tc.name != "") {
			t.Errorf("%#x is %q+%#x %v, want %q+%#x", tc.addr, name, offset, ok, tc.name, tc.offset)
		}
	}
	for name, want := range map[string][]uint64{
		"show": {0xffffffff81000080, 0xffffffff810000c0}, "alias_of_read": {0xffffffff81000040},
		"veth_xmit": {0xffffffffc0400000}, "nothing": nil, "": nil,
	} {
		if got := k.Addr(name); name != "" && !slices.Equal(got, want) {
			t.Errorf("Addr(%q) = %#x, want %#x", name, got, want)
		}
	}
}

// Reads that end anywhere must not cut lines.
func TestKernelShortReads(t *testing.T) {
	want := parseKernel(t, kallsyms)
	for _, n := range []int{1, 7, 64} {
		k, err := NewKernelFrom(&chunks{[]byte(kallsyms), n})
		if err != nil {
			t.Fatal(err)
		}
		if k.Len() != want.Len() || string(k.tab.names) != string(want.tab.names) {
			t.Errorf("reads of %d bytes give %d symbols, want %d", n, k.Len(), want.Len())
		}
	}
	k := parseKernel(t, strings.TrimSuffix("ffffffff81000000 T _text\nffffffff81000010 T last\n", "\n"))
	if name, ok := k.Name(0xffffffff81000018); !ok || name != "last" {
		t.Errorf("a last line without its end gives %q", name)
	}
}

func TestKernelHidden(t *testing.T) {
	for in, needs := range map[string]string{
		"0000000000000000 T _text\n0000000000000000 t foo\n": "kptr_restrict",
		"":                          "CONFIG_KALLSYMS",
		"ffffffff81000000 D data\n": "CONFIG_KALLSYMS",
	} {
		_, err := NewKernelFrom(strings.NewReader(in))
		if !errors.Is(err, tracer.ErrUnsupported) || !strings.Contains(err.Error(), needs) {
			t.Errorf("%q gives %v", in, err)
		}
	}
	k := &Kernel{path: "/nonexistent/kallsyms"}
	if err := k.Load(); !errors.Is(err, tracer.ErrUnsupported) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no kallsyms gives %v", err)
	}
	if name, ok := k.Name(0xffffffff81000000); ok || k.Len() != 0 || k.Addr("x") != nil {
		t.Errorf("named %q without symbols", name)
	}
}

func TestTrimSuffix(t *testing.T) {
	for in, want := range map[string]string{
		"foo": "foo", "foo.isra.0": "foo", "foo.constprop.12": "foo", "foo.part.3.cold": "foo", "foo.cold": "foo",
		"foo.isra.0.part.1": "foo", "foo.llvm.1234": "foo", "foo.colder": "foo.colder", ".cold": ".cold", "": "",
		"net/http.(*conn).serve": "net/http.(*conn).serve",
	} {
		if got := TrimSuffix(in); got != want {
			t.Errorf("TrimSuffix(%q) = %q, want %q", in, got, want)
		}
	}
}

// The running kernel: symbols are found both ways.
func TestKernelReal(t *testing.T) {
	if err := CheckKernel(); err != nil {
		if os.Getuid() == 0 && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	k := NewKernel()
	loaded := make(chan error, 2)
	for range 2 {
		go func() { loaded <- k.Load() }()
	}
	if err := errors.Join(<-loaded, <-loaded); err != nil {
		t.Fatal(err)
	}
	if k.Len() < 1000 {
		t.Errorf("%d symbols", k.Len())
	}
	for _, name := range []string{"schedule", "vfs_read", "do_exit"} {
		addrs := k.Addr(name)
		if len(addrs) == 0 {
			t.Errorf("no %s in this kernel", name)
			continue
		}
		if got, ok := k.Name(addrs[0] + 5); !ok || got != name {
			t.Errorf("%s+5 is %q", name, got)
		}
	}
	if err := k.Reload(); err != nil {
		t.Error(err)
	}
}

func BenchmarkKernelLoad(b *testing.B) {
	if err := CheckKernel(); err != nil {
		b.Skip(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := NewKernel().Load(); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(kallsyms), uint64(0xffffffff81000042))
	f.Add([]byte("1 T a\n1 T b\n0 t c\n"), uint64(1))
	f.Add([]byte("ffffffffffffffff t x\nfffffffffffffffff t y"), ^uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		k, err := NewKernelFrom(&chunks{b, 16})
		if err != nil {
			return
		}
		if !slices.IsSorted(k.tab.addr) {
			t.Error("not sorted")
		}
		if name, ok := k.Name(addr); ok && (name == "" || !slices.ContainsFunc(k.Addr(name), func(a uint64) bool { return a <= addr })) {
			t.Errorf("%#x is %q, which begins at %#x", addr, name, k.Addr(name))
		}
		TrimSuffix(string(b))
	})
}

// chunks reads at most n bytes at once.
type chunks struct {
	b []byte
	n int
}

func (c *chunks) Read(p []byte) (int, error) {
	n := copy(p, c.b[:min(c.n, len(c.b))])
	c.b = c.b[n:]
	if len(c.b) == 0 {
		return n, io.EOF
	}
	return n, nil
}
