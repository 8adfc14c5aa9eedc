package workloads

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// startLanguage carries an operation of a target of runtime-start out.
func startLanguage(t *testing.T, name string, p Params) (*runtimeInstance, Outcome) {
	t.Helper()
	w, _ := Lookup("runtime-start")
	target, ok := w.LookupTarget(name)
	if !ok {
		t.Fatalf("no target %s", name)
	}
	instance, err := target.New(p)
	if err != nil {
		t.Fatal(err)
	}
	r := instance.(*runtimeInstance)
	t.Cleanup(func() {
		folder := r.folder
		for range 2 {
			if err := r.Cleanup(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(folder); folder != "" && err == nil {
			t.Errorf("%s is left", folder)
		}
	})
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	out, err := r.Do(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Conclude(t.Context(), 1, out); err != nil {
		t.Fatal(err)
	}
	return r, out
}

// TestLanguages starts every runtime that is here, with both programs.
func TestLanguages(t *testing.T) {
	found := 0
	for _, l := range languages() {
		if f := l.find(t.Context()); !f.OK {
			t.Logf("%s: %s", l.name, f.Why)
			continue
		}
		found++
		for _, script := range []string{"hello", "exit0"} {
			t.Run(l.name+"/"+script, func(t *testing.T) {
				_, out := startLanguage(t, l.name, Params{"script": script, "via": "direct"})
				if out.ExitCode != 0 || out.Units != 1 {
					t.Errorf("%+v", out)
				}
				values := map[string]float64{}
				for _, m := range out.Metrics {
					values[m.Name] = m.Value
				}
				if values["user CPU"]+values["system CPU"] <= 0 {
					t.Errorf("metrics are %+v", out.Metrics)
				}
			})
		}
	}
	if found == 0 {
		t.Error("not even Go is here")
	}
}

// TestShimIsResolved: what PATH has may be a script that finds the runtime.
func TestShimIsResolved(t *testing.T) {
	real, err := exec.LookPath("python3")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("needs python3 and sh")
	}
	dir := t.TempDir()
	shim := filepath.Join(dir, "python3")
	if err := os.WriteFile(shim, []byte("#!/bin/sh\nexec '"+real+"' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	w, _ := Lookup("runtime-start")
	target, _ := w.LookupTarget("python")
	f := target.Find(t.Context())
	if !f.OK || f.Where != shim || f.Note == "" {
		t.Errorf("found %+v", f)
	}
	for via, is := range map[string]bool{"path": true, "direct": false} {
		if r, _ := startLanguage(t, "python", Params{"script": "hello", "via": via}); (r.argv[0] == shim) != is {
			t.Errorf("via=%s starts %s", via, r.argv[0])
		}
	}
}

// TestLanguageSaysSomethingElse: a runtime that does not do what it is told to
// is an error.
func TestLanguageSaysSomethingElse(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	r := &runtimeInstance{language: language{name: "sh", program: program{names: []string{sh}}, file: "main.sh", hello: "echo goodbye\n"}, script: "hello", via: "path"}
	defer r.Cleanup(t.Context())
	if err := r.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Prepare(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	out, err := r.Do(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Conclude(t.Context(), 1, out); err == nil {
		t.Error("no error")
	}
}
