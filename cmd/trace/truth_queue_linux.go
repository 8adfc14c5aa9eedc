//go:build amd64 || arm64

package main

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unixAddress is the socket of the daemon, as connect(2) wants it.
func (r *truthRun) unixAddress() (addr, size uintptr, err error) {
	if len(r.args) != 2 {
		return 0, 0, errors.New("usage: FILE SOCKET")
	}
	b := append(endian.NativeEndian.AppendUint16(nil, unix.AF_UNIX), r.args[1]...)
	b = append(b, 0)
	if len(b) > unix.SizeofSockaddrUnix {
		return 0, 0, fmt.Errorf("%s: too long for the name of a socket", r.args[1])
	}
	return r.bytes(b), uintptr(len(b)), nil
}

// truthDaemon serves one request after the other, each for some time, and
// answers with what its clocks say of it.
func truthDaemon(r *truthRun) error {
	addr, size, err := r.unixAddress()
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), addr, size); errno != 0 {
		return fmt.Errorf("bind: %w", errno)
	}
	if err := unix.Listen(fd, 16); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Println("serving")
	p := r.first()
	begin := len(p.steps)
	p.call(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_CLOEXEC).into = truthConn
	p.read(truthConn, truthRequest)
	p.timed("serve", p.nap(6*ms))
	said := r.records[len(r.records)-1]
	p.call(unix.SYS_WRITE, truthConn, uintptr(unsafe.Pointer(said)), unsafe.Sizeof(*said))
	p.close(truthConn).then = begin
	return p.start()
}

// ask adds a request to the daemon; its answer comes to said.
func (p *truthProcess) ask(addr, size uintptr, said *truthRecord) (reply *truthStep) {
	p.call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0).into = truthConn
	p.call(unix.SYS_CONNECT, truthConn, addr, size)
	p.write(truthConn, truthRequest)
	return p.call(unix.SYS_READ, truthConn, uintptr(unsafe.Pointer(said)), unsafe.Sizeof(*said))
}

// truthStranger keeps the daemon busy until it is killed.
func truthStranger(r *truthRun) error {
	addr, size, err := r.unixAddress()
	if err != nil {
		return err
	}
	fmt.Println("asking")
	p := r.first()
	begin := len(p.steps)
	p.ask(addr, size, r.record("serve"))
	p.close(truthConn).then = begin
	return p.start()
}

func truthClient(r *truthRun) error {
	addr, size, err := r.unixAddress()
	if err != nil {
		return err
	}
	p, said := r.first(), r.record("serve")
	p.timed("reply", p.ask(addr, size, said))
	reply := r.records[len(r.records)-1]
	if err := p.start(); err != nil {
		return err
	}
	// Until the daemon came to the request, it was busy with another one.
	r.windows = append(r.windows, truthWindow{Label: "queued", PID: int32(reply.pid), Begin: reply.begin.Nano(), End: max(said.begin.Nano(), reply.begin.Nano())})
	return nil
}
