package stage

import (
	"cmp"
	"slices"
	"strings"

	"stagetrace/tracer"
)

// needSyscalls adds the exact spans that a rule needs: of calls whose
// arguments it looks at, or which it says it wants exactly. What a plain
// syscall term needs is recorded anyway.
func (c *compiler) needSyscalls(f *File, d *ruleDef, names []glob, args bool) {
	if _, exact := d.terms["exact"]; !exact && !args {
		return
	}
	for i := range names {
		g := &names[i]
		if !g.star {
			c.probes[tracer.Probe{Class: tracer.ClassSyscall, Symbol: g.text}] = true
			continue
		}
		if f.os != "linux" {
			c.errorf(f, d.terms["syscall"].at, "%q: a call that is recorded exactly needs its full name", g.text)
		}
		for _, name := range strings.Fields(linuxSyscalls) {
			if g.match(name) {
				c.probes[tracer.Probe{Class: tracer.ClassSyscall, Symbol: name}] = true
			}
		}
	}
}

// needNames adds a probe for each value of a term. Names with wildcards stay
// as they are: only the backend knows the names there are.
func (c *compiler) needNames(class tracer.Class, target string, d *ruleDef, key string) {
	for _, w := range d.terms[key].words {
		c.probes[tracer.Probe{Class: class, Target: target, Symbol: w.text}] = true
	}
}

// needUser adds the probes of user functions that are recorded exactly.
func (c *compiler) needUser(f *File, d *ruleDef, at pos) {
	objects := d.terms["object"].words
	if len(objects) == 0 {
		c.errorf(f, at, "a user function that is recorded exactly needs the file that it is in: object")
	}
	for _, o := range objects {
		c.needNames(tracer.ClassUser, o.text, d, "user")
	}
}

// needEvent adds what an event needs. An event is a moment: a stack or a
// sample cannot stand for it.
func (c *compiler) needEvent(f *File, d *ruleDef, e *event) {
	switch e.spans.class {
	case tracer.ClassSyscall:
		c.needSyscalls(f, d, e.spans.globs, true)
	case tracer.ClassFunc:
		c.needNames(tracer.ClassFunc, "", d, "func")
	case tracer.ClassUser:
		for _, o := range d.terms["object"].words {
			c.needNames(tracer.ClassUser, o.text, d, "user")
		}
	case tracer.ClassTracepoint:
		c.needNames(tracer.ClassTracepoint, "", d, "tracepoint")
	case tracer.ClassNone:
	default:
		c.probes[tracer.Probe{Class: e.spans.class}] = true
	}
}

// recordable is what a set can ask for that carries cause from one task to
// another, beyond what its rules mention: each costs something per event.
var recordable = map[string]tracer.Class{
	"messages": tracer.ClassSocket, // sent on sockets and read from them: who queued behind whom
	"timers":   tracer.ClassTimer,  // being armed: who has a timer's work done
	"requests": tracer.ClassIO,     // to block devices: who writes
}

func (c *compiler) needRecord(f *File) {
	for _, w := range f.record {
		c.probes[tracer.Probe{Class: recordable[w.text]}] = true
	}
}

func (c *compiler) sortedProbes() (out []tracer.Probe) {
	for p := range c.probes {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b tracer.Probe) int {
		return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Symbol, b.Symbol))
	})
	return out
}
