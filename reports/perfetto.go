package reports

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"stagetrace/analysis"
	"stagetrace/tracer"
)

// Field numbers of Perfetto's trace format that are written here, from its
// protos/perfetto/trace/perfetto_trace.proto, by message.
const (
	fieldTracePacket = 1 // Trace.packet

	packetClockSnapshot   = 6 // TracePacket
	packetTimestamp       = 8
	packetSequenceID      = 10 // trusted_packet_sequence_id
	packetTrackEvent      = 11
	packetSequenceFlags   = 13
	packetTimestampClock  = 58
	packetTrackDescriptor = 60

	snapshotClocks  = 1 // ClockSnapshot
	snapshotPrimary = 2 // primary_trace_clock
	clockID         = 1 // ClockSnapshot.Clock
	clockTimestamp  = 2

	trackUUID    = 1 // TrackDescriptor
	trackName    = 2
	trackProcess = 3
	trackThread  = 4
	trackParent  = 5

	processPID  = 1 // ProcessDescriptor
	processName = 6
	threadPID   = 1 // ThreadDescriptor
	threadTID   = 2
	threadName  = 5

	eventAnnotations     = 4 // TrackEvent
	eventType            = 9
	eventTrack           = 11
	eventCategories      = 22
	eventName            = 23
	eventFlows           = 47 // fixed64
	eventTerminatedFlows = 48 // fixed64

	annotationInt    = 4 // DebugAnnotation
	annotationString = 6
	annotationName   = 10
)

// Values of enumerations.
const (
	sliceBegin   = 1 // TrackEvent.Type
	sliceEnd     = 2
	clockOfTrace = 3 // BuiltinClock.BUILTIN_CLOCK_MONOTONIC
	stateCleared = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	sequence     = 1
)

// perfettoWriter writes packets one by one; tracks are described before
// their first event.
type perfettoWriter struct {
	out    *bufio.Writer
	err    error
	tracks map[trackKey]uint64
	procs  map[int32]uint64
	clock  bool
	flow   uint64
	ops    uint64
	next   uint64                   // id of the next track
	lanes  map[trackKey]tracer.Time // where the last slice of a track ends
	*stacks
}

// trackKey names a track: a thread's path (lane 0) or its work off the path
// (from 1, as many as overlap).
type trackKey struct {
	task tracer.TaskKey
	lane int
}

// writePerfetto writes the operations as slices on a track of their own, their
// critical paths as slices (stage by stage) on the tracks of the threads that
// they run through, joined by flows, and the work off the path on tracks beside.
func writePerfetto(w io.Writer, in *Input) error {
	each, err := operations(in)
	if err != nil {
		return err
	}
	p := &perfettoWriter{out: bufio.NewWriter(w), tracks: map[trackKey]uint64{}, procs: map[int32]uint64{}, lanes: map[trackKey]tracer.Time{}, stacks: newStacks()}
	r := in.Result
	if r == nil {
		r = &analysis.Result{}
	}
	p.ops = p.track(strings.Join(append([]string{"operations: " + title(r, Clean)}, losses(r)...), " "), nil)
	err = each(func(op *analysis.Operation) error {
		p.operation(op)
		return p.err
	})
	if err != nil {
		return err
	}
	return cmp.Or(p.err, p.out.Flush())
}

// bytesField, varintField and fixedField append one field.
func bytesField(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func varintField(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func fixedField(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), v)
}

func (p *perfettoWriter) packet(body []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(bytesField(nil, fieldTracePacket, body))
	}
}

// track describes a new track and returns its id. extra are more fields of
// its descriptor.
func (p *perfettoWriter) track(name string, extra []byte) uint64 {
	p.next++
	id := p.next
	d := varintField(nil, trackUUID, id)
	if name != "" {
		d = bytesField(d, trackName, []byte(name))
	}
	d = append(d, extra...)
	body := varintField(nil, packetSequenceID, sequence)
	if id == 1 {
		body = varintField(body, packetSequenceFlags, stateCleared)
	}
	p.packet(bytesField(body, packetTrackDescriptor, d))
	return id
}

// thread is the track of a task's path, or of its off-path lane.
func (p *perfettoWriter) thread(tr *tracer.Trace, id tracer.TaskID, at tracer.Time, lane int) uint64 {
	t := &tracer.Task{TID: -1, PID: -1}
	if id >= 0 && int(id) < len(tr.Tasks) {
		t = &tr.Tasks[id]
	}
	key := trackKey{tracer.TaskKey{TID: t.TID, Start: t.Start}, lane}
	if uuid, ok := p.tracks[key]; ok {
		return uuid
	}
	process, thread := p.names(tr, id, at)
	parent, ok := p.procs[t.PID]
	if !ok {
		pd := varintField(nil, processPID, uint64(max(t.PID, 0)))
		pd = bytesField(pd, processName, []byte(process))
		parent = p.track(process, bytesField(nil, trackProcess, pd))
		p.procs[t.PID] = parent
	}
	extra := varintField(nil, trackParent, parent)
	name := thread + " off the path"
	if lane == 0 {
		td := varintField(nil, threadPID, uint64(max(t.PID, 0)))
		td = varintField(td, threadTID, uint64(max(t.TID, 0)))
		td = bytesField(td, threadName, []byte(thread))
		extra, name = bytesField(extra, trackThread, td), thread
	}
	uuid := p.track(name, extra)
	p.tracks[key] = uuid
	return uuid
}

// annotation is one named value of a slice.
type annotation struct {
	name, text string
	number     int64
}

