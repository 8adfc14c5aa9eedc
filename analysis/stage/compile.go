package stage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"stagetrace/tracer"
)

// rule is a compiled rule of a stage: every condition that is set must hold.
type rule struct {
	stage       ID
	file        int       // which of the set's files it stands in
	after       int       // rules from here on come after the list that this one stands in
	actor       actorCond // role, not-role, task, exe, cgroup
	states      uint8     // bit per tracer.TaskState; 0: any
	phases      Phase     // 0: any
	waits       []bool    // by WaitID; nil: any
	window      int       // -1: any time
	noSyscall   bool
	syscalls    []glob
	args        []argTerm
	spans       []spanTerm
	frames      []frameRef
	instead     []bool // by ID; nil: no condition
	insteadNone bool
}

// actorCond is what a rule asks of the process.
type actorCond struct {
	roles, notRoles []RoleID
	preds           []int // into Set.preds
}

// actorPred is a question about a process that has an answer of its own in
// each Actor.
type actorPred struct {
	field string // task, exe, cgroup
	globs []glob
}

// argTerm is a condition on an argument of a span.
type argTerm struct {
	key   string
	globs []glob
}

// spanTerm is a span that must be open.
type spanTerm struct {
	class tracer.Class
	globs []glob
}

// frameTerm is a question about a stack; its answer is one bit of the stack.
type frameTerm struct {
	kind                  frameKind
	names, under, objects []glob
}

type frameKind uint8

const (
	frameFunc frameKind = iota // any kernel frame
	frameLeaf                  // innermost kernel frame outside of the scheduler
	frameUser                  // any user frame
)

// frameRef asks for a bit of the stack, or for an open span instead.
type frameRef struct {
	bit  int
	span spanTerm // class none: no span will do
}

// roleRule is a compiled rule of a role.
type roleRule struct {
	role                                  RoleID
	task, exe, cgroup, argv0, argv1, arg  []glob
	parent, was                           []RoleID
	kernel, self, pid1, hasParent, hasWas bool
}

// waitRule is a compiled rule of a wait reason.
type waitRule struct {
	wait     WaitID
	tier     int // what tells most comes first: state flags, frames, iowait, the system call
	flags    tracer.Flags
	syscalls []glob
	spans    []spanTerm
	frames   []frameRef
}

const (
	tierHeld = iota
	tierFrames
	tierFlag
	tierSyscall
)

// window is a part of a process's life between two events.
type window struct {
	from, until []event
	users       []actorCond // of the rules that look at it
}

// event is what begins or ends a window.
type event struct {
	pick  string // "", first, last
	what  eventKind
	spans spanTerm
	args  []argTerm
	end   bool // of the span
	roles []RoleID
}

type eventKind uint8

const (
	eventExec eventKind = iota
	eventExit
	eventSpan
	eventWoken
	eventWakes
)

// maxWindows is how many bits Situation.Windows has.
const maxWindows = 64

type compiler struct {
	set      *Set
	errors   errorList
	frameBit map[string]int
	predBit  map[string]int
	winBit   map[string]int
	probes   map[tracer.Probe]bool
}

func newCompiler(s *Set) *compiler {
	return &compiler{set: s, frameBit: map[string]int{}, predBit: map[string]int{}, winBit: map[string]int{}, probes: map[tracer.Probe]bool{}}
}

// names enters every stage, role and wait reason. One that several sets
// define is one, with the title of the first.
func (c *compiler) names(files []*File) {
	for _, f := range files {
		for _, d := range f.roles {
			if c.set.RoleNamed(d.name.text) == NoRole {
				c.set.Roles = append(c.set.Roles, Role{d.name.text, d.title, f.path, d.name.at.line})
			}
		}
		for _, d := range f.waits {
			if c.set.WaitNamed(d.name.text) == NoWait {
				c.set.Waits = append(c.set.Waits, Wait{d.name.text, d.title, d.terminal, f.path, d.name.at.line})
			}
		}
		c.stageNames(f, f.stages)
	}
	for _, f := range files {
		c.stageNames(f, f.fallback)
	}
	for _, f := range files {
		for _, d := range slices.Concat(f.stages, f.fallback) {
			if s := c.set.Stages[c.set.StageNamed(d.name.text)]; s.Title == "" {
				c.errorf(f, d.name.at, "stage %s has no title, and no set that is used gives it one", s.Name)
			}
		}
	}
}

func (c *compiler) stageNames(f *File, defs []def) {
	for _, d := range defs {
		id := c.set.StageNamed(d.name.text)
		if id == NoStage {
			c.set.Stages = append(c.set.Stages, Stage{d.name.text, d.title, f.path, d.name.at.line})
		} else if c.set.Stages[id].Title == "" {
			c.set.Stages[id].Title = d.title
		}
	}
}

