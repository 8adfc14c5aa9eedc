package workloads

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func makeFIFO(path string) error { return unix.Mkfifo(path, 0o600) }

// gone says that the process has ended or, having been killed, ends soon;
// nobody may have reaped it yet.
func gone(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err == unix.ESRCH
	}
	defer unix.Close(fd)
	const patience = 10000 // ms
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, patience)
	return err == nil && n == 1
}

func TestParseProcStat(t *testing.T) {
	st, ok := parseProcStat([]byte("42 (a) b (c)) S 1 77 77 0 -1 4194560 0\n"))
	if !ok || st != (procStat{comm: "a) b (c)", state: 'S', pgrp: 77}) {
		t.Errorf("%+v, %v", st, ok)
	}
	own, ok := readProcStat(os.Getpid())
	if pgrp, err := unix.Getpgid(0); !ok || err != nil || own.pgrp != pgrp {
		t.Errorf("own process: %+v, %v, %v", own, ok, err)
	}
}

func FuzzParseProcStat(f *testing.F) {
	f.Add([]byte("42 (sh) S 1 77 77 0"))
	f.Add([]byte(") ("))
	f.Add([]byte("1 (\n) Z 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if st, ok := parseProcStat(b); ok && len(st.comm) > len(b) {
			t.Errorf("name %q out of %q", st.comm, b)
		}
	})
}

func FuzzPrettyName(f *testing.F) {
	f.Add("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n")
	f.Add("PRETTY_NAME=")
	f.Fuzz(func(t *testing.T, s string) {
		if len(prettyName(s)) > len(s) {
			t.Errorf("%q is longer than its source", prettyName(s))
		}
	})
}
