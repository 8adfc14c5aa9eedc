package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"stagetrace/tracer"
)

// Every file of testdata/errors holds one mistake; what is said about it is
// read as text.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.stages.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	var b strings.Builder
	for _, path := range files {
		_, err := Load([]string{"linux"}, []string{path})
		if err == nil {
			t.Errorf("%s: no error", path)
			continue
		}
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: not an *Error: %v", path, err)
		}
		fmt.Fprintf(&b, "%s\n\n", strings.ReplaceAll(err.Error(), filepath.Dir(path)+string(filepath.Separator), ""))
	}
	golden(t, "errors.golden", b.String())
}

func TestTooManyWindows(t *testing.T) {
	var b strings.Builder
	b.WriteString("set: many\nstages:\n")
	for i := range maxWindows + 1 {
		fmt.Fprintf(&b, "  - stage: a.b%d\n    title: T\n    when: [{func: f%d, from: exec, until: {syscall: connect, path: /s%d}}]\n", i, i, i)
	}
	f, err := Parse("many.stages.yaml", []byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compose(nil, []*File{f})
	if err == nil || !strings.Contains(err.Error(), "many.stages.yaml:197:24: more than 64 different from/until windows") {
		t.Errorf("65 windows: %v", err)
	}
	// The same window twice is one.
	text := strings.ReplaceAll(b.String(), "/s64", "/s63")
	if f, err = Parse("many.stages.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, err = Compose(nil, []*File{f}); err != nil {
		t.Errorf("64 different windows: %v", err)
	}
}

func TestLoadErrors(t *testing.T) {
	for _, c := range []struct {
		names, files []string
		want         string
	}{
		{[]string{"linus"}, nil, `stage set "linus" not found; did you mean "linux"?`},
		{nil, nil, "no stage set given"},
		{nil, []string{"testdata/nothing"}, "stage file: open testdata/nothing"},
	} {
		if _, err := Load(c.names, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Load(%v, %v): %v, want %s", c.names, c.files, err, c.want)
		}
	}
}

// A user's file comes before the sets that are asked for, a set before those
// it uses, and every fallback after all of them.
func TestPrecedence(t *testing.T) {
	f, err := Parse("mine.stages.yaml", []byte(`
set: mine
use: linux
stages:
  - stage: my.commit
    title: Commit of my database
    when:
      - exe: "**/mydb"
        instead-of: io.fsync
  - stage: ns.net
    when:
      - func: my_driver
fallback:
  - stage: my.rest
    title: The rest
    when:
      - exe: "**/mydb"
        state: [running, runnable]
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compose([]string{"container"}, []*File{f})
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "mine+container" || s.Stages[0].Name != "my.commit" {
		t.Errorf("set %s begins with %s", s.Name, s.Stages[0].Name)
	}
	if st := s.Stages[s.StageNamed("ns.net")]; st.File != "mine.stages.yaml" || st.Title != "Create a network namespace" {
		t.Errorf("a stage that is defined again: %+v", st)
	}
	w := newWorld()
	db, other := w.process("mydb", "", "/opt/mydb mydb"), w.process("dockerd", "", "/usr/sbin/dockerd dockerd")
	fsync, driver := w.kernelStack("do_fsync"), w.kernelStack("my_driver", "copy_mnt_ns")
	m := s.Bind(w.Trace())
	for _, c := range []struct {
		task  tracer.TaskID
		stack tracer.StackID
		want  string
	}{
		{db, fsync, "my.commit"}, {other, fsync, "state.persist"}, {other, driver, "ns.net"}, {db, 0, "my.rest"}, {other, 0, "daemon.compute"},
	} {
		sit := Situation{Actor: m.Actor(c.task, 1), Stack: c.stack, State: tracer.StateRunning, Wait: NoWait, Phase: PhaseRunning}
		if got := s.text(m.Stage(&sit)); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The hash tells different rules apart, and nothing else.
func TestHash(t *testing.T) {
	load := func(text string) *Set {
		f, err := Parse("x.stages.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compose(nil, []*File{f})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	text := "set: x\nstages:\n  - stage: a.b\n    title: T\n    when: [{func: f}]\n"
	a, b, c := load(text), load(strings.ReplaceAll(text, "\n", "\r\n")), load(strings.ReplaceAll(text, "func: f", "func: g"))
	if a.Hash != b.Hash || a.Hash == c.Hash || len(a.Hash) != 16 {
		t.Errorf("hashes %s %s %s", a.Hash, b.Hash, c.Hash)
	}
}

// What has to be recorded follows from the terms.
func TestProbePlan(t *testing.T) {
	f, err := Parse("x.stages.yaml", []byte(`
set: x
stages:
  - stage: a.plain
    title: T
    when: [{syscall: openat}, {func: copy_net_ns}, {user: main.main}]
  - stage: a.exact
    title: T
    when:
      - {syscall: [mkdir, mkdirat], path: "/sys/fs/cgroup/**"}
      - {syscall: "rename*", exact: true}
      - {func: vfs_statx, exact: true}
      - {user: [parse, "emit*"], object: /bin/srv, exact: true}
      - {tracepoint: cgroup_mkdir}
      - {work: my_work}
      - {from: {syscall: accept4}, until: {user: handle, object: /bin/srv}}
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compose(nil, []*File{f})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range s.Probes() {
		got = append(got, strings.TrimSpace(p.Class.String()+" "+p.Target+" "+p.Symbol))
	}
	want := []string{"syscall  accept4", "syscall  mkdir", "syscall  mkdirat", "syscall  rename", "syscall  renameat", "syscall  renameat2",
		"func  vfs_statx", "user /bin/srv emit*", "user /bin/srv handle", "user /bin/srv parse", "work", "tracepoint  cgroup_mkdir"}
	if !slices.Equal(got, want) {
		t.Errorf("probes %q, want %q", got, want)
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		path, want    bool
	}{
		{"runc", "runc", false, true}, {"runc", "runcx", false, false},
		{"a*c", "abbc", false, true}, {"a*c", "abb", false, false}, {"*", "", false, true}, {"?", "", false, false},
		{"kworker*", "kworker/u8:1", false, true}, {"a?c", "abc", false, true},
		{"**/runc", "/usr/sbin/runc", true, true}, {"**/runc", "runc", true, true}, {"**/runc", "/usr/sbin/xrunc", true, false},
		{"/a/*", "/a/b", true, true}, {"/a/*", "/a/b/c", true, false}, {"/a/**", "/a/b/c", true, true},
		{"/a/*/c", "/a/b/c", true, true}, {"/a/**/d", "/a/b/c/d", true, true}, {"**b*d", "a/b/bxd", true, true},
		{"**a*b", "a/b/a/xb", true, false}, {"?", "/", true, false},
	} {
		g, err := compileGlob(c.pattern, c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.match(c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.text, got)
		}
	}
	for _, bad := range []string{"", "a***b", "[a-z]", "{a,b}", `a\b`} {
		if _, err := compileGlob(bad, true); err == nil {
			t.Errorf("pattern %q is taken", bad)
		}
	}
	if _, err := compileGlob("a**", false); err == nil {
		t.Error("** is taken in a name")
	}
}

// A pattern matches what it is made of, and ends in bounded time.
func TestGlobQuick(t *testing.T) {
	letters := "ab*/?"
	make := func(seed uint64, n int, plain bool) string {
		var b strings.Builder
		for range n {
			seed = seed*6364136223846793005 + 1442695040888963407
			c := letters[seed>>33%uint64(len(letters))]
			if plain && c != '/' {
				c = 'a' + byte(seed>>40%2)
			}
			b.WriteByte(c)
		}
		return strings.ReplaceAll(b.String(), "***", "*a*")
	}
	err := quick.Check(func(a, b uint64) bool {
		g, err := compileGlob(make(a, 40, false), true)
		if err != nil {
			return true
		}
		g.match(make(b, 400, true))
		return g.match(strings.NewReplacer("**", "", "*", "", "?", "x").Replace(g.text))
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func TestFuncName(t *testing.T) {
	for in, want := range map[string]string{
		"do_setlink.isra.0+0x12": "do_setlink", "__mutex_lock.constprop.0": "__mutex_lock", "f.part.3.cold": "f", "f.llvm.123": "f",
		"__x64_sys_umount": "sys_umount", "__arm64_sys_umount": "sys_umount", "__do_sys_fsconfig": "sys_fsconfig", "vfs_read": "vfs_read", "": "",
	} {
		if got := FuncName(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Builtin() {
		data, err := builtin.ReadFile(name + ".stages.yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	files, _ := filepath.Glob("testdata/errors/*.stages.yaml")
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("set: x\nstages: [{stage: a.b, title: T, when: [{from: {last: {woken-by: x}}, until: exit, func: f, under: g}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("f", data)
		if err != nil {
			_ = err.Error()
			return
		}
		file.use = nil
		if s, err := Compose(nil, []*File{file}); err == nil {
			m := s.Bind(newWorld().Trace())
			m.Stage(&Situation{State: tracer.StateRunning, Wait: NoWait})
			m.Wait(0, 0, 0, 0)
		}
	})
}
