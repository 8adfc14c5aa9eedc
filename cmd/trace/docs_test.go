package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"stagetrace/tracer/tracetest"
)

// sandbox is a folder with what the examples speak of.
func sandbox(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Makefile":       "all:\n\t@true\n",
		"xdg-open":       "#!/bin/sh\ntest -f \"$1\"\n", // a desktop
		"my.stages.yaml": "set: my\ntitle: An example\nuse: [linux]\nstages:\n  - stage: my.write\n    title: Write\n    when:\n      - syscall: write\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func shell(t *testing.T, dir, line string) {
	t.Helper()
	if strings.Contains(line, "docker") {
		tracetest.RequireDocker(t)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out.String())
	}
}

// runnable is what stands before the blocks of a page whose commands are run.
const runnable = "<!-- runnable -->\n```console\n"

// prompted are the lines behind prompts in the runnable blocks of a page.
func prompted(page string) (lines []string) {
	for _, part := range strings.Split(page, runnable)[1:] {
		block, _, _ := strings.Cut(part, "```")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				lines = append(lines, command)
			}
		}
	}
	return lines
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadme runs the commands of the README's blocks that are marked as
// runnable, in order, in one folder.
func TestReadme(t *testing.T) {
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
	dir, lines := sandbox(t), prompted(readPage(t, "../../README.md"))
	for _, line := range lines {
		shell(t, dir, line)
	}
	if len(lines) == 0 {
		t.Error("README.md has no runnable examples")
	}
}

// TestPages runs all commands of the pages in docs/, in order, page by page,
// each in a folder of its own that holds the files that the page shows.
func TestPages(t *testing.T) {
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, name := range pages {
		t.Run(filepath.Base(name), func(t *testing.T) {
			page := readPage(t, name)
			if all := strings.Count(page, "```console\n"); all == 0 || all != strings.Count(page, runnable) {
				t.Errorf("of %d blocks with commands %d are run", all, strings.Count(page, runnable))
			}
			dir := sandbox(t)
			shownFiles(t, page, dir)
			if strings.Contains(page, "$ benchstat ") {
				buildBenchstat(t, dir)
			}
			for _, line := range prompted(page) {
				shell(t, dir, line)
			}
		})
	}
}

// shownFiles writes the blocks of a page that are marked as files.
func shownFiles(t *testing.T, page, dir string) {
	t.Helper()
	for _, part := range strings.Split(page, "<!-- file: ")[1:] {
		name, rest, _ := strings.Cut(part, " -->\n```")
		_, rest, _ = strings.Cut(rest, "\n")
		text, _, ok := strings.Cut(rest, "```")
		if !ok || filepath.Base(name) != name {
			t.Fatalf("a file called %q is not shown", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// buildBenchstat makes the version of benchstat that go.mod names.
func buildBenchstat(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("benchstat cannot be built: %v", err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "benchstat"), "golang.org/x/perf/cmd/benchstat")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("benchstat: %v\n%s", err, out)
	}
}

// TestPageLinks follows the links between the pages and to other files.
func TestPageLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, name := range append(pages, "../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md") {
		for _, m := range link.FindAllStringSubmatch(readPage(t, name), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestHelpExamples runs every example of the help.
func TestHelpExamples(t *testing.T) {
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
	made := sandbox(t)
	for _, name := range []string{"DIR", "BASE", "NEW"} {
		shell(t, made, "trace run --runs 2 --untraced 2 --out "+name+" -- true")
	}
	if t.Failed() {
		return
	}
	seen := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			if line == "" || seen[line] {
				continue
			}
			seen[line] = true
			t.Run(line, func(t *testing.T) {
				dir := sandbox(t)
				for _, name := range []string{"DIR", "BASE", "NEW"} {
					if err := os.Symlink(filepath.Join(made, name), filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				shell(t, dir, line)
			})
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(&terminal{out: &bytes.Buffer{}, err: &bytes.Buffer{}}))
	if len(seen) == 0 {
		t.Error("the help has no examples")
	}
}
