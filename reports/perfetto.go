package reports

import (
	"bufio"
	"cmp"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

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
	trackCounter = 8

	processPID  = 1 // ProcessDescriptor
	processName = 6
	threadPID   = 1 // ThreadDescriptor
	threadTID   = 2
	threadName  = 5

	counterUnitName = 6 // CounterDescriptor

	eventAnnotations     = 4 // TrackEvent
	eventType            = 9
	eventTrack           = 11
	eventCategories      = 22
	eventName            = 23
	eventCounter         = 30 // counter_value
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
	counterValue = 4 // TYPE_COUNTER
	clockOfTrace = 3 // BuiltinClock.BUILTIN_CLOCK_MONOTONIC
	stateCleared = 1 // SEQ_INCREMENTAL_STATE_CLEARED
	sequence     = 1
)

// perfettoSink writes packets one by one.
type perfettoSink struct {
	out   *bufio.Writer
	err   error
	begun bool
	clock bool
}

// writePerfetto writes tracks in Perfetto's format, https://perfetto.dev/docs/reference/synthetic-track-event.
func writePerfetto(w io.Writer, in *Input) error {
	return writeTracks(&perfettoSink{out: bufio.NewWriter(w)}, in)
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

func (p *perfettoSink) close() error { return cmp.Or(p.err, p.out.Flush()) }

func (p *perfettoSink) packet(body []byte) {
	if p.err == nil {
		_, p.err = p.out.Write(bytesField(nil, fieldTracePacket, body))
	}
}

func (p *perfettoSink) track(t *track) {
	d := varintField(nil, trackUUID, t.id)
	d = bytesField(d, trackName, []byte(t.name))
	switch {
	case t.counter != "":
		d = bytesField(d, trackCounter, bytesField(nil, counterUnitName, []byte(t.counter)))
	case t.parent != nil:
		d = varintField(d, trackParent, t.parent.id)
		if t.tid >= 0 {
			td := varintField(nil, threadPID, uint64(t.pid))
			td = varintField(td, threadTID, uint64(t.tid))
			d = bytesField(d, trackThread, bytesField(td, threadName, []byte(t.name)))
		}
	case t.pid >= 0:
		pd := varintField(nil, processPID, uint64(t.pid))
		d = bytesField(d, trackProcess, bytesField(pd, processName, []byte(t.name)))
	}
	body := varintField(nil, packetSequenceID, sequence)
	if !p.begun {
		p.begun = true
		body = varintField(body, packetSequenceFlags, stateCleared)
	}
	p.packet(bytesField(body, packetTrackDescriptor, d))
}

func (p *perfettoSink) counter(t *track, at tracer.Time, value int64) {
	e := varintField(nil, eventType, counterValue)
	e = varintField(e, eventTrack, t.id)
	p.event(at, varintField(e, eventCounter, uint64(value)))
}

func (p *perfettoSink) slice(s *slice) {
	e := varintField(nil, eventType, sliceBegin)
	e = varintField(e, eventTrack, s.track.id)
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
	p.event(s.end, varintField(varintField(nil, eventType, sliceEnd), eventTrack, s.track.id))
}

func (p *perfettoSink) event(at tracer.Time, e []byte) {
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
