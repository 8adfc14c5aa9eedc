package symbols

import (
	"fmt"
	"os"
	"time"
)

const (
	// maxKept bounds how many perf maps are held open, and how many are looked for.
	maxKept = 256
	// A compiler writes its map some time after it first mapped memory for code.
	firstLook, lastLook = 20 * time.Millisecond, time.Second
)

// perfMaps holds the perf maps of processes open while they live: many remove
// theirs when they end, which is before anything of them is named.
type perfMaps struct {
	files  map[int32]*os.File
	wanted map[int32]*look
}

// look is when a process's perf map is looked for next.
type look struct {
	at    time.Time
	after time.Duration
}

// want has the perf map of a process looked for: it has mapped code of no file.
func (k *perfMaps) want(pid int32) {
	if k.files[pid] != nil || k.wanted[pid] != nil || len(k.files)+len(k.wanted) >= maxKept {
		return
	}
	if k.wanted == nil {
		k.files, k.wanted = map[int32]*os.File{}, map[int32]*look{}
	}
	k.wanted[pid] = &look{after: firstLook}
}

// due are the processes whose perf map is to be looked for now.
func (k *perfMaps) due(now time.Time) (pids []int32) {
	for pid, l := range k.wanted {
		if now.Before(l.at) {
			continue
		}
		l.at, l.after = now.Add(l.after), min(2*l.after, lastLook)
		pids = append(pids, pid)
	}
	return pids
}

// KeepPerfMaps opens the perf maps of processes that generate code and have
// written one since. To be called often while they live; it does little.
func (m *Mappings) KeepPerfMaps(now time.Time) {
	m.mu.Lock()
	pids := m.jits.due(now)
	m.mu.Unlock()
	for _, pid := range pids {
		f := openPerfMap(pid)
		if f == nil && exists(pid) {
			continue
		}
		m.mu.Lock()
		delete(m.jits.wanted, pid)
		if f != nil {
			m.jits.files[pid] = f
		}
		m.mu.Unlock()
	}
}

func exists(pid int32) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err == nil
}

// keptPerfMap is the perf map that a process had while it lived; nil: none.
// The file stays the Mappings'.
func (m *Mappings) keptPerfMap(pid int32) *os.File {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.jits.files[pid]
}

// forget closes the perf maps of processes that nothing is known of any more.
func (k *perfMaps) forget(known func(pid int32) bool) {
	for pid, f := range k.files {
		if !known(pid) {
			_ = f.Close() // it was read only
			delete(k.files, pid)
		}
	}
	for pid := range k.wanted {
		if !known(pid) {
			delete(k.wanted, pid)
		}
	}
}

// Close closes what is held open.
func (m *Mappings) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jits.forget(func(int32) bool { return false })
}
