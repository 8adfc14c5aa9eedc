// Package stagetrace_test holds what is true of the repository as a whole:
// who may import whom, which folders there may be, how long a file may be, and
// that the commands in the README run.
package stagetrace_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "stagetrace"

// mayImport is the import table: for each package of the module, what it may
// import besides the standard library. A trailing /... stands for a tree. Test
// files may import more: see testMayImport.
var mayImport = map[string][]string{
	".":   {},
	"bpf": {"github.com/cilium/ebpf/..."},

	"tracer":           {"github.com/klauspost/compress/..."},
	"tracer/symbols":   {"stagetrace/tracer", "github.com/ianlancetaylor/demangle", "golang.org/x/sys/..."},
	"tracer/tracetest": {"stagetrace/tracer", "golang.org/x/sys/..."},
	"tracer/sample":    {"stagetrace/tracer", "golang.org/x/sys/...", "github.com/shirou/gopsutil/v4/..."},
	"tracer/replay":    {"stagetrace/tracer"},
	"tracer/etw":       {"stagetrace/tracer"},
	"tracer/dtrace":    {"stagetrace/tracer"},
	"tracer/ebpf":      {"stagetrace/tracer", "stagetrace/tracer/symbols", "stagetrace/bpf", "github.com/cilium/ebpf/...", "golang.org/x/sys/...", "golang.org/x/arch/..."},
	"tracer/backends":  {"stagetrace/tracer", "stagetrace/tracer/..."},
	"analysis/stage":   {"stagetrace/tracer", "github.com/goccy/go-yaml/..."},
	"analysis/stats":   {"golang.org/x/perf/..."},
	"analysis":         {"stagetrace/tracer", "stagetrace/analysis/stage", "stagetrace/analysis/stats"},
	"reports":          {"stagetrace/analysis", "stagetrace/analysis/...", "stagetrace/tracer", "github.com/google/pprof/profile", "google.golang.org/protobuf/encoding/protowire", "charm.land/lipgloss/v2/...", "github.com/mattn/go-runewidth", "github.com/charmbracelet/x/ansi", "github.com/charmbracelet/colorprofile", "golang.org/x/perf/..."},
	"reports/pagetest": {"stagetrace/tracer/tracetest", "github.com/chromedp/..."},
	"workloads":        {"stagetrace/tracer", "github.com/shirou/gopsutil/v4/...", "github.com/moby/moby/...", "github.com/google/go-containerregistry/...", "github.com/opencontainers/...", "github.com/vishvananda/...", "github.com/moby/sys/...", "github.com/containerd/errdefs/...", "golang.org/x/sys/..."},
	"cmd/trace":        {"stagetrace/...", "github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/shirou/gopsutil/v4/...", "golang.org/x/term", "golang.org/x/sys/...", "github.com/vishvananda/netlink"},
	"cmd/vmtest":       {"github.com/cavaliergopher/cpio", "github.com/ulikunitz/xz", "golang.org/x/sys/..."},
	"cmd/bench":        {"stagetrace/tracer", "stagetrace/tracer/...", "stagetrace/analysis/stage", "stagetrace/analysis/stats", "golang.org/x/sys/..."},
}

// testMayImport is what test files of every package may import on top.
var testMayImport = []string{"stagetrace/tracer", "stagetrace/tracer/tracetest", "stagetrace/analysis/...", "stagetrace/analysis", "stagetrace/tracer/...",
	"github.com/google/go-cmp/...", "github.com/rogpeppe/go-internal/...", "pgregory.net/rapid", "golang.org/x/sys/...", "github.com/google/pprof/profile",
	"github.com/klauspost/compress/...", "github.com/cavaliergopher/cpio", "github.com/charmbracelet/x/ansi",
	"stagetrace/reports/pagetest", "github.com/chromedp/..."}

// refusedFolders are names that say nothing about what is inside.
var refusedFolders = []string{"util", "utils", "common", "pkg", "internal", "helpers", "misc", "lib"}

func matches(patterns []string, imp string) bool {
	for _, p := range patterns {
		if tree, ok := strings.CutSuffix(p, "/..."); ok && (imp == tree || strings.HasPrefix(imp, tree+"/")) {
			return true
		} else if imp == p {
			return true
		}
	}
	return false
}

func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") && first != module
}

// sources calls f for every file of the tree that is not hidden or made for a
// test (testdata).
func sources(t *testing.T, f func(name string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") && base != ".ci" || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		f(filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestImports parses the files themselves, whatever their build tags: the
// answer of `go list` depends on the platform and is cached with the test.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	sources(t, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		dir := path.Dir(name)
		allowed, ok := mayImport[dir]
		if !ok {
			if !seen[dir] {
				t.Errorf("%s: the package is not in the import table", dir)
			}
			seen[dir] = true
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		test := strings.HasSuffix(name, "_test.go")
		for _, spec := range file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			switch {
			case imp == "C":
				t.Errorf("%s uses cgo: the binary is static", name)
			case standard(imp), matches(allowed, imp):
			case test && (matches(testMayImport, imp) || imp == path.Join(module, dir)):
			default:
				t.Errorf("%s may not import %s", name, imp)
			}
		}
	})
}

// TestFolders refuses folders whose name says nothing.
func TestFolders(t *testing.T) {
	sources(t, func(name string) {
		for _, part := range strings.Split(path.Dir(name), "/") {
			if slices.Contains(refusedFolders, part) {
				t.Errorf("%s: no folder is called %s", name, part)
			}
		}
	})
}

// foreign are folders of files that others wrote, kept as they are.
var foreign = []string{"bpf/headers/"}

// TestFileLength keeps files under 500 lines; generated ones are what they are.
func TestFileLength(t *testing.T) {
	sources(t, func(name string) {
		theirs := slices.ContainsFunc(foreign, func(dir string) bool { return strings.HasPrefix(name, dir) })
		if theirs || !slices.Contains([]string{".go", ".c", ".h"}, path.Ext(name)) {
			return
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			return
		}
		head, _, _ := bytes.Cut(data, []byte("\npackage "))
		if bytes.Contains(head, []byte("Code generated")) {
			return
		}
		if n := bytes.Count(data, []byte("\n")); n >= 500 {
			t.Errorf("%s has %d lines; split it by noun", name, n)
		}
	})
}

// TestNoInit refuses init functions: what is registered stands in a table.
func TestNoInit(t *testing.T) {
	sources(t, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			return
		}
		if bytes.Contains(data, []byte("\nfunc init()")) && !bytes.Contains(data, []byte("// Code generated")) {
			t.Errorf("%s has an init function: registration is by tables", name)
		}
	})
}
