//go:build amd64 || arm64

package workloads

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// runChild forks a program without namespaces and gives what it reported and
// how it ended.
func runChild(t *testing.T, p *childProgram) ([]byte, unix.WaitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pid, pidfd, err := p.fork(0, -1, int(w.Fd()))
	w.Close()
	if err != nil {
		if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
			t.Skipf("clone3: %v", err)
		}
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	report, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	status, err := wait(pid)
	if err != nil {
		t.Fatal(err)
	}
	return report, status
}

func TestChildProgramJumps(t *testing.T) {
	p := &childProgram{}
	p.add("a call that fails", unix.SYS_CLOSE, -1).onError = 2
	p.add("exit 1", unix.SYS_EXIT_GROUP, 1)
	p.add("a call that succeeds", unix.SYS_GETPID).then = 4
	p.add("exit 2", unix.SYS_EXIT_GROUP, 2)
	p.add("exit 9", unix.SYS_EXIT_GROUP, 9)
	report, status := runChild(t, p)
	if len(report) > 0 || status.ExitStatus() != 9 {
		t.Errorf("report %v, exit status %d, want 9", report, status.ExitStatus())
	}
}

func TestChildProgramPassesResult(t *testing.T) {
	p := &childProgram{}
	p.add("take 7 for a result", unix.SYS_UMASK, 7)
	p.add("get it back", unix.SYS_UMASK, 0)
	p.add("exit with it", unix.SYS_EXIT_GROUP, 0).takes = true
	if report, status := runChild(t, p); len(report) > 0 || status.ExitStatus() != 7 {
		t.Errorf("report %v, exit status %d, want 7", report, status.ExitStatus())
	}
}

func TestChildProgramReports(t *testing.T) {
	p := &childProgram{}
	p.add("fine", unix.SYS_GETPID)
	p.add("change to a folder", unix.SYS_CHDIR, "/no/such/folder")
	report, status := runChild(t, p)
	if status.ExitStatus() != engineFailed {
		t.Errorf("exit status %d, want %d", status.ExitStatus(), engineFailed)
	}
	if err := p.explain(report); !errors.Is(err, unix.ENOENT) || !strings.Contains(err.Error(), "change to a folder") {
		t.Errorf("report says %v", err)
	}
}

func TestChildProgramExecs(t *testing.T) {
	p := &childProgram{}
	p.unblockSignals()
	if err := p.exec([]string{"/bin/sh", "-c", `test "$A" = b && kill -TERM $$`}, []string{"A=b"}); err != nil {
		t.Fatal(err)
	}
	// A blocked SIGTERM would not end it.
	if report, status := runChild(t, p); len(report) > 0 || status.Signal() != unix.SIGTERM {
		t.Errorf("report %v, status %#x, want death by SIGTERM", report, status)
	}
}

// TestChildProgramOften forks while other threads allocate and collect, which
// a child must not notice.
func TestChildProgramOften(t *testing.T) {
	stop := make(chan struct{})
	done := make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
				n += len(make([]byte, 1<<16))
			}
		}
	}()
	for range 100 {
		p := &childProgram{}
		p.add("exit 3", unix.SYS_EXIT_GROUP, 3)
		if _, status := runChild(t, p); status.ExitStatus() != 3 {
			t.Fatalf("exit status %d, want 3", status.ExitStatus())
		}
	}
	close(stop)
	<-done
}

func FuzzChildReport(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 2, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &childProgram{}
		p.add("only call", unix.SYS_GETPID)
		if p.explain(b) == nil {
			t.Error("a report that explains nothing")
		}
	})
}

func TestSyscallFilterJumps(t *testing.T) {
	f := syscallFilter()
	for i, in := range f {
		if in.Code == unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K && i > 1 {
			if to := i + 1 + int(in.Jt); to != len(f)-1 {
				t.Errorf("instruction %d jumps to %d, want the last, %d", i, to, len(f)-1)
			}
		}
	}
}

func TestLinkNamesFit(t *testing.T) {
	dir := "/var/lib/stagetrace/stagetrace-4194304-99999999999-0123abcd-0123abcd-0"
	names := map[string]bool{}
	for op := 1; op < 3000; op++ {
		n := vethName(dir, engineID(op))
		if len(n) > 15 || names[n] || !strings.HasPrefix(n, vethPrefix+linkTag(dir)) {
			t.Fatalf("name %q of container %d", n, op)
		}
		names[n] = true
	}
	if b := bridgeName(dir); len(b) > 15 || linkTag(dir) == linkTag(dir+"1") {
		t.Errorf("bridge %q", b)
	}
}

func TestAddressOf(t *testing.T) {
	for op := range 600 {
		n, gw, err := addressOf("10.3.4.1/24", engineID(op))
		if err != nil || !n.Contains(gw) || n.IP.Equal(gw) || n.IP.To4()[3] == 0 || n.IP.To4()[3] == 255 {
			t.Fatalf("container %d: %v, %v, %v", op, n, gw, err)
		}
	}
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.1/16", "fe80::1/24"} {
		if _, _, err := addressOf(bad, "c1"); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
