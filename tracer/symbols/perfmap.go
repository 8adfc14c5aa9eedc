package symbols

import (
	"bytes"
	"container/heap"
	"io"
	"os"
	"slices"
	"sort"
)

const (
	// maxPerfMap bounds what is read of one /tmp/perf-PID.map: anybody may
	// write one.
	maxPerfMap        = 128 << 20
	maxPerfMapEntries = 2 << 20
	maxJITName        = 4096
)

// PerfMap names code that a JIT compiler wrote into memory, by the file that
// it keeps for perf (tools/perf/Documentation/jit-interface.txt): a line
// "START SIZE name" in hex per function, appended while the program runs. Where
// entries overlap the last one holds: the compiler reused the memory.
type PerfMap struct {
	entries []jitEntry
	names   []byte
	rest    []byte // of a line that is not complete yet
	read    int64

	starts []uint64 // of pieces that do not overlap, in order
	owner  []int32  // entry of each piece; -1: none
	stale  bool
}

type jitEntry struct {
	start, end uint64
	pos, size  uint32 // of the name
}

// Append reads what a map has grown by. Lines that are not entries are passed
// over; a last line without its end is kept until the rest comes.
func (p *PerfMap) Append(r io.Reader) error {
	buf := make([]byte, 64<<10)
	for p.read < maxPerfMap && len(p.entries) < maxPerfMapEntries {
		n, err := r.Read(buf)
		p.read += int64(n)
		p.feed(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *PerfMap) feed(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			if len(p.rest)+len(b) <= maxJITName {
				p.rest = append(p.rest, b...)
			}
			return
		}
		line := b[:i]
		if len(p.rest) > 0 {
			line = append(p.rest, line...)
		}
		p.line(line)
		p.rest = p.rest[:0]
		b = b[i+1:]
	}
}

func (p *PerfMap) line(b []byte) {
	trim := func(b []byte) []byte {
		if len(b) > 2 && b[0] == '0' && (b[1] == 'x' || b[1] == 'X') {
			return b[2:]
		}
		return b
	}
	b = trim(b)
	start, n := parseHex(b)
	if n == 0 || len(b) <= n || b[n] != ' ' {
		return
	}
	b = trim(b[n+1:])
	size, n := parseHex(b)
	if n == 0 || size == 0 || start+size < start || len(b) <= n || b[n] != ' ' {
		return
	}
	name := bytes.TrimRight(b[n+1:], "\r")
	if len(name) == 0 || len(p.entries) >= maxPerfMapEntries {
		return
	}
	name = name[:min(len(name), maxJITName)]
	p.entries = append(p.entries, jitEntry{start, start + size, uint32(len(p.names)), uint32(len(name))})
	p.names = append(p.names, name...)
	p.stale = true
}

// Len is the number of entries read.
func (p *PerfMap) Len() int { return len(p.entries) }

// Name is the function at an address.
func (p *PerfMap) Name(addr uint64) (string, bool) {
	if p.stale {
		p.flatten()
	}
	i := sort.Search(len(p.starts), func(i int) bool { return p.starts[i] > addr }) - 1
	if i < 0 || p.owner[i] < 0 {
		return "", false
	}
	e := p.entries[p.owner[i]]
	return string(p.names[e.pos:][:e.size]), true
}

// flatten cuts the entries into pieces that do not overlap, each owned by the
// last entry that covers it: a sweep over the ends of the entries, with the
// entries that are open in a heap by age.
func (p *PerfMap) flatten() {
	p.stale = false
	p.starts, p.owner = p.starts[:0], p.owner[:0]
	order := make([]int32, len(p.entries))
	points := make([]uint64, 0, 2*len(p.entries))
	for i, e := range p.entries {
		order[i] = int32(i)
		points = append(points, e.start, e.end)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if x, y := p.entries[a].start, p.entries[b].start; x != y {
			if x < y {
				return -1
			}
			return 1
		}
		return int(a - b)
	})
	slices.Sort(points)
	var open latestFirst
	for _, at := range slices.Compact(points) {
		for len(order) > 0 && p.entries[order[0]].start == at {
			heap.Push(&open, order[0])
			order = order[1:]
		}
		for len(open) > 0 && p.entries[open[0]].end <= at {
			heap.Pop(&open)
		}
		owner := int32(-1)
		if len(open) > 0 {
			owner = open[0]
		}
		if n := len(p.owner); n > 0 && p.owner[n-1] == owner {
			continue
		}
		p.starts, p.owner = append(p.starts, at), append(p.owner, owner)
	}
}

// latestFirst is a heap of entry numbers with the largest on top.
type latestFirst []int32

func (h latestFirst) Len() int           { return len(h) }
func (h latestFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h latestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *latestFirst) Push(x any)        { *h = append(*h, x.(int32)) }
func (h *latestFirst) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

// jitFile is a process's perf map and how far it was read.
type jitFile struct {
	PerfMap
	ino uint64
}

// refresh reads what the file has grown by; true when there was anything. A
// file that shrank or is another one is read anew.
func (j *jitFile) refresh(f *os.File) bool {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return false
	}
	_, ino := identity(st)
	if st.Size() < j.read || ino != j.ino {
		j.PerfMap = PerfMap{}
		j.ino = ino
	}
	if st.Size() == j.read || j.read >= maxPerfMap {
		return false
	}
	n := len(j.entries)
	if _, err := f.Seek(j.read, io.SeekStart); err != nil {
		return false
	}
	// A read error leaves what was read so far, which holds.
	_ = j.Append(f)
	return len(j.entries) != n
}