// slice is one span on a track.
type slice struct {
	track      uint64
	begin, end tracer.Time
	name       string
	category   string
	notes      []annotation
	from, to   uint64 // flows that start here and that end here; 0: none
}

func (p *perfettoWriter) slice(s *slice) {
	e := varintField(nil, eventType, sliceBegin)
	e = varintField(e, eventTrack, s.track)
	e = bytesField(e, eventCategories, []byte(s.category))
	e = bytesField(e, eventName, []byte(s.name))
	for _, n := range s.notes {
		a := bytesField(nil, annotationName, []byte(n.name))
		if n.text != "" {
			a = bytesField(a, annotationString, []byte(n.text))
		} else {
			a = varintField(a, annotationInt, uint64(n.number))
		}
		e = bytesField(e, eventAnnotations, a)
	}
	if s.from != 0 {
		e = fixedField(e, eventFlows, s.from)
	}
	if s.to != 0 {
		e = fixedField(e, eventTerminatedFlows, s.to)
	}
	p.event(s.begin, e)
	p.event(s.end, varintField(varintField(nil, eventType, sliceEnd), eventTrack, s.track))
}

func (p *perfettoWriter) event(at tracer.Time, e []byte) {
	if !p.clock { // the trace's clock is ours, else it would be taken for BOOTTIME
		p.clock = true
		c := varintField(varintField(nil, clockID, clockOfTrace), clockTimestamp, uint64(at))
		snap := varintField(bytesField(nil, snapshotClocks, c), snapshotPrimary, clockOfTrace)
		body := varintField(nil, packetTimestamp, uint64(at))
		body = varintField(body, packetTimestampClock, clockOfTrace)
		p.packet(bytesField(varintField(body, packetSequenceID, sequence), packetClockSnapshot, snap))
	}
	body := varintField(nil, packetTimestamp, uint64(at))
	body = varintField(body, packetTimestampClock, clockOfTrace)
	p.packet(bytesField(varintField(body, packetSequenceID, sequence), packetTrackEvent, e))
}

func (p *perfettoWriter) operation(op *analysis.Operation) {
	notes := []annotation{{name: "wall_ns", number: op.WallNs}, {name: "exit_code", number: int64(op.ExitCode)}}
	name := fmt.Sprintf("%s #%d", orNone(Clean(op.Target)), op.Index)
	if l := baseLabels(op); l.doubt != "" {
		notes = append(notes, annotation{name: "doubt", text: l.doubt}, annotation{name: "lost_events", number: int64(op.LostEvents)})
		name += " (" + l.doubt + ")"
	}
	p.slice(&slice{track: p.ops, begin: op.Begin, end: op.Begin + tracer.Time(op.WallNs), name: name, category: "operation", notes: notes})
	segs := op.Path.Segments
	var arriving uint64
	for i := range segs {
		seg := &segs[i]
		s := &slice{track: p.thread(op.Trace, seg.Task, seg.Begin, 0), begin: seg.Begin, end: seg.End, name: op.StageName(seg), category: "path", notes: p.notes(op, seg), to: arriving}
		arriving = 0
		if i+1 < len(segs) && segs[i+1].Task != seg.Task {
			p.flow++
			s.from, arriving = p.flow, p.flow
		}
		p.slice(s)
	}
	p.off(op)
}

func (p *perfettoWriter) notes(op *analysis.Operation, seg *analysis.Segment) []annotation {
	notes := []annotation{{name: "state", text: seg.State.String()}}
	if seg.State == tracer.StateBlocked {
		notes = append(notes, annotation{name: "wait", text: Clean(op.WaitName(seg))})
	}
	if name := op.Trace.String(seg.Syscall); name != "" {
		notes = append(notes, annotation{name: "system call", text: Clean(name)})
	}
	if int(seg.Stack) < len(op.Trace.Stacks) && len(op.Trace.Stacks[seg.Stack].Frames) > 0 {
		p.use(op.Trace)
		var names []string
		for _, f := range op.Trace.Stacks[seg.Stack].Frames {
			names = append(names, p.frames[p.traceFrame(f)].name)
		}
		notes = append(notes, annotation{name: "stack", text: strings.Join(names, " < ")})
	}
	return append(notes, annotation{name: "operation", number: int64(op.Index)})
}

// off writes work off the path; pieces of one task that overlap (one item that
// two operations caused) go to lanes of their own, as slices must nest.
func (p *perfettoWriter) off(op *analysis.Operation) {
	pieces := slices.Clone(op.Off)
	slices.SortStableFunc(pieces, func(a, b analysis.OffPath) int { return cmp.Compare(a.Begin, b.Begin) })
	for i := range pieces {
		o := &pieces[i]
		if o.End <= o.Begin || o.Task < 0 || int(o.Task) >= len(op.Trace.Tasks) {
			continue
		}
		t := &op.Trace.Tasks[o.Task]
		key := trackKey{tracer.TaskKey{TID: t.TID, Start: t.Start}, 1}
		for p.lanes[key] > o.Begin {
			key.lane++
		}
		p.lanes[key] = o.End
		p.slice(&slice{track: p.thread(op.Trace, o.Task, o.Begin, key.lane), begin: o.Begin, end: o.End, name: op.StageName(&analysis.Segment{Stage: o.Stage}), category: "off path",
			notes: []annotation{{name: "work", text: orNone(Clean(o.Name))}, {name: "cpu_ns", number: int64(o.CPU)}, {name: "operation", number: int64(op.Index)}}})
	}
}
