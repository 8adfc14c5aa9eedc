package stage

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds what Parse reads: the YAML parser recurses.
const maxFile = 1 << 20

// File is a parsed stage file, before it is put together with the sets it
// uses. Everything that can be judged from the file alone has been checked.
type File struct {
	Name, Title string // of the set
	path        string
	lines       []string
	data        []byte
	os          string
	use         []word
	record      []word // what carries cause, see recordable
	roles       []def
	waits       []def
	stages      []def // before the used sets'
	fallback    []def // after the used sets'
}

// def is one entry of a list: a stage, a role or a wait reason.
type def struct {
	name     word
	title    string
	terminal bool
	rules    []ruleDef
}

// ruleDef is one rule as written.
type ruleDef struct {
	at    pos
	terms map[string]term
}

// term is one key of a rule with its values.
type term struct {
	at     pos
	words  []word
	events []eventDef // of from and until
}

// word is a scalar with its place.
type word struct {
	text string
	at   pos
}

// eventDef is what begins or ends a window.
type eventDef struct {
	at   pos
	pick string // "", first, last
	term ruleDef
	text string // canonical
}

var (
	stageName = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)
	waitName  = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$`)
	roleName  = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
)

// reader carries what reading a file needs. Mistakes are collected.
type reader struct {
	file   *File
	errors errorList
}

// Parse reads one stage file. The error joins an *Error for every mistake.
func Parse(path string, data []byte) (*File, error) {
	f := &File{path: path, data: data, os: "linux"}
	r := &reader{file: f}
	if len(data) > maxFile {
		return nil, &Error{File: path, Msg: fmt.Sprintf("larger than %d bytes", maxFile)}
	}
	f.lines = strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	doc, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, r.syntax(err)
	}
	if len(doc.Docs) != 1 || doc.Docs[0].Body == nil {
		return nil, &Error{File: path, Msg: "a stage file is one YAML document"}
	}
	r.set(doc.Docs[0].Body)
	if err := r.errors.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// syntax gives the YAML parser's error our form.
func (r *reader) syntax(err error) error {
	var y yaml.Error
	if !errors.As(err, &y) || y.GetToken() == nil || y.GetToken().Position == nil {
		return &Error{File: r.file.path, Msg: err.Error()}
	}
	p, msg := y.GetToken().Position, y.GetMessage()
	if v := y.GetToken().Value; strings.HasPrefix(v, "*") || strings.HasPrefix(v, "&") || strings.HasPrefix(v, "!") {
		msg += "; quote a value that begins with *, & or !"
	}
	return r.file.errorf(pos{p.Line, p.Column}, "%s", msg)
}

func (f *File) errorf(at pos, format string, args ...any) error {
	e := &Error{File: f.path, Line: at.line, Column: at.column, Msg: fmt.Sprintf(format, args...)}
	if at.line > 0 && at.line <= len(f.lines) {
		e.Source = f.lines[at.line-1]
	}
	return e
}

func (r *reader) errorf(at pos, format string, args ...any) {
	r.errors.add(r.file.errorf(at, format, args...))
}

func place(n ast.Node) pos {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return pos{}
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && m.GetToken().Value == ":" {
		return place(m.Values[0].Key)
	}
	p := n.GetToken().Position
	return pos{p.Line, p.Column}
}

// entry is one key of a mapping.
type entry struct {
	key   word
	value ast.Node
}

// mapping gives the entries of a mapping whose keys are all in known.
func (r *reader) mapping(n ast.Node, what string, known []string) []entry {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.errorf(place(n), "%s must be a mapping with keys", what)
		return nil
	}
	var out []entry
	for it := m.MapRange(); it.Next(); {
		k, ok := r.scalar(it.Key(), "a key of "+what)
		switch {
		case !ok:
		case !slices.Contains(known, k.text):
			r.errorf(k.at, "unknown key %q in %s%s", k.text, what, hint(k.text, known))
		case slices.ContainsFunc(out, func(e entry) bool { return e.key.text == k.text }):
			r.errorf(k.at, "key %q is given twice in %s", k.text, what)
		default:
			out = append(out, entry{k, it.Value()})
		}
	}
	return out
}

// scalar gives a node that is one word.
func (r *reader) scalar(n ast.Node, what string) (word, bool) {
	at := place(n)
	switch v := n.(type) {
	case *ast.StringNode:
		return word{v.Value, at}, true
	case *ast.LiteralNode:
		return word{strings.TrimSpace(v.Value.Value), at}, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return word{n.GetToken().Value, at}, true
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		r.errorf(at, "%s: anchors, aliases and tags have no place here; quote a value that begins with *, & or !", what)
	case *ast.NullNode, nil:
		r.errorf(at, "%s has no value", what)
	default:
		r.errorf(at, "%s must be one value", what)
	}
	return word{}, false
}

// words gives a node that is one word or a list of words.
func (r *reader) words(n ast.Node, what string) []word {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		if w, ok := r.scalar(n, what); ok {
			return []word{w}
		}
		return nil
	}
	var out []word
	for _, v := range seq.Values {
		w, ok := r.scalar(v, what)
		if !ok {
			continue
		}
		if slices.ContainsFunc(out, func(o word) bool { return o.text == w.text }) {
			r.errorf(w.at, "%s: %q is listed twice", what, w.text)
		}
		out = append(out, w)
	}
	if len(seq.Values) == 0 {
		r.errorf(place(n), "%s: the list is empty", what)
	}
	return out
}

func (r *reader) list(n ast.Node, what string) []ast.Node {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.errorf(place(n), "%s must be a list", what)
		return nil
	}
	return seq.Values
}

// set reads the whole document.
func (r *reader) set(n ast.Node) {
	keys := []string{"set", "title", "os", "use", "record", "roles", "waits", "stages", "fallback"}
	for _, e := range r.mapping(n, "a stage file", keys) {
		switch e.key.text {
		case "set":
			w, _ := r.scalar(e.value, "set")
			if w.text != "" && !roleName.MatchString(w.text) {
				r.errorf(w.at, "bad set name %q: lower-case words joined by -", w.text)
			}
			r.file.Name = w.text
		case "title":
			w, _ := r.scalar(e.value, "title")
			r.file.Title = w.text
		case "os":
			w, _ := r.scalar(e.value, "os")
			if oses := []string{"linux", "darwin", "windows", "freebsd"}; !slices.Contains(oses, w.text) {
				r.errorf(w.at, "unknown os %q%s", w.text, hint(w.text, oses))
			}
			r.file.os = w.text
		case "use":
			r.file.use = r.words(e.value, "use")
		case "record":
			r.file.record = r.words(e.value, "record")
			for _, w := range r.file.record {
				if _, ok := recordable[w.text]; !ok {
					r.errorf(w.at, "record: unknown %q%s", w.text, hint(w.text, slices.Sorted(maps.Keys(recordable))))
				}
			}
		case "roles":
			r.file.roles = r.defs(e.value, roleDefs)
		case "waits":
			r.file.waits = r.defs(e.value, waitDefs)
		case "stages":
			r.file.stages = r.defs(e.value, stageDefs)
		case "fallback":
			r.file.fallback = r.defs(e.value, stageDefs)
		}
	}
	r.finish()
}

// finish checks what concerns the file as a whole.
func (r *reader) finish() {
	f := r.file
	if len(r.errors.list) > 0 {
		return
	}
	if f.Name == "" {
		r.errorf(pos{}, "the file does not say which set it is; it begins with set: NAME")
	}
	titled := map[string]bool{}
	for _, d := range f.stages {
		titled[d.name.text] = true
	}
	for _, d := range f.fallback {
		if d.title == "" && !titled[d.name.text] {
			r.errorf(d.name.at, "stage %s has no title", d.name.text)
		}
	}
	r.shadowed(f.stages)
	r.shadowed(f.fallback)
}

// defKind says how the entries of one of the lists look.
type defKind struct {
	key   string // which names the entry
	name  *regexp.Regexp
	shape string
	where where
	extra []string
	rules bool // must have rules
}

var (
	stageDefs = defKind{"stage", stageName, "lower-case words joined by dots, at least two (area.what)", inStage, nil, true}
	roleDefs  = defKind{"role", roleName, "lower-case words joined by -", inRole, nil, true}
	waitDefs  = defKind{"wait", waitName, "lower-case words joined by dots", inWait, []string{"terminal"}, false}
)

// defs reads one of the lists.
func (r *reader) defs(n ast.Node, k defKind) []def {
	var out []def
	for _, v := range r.list(n, k.key+"s") {
		d := r.def(v, k)
		if d.name.text == "" {
			continue
		}
		if i := slices.IndexFunc(out, func(o def) bool { return o.name.text == d.name.text }); i >= 0 {
			r.errorf(d.name.at, "duplicate %s %s: it is already at line %d", k.key, d.name.text, out[i].name.at.line)
			continue
		}
		out = append(out, d)
	}
	return out
}

func (r *reader) def(n ast.Node, k defKind) (d def) {
	what := "a " + k.key
	entries := r.mapping(n, what, append([]string{k.key, "title", "when"}, k.extra...))
	for _, e := range entries {
		switch e.key.text {
		case k.key:
			d.name, _ = r.scalar(e.value, k.key)
			if d.name.text != "" && !k.name.MatchString(d.name.text) {
				r.errorf(d.name.at, "bad %s name %q: %s", k.key, d.name.text, k.shape)
				d.name.text = ""
			}
		case "title":
			w, _ := r.scalar(e.value, "title")
			d.title = w.text
		case "terminal":
			w, _ := r.scalar(e.value, "terminal")
			d.terminal = w.text == "true"
			if w.text != "true" && w.text != "false" {
				r.errorf(w.at, "terminal must be true or false")
			}
		case "when":
			for _, v := range r.list(e.value, "when") {
				if rule, ok := r.rule(v, k.where); ok {
					d.rules = append(d.rules, rule)
				}
			}
		}
	}
	r.complete(n, d, k, entries)
	return d
}

// complete reports what an entry lacks.
func (r *reader) complete(n ast.Node, d def, k defKind, entries []entry) {
	has := func(key string) bool {
		return slices.ContainsFunc(entries, func(e entry) bool { return e.key.text == key })
	}
	switch {
	case len(entries) == 0:
	case !has(k.key):
		r.errorf(place(n), "the entry has no %s", k.key)
	case d.name.text == "":
	case k.key == "wait" && !has("title"), k.key == "stage" && has("title") && d.title == "":
		r.errorf(d.name.at, "%s %s has no title", k.key, d.name.text)
	case k.rules && !has("when"):
		r.errorf(d.name.at, "%s %s has no rules; add when:", k.key, d.name.text)
	}
}
