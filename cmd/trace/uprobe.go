package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"stagetrace/tracer/symbols"
)

// maxUprobes bounds how many functions one --uprobe may match: each becomes a
// stage, and each call of it costs.
const maxUprobes = 100

// uprobeStages writes a stage file in which every function of --uprobe is a
// stage of its own, and adds it to the files of --stages. remove takes the file
// away again, when it has been read and copied.
func (r *recording) uprobeStages() (remove func(), err error) {
	if len(r.uprobes) == 0 {
		return func() {}, nil
	}
	stages := &uprobeSet{names: map[string]bool{}}
	for _, given := range r.uprobes {
		if err := stages.add(given); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "stagetrace-")
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "uprobe.stages.yaml")
	if err := os.WriteFile(name, []byte("set: uprobe\nstages:\n"+stages.text.String()), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.stages = append([]string{name}, r.stages...)
	return func() { _ = os.RemoveAll(dir) }, nil // a file of ours in the folder for such files
}

// uprobeSet is the text of the stages, and their names.
type uprobeSet struct {
	text  strings.Builder
	names map[string]bool
}

// add finds the functions of one --uprobe FILE:FUNCTION.
func (u *uprobeSet) add(given string) error {
	object, pattern, err := splitUprobe(given)
	if err != nil {
		return err
	}
	found, err := symbols.FindFunctions(object, pattern)
	if err != nil {
		return fmt.Errorf("--uprobe %s: %w", given, err)
	}
	if n := len(found); n > maxUprobes {
		return usagef("--uprobe %s: %d functions match, from %s to %s: more than %d", given, n, found[0].Name, found[n-1].Name, maxUprobes)
	}
	for _, f := range found {
		fmt.Fprintf(&u.text, "  - stage: %s\n    title: %q\n    when:\n      - {user: %q, object: %q, exact: true}\n", u.name(f.Name), f.Name, f.Name, object)
	}
	return nil
}

// splitUprobe takes FILE:FUNCTION apart. Both may hold colons: the file is one
// that there is. A command without a slash is looked for in PATH.
func splitUprobe(given string) (object, pattern string, err error) {
	for i := range len(given) {
		if given[i] != ':' || i == 0 || i == len(given)-1 {
			continue
		}
		name := given[:i]
		if found, err := exec.LookPath(name); err == nil && !strings.Contains(name, "/") {
			name = found
		}
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			continue
		}
		if name, err = filepath.Abs(name); err != nil {
			return "", "", err
		}
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return "", "", err
		}
		return name, given[i+1:], nil
	}
	return "", "", usagef("--uprobe %s: want FILE:FUNCTION with a file that there is", given)
}

// name makes a stage's name of a function's: lower-case words.
func (u *uprobeSet) name(function string) string {
	base := "user." + strings.Trim(strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			return c
		case 'A' <= c && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '_'
	}, function), "_0123456789")
	const most = 60
	if base = base[:min(len(base), most)]; base == "user." {
		base = "user.function"
	}
	name := base
	for i := 2; u.names[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	u.names[name] = true
	return name
}
