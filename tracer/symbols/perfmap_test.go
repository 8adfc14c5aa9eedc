package symbols

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const perfMap = `1000 100 LazyCompile:~main /app/index.js:1
1100 10 a
1100 10 b with spaces
0x2000 0x100 with prefix
3000 100 outer
3040 20 inner
3050 8 newest
4000 0 empty
fffffffffffffff0 100 over the end
xyz 10 no address
5000 zz no size
5000 10
5000 10 ` + `
6000 10 cut by the e`

func TestPerfMap(t *testing.T) {
	for _, n := range []int{1, 5, 1 << 16} {
		var p PerfMap
		if err := p.Append(&chunks{[]byte(perfMap), n}); err != nil {
			t.Fatal(err)
		}
		for addr, want := range map[uint64]string{
			0xfff: "", 0x1000: "LazyCompile:~main /app/index.js:1", 0x10ff: "LazyCompile:~main /app/index.js:1",
			0x1100: "b with spaces", 0x1110: "", 0x20ff: "with prefix", 0x2100: "",
			0x303f: "outer", 0x3040: "inner", 0x3050: "newest", 0x3058: "inner", 0x3060: "outer", 0x3100: "",
			0x4000: "", 0x5000: "", 0x6000: "", 0xfffffffffffffff8: "",
		} {
			if got, ok := p.Name(addr); got != want || ok != (want != "") {
				t.Errorf("reads of %d: %#x is %q %v, want %q", n, addr, got, ok, want)
			}
		}
		// The file goes on: the cut line, and memory that is used again.
		if err := p.Append(strings.NewReader("nd of the file\n3050 100 reused\n")); err != nil {
			t.Fatal(err)
		}
		for addr, want := range map[uint64]string{0x6000: "cut by the end of the file", 0x3050: "reused", 0x314f: "reused", 0x304f: "inner"} {
			if got, _ := p.Name(addr); got != want {
				t.Errorf("after growing, %#x is %q, want %q", addr, got, want)
			}
		}
	}
}

func TestPerfMapFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf-1.map")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var j jitFile
	refresh := func() bool {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return j.refresh(f)
	}
	write("1000 10 one\n")
	if !refresh() || refresh() {
		t.Error("grown once is not seen once")
	}
	write("1000 10 one\n2000 10 two\n")
	if !refresh() || j.Len() != 2 {
		t.Errorf("%d entries, want 2", j.Len())
	}
	write("3000 10 anew\n") // shorter: the program began anew
	if !refresh() || j.Len() != 1 {
		t.Errorf("%d entries, want 1", j.Len())
	}
	if d, err := os.Open(t.TempDir()); err == nil {
		defer d.Close()
		if j.refresh(d) {
			t.Error("a folder is no perf map")
		}
	}
}

// The sweep agrees with the plain rule, the last entry that covers an address.
func FuzzPerfMap(f *testing.F) {
	f.Add([]byte(perfMap), uint64(0x3050))
	f.Add([]byte("0 1 a\n0 2 b\n1 1 c\n"), uint64(1))
	f.Add([]byte("1 ffffffffffffffff a\n"), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		var p PerfMap
		if err := p.Append(&chunks{b, 32}); err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, e := range p.entries {
			if addr >= e.start && addr < e.end {
				want = string(p.names[e.pos:][:e.size])
			}
		}
		if got, _ := p.Name(addr); got != want {
			t.Errorf("%#x is %q, want %q", addr, got, want)
		}
	})
}

func BenchmarkPerfMap(b *testing.B) {
	var s strings.Builder
	for i := range 50000 {
		fmt.Fprintf(&s, "%x %x LazyCompile:*function%d file.js:%d\n", 0x10000+(i*7919)%100000*64, 64+i%512, i, i)
	}
	for b.Loop() {
		var p PerfMap
		if err := p.Append(strings.NewReader(s.String())); err != nil {
			b.Fatal(err)
		}
		p.Name(0x20000)
	}
}
