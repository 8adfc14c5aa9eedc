package stage

import (
	"slices"
	"strings"

	"stagetrace/tracer"
)

// MomentKind is what happened at a Moment.
type MomentKind uint8

const (
	MomentExec  MomentKind = iota // a program begins
	MomentExit                    // a thread begins to die
	MomentBegin                   // a span begins
	MomentEnd                     // a span ends
	MomentWoken                   // a thread of another process, in task context, wakes one of the threads
	MomentWakes                   // one of the threads, in task context, wakes one of another process
)

// Moment is something that happened to a process, for window rules.
type Moment struct {
	Time  tracer.Time
	Task  tracer.TaskID
	What  MomentKind
	Class tracer.Class // of MomentBegin and MomentEnd, as are Name and Args
	Name  tracer.StringID
	Args  tracer.ArgsID
	Waker ActorID // of MomentWoken: who did; of MomentWakes: who is woken
	Actor ActorID // of MomentExec: the new program
}

// Window says that a process was inside window rule Bit during [Begin, End).
type Window struct {
	Bit        uint8
	Begin, End tracer.Time
}

// eventFamilies are the terms that make an event what it is; an event has one.
var eventFamilies = []struct {
	key   string
	what  eventKind
	class tracer.Class
}{
	{"syscall", eventSpan, tracer.ClassSyscall}, {"func", eventSpan, tracer.ClassFunc}, {"user", eventSpan, tracer.ClassUser},
	{"work", eventSpan, tracer.ClassWork}, {"softirq", eventSpan, tracer.ClassSoftirq}, {"irq", eventSpan, tracer.ClassIRQ},
	{"tracepoint", eventSpan, tracer.ClassTracepoint}, {"woken-by", eventWoken, 0}, {"wakes", eventWakes, 0},
}

// window compiles from and until; -1 when the rule has neither.
func (c *compiler) window(f *File, d *ruleDef, actor actorCond) int {
	from, hasFrom := d.terms["from"]
	until, hasUntil := d.terms["until"]
	if !hasFrom && !hasUntil {
		return -1
	}
	text := func(t term) string {
		s := t.texts()
		slices.Sort(s)
		return strings.Join(s, " | ")
	}
	key := text(from) + " -> " + text(until)
	bit, ok := c.winBit[key]
	if !ok {
		bit = len(c.set.windows)
		if bit == maxWindows {
			at := from.at
			if !hasFrom {
				at = until.at
			}
			c.errorf(f, at, "more than %d different from/until windows in a set", maxWindows)
			return -1
		}
		c.winBit[key] = bit
		c.set.windows = append(c.set.windows, window{c.events(f, from.events, true), c.events(f, until.events, false), nil})
	}
	c.set.windows[bit].users = append(c.set.windows[bit].users, actor)
	return bit
}

func (c *compiler) events(f *File, defs []eventDef, from bool) (out []event) {
	for i := range defs {
		d := &defs[i]
		e := event{pick: d.pick, end: from}
		switch d.text {
		case "exec":
			e.what = eventExec
		case "exit":
			e.what = eventExit
		default:
			c.event(f, d, &e)
		}
		out = append(out, e)
	}
	return out
}

func (c *compiler) event(f *File, d *eventDef, e *event) {
	n := 0
	for _, fam := range eventFamilies {
		if _, ok := d.term.terms[fam.key]; !ok {
			continue
		}
		n++
		e.what = fam.what
		if fam.what == eventSpan {
			e.spans = spanTerm{fam.class, globsOf(&d.term, fam.key, false)}
		} else {
			e.roles, _ = c.roleIDs(f, &d.term, fam.key)
		}
	}
	if n != 1 {
		c.errorf(f, d.at, "an event is one of syscall, func, user, work, softirq, irq, tracepoint, woken-by, wakes; here are %d", n)
		return
	}
	e.args = argTerms(&d.term)
	if at := d.term.terms["at"].words; len(at) == 1 {
		e.end = at[0].text == "end"
	}
	c.needEvent(f, &d.term, e)
}

