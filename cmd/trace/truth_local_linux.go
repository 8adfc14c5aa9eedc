//go:build amd64 || arm64

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The programs of one machine's processes, threads, locks and timers.

const ms = time.Millisecond

func truthSleep(r *truthRun) error {
	p := r.first()
	p.timed("nap", p.nap(20*ms))
	return p.start()
}

func truthBurnAlone(r *truthRun) error {
	p := r.first()
	p.timed("burn", p.burn(20*ms))
	return p.start()
}

func truthTimer(r *truthRun) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("timerfd_create: %w", err)
	}
	at := &unix.ItimerSpec{Value: unix.NsecToTimespec((15 * ms).Nanoseconds())}
	r.keep = append(r.keep, at)
	p := r.first()
	p.call(unix.SYS_TIMERFD_SETTIME, uintptr(fd), 0, uintptr(unsafe.Pointer(at)), 0)
	p.timed("expiry", p.read(fd, 8))
	return p.start()
}

// pipe gives the ends of a pipe, which all processes of a run have, and this
// one until it has forked them.
func (r *truthRun) pipe() (read, write int, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, fmt.Errorf("pipe: %w", err)
	}
	r.handed = append(r.handed, fd[0], fd[1])
	return fd[0], fd[1], nil
}

func truthPipe(r *truthRun) error {
	in, out, err := r.pipe()
	if err != nil {
		return err
	}
	child := r.process()
	child.nap(2 * settleTruth) // also where each of them waits long for a CPU
	child.timed("nap", child.nap(15*ms))
	child.write(out, 1)
	p := r.first()
	p.fork(child)
	p.timed("read", p.read(in, 1))
	p.reap()
	return p.start()
}

// pin has the process run on the last CPU, or the first, alone: a process that
// is woken must not take the CPU of its waker, which would be in the waker's way.
func (p *truthProcess) pin(last bool) error {
	allowed, one := &unix.CPUSet{}, &unix.CPUSet{}
	if err := unix.SchedGetaffinity(0, allowed); err != nil {
		return fmt.Errorf("allowed CPUs: %w", err)
	}
	left := allowed.Count()
	for cpu := 0; left > 0; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		left--
		if last == (left == 0) {
			one.Set(cpu)
			break
		}
	}
	if one.Count() == 0 { // there is one only
		one = allowed
	}
	p.run.keep = append(p.run.keep, one)
	p.call(unix.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(*one), uintptr(unsafe.Pointer(one)))
	return nil
}

func truthPingPong(r *truthRun) error {
	const rounds = 30
	there, toChild, err := r.pipe()
	if err != nil {
		return err
	}
	back, toParent, err := r.pipe()
	if err != nil {
		return err
	}
	child, p := r.process(), r.first()
	if err := errors.Join(child.pin(true), p.pin(false)); err != nil {
		return err
	}
	for range rounds {
		child.read(there, 1)
		child.burn(80 * time.Microsecond) // until the other one is back from its write, and waits
		child.timed("return", child.burn(300*time.Microsecond))
		child.write(toParent, 1)
	}
	p.fork(child)
	for range rounds {
		p.timed("serve", p.burn(200*time.Microsecond))
		p.write(toChild, 1)
		p.read(back, 1)
	}
	p.reap()
	return p.start()
}

func truthConvoy(r *truthRun) error {
	const holders = 3
	mutex := r.word()
	p := r.first()
	for i := range holders {
		child := r.process()
		child.nap(time.Duration(i) * ms)
		child.lock(mutex)
		child.timed(fmt.Sprintf("hold %d", i+1), child.nap(7*ms))
		child.unlock(mutex)
		p.fork(child)
	}
	p.nap(4 * ms)
	p.timed("wait", p.lock(mutex))
	p.unlock(mutex)
	for range holders {
		p.reap()
	}
	return p.start()
}

