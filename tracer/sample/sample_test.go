package sample

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"stagetrace/tracer"
)

const childEnv = "STAGETRACE_SAMPLE_CHILD"

// TestMain is also the child that is sampled: it works until its input ends.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		go func() {
			var b [1]byte
			_, _ = os.Stdin.Read(b[:])
			os.Exit(0)
		}()
		for n := 0; ; n++ { // busy: what is sampled is CPU time
			runtime.KeepAlive(n)
		}
	}
	os.Exit(m.Run())
}

func open(t *testing.T) tracer.Session {
	t.Helper()
	s, err := (&Backend{}).Open(t.Context(), tracer.Config{})
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

// trace is what Stop gives, once it is sound.
func trace(t *testing.T, s tracer.Session) *tracer.Trace {
	t.Helper()
	tr, err := s.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Validate(tr); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestOperation(t *testing.T) {
	s := open(t)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	begin := s.Now()
	s.Mark(tracer.Mark{Kind: tracer.KindOpBegin, Time: begin, TID: os.Getpid(), Op: 1, Target: "child"})
	cmd := exec.Command(exe, "an argument")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitForCPU(t, s.(*session), int32(cmd.Process.Pid))
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	end := s.Now()
	s.Mark(tracer.Mark{Kind: tracer.KindOpEnd, Time: end, TID: os.Getpid(), Op: 1, Target: "child", Value: 3})
	tr := trace(t, s)

	i := slices.IndexFunc(tr.Tasks, func(k tracer.Task) bool { return k.PID == int32(cmd.Process.Pid) })
	if i < 0 {
		t.Fatal("the child was not seen")
	}
	child := tr.Tasks[i]
	if len(child.Images) == 0 || child.Images[len(child.Images)-1].Exe != exe ||
		!slices.Contains(child.Images[len(child.Images)-1].Argv, "an argument") {
		t.Errorf("images of the child: %+v", child.Images)
	}
	var kinds []tracer.Kind
	for _, e := range tr.Events {
		switch {
		case e.Kind == tracer.KindOpBegin && (e.Time != begin || e.Flow != 1), e.Kind == tracer.KindOpEnd && (e.Time != end || e.Value != 3):
			t.Errorf("mark %+v", e)
		case e.Task == tracer.TaskID(i), e.Kind == tracer.KindFork && e.Peer == tracer.TaskID(i):
			kinds = append(kinds, e.Kind)
		}
	}
	for _, k := range []tracer.Kind{tracer.KindFork, tracer.KindSample, tracer.KindExit} {
		if !slices.Contains(kinds, k) {
			t.Errorf("no %s of the child: %v", k, kinds)
		}
	}
	if tr.Meta.Backend != "sample" || tr.Meta.SleepStack >= 0 || len(tr.Meta.Notes) == 0 {
		t.Errorf("meta %+v", tr.Meta)
	}
}

// waitForCPU waits until CPU time of a process has been seen.
func waitForCPU(t *testing.T, s *session, pid int32) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		s.mu.Lock()
		p := s.scan.procs[pid]
		ok := p != nil && p.cpu > 0 && now() > p.seen
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no CPU time of the child")
		case <-tick.C:
		}
	}
}

func TestSessionStates(t *testing.T) {
	s := open(t)
	s.Mark(tracer.Mark{Kind: tracer.KindOpBegin, Op: 1})
	if _, err := s.Stop(t.Context()); err == nil {
		t.Error("Stop before Start")
	}
	for range 2 {
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err == nil {
			t.Error("Start twice")
		}
		if tr := trace(t, s); len(tr.Tasks) < 2 || tr.Meta.End < tr.Meta.Begin {
			t.Errorf("%d tasks", len(tr.Tasks))
		}
	}
	if err := s.Follow(1, 1<<30); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Error("Start after Close")
	}
}

// A thread that is no process of its own belongs to us.
func TestMarkOfThread(t *testing.T) {
	s := open(t)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	at := s.Now()
	const tid = 1 << 29
	s.Mark(tracer.Mark{Kind: tracer.KindOpBegin, Time: at, TID: tid, Op: 7, Target: "x"})
	s.Mark(tracer.Mark{Kind: tracer.KindOpEnd, Time: at + 1, TID: tid, Op: 7, Target: "x", Flags: tracer.FlagFailed})
	tr := trace(t, s)
	for _, e := range tr.Events {
		if e.Flow == 7 && (tr.Tasks[e.Task].TID != tid || tr.Tasks[e.Task].PID != int32(os.Getpid())) {
			t.Errorf("mark in task %+v", tr.Tasks[e.Task])
		}
	}
}

func TestCheck(t *testing.T) {
	missing := map[string]bool{}
	for _, f := range (&Backend{}).Check(t.Context()) {
		if f.Cost == "" {
			t.Errorf("%s: no cost", f.Name)
		}
		if f.Err != nil {
			missing[f.Name] = true
			if !errors.Is(f.Err, tracer.ErrUnsupported) {
				t.Errorf("%s: %v", f.Name, f.Err)
			}
		}
	}
	if !missing["stages"] || missing["end-to-end times"] {
		t.Errorf("missing: %v", missing)
	}
}
