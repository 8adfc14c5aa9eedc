package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// Sample types of the wall profile. The list is fixed: pprof merges and
// compares files only when their types are the same.
var wallTypes = []*profile.ValueType{
	{Type: "path", Unit: "nanoseconds"},
	{Type: "running", Unit: "nanoseconds"},
	{Type: "runnable", Unit: "nanoseconds"},
	{Type: "blocked", Unit: "nanoseconds"},
	{Type: "offpath", Unit: "nanoseconds"},
	{Type: "count", Unit: "segments"},
}

// Indexes into wallTypes.
const (
	valuePath = iota
	valueRunning
	valueRunnable
	valueBlocked
	valueOffPath
	valueCount
)

// labels of a sample; empty ones are left out.
type labels struct {
	stage, process, thread, state, wait, target, path string
	op                                                int64
	doubt                                             string // why the operation is not in the statistics
}

// sampleKey is a stack and labels, by their numbers in a sampler.
type sampleKey struct{ stack, labels uint32 }

// sampler adds up samples that have the same stack and labels. Stacks and
// labels are kept once each: a run of many operations has few different ones,
// and very many pairs of them.
type sampler struct {
	*stacks
	width    int
	stackIDs table[string] // packed frame ids, root first
	labelIDs table[labels]
	samples  table[sampleKey]
	values   []int64 // width per sample
}

// table numbers different values in the order in which they come.
type table[K comparable] struct {
	ids  map[K]uint32
	list []K
}

func (t *table[K]) id(k K) uint32 {
	id, ok := t.ids[k]
	if !ok {
		if t.ids == nil {
			t.ids = map[K]uint32{}
		}
		id = uint32(len(t.list))
		t.list = append(t.list, k)
		t.ids[k] = id
	}
	return id
}

func newSampler(width int) *sampler { return &sampler{stacks: newStacks(), width: width} }

// at gives the values of a sample, to add to.
func (s *sampler) at(stack []uint32, l labels) []int64 {
	id := int(s.samples.id(sampleKey{s.stackIDs.id(pack(stack)), s.labelIDs.id(l)}))
	for len(s.values) < (id+1)*s.width {
		s.values = append(s.values, 0)
	}
	return s.values[id*s.width : (id+1)*s.width]
}

// operations are the recorded ones; the error says that there is no recording.
func operations(in *Input) (func(func(*analysis.Operation) error) error, error) {
	if in.Operations == nil {
		return nil, fmt.Errorf("this format %w", ErrNeedsOperations)
	}
	return in.Operations, nil
}

// writeWallProfile writes the critical paths of all operations. The values of
// "path" add up to their wall times.
func writeWallProfile(w io.Writer, in *Input) error {
	each, err := operations(in)
	if err != nil {
		return err
	}
	s := newSampler(len(wallTypes))
	var wall int64
	err = each(func(op *analysis.Operation) error {
		wall += op.WallNs
		return s.addPath(op)
	})
	if err != nil {
		return err
	}
	p := s.profile(in.Result, wallTypes, "path")
	p.DurationNanos = wall
	p.PeriodType, p.Period = &profile.ValueType{Type: "path", Unit: "nanoseconds"}, 1
	return writeProfile(w, p)
}

func (s *sampler) addPath(op *analysis.Operation) error {
	base := baseLabels(op)
	err := s.path(op, func(seg *analysis.Segment, stack []uint32, ns int64) {
		l := base
		if seg == nil {
			l.stage = unknownStage
			s.at(stack, l)[valuePath] += ns
			return
		}
		l.stage, l.state = Clean(op.StageName(seg)), seg.State.String()
		l.process, l.thread = s.names(op.Trace, seg.Task, seg.Begin)
		if seg.State == tracer.StateBlocked {
			l.wait = Clean(op.WaitName(seg))
		}
		v := s.at(stack, l)
		v[valuePath] += ns
		v[stateValue(seg.State)] += ns
		v[valueCount]++
	})
	if err != nil {
		return err
	}
	s.offPath(op, func(off *analysis.OffPath, stack []uint32) {
		l := base
		l.stage = Clean(op.StageName(&analysis.Segment{Stage: off.Stage}))
		l.process, l.thread = s.names(op.Trace, off.Task, off.Begin)
		s.at(stack, l)[valueOffPath] += int64(off.End - off.Begin)
	})
	return nil
}

// stateValue follows the breakdown: what is neither running nor runnable is
// blocked.
func stateValue(s tracer.TaskState) int {
	switch s {
	case tracer.StateRunning:
		return valueRunning
	case tracer.StateRunnable:
		return valueRunnable
	}
	return valueBlocked
}

func baseLabels(op *analysis.Operation) labels {
	// A number of 0 is dropped by the format; operations count from 1.
	l := labels{target: Clean(op.Target), op: int64(op.Index)}
	switch {
	case op.LostEvents > 0:
		l.doubt = "lost events"
	case op.Incomplete:
		l.doubt = "incomplete"
	case op.Failed:
		l.doubt = "failed"
	}
	return l
}

