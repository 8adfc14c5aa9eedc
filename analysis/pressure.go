package analysis

import (
	"cmp"
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
	disk       map[diskUser]*diskUse  // what was read and written, by whomever
}

// diskUser is who used a block device, and what for.
type diskUser struct{ who, verb string }

type diskUse struct{ times, bytes int64 }

// diskVerbs says what a task does to a device, by the operation.
var diskVerbs = map[string]string{"read": "read", "write": "wrote", "zone-append": "wrote", "write-zeroes": "wrote",
	"flush": "flushed", "discard": "discarded", "secure-erase": "discarded"}

// notePressure adds up one operation.
func (an *Analyzer) notePressure(a *traceAnalysis, op *Operation, p pair) {
	s := an.pressure[op.Target]
	if s == nil {
		s = &pressure{cpu: map[string]tracer.Time{}, disk: map[diskUser]*diskUse{}}
		an.pressure[op.Target] = s
	}
	s.operations++
	for i := range op.Path.Segments {
		seg := &op.Path.Segments[i]
		if seg.State == tracer.StateRunnable && seg.By > 0 {
			who := a.who(seg.By, seg.Begin)
			switch seg.Wait {
			case a.waits.runqueue:
				who = "its own " + who
			case a.waits.tracer:
				who = "the tracer"
			}
			s.cpu[who] += seg.End - seg.Begin
		}
	}
	for i := p.begin; i <= p.end; i++ {
		e := &a.tr.Events[i]
		if e.Kind != tracer.KindPoint || e.Class != tracer.ClassIO || e.Task <= 0 {
			continue
		}
		verb, ok := diskVerbs[a.tr.String(e.Name)]
		if !ok {
			continue
		}
		k := diskUser{a.who(e.Task, e.Time), verb}
		n := s.disk[k]
		if n == nil {
			n = &diskUse{}
			s.disk[k] = n
		}
		n.times++
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
		return cmp.Or(cmp.Compare(p.cpu[b], p.cpu[a]), cmp.Compare(a, b))
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

// diskUsers names who read and wrote, those first that did most, with the mean
// per operation.
func (p *pressure) diskUsers() string {
	weight := func(k diskUser) int64 { return p.disk[k].bytes + 4096*p.disk[k].times }
	who := slices.SortedFunc(maps.Keys(p.disk), func(a, b diskUser) int {
		return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.who, b.who), cmp.Compare(a.verb, b.verb))
	})
	var out []string
	for _, k := range who[:min(len(who), mostNamed)] {
		n := p.disk[k]
		text := k.who + " " + k.verb
		if n.bytes > 0 {
			text += " " + bytesText(n.bytes/int64(p.operations))
		}
		out = append(out, text+fmt.Sprintf(" in %.1f parts", float64(n.times)/float64(p.operations)))
	}
	return strings.Join(out, ", ")
}

// bytesText prints a number of bytes in units of 1000.
func bytesText(n int64) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}
