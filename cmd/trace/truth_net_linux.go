//go:build amd64 || arm64

package main

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The programs that talk over sockets.

// fixed descriptors of a process
const (
	truthConn    = 901
	truthRequest = 1 // bytes
)

// listen gives a socket that listens at an address, on a port of its own.
func listenTCP(addr [4]byte) (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: addr}); err != nil {
		return -1, 0, fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, 16); err != nil {
		return -1, 0, fmt.Errorf("listen: %w", err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return -1, 0, fmt.Errorf("getsockname: %w", err)
	}
	return fd, name.(*unix.SockaddrInet4).Port, nil
}

// request is a client with a connection of its own and a server that sleeps
// before it answers.
func (r *truthRun) request(client, listener int, addr [4]byte, port int) error {
	server := r.process()
	server.call(unix.SYS_ACCEPT4, uintptr(listener), 0, 0, unix.SOCK_CLOEXEC).into = truthConn
	server.read(truthConn, truthRequest)
	server.nap(settleTruth)
	server.timed("serve", server.nap(10*ms))
	server.write(truthConn, truthRequest)

	to := make([]byte, unix.SizeofSockaddrInet4)
	endian.NativeEndian.PutUint16(to, unix.AF_INET)
	endian.BigEndian.PutUint16(to[2:], uint16(port))
	copy(to[4:], addr[:])
	p := r.first()
	p.fork(server)
	p.call(unix.SYS_CONNECT, uintptr(client), r.bytes(to), uintptr(len(to)))
	p.write(client, truthRequest)
	p.timed("reply", p.read(client, truthRequest))
	p.reap()
	return p.start()
}

func tcpSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	return fd, nil
}

func truthTCP(r *truthRun) error {
	addr := [4]byte{127, 0, 0, 1}
	listener, port, err := listenTCP(addr)
	if err != nil {
		return err
	}
	client, err := tcpSocket()
	if err != nil {
		return err
	}
	return r.request(client, listener, addr, port)
}

// vethNamespaces are two network namespaces with a veth pair between them. This
// thread is in the first one, and stays there.
type vethNamespaces struct{ own, other int } // descriptors

var (
	vethHere  = [4]byte{10, 255, 77, 1}
	vethThere = [4]byte{10, 255, 77, 2}
)

// newNamespace moves this thread into a new network namespace and gives a
// descriptor of it.
func newNamespace() (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return -1, fmt.Errorf("a network namespace: %w", err)
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("a network namespace: %w", err)
	}
	return fd, nil
}

func newVethPair() (v vethNamespaces, err error) {
	runtime.LockOSThread() // for good: the thread belongs to the namespace
	if v.other, err = newNamespace(); err != nil {
		return v, err
	}
	if v.own, err = newNamespace(); err != nil {
		return v, err
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "truth0"}, PeerName: "truth1", PeerNamespace: netlink.NsFd(v.other)}
	if err := netlink.LinkAdd(link); err != nil {
		return v, fmt.Errorf("veth: %w", err)
	}
	return v, nil
}

// enter has this thread work in one of the namespaces.
func enter(ns int) error {
	if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter a network namespace: %w", err)
	}
	return nil
}

// configure gives an interface of this thread's namespace its address.
func configure(name string, addr [4]byte) error {
	link, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: addr[:], Mask: net.CIDRMask(24, 32)}})
	}
	if err == nil {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func truthVeth(r *truthRun) error {
	pair, err := newVethPair()
	if err != nil {
		return err
	}
	if err := errors.Join(enter(pair.other), configure("truth1", vethThere)); err != nil {
		return err
	}
	listener, port, err := listenTCP(vethThere)
	if err != nil {
		return err
	}
	if err := errors.Join(enter(pair.own), configure("truth0", vethHere)); err != nil {
		return err
	}
	client, err := tcpSocket() // a socket belongs to the namespace it was made in
	if err != nil {
		return err
	}
	return r.request(client, listener, vethThere, port)
}
