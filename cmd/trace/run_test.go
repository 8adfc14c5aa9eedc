package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCases(t *testing.T) {
	list, err := parseParams([]string{"network=none,bridge", "path=api", "path=cli", "fsync=off"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cases(list) {
		if c.given["fsync"] != "off" {
			t.Errorf("%s: fsync is %q", c.name, c.given["fsync"])
		}
		if want := "/" + c.given["network"] + "/" + c.given["path"]; c.name != want {
			t.Errorf("case %q has the values of %q", c.name, want)
		}
		names = append(names, c.name)
	}
	want := []string{"/none/api", "/none/cli", "/bridge/api", "/bridge/cli"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if got := cases(nil); len(got) != 1 || got[0].name != "" {
		t.Errorf("no parameters make %v", got)
	}
	for _, bad := range []string{"network", "=x", "network=", "network=a,,b"} {
		if _, err := parseParams([]string{bad}); exitCode(err) != exitUsage {
			t.Errorf("-p %s: %v", bad, err)
		}
	}
}

func TestSafeName(t *testing.T) {
	for in, want := range map[string]string{"container-start": "container-start", "../../etc": "etc", "": "run", "..": "run", "a b\n\x1b[m": "a-b---m",
		strings.Repeat("x", 100): strings.Repeat("x", 40)} {
		if got := safeName(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(f *folder) {
		t.Helper()
		if err := os.WriteFile(f.file(resultFile), []byte("{}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(dir, "out")
	f, err := createFolder(out, false)
	if err != nil {
		t.Fatal(err)
	}
	write(f)
	if _, err := os.Stat(out); err == nil {
		t.Error("the name is there before the result is complete")
	}
	if err := errors.Join(f.commit(), f.discard()); err != nil {
		t.Fatal(err)
	}
	if _, err := createFolder(out, false); err == nil {
		t.Error("a result is replaced unasked")
	}
	again, err := createFolder(out+"/", true)
	if err != nil {
		t.Fatal(err)
	}
	write(again)
	if err := again.commit(); err != nil {
		t.Error(err)
	}
	given, err := createFolder(filepath.Join(dir, "given-up"), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := given.discard(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v (%v)", entries, err)
	}
	for _, path := range []string{"", filepath.Join(dir, "no", "such"), filepath.Join(out, resultFile)} {
		if _, err := createFolder(path, true); err == nil {
			t.Errorf("result folder %q is taken", path)
		}
	}
}

// TestFolderTaken is a name that somebody takes while the run goes on: what
// was measured stays where it is, and the error says where.
func TestFolderTaken(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	f, err := createFolder(out, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(out, "theirs"), 0o755); err != nil {
		t.Fatal(err)
	}
	temp := f.temp
	err = f.keep(f.commit())
	if err == nil || !strings.Contains(err.Error(), temp) {
		t.Errorf("error does not say where the recording is: %v", err)
	}
	if err := f.discard(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(temp); err != nil {
		t.Error(err)
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\nb\x1b[31m\r", true); strings.ContainsAny(got, "\x1b\r") || !strings.Contains(got, "a\nb") {
		t.Errorf("%q", got)
	}
	if got := printable("a\nb", false); strings.Contains(got, "\n") {
		t.Errorf("%q", got)
	}
}
