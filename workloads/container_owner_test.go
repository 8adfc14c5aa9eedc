package workloads

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
)

func TestOwnerKeyReadsBack(t *testing.T) {
	me, err := currentOwner()
	if err != nil {
		t.Fatal(err)
	}
	if me.PID != os.Getpid() || runtime.GOOS == "linux" && me.Start == 0 {
		t.Errorf("owner %+v of process %d", me, os.Getpid())
	}
	for _, key := range []string{me.Key(), me.Key() + "-api-none"} {
		if got, err := parseOwner(key); err != nil || got != me {
			t.Errorf("%q reads back as %+v, %v", key, got, err)
		}
	}
	for _, bad := range []string{"", "1-2", "x-1-00000000-00000000", "0-1-00000000-00000000", "1-x-00000000-00000000",
		"1-1-0000000-00000000", "1-1-0000000G-00000000", "-1-1-00000000-00000000", "99999999999-1-00000000-00000000"} {
		if o, err := parseOwner(bad); err == nil {
			t.Errorf("%q is taken for %+v", bad, o)
		}
	}
}

func TestOwnerDeadTo(t *testing.T) {
	me, err := currentOwner()
	if err != nil {
		t.Fatal(err)
	}
	gone := me
	gone.PID = deadProcess(t)
	reused := me
	reused.Start++
	otherBoot := me
	otherBoot.Boot = "ffffffff"
	otherHost := gone
	otherHost.Host = "ffffffff"
	for _, c := range []struct {
		what string
		o    runOwner
		dead bool
		only string // GOOS
	}{
		{"this process", me, false, ""},
		{"a process that is gone", gone, true, ""},
		{"a process whose id is used again", reused, true, "linux"},
		{"a process of an earlier boot", otherBoot, true, ""},
		{"a process of another host", otherHost, false, ""},
	} {
		if c.only != "" && c.only != runtime.GOOS {
			continue
		}
		if got := c.o.DeadTo(me); got != c.dead {
			t.Errorf("%s: dead = %v, want %v", c.what, got, c.dead)
		}
	}
}

// deadProcess is the id of a process that has been reaped.
func deadProcess(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// deadOwner is an owner of this host and boot that is gone.
func deadOwner(t *testing.T) runOwner {
	t.Helper()
	o, err := currentOwner()
	if err != nil {
		t.Fatal(err)
	}
	o.PID = deadProcess(t)
	return o
}

func FuzzParseOwner(f *testing.F) {
	f.Add("12-34-0123abcd-00000000-api-none")
	f.Add("1--1-2-3")
	f.Add("")
	f.Fuzz(func(t *testing.T, key string) {
		o, err := parseOwner(key)
		if err != nil {
			return
		}
		if again, err := parseOwner(o.Key()); err != nil || again != o {
			t.Errorf("%q: %+v reads back as %+v, %v", key, o, again, err)
		}
	})
}

func FuzzStatStart(f *testing.F) {
	f.Add([]byte("7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0 1844"))
	f.Add([]byte("7 (x"))
	f.Add([]byte(") S 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := statStart(b); err != nil && v != 0 && v != ^uint64(0) {
			t.Errorf("%d beside the error %v", v, err)
		}
	})
}

func TestStatStart(t *testing.T) {
	v, err := statStart([]byte("7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 0 0 1844"))
	if err != nil || v != 4242 {
		t.Errorf("got %d, %v", v, err)
	}
}
