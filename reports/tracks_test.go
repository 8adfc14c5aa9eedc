package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// viewed is what a trace viewer would have read from a file, whatever its
// format.
type viewed struct {
	tracks   map[uint64]viewedTrack
	slices   []*viewedSlice
	counters map[string][][2]int64 // time and value
	from, to map[uint64][]*viewedSlice
}

type viewedTrack struct {
	name, process string
	pid, tid      uint64
}

type viewedSlice struct {
	track          viewedTrack
	begin, end     int64
	category, name string
	args           map[string]string
}

func newViewed() *viewed {
	return &viewed{tracks: map[uint64]viewedTrack{}, counters: map[string][][2]int64{}, from: map[uint64][]*viewedSlice{}, to: map[uint64][]*viewedSlice{}}
}

// decodeChrome reads the JSON as chrome://tracing does: an arrow binds to the
// innermost slice of its thread that is open at its time.
func decodeChrome(t *testing.T, data []byte) *viewed {
	t.Helper()
	var file struct {
		TraceEvents []struct {
			Ph, Name, Cat, Bp string
			Ts, Dur           float64
			PID               uint64
			TID               uint64
			ID                uint64
			Args              map[string]any
		}
		DisplayTimeUnit string
		OtherData       struct{ Warnings []string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	v := newViewed()
	nano := func(us float64) int64 { return int64(math.Round(us * 1000)) }
	names := map[[2]uint64]string{}
	processes := map[uint64]string{}
	for _, e := range file.TraceEvents {
		switch e.Ph {
		case "M":
			if e.Name == "process_name" {
				processes[e.PID] = e.Args["name"].(string)
			} else if e.Name == "thread_name" {
				names[[2]uint64{e.PID, e.TID}] = e.Args["name"].(string)
			}
		case "X":
			place := [2]uint64{e.PID, e.TID}
			if names[place] == "" || processes[e.PID] == "" {
				t.Fatalf("slice %q on a thread without a name", e.Name)
			}
			s := &viewedSlice{track: viewedTrack{names[place], processes[e.PID], e.PID, e.TID}, begin: nano(e.Ts), end: nano(e.Ts + e.Dur), category: e.Cat, name: e.Name, args: map[string]string{}}
			for k, a := range e.Args {
				s.args[k] = fmt.Sprint(a)
			}
			v.slices = append(v.slices, s)
		case "C":
			for _, n := range e.Args {
				v.counters[e.Name] = append(v.counters[e.Name], [2]int64{nano(e.Ts), int64(n.(float64))})
			}
		}
	}
	for _, e := range file.TraceEvents {
		if e.Ph != "s" && e.Ph != "f" {
			continue
		}
		at := nano(e.Ts)
		var in *viewedSlice
		for _, s := range v.slices {
			if s.track.pid == e.PID && s.track.tid == e.TID && s.begin <= at && at < s.end && s.category == "path" {
				in = s
			}
		}
		if in == nil || e.Ph == "f" && e.Bp != "e" {
			t.Fatalf("arrow %d at %d is on no slice", e.ID, at)
		}
		if e.Ph == "s" {
			v.from[e.ID] = append(v.from[e.ID], in)
		} else {
			v.to[e.ID] = append(v.to[e.ID], in)
		}
	}
	return v
}

// oneAfterTheOther is n operations of a target that do not overlap, as those
// of a real recording.
func oneAfterTheOther(n int) *Input {
	f := newFixture(0)
	f.result.Operations, f.ops = nil, nil
	var at tracer.Time
	for i := range n {
		op := operation(nastyTrace(), stageSet(), nastyTarget, i+1, tracer.Time(1000+i))
		op.Trace.Tasks[1].Tracer = false
		shiftOperation(op, at)
		at += op.End - op.Begin + 10_000_000
		f.ops = append(f.ops, op)
		f.result.Operations = append(f.result.Operations, op.OperationResult)
	}
	return f.input()
}

func shiftOperation(op *analysis.Operation, by tracer.Time) {
	op.Begin += by
	op.End += by
	op.Trace.Meta.Begin += by
	for i := range op.Path.Segments {
		op.Path.Segments[i].Begin += by
		op.Path.Segments[i].End += by
	}
	for i := range op.Off {
		op.Off[i].Begin += by
		op.Off[i].End += by
	}
	for i := range op.Trace.Events {
		op.Trace.Events[i].Time += by
	}
}

var viewers = []struct {
	format string
	decode func(*testing.T, []byte) *viewed
}{{"perfetto", decodePerfetto}, {"chrome", decodeChrome}}

func eachOperation(t *testing.T, in *Input, f func(*analysis.Operation)) {
	t.Helper()
	if err := in.Operations(func(op *analysis.Operation) error { f(op); return nil }); err != nil {
		t.Fatal(err)
	}
}

// The path's slices are the segments, and its arrows are where it goes from
// one task to another: from the slice before to the slice after.
func TestTracksOfThePath(t *testing.T) {
	checkPathTracks(t, oneAfterTheOther(3))
}

func checkPathTracks(t *testing.T, in *Input) {
	t.Helper()
	for _, c := range viewers {
		v := c.decode(t, render(t, c.format, in))
		var path []*viewedSlice
		for _, s := range v.slices {
			if s.category == "path" {
				path = append(path, s)
			}
		}
		slices.SortStableFunc(path, func(a, b *viewedSlice) int { return int(a.begin - b.begin) })
		at, flow := 0, uint64(0)
		eachOperation(t, in, func(op *analysis.Operation) {
			for i := range op.Path.Segments {
				seg := &op.Path.Segments[i]
				if at >= len(path) {
					t.Fatalf("%s: %d slices", c.format, len(path))
				}
				s := path[at]
				if s.begin != int64(seg.Begin) || s.end != int64(seg.End) || s.name != op.StageName(seg) || s.args["state"] != seg.State.String() || s.args["operation"] != fmt.Sprint(op.Index) {
					t.Errorf("%s: segment %d is %+v", c.format, i, s)
				}
				at++
				if i == 0 || op.Path.Segments[i-1].Task == seg.Task {
					continue
				}
				flow++
				if len(v.from[flow]) != 1 || len(v.to[flow]) != 1 || v.from[flow][0] != path[at-2] || v.to[flow][0] != s {
					t.Errorf("%s: flow %d does not join segments %d and %d", c.format, flow, i-1, i)
				}
			}
		})
		if at != len(path) || int(flow) != len(v.from) || int(flow) != len(v.to) {
			t.Errorf("%s: %d slices, %d and %d flows; want %d and %d", c.format, len(path), len(v.from), len(v.to), at, flow)
		}
		v.nest(t, c.format)
	}
}

// nest checks that the slices of a track lie beside or inside of each other.
func (v *viewed) nest(t *testing.T, format string) {
	t.Helper()
	for i, a := range v.slices {
		for _, b := range v.slices[:i] {
			if a.track == b.track && a.begin < b.end && b.begin < a.end && (a.begin < b.begin || a.end > b.end) && (b.begin < a.begin || b.end > a.end) {
				t.Errorf("%s: on %q %s %d-%d and %s %d-%d overlap", format, a.track.name, a.name, a.begin, a.end, b.name, b.begin, b.end)
			}
		}
	}
}

func (v *viewed) find(category, name string) *viewedSlice {
	for _, s := range v.slices {
		if s.category == category && strings.Contains(s.name, name) {
			return s
		}
	}
	return &viewedSlice{}
}

// Calls, counters, and where events were lost.
func TestTracksOfTheRecording(t *testing.T) {
	in := oneAfterTheOther(1)
	for _, c := range viewers {
		v := c.decode(t, render(t, c.format, in))
		call, inner, cut, work, lost := v.find("syscall", "openat"), v.find("func", "copy_net_ns"), v.find("softirq", ""), v.find("work", "cleanup_net"), v.find("lost", "")
		if call.begin != 1_060_000 || call.end != 1_100_000 || call.args["returned"] != "3" || !strings.Contains(call.args["path"], `two\x0alines`) {
			t.Errorf("%s: call %+v", c.format, call)
		}
		if inner.begin != 1_070_000 || inner.end != 1_090_000 || inner.track != call.track || !strings.HasSuffix(inner.track.name, " calls") {
			t.Errorf("%s: call inside of it %+v", c.format, inner)
		}
		if cut.end != call.end || cut.args["incomplete"] == "" {
			t.Errorf("%s: call whose end was lost %+v", c.format, cut)
		}
		if work.begin != 1_900_000 || work.args["incomplete"] == "" {
			t.Errorf("%s: work item %+v", c.format, work)
		}
		if lost.begin != 1000 || lost.end != 1_300_000 || lost.name != "12 events lost" {
			t.Errorf("%s: loss %+v", c.format, lost)
		}
		if got := fmt.Sprint(v.counters["lost events"]); got != "[[1000 0] [1300000 12]]" {
			t.Errorf("%s: lost events %s", c.format, got)
		}
		if got := fmt.Sprint(v.counters["tasks waiting for a CPU"]); got != "[[1000000 0] [1010000 1] [1050000 0] [1240000 1] [1250000 0]]" {
			t.Errorf("%s: waiting tasks %s", c.format, got)
		}
	}
}

// What is wrong with a run is on the track of its operations.
func TestTracksShowDoubt(t *testing.T) {
	f := newFixture(3)
	f.result.Totals.Incomplete = true
	for _, c := range viewers {
		text := string(render(t, c.format, f.input()))
		for _, want := range []string{"Incomplete: the run", "Lost: 12 events", "(lost events)", "(failed)"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: nothing says %q", c.format, want)
			}
		}
	}
}

func TestTake(t *testing.T) {
	taken := map[int32]bool{0: true}
	if a, b, c, d := take(taken, 7), take(taken, 7), take(taken, 7), take(taken, -1); a != 7 || b != 1<<22 || c != 1<<22+1 || d != 1<<22+2 {
		t.Errorf("numbers %d %d %d %d", a, b, c, d)
	}
}
