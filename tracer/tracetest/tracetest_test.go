package tracetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"stagetrace/tracer"
)

const hello = `
task cli tid=10
0   0 switch idle -> cli
5us 0 switch cli -> idle
`

// fakeTB records how a test helper ended its test.
type fakeTB struct {
	testing.TB
	fatal, skip string
}

func (f *fakeTB) Helper() {}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	panic(f)
}

func (f *fakeTB) Skipf(format string, args ...any) {
	f.skip = fmt.Sprintf(format, args...)
	panic(f)
}

func run(f func(tb testing.TB)) (result *fakeTB) {
	result = &fakeTB{}
	defer func() {
		if p := recover(); p != nil && p != any(result) {
			panic(p)
		}
	}()
	f(result)
	return result
}

func TestRequire(t *testing.T) {
	broken := errors.New("it is broken")
	for _, c := range []struct {
		env         string
		err         error
		fatal, skip bool
	}{
		{"", nil, false, false},
		{"bpf", nil, false, false},
		{"", broken, false, true},
		{"root,docker", broken, false, true},
		{"root, bpf", broken, true, false},
	} {
		t.Setenv(RequireEnv, c.env)
		got := run(func(tb testing.TB) { Require(tb, "bpf", c.err) })
		if (got.fatal != "") != c.fatal || (got.skip != "") != c.skip {
			t.Errorf("%q, %v: fatal %q, skip %q", c.env, c.err, got.fatal, got.skip)
		}
		if reason := got.fatal + got.skip; reason != "" && !strings.Contains(reason, "it is broken") {
			t.Errorf("no reason in %q", reason)
		}
	}
}

func TestRequirements(t *testing.T) {
	for name, require := range map[string]func(testing.TB){
		"root": RequireRoot, "bpf": RequireBPF, "docker": RequireDocker, "runc": RequireRunc,
	} {
		t.Run(name, func(t *testing.T) { require(t) })
	}
}

func TestDockerHost(t *testing.T) {
	for _, host := range []string{"tcp://127.0.0.1:1", "unix://" + t.TempDir() + "/none"} {
		t.Setenv("DOCKER_HOST", host)
		if err := checkDocker(t.Context()); err == nil {
			t.Errorf("%s: no error", host)
		}
	}
}

func TestParse(t *testing.T) {
	trace := Parse(t, hello)
	if len(trace.Events) != 2 || Task(t, trace, "cli") != 1 {
		t.Error(Text(t, trace))
	}
	for _, text := range []string{"0 0 nonsense", "task a\n5 0 lost value=-1"} {
		if got := run(func(tb testing.TB) { Parse(tb, text) }); got.fatal == "" {
			t.Errorf("%q: accepted", text)
		}
	}
	for _, comm := range []string{"nobody", "twin"} {
		got := run(func(tb testing.TB) { Task(tb, Parse(t, "task a comm=twin\ntask b comm=twin"), comm) })
		if got.fatal == "" {
			t.Errorf("task %s: accepted", comm)
		}
	}
}

func TestBackend(t *testing.T) {
	ctx := context.Background()
	first, second := Parse(t, hello), Parse(t, "")
	b := &Backend{Traces: []*tracer.Trace{first, second}}
	s, err := b.Open(ctx, tracer.Config{TracerPID: 5})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stop(ctx); err == nil {
		t.Error("stopped before the start")
	}
	for i, want := range []*tracer.Trace{first, second, second} {
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(ctx); err == nil {
			t.Error("started twice")
		}
		s.Mark(tracer.Mark{Kind: tracer.KindOpBegin, Op: uint64(i + 1), Time: s.Now()})
		if got, err := s.Stop(ctx); got != want || err != nil {
			t.Errorf("recording %d: %p %v, want %p", i, got, err, want)
		}
	}
	if err := s.Follow(7, 8); err != nil {
		t.Error(err)
	}
	if b.Unclosed() != 1 {
		t.Error("not open")
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil || b.Unclosed() != 0 {
		t.Error(err, b.Unclosed())
	}
	if err := s.Start(ctx); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	marks := b.Marks()
	if len(marks) != 3 || len(marks[2]) != 1 || marks[2][0].Op != 3 {
		t.Error(marks)
	}
	if f := b.Followed(); len(f) != 2 || f[1] != 8 {
		t.Error(f)
	}
	if c := b.Configs(); len(c) != 1 || c[0].TracerPID != 5 {
		t.Error(c)
	}
}
