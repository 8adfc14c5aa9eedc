package symbols

import (
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"sync"

	"stagetrace/tracer"
)

// Mappings is what was mapped where, when, in every process: the address
// spaces of a trace, also of processes that are gone by now and of pids that
// were used twice. It is fed from PERF_RECORD_MMAP2, FORK, COMM (exec) and
// EXIT records in any order across CPUs, and from /proc for what is older.
//
// A pid's time is cut into address spaces, each from an exec or a fork to the
// next one. An address space that began with a fork looks up in its parent's,
// as of the fork, what it has not mapped itself, so records that arrive out of
// order still find each other.
type Mappings struct {
	mu      sync.RWMutex
	procs   map[int32][]*space // by From
	strings map[string]string
	jits    perfMaps
}

type space struct {
	from   tracer.Time
	exit   tracer.Time // 0: not seen to end
	parent int32       // forked from; 0: it began with an exec, or is older than the records
	maps   []timedMapping
}

type timedMapping struct {
	at tracer.Time
	Mapping
}

const (
	beginning = tracer.Time(math.MinInt64)
	// maxForkDepth bounds how many forks without an exec a lookup follows.
	maxForkDepth = 64
	// maxSpaceMaps bounds one address space; a program that maps code without
	// end is a JIT, and has its latest mappings.
	maxSpaceMaps = 1 << 16
)

// NewMappings knows nothing yet.
func NewMappings() *Mappings {
	return &Mappings{procs: map[int32][]*space{}, strings: map[string]string{}}
}

// Add records that a process mapped code at a time. buildID is hex or "".
func (m *Mappings) Add(pid int32, at tracer.Time, start, end, fileOffset uint64, path, buildID string, dev, inode uint64) {
	if end <= start {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(pid, at)
	if s == nil {
		s = m.begin(pid, beginning)
	}
	mp := Mapping{Start: start, End: end, Offset: fileOffset, Path: m.intern(path), BuildID: m.intern(buildID), Dev: dev, Inode: inode}
	m.insert(s, timedMapping{at, mp})
	if mp.generated() {
		m.jits.want(pid)
	}
}

// Fork records that parent made the process child. A thread (child == parent)
// changes nothing.
func (m *Mappings) Fork(parent, child int32, at tracer.Time) {
	if child == parent {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(child, at).parent = parent
}

// Exec records that a process began a new program: its mappings are gone.
func (m *Mappings) Exec(pid int32, at tracer.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(pid, at)
}

// Exit records that a process ended. Its mappings stay until Prune.
func (m *Mappings) Exit(pid int32, at tracer.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.at(pid, at); s != nil {
		s.exit = at
	}
}

// Lookup is what was mapped at an address of a process at a time.
func (m *Mappings) Lookup(pid int32, at tracer.Time, addr uint64) (path string, fileOffset uint64, buildID string, ok bool) {
	mp, ok := m.Find(pid, at, addr)
	if !ok {
		return "", 0, "", false
	}
	return mp.Path, addr - mp.Start + mp.Offset, mp.BuildID, true
}

// Find is the mapping that an address of a process lay in at a time.
func (m *Mappings) Find(pid int32, at tracer.Time, addr uint64) (Mapping, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for range maxForkDepth {
		s := m.at(pid, at)
		if s == nil {
			return Mapping{}, false
		}
		if i := s.find(at, addr); i >= 0 {
			return s.maps[i].Mapping, true
		}
		if s.parent == 0 {
			return Mapping{}, false
		}
		pid, at = s.parent, s.from
	}
	return Mapping{}, false
}

// Known says whether anything is known of a process at a time.
func (m *Mappings) Known(pid int32, at tracer.Time) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.at(pid, at) != nil
}

// LoadProcess reads what a live process has mapped now and takes it as mapped
// since its address space of that time began. A process that is gone is no
// error to anybody: it has no mappings.
func (m *Mappings) LoadProcess(pid int32, at tracer.Time) error {
	maps, err := ReadProcMaps(pid)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(pid, at)
	if s == nil {
		s = m.begin(pid, beginning)
	}
	for _, mp := range maps {
		mp.Path = m.intern(mp.Path)
		m.insert(s, timedMapping{s.from, mp})
		if mp.generated() {
			m.jits.want(pid)
		}
	}
	return nil
}

// LoadAll is LoadProcess for every process there is. It reads the maps of a
// few hundred processes in some ten milliseconds. Processes that end meanwhile
// are passed over; the error is about /proc itself.
func (m *Mappings) LoadAll(at tracer.Time) error {
	d, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if pid, err := strconv.ParseInt(n, 10, 32); err == nil && pid > 0 {
			// Gone, or another user's: nothing to know of it.
			_ = m.LoadProcess(int32(pid), at)
		}
	}
	return nil
}

