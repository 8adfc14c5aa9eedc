//go:build amd64 || arm64

package workloads

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ipcPrimitives() []primitive {
	echo := func(ends func() (ours, theirs [2]int, err error)) func(*bench) (*steps, error) {
		return func(*bench) (*steps, error) { return echoSteps(ends) }
	}
	return []primitive{
		{name: "pipe", summary: "one byte to another process and back through two pipes", repeat: often, open: echo(pipeEnds)},
		{name: "unix", summary: "one byte to another process and back through a Unix socket pair", repeat: often, open: echo(unixEnds)},
		{name: "tcp", summary: "one byte to another process and back through TCP on the loopback", repeat: often, open: echo(tcpEnds)},
		{name: "futex", summary: "wake another thread with a futex and be woken by it", repeat: often, open: futexSteps},
		{name: "eventfd", summary: "write to an eventfd and read it", repeat: often, open: eventfdSteps},
		{name: "write", summary: "write 4 KiB to a file in the page cache", repeat: often, open: func(w *bench) (*steps, error) { return writeSteps(w, false) }},
		{name: "fsync", summary: "write 4 KiB to a file and wait until it is on the disk", open: func(w *bench) (*steps, error) { return writeSteps(w, true) }},
	}
}

func pipeEnds() (ours, theirs [2]int, err error) {
	var there, back [2]int
	if err = unix.Pipe2(there[:], unix.O_CLOEXEC); err != nil {
		return ours, theirs, fmt.Errorf("pipe: %w", err)
	}
	if err = unix.Pipe2(back[:], unix.O_CLOEXEC); err != nil {
		closeAll(there[:])
		return ours, theirs, fmt.Errorf("pipe: %w", err)
	}
	return [2]int{back[0], there[1]}, [2]int{there[0], back[1]}, nil
}

func unixEnds() (ours, theirs [2]int, err error) {
	s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ours, theirs, fmt.Errorf("socketpair: %w", err)
	}
	return [2]int{s[0], s[0]}, [2]int{s[1], s[1]}, nil
}

func tcpEnds() (ours, theirs [2]int, err error) {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ours, theirs, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(l)
	if err := errors.Join(unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1)); err != nil {
		return ours, theirs, fmt.Errorf("listen: %w", err)
	}
	at, err := unix.Getsockname(l)
	if err != nil {
		return ours, theirs, fmt.Errorf("address: %w", err)
	}
	c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ours, theirs, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Connect(c, at); err != nil {
		unix.Close(c)
		return ours, theirs, fmt.Errorf("connect: %w", err)
	}
	a, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
	if err != nil {
		unix.Close(c)
		return ours, theirs, fmt.Errorf("accept: %w", err)
	}
	for _, s := range []int{c, a} {
		if err := unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			closeAll([]int{c, a})
			return ours, theirs, fmt.Errorf("TCP_NODELAY: %w", err)
		}
	}
	return [2]int{c, c}, [2]int{a, a}, nil
}

func closeAll(fds []int) {
	for i, fd := range fds {
		if i == 0 || fd != fds[i-1] {
			unix.Close(fd)
		}
	}
}

// echoSteps sends a byte to a child that sends it back. Descriptors are pairs:
// to read from, to write to.
func echoSteps(ends func() (ours, theirs [2]int, err error)) (*steps, error) {
	ours, theirs, err := ends()
	if err != nil {
		return nil, err
	}
	p := &childProgram{}
	p.add("set the parent-death signal", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL))
	again, buf := p.here(), unsafe.Pointer(new([1]byte))
	p.add("read", unix.SYS_READ, theirs[0], buf, 1).nonzero = true
	p.add("write", unix.SYS_WRITE, theirs[1], buf, 1).then = again
	pid, pidfd, err := p.fork(0, -1, -1)
	closeAll(theirs[:])
	if err != nil {
		closeAll(ours[:])
		return nil, fmt.Errorf("clone3: %w", err)
	}
	child := &sleeper{pid, pidfd}
	b := []byte{1}
	return &steps{
		do: func() error {
			if _, err := unix.Write(ours[1], b); err != nil {
				return err
			}
			n, err := unix.Read(ours[0], b)
			if err == nil && n == 0 {
				err = errors.New("the other process has gone")
			}
			return err
		},
		close: func() error { err := child.end(); closeAll(ours[:]); return err },
	}, nil
}

func eventfdSteps(*bench) (*steps, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	b := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	return &steps{
		do: func() error {
			if _, err := unix.Write(fd, b); err != nil {
				return err
			}
			_, err := unix.Read(fd, b)
			return err
		},
		close: func() error { return unix.Close(fd) },
	}, nil
}

func writeSteps(w *bench, sync bool) (*steps, error) {
	f, err := os.OpenFile(w.path(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 4096)
	return &steps{
		do: func() error {
			b[0]++
			if _, err := f.WriteAt(b, 0); err != nil || !sync {
				return err
			}
			return f.Sync()
		},
		close: f.Close,
	}, nil
}

// futexBench is two threads that wake each other in turn: whose turn it is, is
// in the word.
type futexBench struct {
	turn atomic.Uint32
	done chan struct{}
}

// Values of futexBench.turn.
const (
	turnOurs = iota
	turnTheirs
	turnEnd
)

func futexSteps(*bench) (*steps, error) {
	f := &futexBench{done: make(chan struct{})}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(f.done)
		for {
			if f.await(turnOurs) == turnEnd {
				return
			}
			f.give(turnOurs)
		}
	}()
	return &steps{
		do:    func() error { f.give(turnTheirs); f.await(turnTheirs); return nil },
		close: func() error { f.give(turnEnd); <-f.done; return nil },
	}, nil
}

// give says whose turn it is and wakes the other thread.
func (f *futexBench) give(turn uint32) {
	f.turn.Store(turn)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.turn)), futexWakePrivate, 1, 0, 0, 0)
}

// await sleeps while the word is that value, and gives the next.
func (f *futexBench) await(while uint32) uint32 {
	for {
		if v := f.turn.Load(); v != while {
			return v
		}
		// EAGAIN, EINTR: the word is looked at again.
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&f.turn)), futexWaitPrivate, uintptr(while), 0, 0, 0)
	}
}

// Operations of futex(2): FUTEX_WAIT and FUTEX_WAKE with FUTEX_PRIVATE_FLAG.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)
