package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
		"my.stages.yaml": "set: my\ntitle: An example\nuse: [linux]\nstages:\n  - stage: my.write\n    title: Write\n    when:\n      - syscall: write\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
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
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v\n%s", line, err, out.String())
	}
}

// TestReadme runs the commands of the README's blocks that are marked as
// runnable, in order, in one folder.
func TestReadme(t *testing.T) {
	tracetest.RequireRoot(t)
	tracetest.RequireBPF(t)
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, ran := sandbox(t), 0
	for _, part := range strings.Split(string(text), "<!-- runnable -->")[1:] {
		_, block, _ := strings.Cut(part, "```console\n")
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				shell(t, dir, command)
				ran++
			}
		}
	}
	if ran == 0 {
		t.Error("README.md has no runnable examples")
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
