package stage

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"stagetrace/tracer"
)

// where is the kind of rule that a term may stand in, bits.
type where uint8

const (
	inStage where = 1 << iota
	inRole
	inWait
	inEvent // of from and until
)

// termSpec is one row of termTable.
type termSpec struct {
	key   string
	where where
	needs []string // another term, one of which must stand in the same rule
	check func(r *reader, w word) string
	one   bool // takes no list
	doc   string
}

// termTable is the language: every term that a rule can have. The JSON schema
// has the same rows.
var termTable = []termSpec{
	{key: "syscall", where: inStage | inWait | inEvent, check: checkSyscall, doc: "inside this system call; none: in none"},
	{key: "exact", where: inStage | inEvent, needs: []string{"syscall", "func", "user"}, check: checkTrue, one: true, doc: "true: record every call with its times"},
	{key: "path", where: inStage | inEvent, needs: []string{"syscall"}, check: checkPath, doc: "path argument of the call"},
	{key: "flags", where: inStage | inEvent, needs: []string{"syscall"}, check: checkFlag, doc: "one of these words is among the call's flags"},
	{key: "fstype", where: inStage | inEvent, needs: []string{"syscall"}, check: checkName, doc: "file system type of a mount"},
	{key: "netlink", where: inStage | inEvent, needs: []string{"syscall"}, check: checkName, doc: "netlink message type"},
	{key: "address", where: inStage | inEvent, needs: []string{"syscall"}, check: checkPath, doc: "socket address"},
	{key: "op", where: inStage | inEvent, needs: []string{"syscall"}, check: checkName, doc: "sub-operation of the call"},
	{key: "func", where: inStage | inWait | inEvent, check: checkName, doc: "kernel function among the frames, or being inside it"},
	{key: "under", where: inStage | inWait, needs: []string{"func"}, check: checkName, doc: "kernel function that called func, at any distance"},
	{key: "leaf", where: inStage | inWait, check: checkName, doc: "innermost kernel function outside of the scheduler"},
	{key: "user", where: inStage | inEvent, check: checkName, doc: "user function among the frames, or being inside it"},
	{key: "object", where: inStage | inEvent, needs: []string{"user"}, check: checkPath, doc: "file that the user function lies in"},
	{key: "work", where: inStage | inEvent, check: checkName, doc: "inside a workqueue item of this function"},
	{key: "softirq", where: inStage | inEvent, check: checkName, doc: "inside this softirq vector"},
	{key: "irq", where: inStage | inEvent, check: checkName, doc: "inside this interrupt's handler"},
	{key: "lock", where: inStage | inWait, check: checkName, doc: "contending for a lock of this kind"},
	{key: "tracepoint", where: inStage | inEvent, check: checkName, doc: "inside what this tracepoint brackets"},
	{key: "task", where: inStage | inRole, check: checkName, doc: "the thread's name (comm)"},
	{key: "exe", where: inStage | inRole, check: checkPath, doc: "the executable's path"},
	{key: "cgroup", where: inStage | inRole, check: checkPath, doc: "path of the cgroup"},
	{key: "role", where: inStage, check: checkRole, doc: "the process has one of these roles"},
	{key: "not-role", where: inStage, check: checkRole, doc: "the process has none of these roles"},
	{key: "state", where: inStage, check: oneOf("running", "runnable", "blocked"), doc: "what the task is doing"},
	{key: "wait", where: inStage, check: checkName, doc: "the wait reason"},
	{key: "phase", where: inStage, check: oneOf("before-exec", "running", "exiting"), doc: "part of the process's life"},
	{key: "instead-of", where: inStage, check: checkName, doc: "what comes after this set would call it one of these stages; none: would not name it"},
	{key: "from", where: inStage, doc: "after this"},
	{key: "until", where: inStage, doc: "before this"},
	{key: "argv0", where: inRole, check: checkPath, doc: "the name the program was called by"},
	{key: "argv1", where: inRole, check: checkPath, doc: "its first argument"},
	{key: "arg", where: inRole, check: checkPath, doc: "one of its arguments"},
	{key: "parent", where: inRole, check: checkRole, doc: "role of the process that forked it, when it did"},
	{key: "was", where: inRole, check: checkRole, doc: "role that the process had before it executed this program"},
	{key: "kernel", where: inRole, check: checkTrue, one: true, doc: "true: a kernel thread"},
	{key: "self", where: inRole, check: checkTrue, one: true, doc: "true: the process that does the tracing"},
	{key: "pid1", where: inRole, check: checkTrue, one: true, doc: "true: the first process of its own pid namespace"},
	{key: "flag", where: inWait, check: oneOf("stopped", "traced", "frozen", "iowait", "idle"), doc: "what the sleeping task's state says"},
	{key: "at", where: inEvent, needs: []string{"syscall", "func", "user", "work", "softirq", "irq", "tracepoint"}, check: oneOf("begin", "end"), one: true,
		doc: "which end of the span; from takes the end, until the begin"},
	{key: "woken-by", where: inEvent, check: checkRole, doc: "a process of this role wakes one of its threads"},
	{key: "wakes", where: inEvent, check: checkRole, doc: "one of its threads wakes a process of this role"},
}

