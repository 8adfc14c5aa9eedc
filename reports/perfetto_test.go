package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a decoded protobuf message: field number to values.
type message map[protowire.Number][]any

func decodeMessage(t *testing.T, b []byte) message {
	t.Helper()
	m := message{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		var v any
		switch typ {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
		default:
			t.Fatalf("field %d has type %d", num, typ)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		m[num] = append(m[num], v)
	}
	return m
}

func (m message) text(n protowire.Number) string {
	if len(m[n]) == 0 {
		return ""
	}
	return string(m[n][0].([]byte))
}

func (m message) number(n protowire.Number) uint64 {
	if len(m[n]) == 0 {
		return 0
	}
	return m[n][0].(uint64)
}

// decodePerfetto reads a trace packet by packet, as Perfetto's importer does:
// by time, and in the order of the file where times are equal.
func decodePerfetto(t *testing.T, data []byte) *viewed {
	t.Helper()
	v := newViewed()
	type timed struct {
		at uint64
		e  message
	}
	var events []timed
	clocks := 0
	for i, raw := range decodeMessage(t, data)[fieldTracePacket] {
		p := decodeMessage(t, raw.([]byte))
		if p.number(packetSequenceID) == 0 || (i == 0) != (p.number(packetSequenceFlags) == stateCleared) {
			t.Fatalf("packet %d has no sequence, or begins one", i)
		}
		switch {
		case len(p[packetTrackDescriptor]) > 0:
			v.perfettoTrack(t, decodeMessage(t, []byte(p.text(packetTrackDescriptor))))
		case len(p[packetClockSnapshot]) > 0:
			clocks++
		case clocks != 1 || p.number(packetTimestampClock) != clockOfTrace:
			t.Fatalf("packet %d is on no clock", i)
		default:
			events = append(events, timed{p.number(packetTimestamp), decodeMessage(t, []byte(p.text(packetTrackEvent)))})
		}
	}
	slices.SortStableFunc(events, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	open := map[uint64][]*viewedSlice{}
	for _, e := range events {
		id := e.e.number(eventTrack)
		if _, ok := v.tracks[id]; !ok {
			t.Fatalf("event on track %d, which is not described", id)
		}
		switch e.e.number(eventType) {
		case sliceBegin:
			open[id] = append(open[id], v.perfettoSlice(t, e.at, e.e))
		case sliceEnd:
			st := open[id]
			if len(st) == 0 {
				t.Fatalf("an end without a begin on %q at %d", v.tracks[id].name, e.at)
			}
			st[len(st)-1].end = int64(e.at)
			open[id] = st[:len(st)-1]
		case counterValue:
			v.counters[v.tracks[id].name] = append(v.counters[v.tracks[id].name], [2]int64{int64(e.at), int64(e.e.number(eventCounter))})
		default:
			t.Fatalf("event of type %d", e.e.number(eventType))
		}
	}
	for id, st := range open {
		if len(st) > 0 {
			t.Errorf("track %q has open slices", v.tracks[id].name)
		}
	}
	return v
}

func (v *viewed) perfettoTrack(t *testing.T, d message) {
	id, parent := d.number(trackUUID), d.number(trackParent)
	if _, ok := v.tracks[id]; ok || id == 0 {
		t.Errorf("track %d twice", id)
	}
	if _, ok := v.tracks[parent]; parent != 0 && !ok {
		t.Errorf("track %d before its parent", id)
	}
	tr := viewedTrack{name: d.text(trackName), process: v.tracks[parent].name}
	if p := d.text(trackProcess); p != "" {
		tr.pid = decodeMessage(t, []byte(p)).number(processPID)
	}
	if p := d.text(trackThread); p != "" {
		m := decodeMessage(t, []byte(p))
		tr.pid, tr.tid = m.number(threadPID), m.number(threadTID)
	}
	v.tracks[id] = tr
}

func (v *viewed) perfettoSlice(t *testing.T, at uint64, e message) *viewedSlice {
	s := &viewedSlice{track: v.tracks[e.number(eventTrack)], begin: int64(at), category: e.text(eventCategories), name: e.text(eventName), args: map[string]string{}}
	for _, raw := range e[eventAnnotations] {
		a := decodeMessage(t, raw.([]byte))
		s.args[a.text(annotationName)] = a.text(annotationString)
		if len(a[annotationInt]) > 0 {
			s.args[a.text(annotationName)] = fmt.Sprint(int64(a.number(annotationInt)))
		}
	}
	v.slices = append(v.slices, s)
	for _, f := range e[eventFlows] {
		v.from[f.(uint64)] = append(v.from[f.(uint64)], s)
	}
	for _, f := range e[eventTerminatedFlows] {
		v.to[f.(uint64)] = append(v.to[f.(uint64)], s)
	}
	return s
}

// perfettoAsText is one line per packet.
func perfettoAsText(t *testing.T, data []byte) []byte {
	v := decodePerfetto(t, data)
	var b bytes.Buffer
	for id := uint64(1); id <= uint64(len(v.tracks)); id++ {
		fmt.Fprintf(&b, "track %d %+v\n", id, v.tracks[id])
	}
	for _, s := range v.slices {
		fmt.Fprintf(&b, "slice %d-%d on %q: %s %q %v\n", s.begin, s.end, s.track.name, s.category, s.name, s.args)
	}
	for _, name := range []string{"tasks waiting for a CPU", "lost events"} {
		fmt.Fprintf(&b, "counter %s %v\n", name, v.counters[name])
	}
	for id := uint64(1); id <= uint64(len(v.from)); id++ {
		fmt.Fprintf(&b, "flow %d from %q to %q\n", id, v.from[id][0].name, v.to[id][0].name)
	}
	return b.Bytes()
}
