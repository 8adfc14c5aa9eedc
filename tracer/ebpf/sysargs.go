//go:build linux

package ebpf

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"stagetrace/bpf"
	"stagetrace/tracer"
)

// argBuffer puts an argument list together without allocating.
type argBuffer struct {
	buf  []byte
	raw  []tracer.RawArg
	from []int // where each value begins in buf
}

func (a *argBuffer) reset() { a.buf, a.raw, a.from = a.buf[:0], a.raw[:0], a.from[:0] }

// put adds an argument whose value is appended to the buffer; an empty value,
// and a key that has one already, are left out.
func (a *argBuffer) put(key string, value func(buf []byte) []byte) {
	for i := range a.raw {
		if a.raw[i].Key == key {
			return
		}
	}
	at := len(a.buf)
	a.buf = value(a.buf)
	if len(a.buf) == at {
		return
	}
	a.raw = append(a.raw, tracer.RawArg{Key: key})
	a.from = append(a.from, at)
}

func (a *argBuffer) intern(b *tracer.Builder) tracer.ArgsID {
	if len(a.raw) == 0 {
		return 0
	}
	for i := range a.raw {
		end := len(a.buf)
		if i+1 < len(a.raw) {
			end = a.from[i+1]
		}
		a.raw[i].Value = a.buf[a.from[i]:end]
	}
	return b.RawArgs(a.raw)
}

// items is what was read of a call's arguments, by argument.
type items struct {
	text, base, file, sock, addr, netlink [6][]byte
	u64                                   [6]uint64
	hasU64                                [6]bool
}

func parseItems(rest []byte) (it items) {
	const head = int(unsafe.Sizeof(bpf.TraceItem{}))
	for len(rest) >= head {
		kind, arg, n := rest[0], rest[1], int(le.Uint16(rest[2:]))
		rest = rest[head:]
		if n > len(rest) || arg > 5 {
			return it
		}
		b := rest[:n]
		rest = rest[n:]
		switch bpf.TraceItemKind(kind) {
		case bpf.TraceItemKindITEM_STRING:
			it.text[arg] = cString(b)
		case bpf.TraceItemKindITEM_BASE:
			it.base[arg] = b
			if len(b) == 0 {
				it.base[arg] = []byte{0} // the root
			}
		case bpf.TraceItemKindITEM_FILE:
			it.file[arg] = b
			if len(b) == 0 {
				it.file[arg] = []byte{0}
			}
		case bpf.TraceItemKindITEM_SOCKET:
			it.sock[arg] = b
		case bpf.TraceItemKindITEM_ADDR:
			it.addr[arg] = b
		case bpf.TraceItemKindITEM_NETLINK:
			it.netlink[arg] = b
		case bpf.TraceItemKindITEM_U64:
			if len(b) == 8 {
				it.u64[arg], it.hasU64[arg] = le.Uint64(b), true
			}
		}
	}
	return it
}

// sysArgs decodes the arguments of a call.
func (d *decoder) sysArgs(id tracer.TaskID, r *bpf.TraceRecSys, rest []byte) tracer.ArgsID {
	if r.Nr < 0 || int(r.Nr) >= len(d.names.rows) {
		return 0
	}
	row := &d.names.rows[r.Nr]
	it := parseItems(rest)
	d.args.reset()
	for i := range row.args {
		if a := &row.args[i]; a.key != "" {
			d.sysArg(a, i, r, &it)
		}
	}
	if p := d.info(id).program; p != "" && r.Ret == 0 && (row.name == "execve" || row.name == "execveat") {
		// The caller's memory is gone by now; bprm had the name.
		d.args.put("path", func(buf []byte) []byte { return append(buf, p...) })
	}
	return d.args.intern(d.b)
}

func (d *decoder) sysArg(a *argument, i int, r *bpf.TraceRecSys, it *items) {
	put := d.args.put
	if a.words != nil {
		v, ok := r.Args[i], true
		if a.kind == bpf.TraceArgKindARG_FLAGS64 {
			v, ok = it.u64[i], it.hasU64[i]
		}
		if ok {
			put(a.key, func(buf []byte) []byte { return a.words.append(buf, v) })
		}
		return
	}
	if s := it.text[i]; s != nil {
		put(a.key, func(buf []byte) []byte { return appendJoined(buf, it.base[i], s) })
	}
	if f := it.file[i]; f != nil {
		put("path", func(buf []byte) []byte { return appendPath(buf, f) })
	}
	if s := it.sock[i]; len(s) >= 4 {
		put("address", func(buf []byte) []byte { return appendSocket(buf, s) })
	}
	if s := it.addr[i]; s != nil {
		put("address", func(buf []byte) []byte { return appendSockaddr(buf, s) })
		if p := unixPath(s); p != nil {
			put("path", func(buf []byte) []byte { return append(buf, p...) })
		}
	}
	if n := it.netlink[i]; len(n) >= 4 {
		put("netlink", func(buf []byte) []byte {
			types := make([]uint16, 0, 8)
			for t := n[2:]; len(t) >= 2; t = t[2:] {
				types = append(types, le.Uint16(t))
			}
			return appendNetlink(buf, le.Uint16(n), types)
		})
	}
}