// argKeys are the terms that look at a span's arguments; path also looks at
// the second path of calls that have two.
var argKeys = []string{"path", "flags", "fstype", "netlink", "address", "op"}

// spanKeys are the terms that name spans, with the class of the span.
var spanKeys = []struct {
	key   string
	class tracer.Class
}{
	{"work", tracer.ClassWork}, {"softirq", tracer.ClassSoftirq}, {"irq", tracer.ClassIRQ},
	{"lock", tracer.ClassLock}, {"tracepoint", tracer.ClassTracepoint},
}

func termNames(w where) (keys []string) {
	for _, t := range termTable {
		if t.where&w != 0 {
			keys = append(keys, t.key)
		}
	}
	return keys
}

func specOf(key string) *termSpec {
	return &termTable[slices.IndexFunc(termTable, func(t termSpec) bool { return t.key == key })]
}

// Checks of one value; they return what is wrong with it.

func checkName(_ *reader, w word) string { return checkGlob(w, false) }
func checkPath(_ *reader, w word) string { return checkGlob(w, true) }

func checkGlob(w word, path bool) string {
	if _, err := compileGlob(w.text, path); err != nil {
		return err.Error()
	}
	return ""
}

func checkRole(_ *reader, w word) string {
	if !roleName.MatchString(w.text) {
		return fmt.Sprintf("bad role name %q", w.text)
	}
	return ""
}

func checkTrue(_ *reader, w word) string {
	if w.text != "true" {
		return "can only be true; leave it out otherwise"
	}
	return ""
}

func checkFlag(_ *reader, w word) string {
	if strings.ContainsAny(w.text, "| ") {
		return fmt.Sprintf("%q is not one word; give several as a list", w.text)
	}
	return checkGlob(w, false)
}

func checkSyscall(r *reader, w word) string {
	if w.text == "none" || r.file.os != "linux" {
		return ""
	}
	if s := checkGlob(w, false); s != "" {
		return s
	}
	g, _ := compileGlob(w.text, false)
	known := strings.Fields(linuxSyscalls)
	if !slices.ContainsFunc(known, g.match) {
		return fmt.Sprintf("can never match: there is no system call %q%s", w.text, hint(w.text, known))
	}
	return ""
}

func oneOf(values ...string) func(*reader, word) string {
	return func(_ *reader, w word) string {
		if slices.Contains(values, w.text) {
			return ""
		}
		return fmt.Sprintf("unknown value %q%s", w.text, hint(w.text, values))
	}
}

// rule reads one rule and checks it on its own.
func (r *reader) rule(n ast.Node, w where) (ruleDef, bool) {
	rule := ruleDef{at: place(n), terms: map[string]term{}}
	entries := r.mapping(n, "a rule", termNames(w))
	for _, e := range entries {
		t := term{at: e.key.at}
		if e.key.text == "from" || e.key.text == "until" {
			t.events = r.events(e.value, e.key.text)
		} else {
			t.words = r.values(e)
		}
		rule.terms[e.key.text] = t
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) == 0 {
		r.errorf(rule.at, "a rule without terms would match everything")
	}
	for _, e := range entries {
		needs := specOf(e.key.text).needs
		if len(needs) > 0 && !slices.ContainsFunc(needs, func(k string) bool { _, ok := rule.terms[k]; return ok }) {
			r.errorf(e.key.at, "%s says something about %s, which the rule does not have", e.key.text, strings.Join(needs, " or "))
		}
	}
	r.contradictions(&rule)
	return rule, len(entries) > 0
}

