package stage

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"stagetrace/tracer"
)

//go:embed *.stages.yaml
var builtin embed.FS

// Set is what a run names its stages by: one stage file and the sets it uses,
// put in one order of precedence. It does not change once loaded and may be
// used by several goroutines.
type Set struct {
	Name, Title string
	Hash        string  // of every file of the set, so that two results can tell whether they speak the same language
	Stages      []Stage // in order of precedence, by the first rule of each
	Roles       []Role
	Waits       []Wait

	rules   []rule
	roles   []roleRule
	waits   []waitRule
	frames  []frameTerm
	preds   []actorPred
	windows []window
	probes  []tracer.Probe
}

// Stage is a name that time can have.
type Stage struct {
	Name, Title string
	File        string // that names it first
	Line        int
}

// Role is a name that a process can have.
type Role struct {
	Name, Title string
	File        string
	Line        int
}

// Wait is a reason for which a task can sleep. A terminal one is a cause by
// itself: whoever wakes the sleeper only carried it out.
type Wait struct {
	Name, Title string
	Terminal    bool
	File        string
	Line        int
}

// Builtin lists the sets that come with the program.
func Builtin() []string {
	entries, _ := builtin.ReadDir(".")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".stages.yaml"))
	}
	return names
}

func openBuiltin(name string) (*File, error) {
	data, err := builtin.ReadFile(name + ".stages.yaml")
	if err != nil {
		return nil, fmt.Errorf("stage set %q not found%s", name, hint(name, Builtin()))
	}
	return Parse(name+".stages.yaml", data)
}

// Load reads built-in sets by name and a user's files, and puts them together.
// The files come first, then the sets, each before the sets that it uses.
// The error joins an *Error for every mistake in a file.
func Load(names []string, files []string) (*Set, error) {
	var parsed []*File
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("stage file: %w", err)
		}
		f, err := Parse(path, data)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	return Compose(names, parsed)
}

// Compose is Load for files that have been parsed.
func Compose(names []string, files []*File) (*Set, error) {
	l := loader{byName: map[string]*File{}, state: map[string]int{}}
	for _, f := range files {
		if slices.Contains(Builtin(), f.Name) || l.byName[f.Name] != nil {
			return nil, &Error{File: f.path, Msg: fmt.Sprintf("there is already a set called %s; give this one another name", f.Name)}
		}
		l.byName[f.Name] = f
	}
	// Reverse postorder puts every set before the ones it uses and keeps the
	// order in which they were asked for.
	for _, name := range slices.Backward(names) {
		if err := l.visit(name, nil, word{}); err != nil {
			return nil, err
		}
	}
	for _, f := range slices.Backward(files) {
		if err := l.visit(f.Name, nil, word{}); err != nil {
			return nil, err
		}
	}
	slices.Reverse(l.order)
	if len(l.order) == 0 {
		return nil, fmt.Errorf("no stage set given; built in: %s", strings.Join(Builtin(), " "))
	}
	return compose(l.order, names)
}

// loader orders the sets.
type loader struct {
	byName map[string]*File
	state  map[string]int
	order  []*File
}

const (
	visiting = 1 + iota
	visited
)

func (l *loader) visit(name string, user *File, at word) error {
	located := func(err error) error {
		if user == nil {
			return err
		}
		return user.errorf(at.at, "%s", err)
	}
	switch l.state[name] {
	case visited:
		return nil
	case visiting:
		return located(fmt.Errorf("stage set %s uses itself", name))
	}
	f := l.byName[name]
	if f == nil {
		var err error
		if f, err = openBuiltin(name); err != nil {
			return located(err)
		}
		l.byName[name] = f
	}
	l.state[name] = visiting
	for _, use := range slices.Backward(f.use) {
		if err := l.visit(use.text, f, use); err != nil {
			return err
		}
	}
	l.state[name] = visited
	l.order = append(l.order, f)
	return nil
}

// compose compiles files, which are in order of precedence.
func compose(files []*File, asked []string) (*Set, error) {
	c := newCompiler(&Set{Title: files[0].Title})
	hash := sha256.New()
	for _, f := range files {
		fmt.Fprintf(hash, "%s %d\n", f.Name, len(f.lines))
		for _, line := range f.lines {
			fmt.Fprintln(hash, strings.TrimRight(line, " \t"))
		}
	}
	c.set.Hash = hex.EncodeToString(hash.Sum(nil)[:8])
	var name []string
	for _, f := range files {
		if slices.Contains(asked, f.Name) || !slices.Contains(Builtin(), f.Name) {
			name = append(name, f.Name)
		}
	}
	c.set.Name = strings.Join(name, "+")
	c.names(files)
	c.compileWaits(files)
	c.compileRoles(files)
	for i, f := range files {
		c.needRecord(f)
		c.compileStages(f, i, f.stages)
	}
	for i, f := range files {
		c.compileStages(f, i, f.fallback)
	}
	if err := c.errors.err(); err != nil {
		return nil, err
	}
	c.set.probes = c.sortedProbes()
	return c.set, nil
}

// Probes is what has to be recorded for the set beyond the scheduler and CPU
// samples, sorted and unique.
func (s *Set) Probes() []tracer.Probe { return slices.Clone(s.probes) }

// WaitNamed gives the id of a wait reason, or NoWait.
func (s *Set) WaitNamed(name string) WaitID {
	return WaitID(slices.IndexFunc(s.Waits, func(w Wait) bool { return w.Name == name }))
}

// StageNamed gives the id of a stage, or NoStage.
func (s *Set) StageNamed(name string) ID {
	return ID(slices.IndexFunc(s.Stages, func(st Stage) bool { return st.Name == name }))
}

// RoleNamed gives the id of a role, or NoRole.
func (s *Set) RoleNamed(name string) RoleID {
	return RoleID(slices.IndexFunc(s.Roles, func(r Role) bool { return r.Name == name }))
}