// appendJoined is a path as the caller's namespace names it.
func appendJoined(buf, base, path []byte) []byte {
	if base == nil || len(path) > 0 && path[0] == '/' {
		return append(buf, path...)
	}
	at := len(buf)
	buf = appendPath(buf, base)
	if len(path) == 0 || len(path) == 1 && path[0] == '.' {
		return buf
	}
	if buf[len(buf)-1] != '/' || len(buf) == at {
		buf = append(buf, '/')
	}
	return append(buf, path...)
}

// appendSocket: struct sock_item, then a Unix address.
func appendSocket(buf, s []byte) []byte {
	family, protocol := le.Uint16(s), le.Uint16(s[2:])
	switch family {
	case unix.AF_UNIX:
		if len(s) > 4 {
			return appendSockaddr(buf, s[4:])
		}
		return append(buf, "unix:"...)
	case unix.AF_NETLINK:
		return appendNetlinkProtocol(buf, protocol)
	case unix.AF_INET:
		return append(buf, "inet:"...)
	case unix.AF_INET6:
		return append(buf, "inet6:"...)
	}
	return buf
}

// unixPath is the path of a struct sockaddr_un, nil for other addresses and
// for abstract ones.
func unixPath(s []byte) []byte {
	if len(s) < 4 || le.Uint16(s) != unix.AF_UNIX || s[2] == 0 {
		return nil
	}
	return cString(s[2:])
}

// appendSockaddr writes a struct sockaddr.
func appendSockaddr(buf, s []byte) []byte {
	if len(s) < 2 {
		return buf
	}
	switch family := le.Uint16(s); {
	case family == unix.AF_UNIX:
		buf = append(buf, "unix:"...)
		if len(s) > 2 && s[2] == 0 {
			return append(append(buf, '@'), s[3:]...)
		}
		return append(buf, cString(s[2:])...)
	case family == unix.AF_INET && len(s) >= 8:
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[4:8])), binary.BigEndian.Uint16(s[2:]))
		return a.AppendTo(append(buf, "inet:"...))
	case family == unix.AF_INET6 && len(s) >= 24:
		a := netip.AddrPortFrom(netip.AddrFrom16([16]byte(s[8:24])), binary.BigEndian.Uint16(s[2:]))
		return a.AppendTo(append(buf, "inet6:"...))
	case family == unix.AF_NETLINK:
		return append(buf, "netlink:"...)
	}
	return buf
}

// sysBegin adds the begin of a call, at the time it was entered.
func (d *decoder) sysBegin(id tracer.TaskID, r *bpf.TraceRecSys, args tracer.ArgsID) {
	at := max(tracer.Time(r.Enter), d.begin+1)
	if r.EnterCpu >= maxCPUs || at > tracer.Time(r.H.Ts) || at > d.end {
		return
	}
	if in := d.info(id); in.inCall {
		// The program at the exit of the call before was skipped.
		in.inCall = false
		d.counts.ended++
		d.b.Add(tracer.Event{Time: at, CPU: int16(r.EnterCpu), Seq: seqOf(r.EnterSeq, subEvent), Kind: tracer.KindEnd,
			Class: tracer.ClassSyscall, Task: id})
	}
	d.b.Add(tracer.Event{Time: at, CPU: int16(r.EnterCpu), Seq: seqOf(r.EnterSeq, subLast), Kind: tracer.KindBegin,
		Class: tracer.ClassSyscall, Task: id, Name: d.call(r.Nr), Args: args})
}

func (d *decoder) sysEnter(r *bpf.TraceRecSys, rest []byte) {
	id := d.resolve(r.Tid)
	if id <= tracer.Idle || tracer.Time(r.H.Ts) <= d.begin {
		return
	}
	if in := d.info(id); in.inCall && in.entered == r.Enter {
		return // a sample came while it was being sent, and sent it too
	}
	d.sysBegin(id, r, d.sysArgs(id, r, rest))
	in := d.info(id)
	in.inCall, in.entered = true, r.Enter
}

func (d *decoder) sysExit(r *bpf.TraceRecSys, rest []byte) {
	id := d.resolve(r.Tid)
	if id <= tracer.Idle || tracer.Time(r.H.Ts) <= d.begin {
		return
	}
	args := d.sysArgs(id, r, rest)
	if r.H.Flags&sysBegun == 0 {
		d.sysBegin(id, r, args)
	}
	d.info(id).inCall = false
	e := tracer.Event{Kind: tracer.KindEnd, Class: tracer.ClassSyscall, Task: id, Name: d.call(r.Nr), Args: args, Value: r.Ret}
	if r.Ret < 0 && r.Ret >= -4095 {
		e.Flags |= tracer.FlagFailed
	}
	d.add(&r.H, e, subEvent)
}
