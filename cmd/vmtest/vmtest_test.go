//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
)

const session = `::vmtest ready
::vmtest begin one
=== RUN   TestA
--- PASS: TestA (0.00s)
    --- PASS: TestA/sub (0.00s)
--- SKIP: TestB (0.00s)
PASS
::vmtest end one 0
::vmtest begin two
--- FAIL: TestC (0.00s)
::vmtest end two 1
::vmtest begin three
`

func readSession(t *testing.T, text string) *results {
	t.Helper()
	r := &results{out: io.Discard, jobs: map[string]outcome{}, ready: func() {}}
	r.read(strings.NewReader(strings.ReplaceAll(text, "\n", "\r\n")))
	return r
}

func TestVerdict(t *testing.T) {
	r := readSession(t, session)
	if !r.up || r.done {
		t.Errorf("up %v, done %v", r.up, r.done)
	}
	jobs := []job{{Name: "one", Package: "a"}, {Name: "two", Package: "b"}, {Name: "three", Package: "c"}, {Name: "four"}}
	err := verdict(jobs, r.jobs)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"one: skipped TestB", "two: exit code 1", "three never ended", "four never began"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	good := readSession(t, "::vmtest ready\n::vmtest begin one\n--- PASS: TestA (0.00s)\n::vmtest end one 0\n::vmtest done\nlate\n")
	if err := verdict(jobs[:1], good.jobs); err != nil || !good.done {
		t.Errorf("done %v: %v", good.done, err)
	}
	none := readSession(t, "::vmtest ready\n::vmtest begin one\n::vmtest end one 0\n::vmtest done\n")
	if err := verdict(jobs[:1], none.jobs); err == nil || !strings.Contains(err.Error(), "no test ran") {
		t.Errorf("a job without a test: %v", err)
	}
}

func FuzzResults(f *testing.F) {
	f.Add(session)
	f.Add("::vmtest end x y\n::vmtest begin\n::vmtest end a 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := readSession(t, text)
		_ = verdict(jobs, r.jobs)
	})
}

func TestPick(t *testing.T) {
	all, err := pick(nil)
	if err != nil || len(all) != len(jobs) {
		t.Errorf("%d jobs, %v", len(all), err)
	}
	if _, err := pick([]string{"bpf", "nosuch"}); err == nil || !strings.Contains(err.Error(), "doctor") {
		t.Errorf("an unknown job: %v", err)
	}
}

func TestCompareVersions(t *testing.T) {
	names := []string{"linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-57-cloud-amd64", "linux-image-6.1.0-10-cloud-amd64"}
	if got := slices.MaxFunc(names, compareVersions); got != names[1] {
		t.Errorf("newest is %s", got)
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "sub", "f"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	a := &archive{w: cpio.NewWriter(z), made: map[string]bool{}}
	if err := a.tree(filepath.Join(dir, "data"), "src/x/testdata"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a.err, a.w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	r := cpio.NewReader(zr)
	var got []string
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
	}
	want := []string{"src", "src/x", "src/x/testdata", "src/x/testdata/sub", "src/x/testdata/sub/f"}
	if !slices.Equal(got, want) {
		t.Errorf("entries %q, want %q", got, want)
	}
}

// TestDependencies wants what a module says, not what it is called: any ELF
// file without .modinfo is none.
func TestDependencies(t *testing.T) {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dependencies(b); err == nil || !strings.Contains(err.Error(), ".modinfo") {
		t.Errorf("a program taken for a module: %v", err)
	}
	if _, err := dependencies([]byte("no ELF")); err == nil {
		t.Error("no error")
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, b []byte) { _, _ = dependencies(b) })
}
