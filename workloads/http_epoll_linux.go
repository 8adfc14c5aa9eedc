package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func httpLinuxParts() []httpPart { return []httpPart{{"epoll", epollServerMain}} }

// epollServer is the least that answers HTTP: one thread, one epoll, a read and
// a write per turn of a connection. What other servers take on top of it is their
// own.
type epollServer struct {
	epoll, listener int
	rest            map[int32][]byte // the beginning of a request, by connection
	buf             []byte
}

var (
	httpEnd  = []byte("\r\n\r\n")
	httpTrue = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(httpBody), httpBody)
)

const mostHTTPHead = 16 << 10 // bytes of a request

func epollServerMain([]string) error {
	port, err := strconv.Atoi(os.Getenv("TRACE_HTTP_PORT"))
	if err != nil {
		return err
	}
	s := &epollServer{rest: map[int32][]byte{}, buf: make([]byte, 64<<10)}
	if err := s.listen(port); err != nil {
		return err
	}
	events := make([]unix.EpollEvent, 256)
	for {
		n, err := unix.EpollWait(s.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == s.listener {
				s.accept()
			} else if !s.serve(e.Fd) {
				delete(s.rest, e.Fd)
				_ = unix.Close(int(e.Fd)) // also takes it out of the epoll
			}
		}
	}
}

func (s *epollServer) listen(port int) (err error) {
	if s.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(s.listener, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	if err := unix.Bind(s.listener, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(s.listener, 1024); err != nil {
		return err
	}
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	return s.watch(s.listener)
}

func (s *epollServer) watch(fd int) error {
	return unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// accept takes all connections that wait.
func (s *epollServer) accept() {
	for {
		fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return // none is left, or it is gone
		}
		if unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) != nil || s.watch(fd) != nil {
			_ = unix.Close(fd)
		}
	}
}

// serve answers every whole request that has come; false: the connection is over.
func (s *epollServer) serve(fd int32) bool {
	n, err := unix.Read(int(fd), s.buf)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || n == 0 {
		return false
	}
	data := s.buf[:n]
	if rest := s.rest[fd]; len(rest) > 0 {
		data = append(rest, data...)
	}
	count := 0
	for {
		end := bytes.Index(data, httpEnd)
		if end < 0 {
			break
		}
		data = data[end+len(httpEnd):]
		count++
	}
	if len(data) > mostHTTPHead {
		return false
	}
	if len(data) > 0 || len(s.rest[fd]) > 0 {
		s.rest[fd] = bytes.Clone(data)
	}
	return count == 0 || s.write(int(fd), bytes.Repeat(httpTrue, count))
}

// write sends all of it. Answers are so short that a socket which has no room
// for them belongs to a client that does not read: it is given up.
func (s *epollServer) write(fd int, b []byte) bool {
	n, err := unix.Write(fd, b)
	return err == nil && n == len(b)
}
