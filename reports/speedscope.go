package reports

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"stagetrace/analysis"
)

const speedscopeSchema = "https://www.speedscope.app/file-format-schema.json"

// speedscopeProfile is a "sampled" profile: stacks of frame numbers, root
// first, and what each weighs. Speedscope draws them in this order, so the
// stacks of a path are a time line.
type speedscopeProfile struct {
	Type    string     `json:"type"`
	Name    string     `json:"name"`
	Unit    string     `json:"unit"`
	Start   int64      `json:"startValue"`
	End     int64      `json:"endValue"`
	Samples [][]uint32 `json:"samples"`
	Weights []int64    `json:"weights"`
}

type speedscopeFrame struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
}

func newSpeedscopeProfile(format string, args ...any) *speedscopeProfile {
	return &speedscopeProfile{Type: "sampled", Name: fmt.Sprintf(format, args...), Unit: "nanoseconds", Samples: [][]uint32{}, Weights: []int64{}}
}

// add appends a stack, or lengthens the last one if it is the same.
func (p *speedscopeProfile) add(stack []uint32, ns int64) {
	if ns <= 0 {
		return
	}
	p.End += ns
	if n := len(p.Samples); n > 0 && slices.Equal(p.Samples[n-1], stack) {
		p.Weights[n-1] += ns
		return
	}
	p.Samples = append(p.Samples, stack)
	p.Weights = append(p.Weights, ns)
}

// speedscopeWriter writes profiles one by one, and the frames that they share
// after them: the frames are known only then.
type speedscopeWriter struct {
	out *bufio.Writer
	err error
	n   int
}

// writeSpeedscope writes, for https://www.speedscope.app, the critical path of
// each operation as a time line, all of them together, and the CPU samples.
func writeSpeedscope(w io.Writer, in *Input) error {
	each, err := operations(in)
	if err != nil {
		return err
	}
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	out := &speedscopeWriter{out: bufio.NewWriter(w)}
	name, err := json.Marshal(strings.Join(append([]string{title(r, Clean)}, losses(r)...), " "))
	if err != nil {
		return err
	}
	out.print("{\"$schema\": %q, \"exporter\": \"stagetrace\", \"name\": %s, \"profiles\": [\n", speedscopeSchema, name)
	all, cpu := newSampler(1), newSampler(len(cpuTypes))
	cpu.stacks = all.stacks
	err = each(func(op *analysis.Operation) error {
		cpu.addSamples(op)
		return out.operation(op, all)
	})
	if err != nil {
		return err
	}
	out.profile(all.speedscope("critical path of all operations", 0))
	out.profile(cpu.speedscope("CPU samples, on and off the path", 1))
	return out.close(all.stacks, max(out.n-2, 0))
}

func (w *speedscopeWriter) print(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format, args...)
	}
}

func (w *speedscopeWriter) profile(p *speedscopeProfile) {
	text, err := json.Marshal(p)
	w.err = cmp.Or(w.err, err)
	if w.n > 0 {
		w.print(",\n")
	}
	w.n++
	w.print("%s", text)
}

// operation writes one path, and adds it to all.
func (w *speedscopeWriter) operation(op *analysis.Operation, all *sampler) error {
	doubt := ""
	if l := baseLabels(op); l.doubt != "" {
		doubt = " (" + l.doubt + ")"
	}
	p := newSpeedscopeProfile("%s #%d%s", orNone(Clean(op.Target)), op.Index, doubt)
	err := all.path(op, func(_ *analysis.Segment, stack []uint32, ns int64) {
		own := slices.Clone(stack)
		p.add(own, ns)
		all.at(own, labels{})[0] += ns
	})
	if err != nil {
		return err
	}
	w.profile(p)
	return w.err
}

// speedscope makes one profile of the samples' values.
func (s *sampler) speedscope(name string, value int) *speedscopeProfile {
	p := newSpeedscopeProfile("%s", name)
	sums := make([]int64, len(s.stackIDs.list))
	for i, k := range s.samples.list {
		sums[k.stack] += s.values[i*s.width+value]
	}
	for i, ns := range sums {
		p.add(unpack(s.stackIDs.list[i]), ns)
	}
	return p
}

// close writes the frames. active is the profile that is shown first.
func (w *speedscopeWriter) close(s *stacks, active int) error {
	frames := make([]speedscopeFrame, len(s.frames))
	for i := range s.frames {
		frames[i] = speedscopeFrame{s.frames[i].name, s.frames[i].object}
	}
	text, err := json.Marshal(frames)
	w.print("\n], \"activeProfileIndex\": %d, \"shared\": {\"frames\": %s}}\n", active, text)
	return cmp.Or(w.err, err, w.out.Flush())
}
