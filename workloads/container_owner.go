package workloads

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// runOwner is the identity of the process that made something which outlives
// processes: a container, an image, a state folder. It is written beside what
// was made, so that a later run can tell what a dead one left behind from
// what a living one is using.
//
// A process id alone is reused; with the start time it is not. Host and boot
// are there because a daemon may be shared by machines, and because process
// ids start again at a boot.
type runOwner struct {
	PID   int
	Start uint64 // in the platform's unit: clock ticks since boot on Linux, else ms since 1970
	Host  string // 8 hexadecimal digits
	Boot  string // 8 hexadecimal digits; zeros where the platform names no boot
}

// currentOwner is the identity of this process.
func currentOwner() (runOwner, error) {
	o := runOwner{PID: os.Getpid(), Boot: "00000000"}
	var err error
	if o.Start, err = processStart(o.PID); err != nil {
		return o, fmt.Errorf("start time of this process: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return o, fmt.Errorf("host name: %w", err)
	}
	o.Host = shortHash(host)
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		o.Boot = shortHash(string(b))
	}
	return o, nil
}

// Run is the identity on this machine: <pid>-<starttime>.
func (o runOwner) Run() string { return fmt.Sprintf("%d-%d", o.PID, o.Start) }

// Key is the identity anywhere: <pid>-<starttime>-<host>-<boot>. It is fit for
// a file name, an image tag and a label.
func (o runOwner) Key() string { return o.Run() + "-" + o.Host + "-" + o.Boot }

// parseOwner reads what Key wrote. Anything may follow after a dash.
func parseOwner(key string) (runOwner, error) {
	f := strings.SplitN(key, "-", 5)
	if len(f) < 4 {
		return runOwner{}, fmt.Errorf("owner %q: want pid-start-host-boot", key)
	}
	pid, err := strconv.ParseInt(f[0], 10, 32)
	if err != nil || pid <= 0 {
		return runOwner{}, fmt.Errorf("owner %q: bad process id", key)
	}
	start, err := strconv.ParseUint(f[1], 10, 64)
	if err != nil {
		return runOwner{}, fmt.Errorf("owner %q: bad start time", key)
	}
	for _, h := range f[2:4] {
		if len(h) != 8 || strings.Trim(h, "0123456789abcdef") != "" {
			return runOwner{}, fmt.Errorf("owner %q: bad host or boot", key)
		}
	}
	return runOwner{PID: int(pid), Start: start, Host: f[2], Boot: f[3]}, nil
}

// DeadTo says that o was a process of the same host as me and is gone. What
// belongs to another host is never called dead: it cannot be known from here.
func (o runOwner) DeadTo(me runOwner) bool {
	if o.Host != me.Host {
		return false
	}
	if o.Boot != me.Boot {
		return true
	}
	start, err := processStart(o.PID)
	return err != nil || start != o.Start
}

// processStart is when a process started, in clock ticks since boot, or an
// error when there is no such process. Where there is no /proc it is 0 for any
// process that exists: a reused id then passes for its predecessor, which
// leaves something lying about and never takes away what is in use.
func processStart(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return statStart(b)
	}
	if runtime.GOOS == "linux" {
		return 0, err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return 0, err
	}
	defer p.Release()
	if runtime.GOOS == "windows" { // finding it opened it: it exists
		return 0, nil
	}
	return 0, p.Signal(syscall.Signal(0))
}

// statStart takes field 22, starttime, from the text of /proc/PID/stat (proc_pid_stat(5)).
// The command, field 2, may hold any bytes, so fields are counted after its
// last parenthesis.
func statStart(b []byte) (uint64, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, errors.New("stat: no command")
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 20 {
		return 0, fmt.Errorf("stat: %d fields after the command, want 20", len(f))
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}