// Prune forgets processes that ended before a time. Children that still live
// on mappings of theirs keep them.
func (m *Mappings) Prune(before tracer.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dead := func(pid int32, s *space) bool { return s.exit != 0 && s.exit < before }
	for pid, spaces := range m.procs {
		for _, s := range spaces {
			if s.parent != 0 && !dead(pid, s) {
				m.flatten(s)
			}
		}
	}
	for pid, spaces := range m.procs {
		spaces = slices.DeleteFunc(spaces, func(s *space) bool { return dead(pid, s) })
		if len(spaces) == 0 {
			delete(m.procs, pid)
			continue
		}
		m.procs[pid] = spaces
	}
	m.jits.forget(func(pid int32) bool { return m.procs[pid] != nil })
}

// flatten copies into s what it would have looked up in its parents, when one
// of them has ended.
func (m *Mappings) flatten(s *space) {
	var inherited []timedMapping
	ended := false
	pid, at := s.parent, s.from
	for range maxForkDepth {
		p := m.at(pid, at)
		if p == nil {
			break
		}
		ended = ended || p.exit != 0
		for i := len(p.maps) - 1; i >= 0; i-- { // nearest and latest first, reversed below
			if p.maps[i].at <= at {
				inherited = append(inherited, timedMapping{s.from, p.maps[i].Mapping})
			}
		}
		if p.parent == 0 {
			break
		}
		pid, at = p.parent, p.from
	}
	if !ended {
		return
	}
	slices.Reverse(inherited)
	s.maps = append(inherited, s.maps...)
	s.parent = 0
}

// at is the address space of a pid at a time.
func (m *Mappings) at(pid int32, at tracer.Time) *space {
	sp := m.procs[pid]
	i := sort.Search(len(sp), func(i int) bool { return sp[i].from > at })
	if i == 0 {
		return nil
	}
	return sp[i-1]
}

// begin starts a new address space. Mappings recorded at or after its time
// that another CPU's records brought first move into it.
func (m *Mappings) begin(pid int32, at tracer.Time) *space {
	sp := m.procs[pid]
	i := sort.Search(len(sp), func(i int) bool { return sp[i].from > at })
	if i > 0 && sp[i-1].from == at && len(sp[i-1].maps) == 0 && sp[i-1].parent == 0 {
		return sp[i-1]
	}
	s := &space{from: at}
	if i > 0 {
		old := sp[i-1]
		j := sort.Search(len(old.maps), func(j int) bool { return old.maps[j].at >= at })
		if at != beginning {
			s.maps = slices.Clone(old.maps[j:])
			old.maps = old.maps[:j:j]
		}
		if old.exit >= at && old.exit != 0 {
			s.exit, old.exit = old.exit, 0
		}
		if old.exit == 0 {
			old.exit = at
		}
	}
	if i < len(sp) && s.exit == 0 {
		s.exit = sp[i].from
	}
	m.procs[pid] = slices.Insert(sp, i, s)
	return s
}

// insert keeps an address space's mappings in the order of their times.
func (m *Mappings) insert(s *space, t timedMapping) {
	i := sort.Search(len(s.maps), func(i int) bool { return s.maps[i].at > t.at })
	for j := i - 1; j >= 0 && s.maps[j].at == t.at; j-- {
		if s.maps[j].Mapping == t.Mapping {
			return
		}
	}
	if len(s.maps) >= maxSpaceMaps {
		s.maps = slices.Delete(s.maps, 0, maxSpaceMaps/2)
		i = max(0, i-maxSpaceMaps/2)
	}
	s.maps = slices.Insert(s.maps, i, t)
}

// find is the latest mapping of addr at a time. There are no records of
// munmap: what is mapped over an address later hides what was there.
func (s *space) find(at tracer.Time, addr uint64) int {
	for i := len(s.maps) - 1; i >= 0; i-- {
		t := &s.maps[i]
		if t.at <= at && t.Start <= addr && addr < t.End {
			return i
		}
	}
	return -1
}

func (m *Mappings) intern(s string) string {
	if t, ok := m.strings[s]; ok {
		return t
	}
	m.strings[s] = s
	return s
}