func (c *compiler) errorf(f *File, at pos, format string, args ...any) {
	c.errors.add(f.errorf(at, format, args...))
}

func (c *compiler) compileWaits(files []*File) {
	for _, f := range files {
		for _, d := range f.waits {
			for i := range d.rules {
				c.set.waits = append(c.set.waits, c.waitRule(f, &d.rules[i], c.set.WaitNamed(d.name.text)))
			}
		}
	}
	slices.SortStableFunc(c.set.waits, func(a, b waitRule) int { return cmp.Compare(a.tier, b.tier) })
}

func (c *compiler) waitRule(f *File, d *ruleDef, id WaitID) waitRule {
	w := waitRule{wait: id, tier: tierSyscall}
	w.spans = c.spanTerms(d)
	w.frames = c.frameRefs(f, d)
	w.syscalls = globsOf(d, "syscall", false)
	for _, v := range d.terms["flag"].words {
		w.flags |= 1 << slices.Index(tracer.FlagNames[:], v.text)
	}
	switch {
	case w.flags&(tracer.FlagStopped|tracer.FlagTraced|tracer.FlagFrozen) != 0:
		w.tier = tierHeld
	case len(w.frames) > 0 || len(w.spans) > 0:
		w.tier = tierFrames
	case w.flags != 0:
		w.tier = tierFlag
	}
	return w
}

func (c *compiler) compileRoles(files []*File) {
	for _, f := range files {
		for _, d := range f.roles {
			for i := range d.rules {
				c.set.roles = append(c.set.roles, c.roleRule(f, &d.rules[i], c.set.RoleNamed(d.name.text)))
			}
		}
	}
}

func (c *compiler) roleRule(f *File, d *ruleDef, id RoleID) roleRule {
	r := roleRule{role: id}
	r.task, r.exe, r.cgroup = globsOf(d, "task", false), globsOf(d, "exe", true), globsOf(d, "cgroup", true)
	r.argv0, r.argv1, r.arg = globsOf(d, "argv0", true), globsOf(d, "argv1", true), globsOf(d, "arg", true)
	r.parent, r.hasParent = c.roleIDs(f, d, "parent")
	r.was, r.hasWas = c.roleIDs(f, d, "was")
	_, r.kernel = d.terms["kernel"]
	_, r.self = d.terms["self"]
	_, r.pid1 = d.terms["pid1"]
	return r
}

func (c *compiler) compileStages(f *File, file int, defs []def) {
	first := len(c.set.rules)
	for _, d := range defs {
		for i := range d.rules {
			c.set.rules = append(c.set.rules, c.stageRule(f, &d.rules[i], c.set.StageNamed(d.name.text)))
		}
	}
	for i := first; i < len(c.set.rules); i++ {
		c.set.rules[i].after, c.set.rules[i].file = len(c.set.rules), file
	}
}

func (c *compiler) stageRule(f *File, d *ruleDef, id ID) rule {
	r := rule{stage: id, window: -1}
	r.actor = c.actorCond(f, d)
	for _, w := range d.terms["state"].words {
		r.states |= 1 << slices.Index(tracer.StateNames[:], w.text)
	}
	for _, w := range d.terms["phase"].words {
		r.phases |= 1 << slices.Index([]string{"before-exec", "running", "exiting"}, w.text)
	}
	if _, ok := d.terms["wait"]; ok {
		r.waits = make([]bool, len(c.set.Waits))
		c.pick(f, d, "wait", "wait reason", r.waits, func(i int) string { return c.set.Waits[i].Name })
	}
	if t, ok := d.terms["instead-of"]; ok {
		r.instead = make([]bool, len(c.set.Stages))
		r.insteadNone = slices.Contains(t.texts(), "none")
		c.pick(f, d, "instead-of", "stage", r.instead, func(i int) string { return c.set.Stages[i].Name })
	}
	r.syscalls = globsOf(d, "syscall", false)
	r.noSyscall = len(r.syscalls) == 1 && r.syscalls[0].text == "none"
	r.args = argTerms(d)
	r.spans = c.spanTerms(d)
	r.frames = c.frameRefs(f, d)
	c.needSyscalls(f, d, r.syscalls, len(r.args) > 0)
	r.window = c.window(f, d, r.actor)
	return r
}

