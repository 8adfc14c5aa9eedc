package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the program under test, built the way `make` builds it: the
// builtin engine starts it again inside of a container, where only a static
// binary runs.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "trace-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for those who run it as another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if binary = os.Getenv("TRACE_TEST_BINARY"); binary != "" { // where there is no Go
		return m.Run()
	}
	binary = filepath.Join(dir, "trace")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// TestScripts runs the command line as a shell does; testdata/script has a
// file per subject.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
			env.Setenv("SAMPLES", samples)
			env.Setenv("LC_ALL", "C.UTF-8")
			return os.Chmod(env.WorkDir, 0o755)
		},
		Condition: condition,
	})
}

// condition knows [bpf] (stages can be recorded here) and [root].
func condition(name string) (bool, error) {
	switch name {
	case "root":
		return os.Geteuid() == 0, nil
	case "bpf":
		return exec.Command(binary, "doctor").Run() == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", strings.TrimSpace(name))
}