func truthBroadcast(r *truthRun) error {
	word := r.word()
	in, out, err := r.pipe()
	if err != nil {
		return err
	}
	p := r.first()
	for _, w := range []struct {
		label string
		nap   time.Duration
	}{{"fast", 2 * ms}, {"slow", 12 * ms}, {"fast", 4 * ms}} {
		waiter := r.process()
		waiter.close(in)
		waiter.call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, 0, 0, 0, 0).may = unix.EAGAIN
		waiter.timed(w.label, waiter.nap(w.nap))
		p.fork(waiter)
	}
	signaller := r.process()
	signaller.close(in)
	signaller.close(out)
	signaller.nap(settleTruth)
	signaller.timed("signal", signaller.nap(8*ms))
	signaller.add(truthStep{kind: truthSet, word: word})
	signaller.call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, math.MaxInt32)
	p.fork(signaller)
	p.close(out)
	p.timed("wait", p.read(in, 1)) // its end: the last waiter is gone
	for range 4 {
		p.reap()
	}
	return p.start()
}

func truthFanout(r *truthRun) error {
	in, out, err := r.pipe()
	if err != nil {
		return err
	}
	p := r.first()
	for _, w := range []struct {
		label string
		nap   time.Duration
	}{{"fast", 2 * ms}, {"slow", 15 * ms}, {"fast", 5 * ms}} {
		child := r.process()
		child.nap(settleTruth)
		child.timed(w.label, child.nap(w.nap))
		p.fork(child)
	}
	p.close(out)
	p.timed("wait", p.read(in, 1)) // its end: the last child is gone
	for range 3 {
		p.reap()
	}
	return p.start()
}

// again is the command line of this program as another one of the suite.
func (r *truthRun) again(program string, more ...string) []string {
	return append([]string{"/proc/self/exe", truthCommand, program}, append(r.args, more...)...)
}

// here times what this thread does itself, in a runtime.
func (r *truthRun) here(label string, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("schedstat: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Dup3(fd, truthSchedstat, unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("schedstat: %w", err)
	}
	defer unix.Close(truthSchedstat)
	rec := r.record(label)
	truthStampBegin(rec)
	err = do()
	truthStampEnd(rec)
	return err
}

// truthVfork uses the vfork of the standard library: a child that shares the
// parent's memory cannot be a list of steps. The arguments make execve take its
// time, all of which the parent waits for.
func truthVfork(r *truthRun) error {
	long := strings.Repeat("x", 100_000)
	args := r.again("napper")
	for range 10 {
		args = append(args, long)
	}
	pid := 0
	if err := r.here("spawn", func() (err error) {
		pid, err = syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
		return err
	}); err != nil {
		return fmt.Errorf("spawn: %w", err)
	}
	return truthReap(pid)
}

func truthReap(pid int) error {
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, 0, nil); err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	if status.ExitStatus() != 0 {
		return fmt.Errorf("process %d ended with status %#x", pid, uint32(status))
	}
	return nil
}

// truthNapper is what the programs that execute another one execute. It goes on
// with the windows of the program before it, in its last argument.
func truthNapper(r *truthRun) error {
	label := "nap"
	if before := r.args[len(r.args)-1]; strings.HasPrefix(before, "[") {
		if err := json.Unmarshal([]byte(before), &r.windows); err != nil {
			return fmt.Errorf("windows of the program before: %w", err)
		}
		label = "after"
	}
	p := r.first()
	p.timed(label, p.nap(10*ms))
	return p.start()
}

// truthThreadExec executes itself from a thread that is not the leader of its
// process, which dies thereby; the thread takes the process's number over.
func truthThreadExec(r *truthRun) error {
	runtime.LockOSThread() // the first thread stays with this goroutine
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := r.here("before", func() error {
			left := unix.NsecToTimespec((10 * ms).Nanoseconds())
			for {
				if err := unix.Nanosleep(&left, &left); err != unix.EINTR { // the runtime signals its threads
					return err
				}
			}
		}); err != nil {
			failed <- err
			return
		}
		windows, err := json.Marshal(r.done())
		if err == nil {
			args := r.again("napper", string(windows))
			err = unix.Exec(args[0], args, os.Environ())
		}
		failed <- err
	}()
	return <-failed
}

// truthBurner is a bystander: it computes on the CPU of its second argument
// until it is killed.
func truthBurner(r *truthRun) error {
	cpu, err := strconv.Atoi(r.args[len(r.args)-1])
	if err != nil {
		return fmt.Errorf("burner: %w", err)
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	fmt.Println("burning")
	for x := uint64(0); ; {
		truthCompute(r.perMs, &x)
	}
}