func (r *reader) values(e entry) []word {
	spec := specOf(e.key.text)
	words := r.words(e.value, e.key.text)
	if spec.one && len(words) > 1 {
		r.errorf(words[1].at, "%s takes one value", e.key.text)
	}
	for _, w := range words {
		if msg := spec.check(r, w); msg != "" {
			r.errorf(w.at, "%s: %s", e.key.text, msg)
		}
	}
	return words
}

// contradictions reports terms that cannot hold together.
func (r *reader) contradictions(rule *ruleDef) {
	has := func(key, value string) bool {
		return slices.ContainsFunc(rule.terms[key].words, func(w word) bool { return w.text == value })
	}
	for _, w := range rule.terms["not-role"].words {
		if has("role", w.text) {
			r.errorf(w.at, "can never match: role and not-role both name %s", w.text)
		}
	}
	if t, ok := rule.terms["syscall"]; ok && has("syscall", "none") {
		for _, k := range append([]string{"exact"}, argKeys...) {
			if a, ok := rule.terms[k]; ok {
				r.errorf(a.at, "can never match: outside of system calls there is no %s", k)
			}
		}
		if len(t.words) > 1 {
			r.errorf(t.at, "none stands alone")
		}
	}
	if t, ok := rule.terms["wait"]; ok && len(rule.terms["state"].words) > 0 && !has("state", "blocked") && !has("state", "runnable") {
		r.errorf(t.at, "can never match: a running task waits for nothing")
	}
}

// events reads the value of from or until: one event or a list of them.
func (r *reader) events(n ast.Node, key string) []eventDef {
	nodes := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		nodes = seq.Values
	}
	var out []eventDef
	for _, v := range nodes {
		e, ok := r.event(v, key)
		if ok {
			out = append(out, e)
		}
	}
	if len(nodes) == 0 {
		r.errorf(place(n), "%s: the list is empty", key)
	}
	return out
}

func (r *reader) event(n ast.Node, key string) (eventDef, bool) {
	e := eventDef{at: place(n)}
	if _, ok := n.(ast.MapNode); !ok {
		w, ok := r.scalar(n, key)
		if !ok {
			return e, false
		}
		if w.text != "exec" && w.text != "exit" {
			r.errorf(w.at, "%s: unknown event %q; known: exec exit, or a mapping such as {syscall: connect}", key, w.text)
			return e, false
		}
		e.text = w.text
		return e, true
	}
	m := n.(ast.MapNode)
	inner := n
	if it := m.MapRange(); it.Next() {
		if k := it.Key().GetToken().Value; k == "first" || k == "last" {
			if len(r.mapping(n, key, []string{"first", "last"})) != 1 {
				return e, false
			}
			e.pick, inner = k, it.Value()
		}
	}
	rule, ok := r.rule(inner, inEvent)
	e.term, e.text = rule, e.pick+rule.canonical()
	return e, ok
}

// canonical is the same text for the same terms.
func (d *ruleDef) canonical() string {
	var parts []string
	for k, t := range d.terms {
		var values []string
		for _, w := range t.words {
			values = append(values, w.text)
		}
		for _, e := range t.events {
			values = append(values, e.text)
		}
		sort.Strings(values)
		parts = append(parts, fmt.Sprintf("%s:%q", k, values))
	}
	sort.Strings(parts)
	return "{" + strings.Join(parts, ",") + "}"
}

// shadowed reports rules that an earlier rule of the same list leaves nothing.
func (r *reader) shadowed(defs []def) {
	var seen []*ruleDef
	for i := range defs {
		for j := range defs[i].rules {
			rule := &defs[i].rules[j]
			for _, s := range seen {
				if s.covers(rule) {
					r.errorf(rule.at, "can never match: the rule at line %d comes first and matches all of it", s.at.line)
					break
				}
			}
			seen = append(seen, rule)
		}
	}
}

// covers tells that everything that late matches, d matches too: each term
// of d stands in late with no more values.
func (d *ruleDef) covers(late *ruleDef) bool {
	for k, t := range d.terms {
		l, ok := late.terms[k]
		if !ok {
			return false
		}
		a, b := t.texts(), l.texts()
		if k == "not-role" {
			a, b = b, a
		}
		for _, v := range b {
			if !slices.Contains(a, v) {
				return false
			}
		}
		if len(t.events) != len(l.events) {
			return false
		}
	}
	return true
}

func (t *term) texts() (out []string) {
	for _, w := range t.words {
		out = append(out, w.text)
	}
	for _, e := range t.events {
		out = append(out, e.text)
	}
	return out
}