// pick marks the table's entries that the words of a term name. A word that
// names none makes a rule that can never match.
func (c *compiler) pick(f *File, d *ruleDef, key, what string, marks []bool, name func(int) string) {
	for _, w := range d.terms[key].words {
		g, err := compileGlob(w.text, false)
		if err != nil {
			continue // reported when it was parsed
		}
		found := key == "instead-of" && w.text == "none"
		var all []string
		for i := range marks {
			all = append(all, name(i))
			if g.match(name(i)) {
				marks[i], found = true, true
			}
		}
		if !found {
			c.errorf(f, w.at, "can never match: no %s is called %q%s", what, w.text, hint(w.text, all))
		}
	}
}

func (c *compiler) actorCond(f *File, d *ruleDef) (a actorCond) {
	a.roles, _ = c.roleIDs(f, d, "role")
	a.notRoles, _ = c.roleIDs(f, d, "not-role")
	for _, field := range []string{"task", "exe", "cgroup"} {
		globs := globsOf(d, field, field != "task")
		if len(globs) == 0 {
			continue
		}
		key := field + texts(globs)
		bit, ok := c.predBit[key]
		if !ok {
			bit = len(c.set.preds)
			c.predBit[key] = bit
			c.set.preds = append(c.set.preds, actorPred{field, globs})
		}
		a.preds = append(a.preds, bit)
	}
	return a
}

func (c *compiler) roleIDs(f *File, d *ruleDef, key string) (ids []RoleID, has bool) {
	t, has := d.terms[key]
	for _, w := range t.words {
		id := c.set.RoleNamed(w.text)
		if id == NoRole {
			var all []string
			for _, r := range c.set.Roles {
				all = append(all, r.Name)
			}
			c.errorf(f, w.at, "can never match: no role is called %q%s", w.text, hint(w.text, all))
			continue
		}
		ids = append(ids, id)
	}
	return ids, has
}

// frameRefs compiles the terms about frames.
func (c *compiler) frameRefs(f *File, d *ruleDef) (refs []frameRef) {
	add := func(t frameTerm, span spanTerm) {
		key := fmt.Sprint(t.kind, texts(t.names), texts(t.under), texts(t.objects))
		bit, ok := c.frameBit[key]
		if !ok {
			bit = len(c.set.frames)
			c.frameBit[key] = bit
			c.set.frames = append(c.set.frames, t)
		}
		refs = append(refs, frameRef{bit, span})
	}
	if names := funcGlobs(d, "func"); len(names) > 0 {
		t := frameTerm{kind: frameFunc, names: names, under: funcGlobs(d, "under")}
		var span spanTerm
		if len(t.under) == 0 {
			span = spanTerm{tracer.ClassFunc, names}
		}
		add(t, span)
		if _, exact := d.terms["exact"]; exact {
			c.needNames(tracer.ClassFunc, "", d, "func")
		}
	}
	if names := funcGlobs(d, "leaf"); len(names) > 0 {
		add(frameTerm{kind: frameLeaf, names: names}, spanTerm{})
	}
	if names := globsOf(d, "user", false); len(names) > 0 {
		t := frameTerm{kind: frameUser, names: names, objects: globsOf(d, "object", true)}
		add(t, spanTerm{tracer.ClassUser, names})
		if exact, ok := d.terms["exact"]; ok {
			c.needUser(f, d, exact.at)
		}
	}
	return refs
}

// spanTerms compiles the terms that name spans.
func (c *compiler) spanTerms(d *ruleDef) (spans []spanTerm) {
	for _, k := range spanKeys {
		globs := globsOf(d, k.key, false)
		if len(globs) == 0 {
			continue
		}
		spans = append(spans, spanTerm{k.class, globs})
		if k.class == tracer.ClassTracepoint {
			c.needNames(k.class, "", d, k.key)
		} else {
			c.probes[tracer.Probe{Class: k.class}] = true
		}
	}
	return spans
}

func argTerms(d *ruleDef) (args []argTerm) {
	for _, k := range argKeys {
		if globs := globsOf(d, k, k == "path" || k == "address"); len(globs) > 0 {
			args = append(args, argTerm{k, globs})
		}
	}
	return args
}

func globsOf(d *ruleDef, key string, path bool) (globs []glob) {
	for _, w := range d.terms[key].words {
		if g, err := compileGlob(w.text, path); err == nil {
			globs = append(globs, g)
		}
	}
	return globs
}

// funcGlobs is globsOf for kernel functions, reduced as FuncName does.
func funcGlobs(d *ruleDef, key string) (globs []glob) {
	for _, w := range d.terms[key].words {
		if g, err := compileGlob(FuncName(w.text), false); err == nil {
			globs = append(globs, g)
		}
	}
	return globs
}

func texts(globs []glob) string {
	var s []string
	for _, g := range globs {
		s = append(s, g.text)
	}
	slices.Sort(s)
	return " " + strings.Join(s, " ")
}
