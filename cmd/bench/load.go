//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// load is something to slow down. do carries n of them out; it runs in a
// process of its own, pinned to one CPU when pinned is set.
type load struct {
	name, unit string
	n          int // for about a second of work
	most       int // under tools that stop the process at every call; 0: n
	pinned     bool
	wallOnly   bool // its work is done by daemons, whose CPU time it does not see
	do         func(n int) error
}

// loads is the table of loads; the last one needs a Docker daemon.
func loads() []load {
	return []load{
		{name: "spawn", unit: "fork+exec+wait of /bin/true", n: 600, most: 100, do: spawn},
		{name: "pingpong", unit: "socketpair round trip, both ends on one CPU", n: 60000, most: 6000, pinned: true, do: pingpong},
		{name: "getppid", unit: "getppid call", n: 2000000, most: 20000, pinned: true, do: getppid},
		{name: "docker", unit: "docker run --rm --network none", n: 3, wallOnly: true, do: dockerRun},
	}
}

func loadNames() []string {
	var names []string
	for _, l := range loads() {
		names = append(names, l.name)
	}
	return names
}

// figures is what a load says about itself.
type figures struct {
	N      int   `json:"n"`
	WallNs int64 `json:"wall_ns"`
	CPUNs  int64 `json:"cpu_ns"` // of the process and of the children it waited for
}

// The first words of the command lines with which bench starts itself again.
const (
	hiddenPin  = "__pin"  // CPU, then the rest of the command line
	hiddenLoad = "__load" // NAME N: carry it out, print figures
	hiddenEcho = "__echo" // the other end of the ping-pong, on fd 3
	hiddenTrue = "__true" // do nothing
)

func runHidden(args []string) (code int, mine bool) {
	if len(args) < 2 {
		return 0, false
	}
	var err error
	switch args[1] {
	case hiddenTrue:
		return 0, true
	case hiddenEcho:
		err = echo()
	case hiddenPin:
		err = pinAndExec(args[2:])
	case hiddenLoad:
		err = carryOut(args[2:])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench load:", err)
		return 1, true
	}
	return 0, true
}

// pinAndExec binds the process to a CPU. The exec that follows makes all
// threads of the runtime inherit it.
func pinAndExec(args []string) error {
	cpu, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to CPU %d: %w", cpu, err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return syscall.Exec(self, append([]string{self}, args[1:]...), os.Environ())
}

func carryOut(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for _, l := range loads() {
		if l.name != args[0] {
			continue
		}
		runtime.LockOSThread()
		cpu, begin := cpuTime(), time.Now()
		if err := l.do(n); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		f := figures{N: n, WallNs: time.Since(begin).Nanoseconds(), CPUNs: cpuTime() - cpu}
		return json.NewEncoder(os.Stdout).Encode(f)
	}
	return fmt.Errorf("no load %q", args[0])
}

func cpuTime() int64 {
	var total int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += u.Utime.Nano() + u.Stime.Nano()
		}
	}
	return total
}

// trueProgram is a small program that does nothing: bench itself would spend a
// millisecond on starting the Go runtime.
func trueProgram() (string, error) {
	for _, p := range []string{"/bin/true", "/usr/bin/true"} {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return exec.LookPath("true")
}

func spawn(n int) error {
	path, err := trueProgram()
	if err != nil {
		return err
	}
	attr := &syscall.ProcAttr{Files: []uintptr{0, 1, 2}}
	for range n {
		pid, err := syscall.ForkExec(path, []string{path}, attr)
		if err != nil {
			return err
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

// pingpong uses raw system calls: the runtime's own would add its scheduler's
// work to every wait.
func pingpong(n int) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	files := []uintptr{0, 1, 2, uintptr(pair[1])}
	pid, err := syscall.ForkExec(self, []string{self, hiddenEcho}, &syscall.ProcAttr{Files: files, Env: os.Environ()})
	if err != nil {
		return err
	}
	if err := unix.Close(pair[1]); err != nil {
		return err
	}
	for range n {
		if err := putByte(pair[0]); err != nil {
			return err
		}
		if _, err := getByte(pair[0]); err != nil {
			return err
		}
	}
	if err := unix.Close(pair[0]); err != nil {
		return err
	}
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, 0, nil)
	return err
}

func echo() error {
	runtime.LockOSThread()
	for {
		more, err := getByte(3)
		if err != nil || !more {
			return err
		}
		if err := putByte(3); err != nil {
			return err
		}
	}
}
