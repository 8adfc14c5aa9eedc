package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"stagetrace/tracer"
)

// pressure is what others, and the operations themselves, took of the machine
// while the operations of one target waited for it.
type pressure struct {
	operations int
	cpu        map[string]tracer.Time // who had the CPU while a path waited for one
	issued     map[issuer]*issues     // block requests, whosever they are
}

// issuer is who issued block requests, and of which kind.
type issuer struct{ who, verb string }

type issues struct{ requests, bytes int64 }

// issueVerbs says what a request does, by its operation.
var issueVerbs = map[string]string{"read": "read", "write": "wrote", "zone-append": "wrote", "write-zeroes": "wrote",
	"flush": "flushed", "discard": "discarded", "secure-erase": "discarded"}

// notePressure adds up one operation.
func (an *Analyzer) notePressure(a *traceAnalysis, op *Operation, p pair) {
	s := an.pressure[op.Target]
	if s == nil {
		s = &pressure{cpu: map[string]tracer.Time{}, issued: map[issuer]*issues{}}
		an.pressure[op.Target] = s
	}
	s.operations++
	for i := range op.Path.Segments {
		seg := &op.Path.Segments[i]
		if seg.State == tracer.StateRunnable && seg.By > 0 {
			s.cpu[a.who(seg.By, seg.Begin)] += seg.End - seg.Begin
		}
	}
	for i := p.begin; i <= p.end; i++ {
		e := &a.tr.Events[i]
		if e.Kind != tracer.KindSend || e.Class != tracer.ClassIO {
			continue
		}
		k := issuer{"an interrupt", issueVerbs[a.tr.String(e.Name)]}
		if e.Ctx == tracer.CtxTask && e.Task > 0 {
			k.who = a.who(e.Task, e.Time)
		}
		if k.verb == "" {
			continue
		}
		n := s.issued[k]
		if n == nil {
			n = &issues{}
			s.issued[k] = n
		}
		n.requests++
		n.bytes += e.Value
	}
}

// who names a task for people: a worker by its work item, other kernel threads
// without the number of their CPU, processes by their name.
func (a *traceAnalysis) who(id tracer.TaskID, at tracer.Time) string {
	t := &a.tr.Tasks[id]
	if !t.Kernel {
		return a.tr.Tasks[a.tr.Leader(id)].Comm
	}
	if it := a.ix.itemAt(id, at); it != nil {
		return "kworker:" + a.tr.String(it.name)
	}
	name, rest, ok := strings.Cut(t.Comm, "/")
	if ok && (name == "kworker" || strings.Trim(rest, "0123456789") == "") {
		return name
	}
	return t.Comm
}

// Named at most, and from which share of the whole on.
const (
	mostNamed  = 4
	leastShare = 0.05
)

// preemptors names who had the CPUs, with their shares of the time waited.
func (p *pressure) preemptors() string {
	var all tracer.Time
	for _, d := range p.cpu {
		all += d
	}
	who := slices.SortedFunc(maps.Keys(p.cpu), func(a, b string) int {
		if p.cpu[a] != p.cpu[b] {
			return int(min(max(p.cpu[b]-p.cpu[a], -1), 1))
		}
		return strings.Compare(a, b)
	})
	var out []string
	for _, w := range who {
		share := float64(p.cpu[w]) / float64(all)
		if len(out) == mostNamed || share < leastShare {
			break
		}
		out = append(out, fmt.Sprintf("%s %.0f %%", w, 100*share))
	}
	return strings.Join(out, ", ")
}

// writers names who issued requests, those that wrote most first.
func (p *pressure) writers() string {
	weight := func(k issuer) int64 { return p.issued[k].bytes + 4096*p.issued[k].requests }
	who := slices.SortedFunc(maps.Keys(p.issued), func(a, b issuer) int {
		if d := weight(b) - weight(a); d != 0 {
			return int(min(max(d, -1), 1))
		}
		return strings.Compare(a.who+" "+a.verb, b.who+" "+b.verb)
	})
	var out []string
	for _, k := range who[:min(len(who), mostNamed)] {
		n, ops := p.issued[k], float64(p.operations)
		text := k.who + " " + k.verb
		if n.bytes > 0 {
			text += fmt.Sprintf(" %.3g kB", float64(n.bytes)/1000/ops)
		}
		out = append(out, text+fmt.Sprintf(" in %.3g requests", float64(n.requests)/ops))
	}
	return strings.Join(out, ", ")
}
