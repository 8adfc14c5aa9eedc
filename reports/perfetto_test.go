package reports

import (
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

func TestPerfetto(t *testing.T) {
	f := newFixture(3)
	root := decodeMessage(t, render(t, "perfetto", f.input()))
	type begun struct {
		at             uint64
		category, name string
	}
	tracks := map[uint64]string{}
	open := map[uint64][]begun{}
	sums := map[string]uint64{}
	stages := map[string]uint64{}
	flowFrom, flowTo := map[uint64]int{}, map[uint64]int{}
	clocks := 0
	for _, raw := range root[fieldTracePacket] {
		p := decodeMessage(t, raw.([]byte))
		if p.number(packetSequenceID) == 0 {
			t.Fatal("a packet without a sequence")
		}
		if d := p.text(packetTrackDescriptor); d != "" {
			m := decodeMessage(t, []byte(d))
			id := m.number(trackUUID)
			if _, ok := tracks[id]; ok || id == 0 {
				t.Errorf("track %d twice", id)
			}
			tracks[id] = m.text(trackName)
			if parent := m.number(trackParent); parent != 0 && tracks[parent] == "" {
				t.Errorf("track %d before its parent", id)
			}
		}
		if p.text(packetClockSnapshot) != "" {
			clocks++
		}
		e := p.text(packetTrackEvent)
		if e == "" {
			continue
		}
		m := decodeMessage(t, []byte(e))
		track, at := m.number(eventTrack), p.number(packetTimestamp)
		if _, ok := tracks[track]; !ok || clocks != 1 || p.number(packetTimestampClock) != clockOfTrace {
			t.Fatalf("event on track %d, %d clocks", track, clocks)
		}
		switch m.number(eventType) {
		case sliceBegin:
			open[track] = append(open[track], begun{at, m.text(eventCategories), m.text(eventName)})
		case sliceEnd:
			st := open[track]
			if len(st) == 0 {
				t.Fatal("an end without a begin")
			}
			b := st[len(st)-1]
			open[track] = st[:len(st)-1]
			sums[b.category] += at - b.at
			if b.category == "path" {
				stages[b.name] += at - b.at
			}
		}
		for _, v := range m[eventFlows] {
			flowFrom[v.(uint64)]++
		}
		for _, v := range m[eventTerminatedFlows] {
			flowTo[v.(uint64)]++
		}
	}
	var wall uint64
	want := map[string]uint64{}
	hops := 0
	for _, op := range f.ops {
		wall += uint64(op.WallNs)
		for _, st := range op.Stages {
			want[st.Name] += uint64(st.Ns)
		}
		for i := 1; i < len(op.Path.Segments); i++ {
			if op.Path.Segments[i].Task != op.Path.Segments[i-1].Task {
				hops++
			}
		}
	}
	if sums["path"] != wall || sums["operation"] != wall {
		t.Errorf("slices %v, wall %d", sums, wall)
	}
	for name, ns := range want {
		if stages[name] != ns {
			t.Errorf("stage %s: %d, want %d", name, stages[name], ns)
		}
	}
	for track, st := range open {
		if len(st) > 0 {
			t.Errorf("track %d has open slices", track)
		}
	}
	if len(flowFrom) != hops || len(flowTo) != hops {
		t.Errorf("%d flows begin and %d end, the paths hop %d times", len(flowFrom), len(flowTo), hops)
	}
	for id, n := range flowFrom {
		if n != 1 || flowTo[id] != 1 {
			t.Errorf("flow %d: %d begin, %d end", id, n, flowTo[id])
		}
	}
}
