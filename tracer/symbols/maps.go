package symbols

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// Mapping is a piece of an address space that holds code.
type Mapping struct {
	Start, End uint64
	Offset     uint64 // in the file, of Start
	Path       string // as the process's own mount namespace names it; "" or "[...]" or "//anon": no file
	BuildID    string // hex of NT_GNU_BUILD_ID, where it was recorded
	Dev, Inode uint64 // Dev is major<<20|minor; 0: not recorded
}

const maxProcMaps = 64 << 20

// ReadProcMaps lists the executable mappings of a live process.
func ReadProcMaps(pid int32) ([]Mapping, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxProcMaps))
	if err != nil {
		return nil, err
	}
	return parseProcMaps(b, nil), nil
}

// parseProcMaps appends the executable mappings of a /proc/PID/maps text:
// "start-end perms offset major:minor inode    path". Malformed lines are
// passed over.
func parseProcMaps(b []byte, out []Mapping) []Mapping {
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if m, ok := parseMapsLine(line); ok {
			out = append(out, m)
		}
	}
	return out
}

func parseMapsLine(line []byte) (m Mapping, ok bool) {
	var n int
	if m.Start, n = parseHex(line); n == 0 || len(line) <= n || line[n] != '-' {
		return m, false
	}
	line = line[n+1:]
	if m.End, n = parseHex(line); n == 0 || m.End <= m.Start || len(line) < n+6 || line[n] != ' ' || line[n+5] != ' ' {
		return m, false
	}
	if line[n+3] != 'x' {
		return m, false
	}
	line = line[n+6:]
	if m.Offset, n = parseHex(line); n == 0 || len(line) <= n || line[n] != ' ' {
		return m, false
	}
	line = line[n+1:]
	major, n := parseHex(line)
	if n == 0 || len(line) <= n || line[n] != ':' {
		return m, false
	}
	line = line[n+1:]
	minor, n := parseHex(line)
	if n == 0 || len(line) <= n || line[n] != ' ' {
		return m, false
	}
	m.Dev = Dev(uint32(major), uint32(minor))
	line = line[n+1:]
	for len(line) > 0 && line[0] >= '0' && line[0] <= '9' {
		m.Inode = m.Inode*10 + uint64(line[0]-'0')
		line = line[1:]
	}
	m.Path = unescapeMaps(string(bytes.TrimLeft(line, " ")))
	return m, true
}

// Dev joins the two halves of a device number the way Mapping holds it.
func Dev(major, minor uint32) uint64 { return uint64(major)<<20 | uint64(minor) }

// unescapeMaps undoes what seq_file_path escapes in a path: a newline only.
func unescapeMaps(s string) string { return strings.ReplaceAll(s, `\012`, "\n") }

const deletedSuffix = " (deleted)"

// generated says whether the mapping's code was written by the process itself.
func (m *Mapping) generated() bool {
	return !m.fileBacked() && (!strings.HasPrefix(m.Path, "[") || strings.HasPrefix(m.Path, "[anon"))
}

// fileBacked says whether the mapping's code is in a file that may have
// symbols. /memfd: files are in no file system, and what lies in them was
// generated, as in anonymous memory.
func (m *Mapping) fileBacked() bool {
	return strings.HasPrefix(m.Path, "/") && !strings.HasPrefix(m.Path, "//") &&
		!strings.HasPrefix(m.Path, "/memfd:") && !strings.HasPrefix(m.Path, "/dev/zero") &&
		!strings.HasPrefix(m.Path, "/SYSV") && !strings.HasPrefix(m.Path, "/anon_hugepage")
}