func (s *stacks) names(tr *tracer.Trace, id tracer.TaskID, at tracer.Time) (process, thread string) {
	process, thread = taskNames(tr, id, at)
	if thread == "" {
		thread = process
	}
	return Clean(process), Clean(thread)
}

// profile makes a pprof profile of the samples.
func (s *sampler) profile(r *analysis.Result, types []*profile.ValueType, dflt string) *profile.Profile {
	p := &profile.Profile{SampleType: types, DefaultSampleType: dflt, Comments: comments(r)}
	if r != nil {
		if t, err := time.Parse(time.RFC3339, r.Started); err == nil {
			p.TimeNanos = t.UnixNano()
		}
	}
	b := &profileBuilder{p: p, frames: s.frames, locations: make([]*profile.Location, len(s.frames)),
		mappings: map[[2]string]*profile.Mapping{}, functions: map[[2]string]*profile.Function{}}
	locations := make([][]*profile.Location, len(s.stackIDs.list))
	for i, packed := range s.stackIDs.list {
		ids := unpack(packed)
		locations[i] = make([]*profile.Location, 0, len(ids))
		for j := len(ids) - 1; j >= 0; j-- {
			locations[i] = append(locations[i], b.location(ids[j]))
		}
	}
	words := make([]map[string][]string, len(s.labelIDs.list))
	numbers := make([]map[string][]int64, len(s.labelIDs.list))
	for i := range s.labelIDs.list {
		l := &s.labelIDs.list[i]
		words[i] = l.strings()
		if l.op > 0 {
			numbers[i] = map[string][]int64{"op": {l.op}}
		}
	}
	for i, k := range s.samples.list {
		p.Sample = append(p.Sample, &profile.Sample{Value: s.values[i*s.width : (i+1)*s.width],
			Location: locations[k.stack], Label: words[k.labels], NumLabel: numbers[k.labels]})
	}
	// pprof takes the first mapping for the program that the profile is of.
	slices.SortStableFunc(p.Mapping, func(a, b *profile.Mapping) int {
		return cmp.Compare(kernelLast[a.File], kernelLast[b.File])
	})
	return p
}

// kernelLast sorts the kernel's mapping behind those of programs.
var kernelLast = map[string]int{kernelObject: 1}

func (l *labels) strings() map[string][]string {
	out := map[string][]string{}
	for _, kv := range [...][2]string{{"stage", l.stage}, {"process", l.process}, {"thread", l.thread}, {"state", l.state},
		{"wait", l.wait}, {"target", l.target}, {"path", l.path}, {"doubt", l.doubt}} {
		if kv[1] != "" {
			out[kv[0]] = []string{kv[1]}
		}
	}
	return out
}

// profileBuilder makes locations, functions and mappings on demand.
type profileBuilder struct {
	p         *profile.Profile
	frames    []frame
	locations []*profile.Location
	mappings  map[[2]string]*profile.Mapping
	functions map[[2]string]*profile.Function
}

func (b *profileBuilder) location(id uint32) *profile.Location {
	if l := b.locations[id]; l != nil {
		return l
	}
	f := &b.frames[id]
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: b.function(f)}}}
	if f.object != "" {
		l.Mapping, l.Address = b.mapping(f), f.address
	}
	b.p.Location = append(b.p.Location, l)
	b.locations[id] = l
	return l
}

// mapping covers the whole of an object from address 0, so that an address is
// an offset in its file, which is what symbolizers take.
func (b *profileBuilder) mapping(f *frame) *profile.Mapping {
	key := [2]string{f.object, f.buildID}
	m := b.mappings[key]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), File: f.object, BuildID: f.buildID, HasFunctions: true}
		b.mappings[key] = m
		b.p.Mapping = append(b.p.Mapping, m)
	}
	const page = 4096
	if f.address >= m.Limit && f.address < ^uint64(0)-page {
		m.Limit = (f.address/page + 1) * page
	}
	return m
}

func (b *profileBuilder) function(f *frame) *profile.Function {
	key := [2]string{f.name, f.object}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: f.name, SystemName: f.name, Filename: f.object}
		b.functions[key] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	return fn
}

func comments(r *analysis.Result) []string {
	if r == nil {
		return nil
	}
	var out []string
	add := func(key, value string) {
		if value != "" {
			out = append(out, key+": "+value)
		}
	}
	add("tool", Clean(r.Tool))
	add("measured", title(r, Clean))
	add("host", hostText(r, Clean))
	add("stage set", Clean(r.StageSet.Name+" "+r.StageSet.Hash))
	add("backend", Clean(r.Recording.Backend))
	for _, l := range losses(r) {
		add("warning", l)
	}
	return out
}

func writeProfile(w io.Writer, p *profile.Profile) error {
	if err := p.CheckValid(); err != nil {
		return fmt.Errorf("pprof profile: %w", err)
	}
	return p.Write(w)
}
