//go:build linux

package ebpf

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"stagetrace/tracer"
	"stagetrace/tracer/tracetest"
)

// open opens a session for a test.
func open(t *testing.T, cfg tracer.Config) tracer.Session {
	t.Helper()
	tracetest.RequireBPF(t)
	cfg.TracerPID = os.Getpid()
	s, err := (&Backend{}).Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// recordWork records what work does, as operation 1 of a thread of its own, and
// checks that the trace is sound and complete.
func recordWork(t *testing.T, s tracer.Session, work func()) *tracer.Trace {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Mark(tracer.Mark{Kind: tracer.KindOpBegin, Time: s.Now(), TID: unix.Gettid(), Op: 1, Target: "test"})
	work()
	s.Mark(tracer.Mark{Kind: tracer.KindOpEnd, Time: s.Now(), TID: unix.Gettid(), Op: 1, Target: "test"})
	tr, err := s.Stop(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range tr.Validate() {
		t.Error(err)
	}
	if n := tr.Lost(); n > 0 {
		t.Errorf("%d events lost", n)
	}
	return tr
}

func everything() tracer.Config {
	cfg := tracer.Config{SleepStack: 20 * time.Microsecond, SamplePeriod: time.Millisecond}
	for _, c := range []tracer.Class{tracer.ClassIO, tracer.ClassLock, tracer.ClassSocket, tracer.ClassTimer, tracer.ClassWork} {
		cfg.Probes = append(cfg.Probes, tracer.Probe{Class: c})
	}
	for _, p := range programs {
		if p.tracepoint != "" {
			cfg.Probes = append(cfg.Probes, tracer.Probe{Class: tracer.ClassTracepoint, Symbol: p.tracepoint})
		}
	}
	cfg.Probes = append(cfg.Probes, tracer.Probe{Class: tracer.ClassSyscall, Symbol: everyCall})
	return cfg
}

func run(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
}

// running finds the one process that was started as a program: its file may
// have another name (sh is dash here and busybox there).
func running(t *testing.T, tr *tracer.Trace, base string) (tracer.TaskID, tracer.Image) {
	t.Helper()
	for id := range tr.Tasks {
		for _, im := range tr.Tasks[id].Images {
			if len(im.Argv) > 0 && filepath.Base(im.Argv[0]) == base && im.Time > 0 {
				return tracer.TaskID(id), im
			}
		}
	}
	t.Fatalf("no process ran %s", base)
	return 0, tracer.Image{}
}

func stackHas(tr *tracer.Trace, id tracer.StackID, funcs ...string) bool {
	for _, f := range tr.Stacks[id].Frames {
		if slices.Contains(funcs, tr.String(tr.Frames[f].Func)) {
			return true
		}
	}
	return false
}

// events selects.
func events(tr *tracer.Trace, is func(e *tracer.Event) bool) (out []*tracer.Event) {
	for i := range tr.Events {
		if is(&tr.Events[i]) {
			out = append(out, &tr.Events[i])
		}
	}
	return out
}

func TestSleep(t *testing.T) {
	tr := recordWork(t, open(t, everything()), func() { run(t, "sleep", "0.03") })
	id, im := running(t, tr, "sleep")
	if want := []string{"sleep", "0.03"}; !slices.Equal(im.Argv, want) || im.Cut {
		t.Errorf("argv %q, want %q", im.Argv, want)
	}
	task := tr.Tasks[id]
	if task.TID != task.PID || task.Leader != id || task.Born == 0 || task.Parent <= 0 || tr.Tasks[task.Parent].PID != int32(os.Getpid()) {
		t.Errorf("task %+v: want a process that this one forked", task)
	}
	call := func(e *tracer.Event) bool { return strings.HasSuffix(tr.String(e.Name), "nanosleep") }
	slept := events(tr, func(e *tracer.Event) bool {
		return e.Kind == tracer.KindSwitch && e.Task == id && e.State == tracer.StateBlocked && call(e)
	})
	if len(slept) != 1 {
		t.Fatalf("sleep slept %d times in nanosleep, want 1", len(slept))
	}
	wakes := events(tr, func(e *tracer.Event) bool { return e.Kind == tracer.KindWake && e.Peer == id && e.Time > slept[0].Time })
	if len(wakes) == 0 {
		t.Fatal("nobody woke it")
	}
	if w := wakes[0]; w.Ctx != tracer.CtxHardirq || tr.String(w.Name) != "hrtimer:hrtimer_wakeup" || w.Flow == 0 {
		t.Errorf("woken by %s, want an hrtimer in interrupt context", tr.EventText(w))
	}
	back := events(tr, func(e *tracer.Event) bool {
		return e.Kind == tracer.KindSwitch && e.Peer == id && e.Time > slept[0].Time
	})
	if len(back) == 0 || !stackHas(tr, back[0].Stack, "do_nanosleep", "hrtimer_nanosleep") {
		t.Error("the sleep has no stack through hrtimer_nanosleep")
	}
	spans := events(tr, func(e *tracer.Event) bool { return e.Class == tracer.ClassSyscall && e.Task == id && call(e) })
	if len(spans) != 2 || spans[0].Kind != tracer.KindBegin || spans[1].Kind != tracer.KindEnd || spans[1].Time-spans[0].Time < 30e6 {
		t.Errorf("%d begins and ends of the sleep, want one of each, 30 ms apart", len(spans))
	}
	if len(events(tr, func(e *tracer.Event) bool {
		return e.Kind == tracer.KindExit && e.Task == id && e.Flags == tracer.FlagGroup
	})) != 1 {
		t.Error("its exit is not there")
	}
}

func TestSwitchesAreContinuous(t *testing.T) {
	tr := recordWork(t, open(t, tracer.Config{}), func() {
		for range 20 {
			run(t, "true")
		}
	})
	last := map[int16]tracer.TaskID{}
	for i := range tr.Events {
		e := &tr.Events[i]
		if e.Kind != tracer.KindSwitch {
			continue
		}
		if prev, ok := last[e.CPU]; ok && prev != e.Task {
			t.Errorf("%s: the cpu was running task %d", tr.EventText(e), prev)
		}
		last[e.CPU] = e.Peer
	}
	if n := len(events(tr, func(e *tracer.Event) bool { return e.Kind == tracer.KindExec })); n < 20 {
		t.Errorf("%d execs, want 20", n)
	}
}

func TestSyscallArguments(t *testing.T) {
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	cfg := tracer.Config{}
	for _, c := range []string{"mkdirat", "openat", "write", "execve", "unshare", "fsync"} {
		cfg.Probes = append(cfg.Probes, tracer.Probe{Class: tracer.ClassSyscall, Symbol: c})
	}
	tr := recordWork(t, open(t, cfg), func() {
		cmd := exec.Command("sh", "-c", "mkdir made && echo x > made/file && exec unshare -n true")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := os.Mkdir(made+"2", 0o700); err != nil {
			t.Fatal(err)
		}
	})
	for _, want := range []struct{ call, key, value string }{
		{"mkdirat", "path", made + "2"},
		{"openat", "path", made + "/file"},
		{"write", "path", made + "/file"},
		{"unshare", "flags", "CLONE_NEWNET"},
	} {
		if len(events(tr, func(e *tracer.Event) bool {
			return e.Kind == tracer.KindEnd && tr.String(e.Name) == want.call && tr.Arg(e.Args, want.key) == want.value && e.Value >= 0
		})) == 0 {
			t.Errorf("no %s with %s %q", want.call, want.key, want.value)
		}
	}
	id, _ := running(t, tr, "unshare")
	if len(events(tr, func(e *tracer.Event) bool {
		return e.Kind == tracer.KindPoint && e.Class == tracer.ClassNetns && e.Task == id && tr.String(e.Name) == "create" && e.Flow != 0
	})) != 1 {
		t.Error("the creation of the network namespace is not there")
	}
}

// Every tracepoint's program is attached, samples have stacks, and a session
// records again and again.
func TestRestart(t *testing.T) {
	s := open(t, everything())
	for range 3 {
		tr := recordWork(t, s, func() { run(t, "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done") })
		if len(tr.Meta.Probes) < 30 {
			t.Errorf("attached: %q", tr.Meta.Probes)
		}
		id, _ := running(t, tr, "sh")
		samples := events(tr, func(e *tracer.Event) bool { return e.Kind == tracer.KindSample && e.Task == id && e.Stack != 0 })
		if len(samples) == 0 {
			t.Error("a busy loop has no samples")
		}
		if n := len(events(tr, func(e *tracer.Event) bool { return e.Kind == tracer.KindOpBegin || e.Kind == tracer.KindOpEnd })); n != 2 {
			t.Errorf("%d marks, want 2", n)
		}
	}
}

// Two tools at once do not disturb each other.
func TestTwoSessions(t *testing.T) {
	a, b := open(t, tracer.Config{}), open(t, tracer.Config{})
	tr := recordWork(t, a, func() {
		inner := recordWork(t, b, func() { run(t, "true") })
		running(t, inner, "true")
	})
	running(t, tr, "true")
}
