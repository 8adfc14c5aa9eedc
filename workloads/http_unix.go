//go:build unix

package workloads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// httpGuards says that servers can be started here.
const httpGuards = true

func reusePort(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	return errors.Join(err, failed)
}

// dialBlocking connects in a way that reads and writes are system calls of the
// calling thread, without the runtime's poller and its threads in between.
func dialBlocking(ctx context.Context, addr string, patience time.Duration) (io.ReadWriteCloser, error) {
	d := net.Dialer{Timeout: patience}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return nil, err
	}
	tv := unix.NsecToTimeval(int64(patience))
	fd := int(f.Fd()) // makes it blocking
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func httpSystemParts() []httpPart {
	return append(httpLinuxParts(), httpPart{"guard", guardMain})
}

// httpGuarded is a server and the guard that ends it.
type httpGuarded struct {
	dir   string
	hold  io.Closer // the guard's standard input: when it ends, so does the server
	ended chan struct{}
}

// startGuard starts copies of a server. A process between us and them sees our
// end whatever ends us, takes the servers down with all that they have started,
// and removes their folder.
func startGuard(dir string, copies int, argv, env []string) (*httpGuarded, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, append([]string{httpCommand, "guard", dir, strconv.Itoa(copies)}, argv...)...)
	cmd.Env, cmd.Dir = env, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for us
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &httpGuarded{dir: dir, hold: hold, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // why a server ended is in its log
		close(g.ended)
	}()
	return g, nil
}

func (g *httpGuarded) stop() error {
	_ = g.hold.Close() // it may be gone already
	select {
	case <-g.ended:
	case <-time.After(killPatience):
		return fmt.Errorf("the guard of the server in %s does not end", g.dir)
	}
	return os.RemoveAll(g.dir)
}

// log is the end of what the server said.
func (g *httpGuarded) log() string {
	f, err := os.Open(filepath.Join(g.dir, "log"))
	if err != nil {
		return "it left no log"
	}
	defer f.Close()
	return tail(f)
}

// guardMain starts servers in one process group and waits for one of them to
// end, or for its standard input, which its parent holds open, to end.
func guardMain(args []string) error {
	if len(args) < 3 {
		return errors.New("want FOLDER COPIES PROGRAM [ARGUMENT...]")
	}
	dir, argv := args[0], args[2:]
	copies, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // its parent is told, and tells it
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	orphaned, ended := make(chan struct{}), make(chan error, copies)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(orphaned)
	}()
	group, running := 0, 0
	for range copies {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true, Pgid: group}
		if err := cmd.Start(); err != nil {
			fmt.Fprintln(log, startError(argv[0], err))
			ended <- err
			break
		}
		if group == 0 {
			group = cmd.Process.Pid
		}
		running++
		go func() { ended <- cmd.Wait() }()
	}
	select {
	case <-orphaned:
		err = nil
	case err = <-ended:
		running--
	}
	if group > 0 {
		killGroup(group)
	}
	for ; running > 0; running-- { // nothing listens any more when the guard is gone
		<-ended
	}
	if err == nil {
		return os.RemoveAll(dir)
	}
	return err // the folder stays for its log; the parent removes it
}
