package workloads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is somebody else's program that a workload starts.
type program struct {
	names   []string // on PATH, the first that is there
	files   []string // below the home folder or absolute, where nothing is on PATH
	install string   // the one command that brings it
	version []string // arguments that make it say its version
}

// Programs that more than one workload starts.
var (
	nodeProgram   = program{names: []string{"node", "nodejs"}, install: "apt-get install nodejs", version: []string{"--version"}}
	bunProgram    = program{names: []string{"bun"}, files: []string{".bun/bin/bun"}, install: "npm install -g bun", version: []string{"--version"}}
	denoProgram   = program{names: []string{"deno"}, files: []string{".deno/bin/deno"}, install: "npm install -g deno", version: []string{"--version"}}
	pythonProgram = program{names: []string{"python3", "python"}, install: "apt-get install python3", version: []string{"--version"}}
	elideProgram  = program{names: []string{"elide"}, files: []string{"elide/elide"}, install: "see https://elide.dev", version: []string{"--version"}}
)

// versionPatience is how long a program may take to say its version or path.
const versionPatience = 30 * time.Second

// path is where the program is.
func (p program) path() (string, error) {
	for _, name := range p.names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	home, _ := os.UserHomeDir() // "": then nothing is found there
	for _, f := range p.files {
		if !filepath.IsAbs(f) {
			f = filepath.Join(home, f)
		}
		if path, err := exec.LookPath(f); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no " + strings.Join(p.names, ", ") + " on PATH")
}

// find looks the program up and asks for its version.
func (p program) find(ctx context.Context) Found {
	path, err := p.path()
	if err != nil {
		return Found{State: NotInstalled, Why: err.Error(), Hint: p.install}
	}
	ctx, cancel := context.WithTimeout(ctx, versionPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, p.version...).CombinedOutput()
	if err != nil {
		return Found{State: NotAllowed, Where: path, Why: fmt.Sprintf("%s %s: %v", path, strings.Join(p.version, " "), err), Hint: p.install}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return Found{OK: true, Where: path, Version: line}
}
