//go:build amd64 || arm64

package main

import (
	endian "encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The programs that wait for disks and for grace periods.

const (
	truthBlock  = 1 << 20
	truthBlocks = 4
)

// temporary gives a file of the program's own, which has no name any more.
func (r *truthRun) temporary(flags int) (fd int, err error) {
	name := fmt.Sprintf("%s.%d", r.args[0], os.Getpid())
	fd, err = unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|flags, 0o600)
	if errors.Is(err, unix.EINVAL) {
		_ = unix.Unlink(name) // may be there
		return -1, errTruthSkip{fmt.Errorf("the file system of %s refuses O_DIRECT", r.args[0])}
	}
	if err != nil {
		return -1, fmt.Errorf("temporary file: %w", err)
	}
	return fd, unix.Unlink(name)
}

// page is memory as direct writes want it.
func (r *truthRun) page(size int) (uintptr, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return r.bytes(b), nil
}

// writes adds the writing of the blocks of a file, each known as write.
func (r *truthRun) writes(p *truthProcess, fd int) error {
	buf, err := r.page(truthBlock)
	if err != nil {
		return err
	}
	for i := range truthBlocks {
		p.timed("write", p.call(unix.SYS_PWRITE64, uintptr(fd), buf, truthBlock, uintptr(i*truthBlock)))
	}
	return nil
}

func truthDirect(r *truthRun) error {
	fd, err := r.temporary(unix.O_DIRECT)
	if err != nil {
		return err
	}
	p := r.first()
	if err := r.writes(p, fd); err != nil {
		return err
	}
	return p.start()
}

func truthFsync(r *truthRun) error {
	fd, err := r.temporary(0)
	if err != nil {
		return err
	}
	p := r.first()
	if err := r.writes(p, fd); err != nil {
		return err
	}
	p.timed("fsync", p.call(unix.SYS_FSYNC, uintptr(fd)))
	return p.start()
}

// truthRCU waits in synchronize_rcu, which is what a global membarrier(2) is.
func truthRCU(r *truthRun) error {
	const global = 1 // MEMBARRIER_CMD_GLOBAL
	if _, _, errno := unix.RawSyscall(unix.SYS_MEMBARRIER, 0, 0, 0); errno != 0 {
		return errTruthSkip{fmt.Errorf("membarrier: %w", errno)}
	}
	p := r.first()
	p.timed("barrier", p.call(unix.SYS_MEMBARRIER, global, 0))
	return p.start()
}

// truthNetns gives a network namespace up and waits for the interface that went
// to it to go away: the kernel's clean-up comes to it after grace periods.
func truthNetns(r *truthRun) error {
	pair, err := newVethPair()
	if err != nil {
		return err
	}
	watch, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	if err := unix.Bind(watch, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_LINK - 1)}); err != nil {
		return fmt.Errorf("netlink: %w", err)
	}
	// Only messages that a link was deleted: nlmsg_type is the half word at 4,
	// which the filter reads in network order.
	kind := endian.BigEndian.Uint16(endian.NativeEndian.AppendUint16(nil, unix.RTM_DELLINK))
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(kind), Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18},
		{Code: unix.BPF_RET | unix.BPF_K},
	}
	if err := unix.SetsockoptSockFprog(watch, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	r.handed = append(r.handed, pair.other)
	p := r.first()
	p.close(pair.other)
	p.timed("gone", p.read(watch, 4096))
	return p.start()
}
