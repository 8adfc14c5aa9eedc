package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Files opens the object files of mappings, each once, and keeps their
// symbols. A file is known by its build id, else by device, inode and time of
// change. Safe for concurrent use.
type Files struct {
	mu      sync.Mutex
	objects map[object]*opened
	byID    map[string]*File
	byInode map[inodeKey]*File
	vdso    func() *File
}

// object is a file as mappings name it.
type object struct {
	path, buildID string
	dev, inode    uint64
}

type inodeKey struct {
	dev, inode uint64
	mtime      time.Time
	size       int64
}

type opened struct {
	file  *File
	tries int
	pid   int32 // of the last try
}

// maxTries bounds how many processes are asked for one file: a path of a
// container that is gone may still be open in another process of it.
const maxTries = 4

// NewFiles has opened nothing yet.
func NewFiles() *Files {
	return &Files{objects: map[object]*opened{}, byID: map[string]*File{}, byInode: map[inodeKey]*File{},
		vdso: sync.OnceValue(readVDSO)}
}

// File is the file behind a mapping of a process, dead or alive; nil when it
// cannot be had any more, or is not an ELF file.
func (fs *Files) File(pid int32, m *Mapping) *File {
	if m.Path == "[vdso]" {
		return fs.vdso()
	}
	if !m.fileBacked() {
		return nil
	}
	key := object{m.Path, m.BuildID, m.Dev, m.Inode}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	o := fs.objects[key]
	if o == nil {
		o = &opened{file: fs.byID[m.BuildID]}
		fs.objects[key] = o
	}
	if o.file == nil && o.tries < maxTries && o.pid != pid {
		o.tries++
		o.pid = pid
		o.file = fs.open(pid, m)
	}
	return o.file
}

// open tries the ways to a mapped file, best first, and takes the first that
// leads to the very file that was mapped.
func (fs *Files) open(pid int32, m *Mapping) *File {
	path := strings.TrimSuffix(m.Path, deletedSuffix)
	ways := []func() (*os.File, error){
		func() (*os.File, error) { return openPlain(path) },
		func() (*os.File, error) { return openInRoot(pid, path) },
		func() (*os.File, error) {
			return openPlain(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
		},
		func() (*os.File, error) { return openPlain(fmt.Sprintf("/proc/%d/exe", pid)) },
		func() (*os.File, error) { return openPlain("/proc/self/exe") },
	}
	for i, way := range ways {
		f, err := way()
		if err != nil {
			continue
		}
		e := fs.take(f, m, i == 0 || i == 1)
		f.Close()
		if e != nil {
			return e
		}
	}
	return nil
}

// take reads a file's symbols if it is the one that m mapped. byName says that
// it was found under the mapping's own path, so that it is taken where nothing
// else is known of it.
func (fs *Files) take(f *os.File, m *Mapping, byName bool) *File {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	dev, inode := identity(st)
	key := inodeKey{dev, inode, st.ModTime(), st.Size()}
	known := fs.byInode[key]
	switch {
	case m.BuildID != "":
		id := ""
		if known != nil {
			id = known.buildID
		} else if id, err = fileBuildID(f, st.Size()); err != nil {
			return nil
		}
		if id != m.BuildID {
			return nil
		}
	case m.Inode != 0 && inode != 0:
		// The device of a mapping is that of the file system, which on btrfs and
		// overlay is not what stat says; then the major number is 0.
		if inode != m.Inode || (dev != m.Dev && dev>>20 != 0 && m.Dev>>20 != 0) {
			return nil
		}
	case !byName:
		return nil
	}
	if known == nil {
		if known, err = NewFile(f, st.Size()); err != nil {
			return nil
		}
		fs.byInode[key] = known
	}
	if known.buildID != "" {
		fs.byID[known.buildID] = known
	}
	return known
}

func fileBuildID(f *os.File, size int64) (string, error) {
	e, err := elf.NewFile(f)
	if err != nil {
		return "", err
	}
	var file File
	file.readNotes(e, f, size)
	return file.buildID, nil
}

// auxv types, from the kernel's uapi/linux/auxvec.h.
const (
	atNull        = 0
	atSysinfoEHDR = 33
	maxVDSO       = 1 << 20
	vdsoPage      = 4096
)

// readVDSO reads the library that the kernel maps into every process, from our
// own memory: there is no file of it. It is the same in all processes of our
// word size.
func readVDSO() *File {
	auxv, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return nil
	}
	base := auxValue(auxv, atSysinfoEHDR)
	if base == 0 {
		return nil
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		return nil
	}
	defer mem.Close()
	var b []byte
	page := make([]byte, vdsoPage)
	for len(b) < maxVDSO {
		// Reading ends where the mapping does.
		if n, err := mem.ReadAt(page, int64(base)+int64(len(b))); err != nil || n != len(page) {
			break
		}
		b = append(b, page...)
	}
	f, err := NewFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil
	}
	return f
}

// auxValue finds an entry of an auxiliary vector of 64-bit words.
func auxValue(b []byte, typ uint64) uint64 {
	for ; len(b) >= 16; b = b[16:] {
		switch binary.NativeEndian.Uint64(b) {
		case typ:
			return binary.NativeEndian.Uint64(b[8:])
		case atNull:
			return 0
		}
	}
	return 0
}
