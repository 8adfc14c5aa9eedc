package workloads

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// doOnce carries one operation of a command out.
func doOnce(t *testing.T, argv []string, opts CommandOptions) ([]Result, error) {
	t.Helper()
	return Run(t.Context(), []Running{{Target: CommandName, Instance: Command(argv, opts)}}, Plan{Untraced: 1}, nil, nil)
}

func requireShell(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
}

func TestCommandExitCodes(t *testing.T) {
	requireShell(t)
	for _, c := range []struct {
		line string
		want int
	}{{"exit 0", 0}, {"exit 3", 3}, {"kill -9 $$", 137}, {"kill -15 $$", 143}} {
		results, err := doOnce(t, []string{"sh", "-c", c.line}, CommandOptions{})
		if err != nil || len(results) != 1 {
			t.Fatalf("%s: %d results, %v", c.line, len(results), err)
		}
		r := results[0]
		if r.ExitCode != c.want || (r.Err != nil) != (c.want != 0) || r.Units != 1 || r.End <= r.Begin {
			t.Errorf("%s: %+v, want exit code %d", c.line, r, c.want)
		}
	}
}

func TestCommandMissing(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"no-such-program-anywhere", filepath.Join(dir, "nothing"), plain} {
		results, err := doOnce(t, []string{name}, CommandOptions{})
		if err == nil || !strings.Contains(err.Error(), name) || len(results) != 0 {
			t.Errorf("%s: %d results, %v; want an error that names it", name, len(results), err)
		}
	}
	if _, err := doOnce(t, nil, CommandOptions{}); err == nil {
		t.Error("no command: no error")
	}
}

// TestCommandVanishes: the program is there at set-up and gone when it is run.
func TestCommandVanishes(t *testing.T) {
	requireShell(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	results, err := doOnce(t, []string{program}, CommandOptions{Prepare: "rm " + program})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), program) {
		t.Errorf("%d results, %v; want an error that names the program", len(results), err)
	}
}

