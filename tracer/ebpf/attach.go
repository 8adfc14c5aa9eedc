//go:build linux

package ebpf

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// links is everything that is attached. The kernel detaches with the last
// descriptor, so a killed tracer leaves nothing behind.
type links struct {
	all []io.Closer
}

// attach attaches the programs of the table that have a tracepoint. Most of
// the time goes into waiting for the kernel (a grace period where a tracepoint
// gets its first program), which overlaps.
func attach(l *loaded) (*links, error) {
	k := &links{}
	var wg sync.WaitGroup
	made := make([]io.Closer, len(l.attached))
	errs := make([]error, len(l.attached))
	for i, pr := range l.attached {
		if pr.tracepoint == "" {
			continue
		}
		wg.Go(func() {
			lk, err := link.AttachTracing(link.TracingOptions{Program: l.coll.Programs[pr.name], AttachType: ebpf.AttachTraceRawTp})
			if err != nil {
				errs[i] = fmt.Errorf("attach to tracepoint %s: %w", pr.tracepoint, err)
				return
			}
			made[i] = lk
		})
	}
	wg.Wait()
	for _, c := range made {
		if c != nil {
			k.all = append(k.all, c)
		}
	}
	if err := errors.Join(errs...); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// attachSampler opens a cpu-clock event on each CPU.
func (k *links) attachSampler(prog *ebpf.Program, cpus []int, period time.Duration) error {
	for _, cpu := range cpus {
		attr := &unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
			Sample: uint64(period.Nanoseconds()), Bits: unix.PerfBitDisabled | unix.PerfBitExcludeIdle}
		fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			if errors.Is(err, unix.ENODEV) {
				continue // went offline
			}
			return fmt.Errorf("perf_event_open of a cpu-clock event on cpu %d: %w", cpu, err)
		}
		k.all = append(k.all, fdCloser(fd))
		lk, err := link.AttachRawLink(link.RawLinkOptions{Target: fd, Program: prog, Attach: ebpf.AttachPerfEvent})
		if err != nil {
			return fmt.Errorf("attach to the cpu-clock event of cpu %d: %w", cpu, err)
		}
		k.all = append(k.all, lk)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("enable the cpu-clock event of cpu %d: %w", cpu, err)
		}
	}
	return nil
}

type fdCloser int

func (fd fdCloser) Close() error { return unix.Close(int(fd)) }

// Close detaches, last first. Links detach at once, side by side.
func (k *links) Close() error {
	var wg sync.WaitGroup
	errs := make([]error, len(k.all))
	for i, c := range k.all {
		wg.Go(func() { errs[i] = c.Close() })
	}
	wg.Wait()
	k.all = nil
	return errors.Join(errs...)
}

// snapshotTasks runs the task iterator once: its records come through the ring
// buffer like all others.
func snapshotTasks(prog *ebpf.Program) error {
	it, err := link.AttachIter(link.IterOptions{Program: prog})
	if err != nil {
		return fmt.Errorf("task iterator: %w", err)
	}
	defer it.Close()
	r, err := it.Open()
	if err != nil {
		return fmt.Errorf("task iterator: %w", err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("task iterator: %w", err)
	}
	return nil
}