// HasWindows tells whether window rules ask about processes like this.
func (m *Matcher) HasWindows(a ActorID) bool { return m.actor(a).windows != 0 }

// Windows finds, in the life [begin, end) of one program of one process, when
// it was inside which window rules. moments is what happened to all its
// threads, in time order. Where from is seen again after until, the window
// opens again; where until is never seen, it lasts to the end; where from is
// never seen, there is none. The result is in order of bits, then of time.
func (m *Matcher) Windows(a ActorID, begin, end tracer.Time, moments []Moment) (out []Window) {
	mask := m.actor(a).windows
	if mask == 0 {
		return nil
	}
	args := m.argsOf(moments)
	for bit := range m.set.windows {
		if mask&(1<<bit) == 0 {
			continue
		}
		w := &m.set.windows[bit]
		opens, closes := []tracer.Time{begin}, []tracer.Time(nil)
		if len(w.from) > 0 {
			opens = m.times(w.from, end, moments, args)
		}
		closes = m.times(w.until, end, moments, args)
		at := begin
		for _, t := range opens {
			if t < at || t >= end {
				continue
			}
			close := end
			if i, _ := slices.BinarySearch(closes, t+1); i < len(closes) {
				close = min(closes[i], end)
			}
			out = append(out, Window{uint8(bit), t, close})
			at = close
		}
	}
	return out
}

// argsOf gives each moment the arguments of its span: they are often known
// only at its end, and until asks at its begin.
func (m *Matcher) argsOf(moments []Moment) []tracer.ArgsID {
	type span struct {
		task  tracer.TaskID
		class tracer.Class
		name  tracer.StringID
	}
	out := make([]tracer.ArgsID, len(moments))
	open := map[span]int{}
	for i := range moments {
		mo := &moments[i]
		k := span{mo.Task, mo.Class, mo.Name}
		switch mo.What {
		case MomentBegin:
			out[i] = mo.Args
			open[k] = i
		case MomentEnd:
			out[i] = mo.Args
			if b, ok := open[k]; ok {
				if out[i] == 0 {
					out[i] = out[b]
				} else if out[b] == 0 {
					out[b] = out[i]
				}
				delete(open, k)
			}
		}
	}
	return out
}

// times lists when any of the events happened, in order.
func (m *Matcher) times(events []event, end tracer.Time, moments []Moment, args []tracer.ArgsID) (out []tracer.Time) {
	for i := range events {
		e := &events[i]
		n := len(out)
		for j := range moments {
			if m.happens(e, &moments[j], args[j], end) {
				out = append(out, moments[j].Time)
			}
		}
		if hits := out[n:]; len(hits) > 1 {
			switch {
			case e.pick == "first", e.what == eventExec:
				out = out[:n+1]
			// A thread may end long before its process: the last one counts.
			case e.pick == "last", e.what == eventExit:
				out = append(out[:n], hits[len(hits)-1])
			}
		}
	}
	slices.Sort(out)
	return out
}

func (m *Matcher) happens(e *event, mo *Moment, args tracer.ArgsID, end tracer.Time) bool {
	switch e.what {
	case eventExec:
		return mo.What == MomentExec && mo.Time < end // at the end it is the next program's
	case eventExit:
		return mo.What == MomentExit
	case eventWoken:
		return mo.What == MomentWoken && slices.Contains(e.roles, m.Role(mo.Waker))
	case eventWakes:
		return mo.What == MomentWakes && slices.Contains(e.roles, m.Role(mo.Waker))
	}
	return (mo.What == MomentEnd && e.end || mo.What == MomentBegin && !e.end) && mo.Class == e.spans.class &&
		matchAny(e.spans.globs, m.tr.String(mo.Name)) && m.argsMatch(e.args, args)
}