func TestCommandRelativeToDir(t *testing.T) {
	requireShell(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte("#!/bin/sh\nexec test -f here\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	results, err := doOnce(t, []string{"./here"}, CommandOptions{Dir: dir})
	if err != nil || len(results) != 1 || results[0].Err != nil {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestCommandOutput(t *testing.T) {
	requireShell(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := doOnce(t, []string{"sh", "-c", `echo "$WORD"; echo err >&2`}, CommandOptions{Stdout: f, Env: []string{"WORD=hello", "PATH=" + os.Getenv("PATH")}}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil || string(b) != "hello\n" {
		t.Errorf("output %q, %v", b, err)
	}
}

func TestCommandLeftovers(t *testing.T) {
	requireShell(t)
	if groupMembers(os.Getpid()) != nil && groupEmpty(os.Getpid()) {
		t.Fatal("an empty group has members")
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	// The daemon holds the command's output open for longer than any test.
	results, err := doOnce(t, []string{"sh", "-c", "sleep 1000 & echo $! > " + pidFile}, CommandOptions{Stdout: out})
	b, readErr := os.ReadFile(pidFile)
	if err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Kill(); err != nil {
			t.Errorf("the daemon was not left alone: %v", err)
		}
	}()
	if len(results) != 1 || len(results[0].Leftovers) != 1 || !strings.HasPrefix(results[0].Leftovers[0], strconv.Itoa(pid)+" ") {
		t.Errorf("leftovers of %+v, want process %d", results, pid)
	}
}

// TestCommandCancelled: a command that ignores SIGTERM's politeness for its
// child still takes the child with it.
func TestCommandCancelled(t *testing.T) {
	requireShell(t)
	dir := t.TempDir()
	fifo := filepath.Join(dir, "ready")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	if err := makeFIFO(fifo); err != nil {
		t.Skip(err)
	}
	childPID := make(chan int, 1)
	go func() {
		b, err := os.ReadFile(fifo) // returns when the command has said it all
		if err == nil {
			pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
			childPID <- pid
		}
		close(childPID)
		cancel(stopped)
	}()
	argv := []string{"sh", "-c", "sleep 1000 & echo $! > " + fifo + "; wait"}
	results, err := Run(ctx, []Running{{Target: CommandName, Instance: Command(argv, CommandOptions{})}}, Plan{Untraced: 1}, nil, nil)
	if err != stopped || len(results) != 0 {
		t.Errorf("%d results, %v; want none and the cause", len(results), err)
	}
	if pid := <-childPID; pid == 0 || !gone(pid) {
		t.Errorf("the command's child %d lives on", pid)
	}
}

func TestCommandHooks(t *testing.T) {
	requireShell(t)
	log := filepath.Join(t.TempDir(), "log")
	say := func(word string) string { return "echo " + word + "${TRACE_OPERATION:+ $TRACE_OPERATION} >> " + log }
	opts := CommandOptions{Setup: say("setup"), Prepare: say("prepare"), Conclude: say("conclude"), Cleanup: say("cleanup")}
	inst := Command([]string{"sh", "-c", "echo run >> " + log}, opts)
	if _, err := Run(t.Context(), []Running{{Target: CommandName, Instance: inst}}, Plan{Untraced: 2}, nil, nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(log)
	want := "setup\nprepare 1\nrun\nconclude 1\nprepare 2\nrun\nconclude 2\ncleanup\n"
	if err != nil || string(b) != want {
		t.Errorf("hooks ran as\n%s\nwant\n%s", b, want)
	}
}

func TestCommandHookFails(t *testing.T) {
	requireShell(t)
	lines := "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo line $i; done; exit 4"
	for _, c := range []struct {
		name string
		opts CommandOptions
		want string
	}{
		{"setup", CommandOptions{Setup: lines}, "setup command"},
		{"prepare", CommandOptions{Prepare: lines}, "prepare command of operation 1"},
		{"conclude", CommandOptions{Conclude: lines}, "conclude command of operation 1"},
		{"cleanup", CommandOptions{Cleanup: lines}, "cleanup command"},
	} {
		_, err := doOnce(t, []string{"sh", "-c", ":"}, c.opts)
		var exit *ExitError
		if !errors.As(err, &exit) || exit.Code != 4 {
			t.Errorf("%s: %v, want exit status 4", c.name, err)
			continue
		}
		for _, part := range []string{c.want, "line 21\n", "line 30"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error lacks %q: %v", c.name, part, err)
			}
		}
		if strings.Contains(err.Error(), "line 20\n") {
			t.Errorf("%s: error shows more than the last lines: %v", c.name, err)
		}
	}
}

// TestHookLeavesDaemon: a hook that starts a daemon ends when its shell does.
func TestHookLeavesDaemon(t *testing.T) {
	requireShell(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := runHook(t.Context(), hook{name: "setup", line: "sleep 1000 & echo $! > " + pidFile}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Errorf("the daemon did not live on: %v", err)
	}
}

func TestTable(t *testing.T) {
	names := map[string]bool{}
	for _, w := range Table() {
		if names[w.Name] {
			t.Errorf("two rows %s", w.Name)
		}
		names[w.Name] = true
		if w.Summary == "" || w.Unit == "" || len(w.Stages) == 0 {
			t.Errorf("%s: incomplete row", w.Name)
		}
		targets := map[string]bool{}
		for _, x := range w.Targets {
			if targets[x.Name] || x.Summary == "" || x.Find == nil || x.New == nil {
				t.Errorf("%s: target %q is incomplete or there twice", w.Name, x.Name)
			}
			targets[x.Name] = true
			if f := x.Find(t.Context()); !f.OK && f.Why == "" {
				t.Errorf("%s: target %s cannot run and does not say why", w.Name, x.Name)
			}
		}
		p, err := w.Resolve(nil)
		if err != nil {
			t.Errorf("%s: defaults: %v", w.Name, err)
		}
		for _, d := range w.Params {
			if p[d.Name] != d.Default {
				t.Errorf("%s: %s = %q, want the default", w.Name, d.Name, p[d.Name])
			}
			if _, err := w.Resolve(p); err != nil {
				t.Errorf("%s: the default of %s is not allowed: %v", w.Name, d.Name, err)
			}
		}
	}
	w, ok := Lookup("container-start")
	if !ok {
		t.Fatal("no container-start")
	}
	if _, ok := w.LookupTarget("builtin"); !ok {
		t.Error("no target builtin")
	}
	if _, err := w.Resolve(map[string]string{"network": "moon"}); err == nil || !strings.Contains(err.Error(), "moon") {
		t.Errorf("a bad value: %v", err)
	}
	if _, err := w.Resolve(map[string]string{"netwrok": "none"}); err == nil || !strings.Contains(err.Error(), "network") {
		t.Errorf("a bad name: %v", err)
	}
}

func TestHost(t *testing.T) {
	f := Host(t.Context())
	if f.CPUs < 1 || f.Machine == "" || f.Name == "" || f.OS == "" {
		t.Errorf("facts %+v", f)
	}
}

func TestMainLeavesOthersAlone(t *testing.T) {
	if handled, _ := Main([]string{"trace", "run"}); handled {
		t.Error("run was taken for the engine's")
	}
	if handled, code := Main([]string{"trace", engineCommand, "nothing", "a", "b"}); !handled || code != 2 {
		t.Errorf("unknown role: handled %v, code %d", handled, code)
	}
}
