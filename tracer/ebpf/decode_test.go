//go:build linux

package ebpf

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"stagetrace/bpf"
	"stagetrace/tracer"
	"stagetrace/tracer/symbols"
)

// bytesOf is a record as it lies in the ring buffer.
func bytesOf[T any](r T, rest ...byte) []byte {
	return append(append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))...), rest...)
}

func head(typ bpf.TraceRecType, ts uint64, cpu uint16, seq uint32) bpf.TraceHead {
	return bpf.TraceHead{Ts: ts, Seq: seq, Cpu: cpu, Type: uint8(typ)}
}

func decodeRecords(recs ...[]byte) (*decoder, *tracer.Trace) {
	var raw rawRecords
	for _, r := range recs {
		raw.keep(append(raw.room(), r...))
	}
	d := newDecoder(tracer.NewBuilder(), symbols.NewResolver(nil, nil))
	d.run(&raw, d.index(&raw))
	return d, d.b.Trace()
}

func describe(ts uint64, seq, tid uint32, start uint64) []byte {
	return bytesOf(bpf.TraceRecTask{H: head(bpf.TraceRecTypeREC_TASK, ts, 0, seq), Tid: tid, Tgid: tid, Start: start, LeaderStart: start})
}

func status(ts uint64, seq, tid uint32, state uint16) []byte {
	return bytesOf(bpf.TraceRecSwitch{H: head(bpf.TraceRecTypeREC_STATUS, ts, 0, seq), Prev: tid, State: state, Nr: -1})
}

func switchTo(ts uint64, seq, prev, next uint32, state uint16) []byte {
	return bytesOf(bpf.TraceRecSwitch{H: head(bpf.TraceRecTypeREC_SWITCH, ts, 0, seq), Prev: prev, Next: next, State: state, Nr: -1})
}

func count(tr *tracer.Trace, k tracer.Kind) (n int, last *tracer.Event) {
	for i := range tr.Events {
		if tr.Events[i].Kind == k {
			n, last = n+1, &tr.Events[i]
		}
	}
	return n, last
}

// A tid that is used again is another task from its description on.
func TestReusedTID(t *testing.T) {
	_, tr := decodeRecords(describe(1, 0, 7, 100), status(2, 1, 7, 1), switchTo(10, 2, 0, 7, 0), switchTo(11, 3, 7, 0, 0x80),
		describe(20, 4, 7, 200), switchTo(21, 5, 0, 7, 0))
	_, last := count(tr, tracer.KindSwitch)
	if got := tr.Tasks[last.Peer].Start; got != 200 {
		t.Errorf("task started at %d, want 200", got)
	}
	if err := tracer.Validate(tr); err != nil {
		t.Error(err)
	}
}

// A hole in a CPU's numbers is a loss at the time of the first event after it.
func TestLoss(t *testing.T) {
	_, tr := decodeRecords(describe(1, 0, 7, 100), status(2, 1, 7, 1), switchTo(10, 2, 0, 7, 0), switchTo(30, 7, 9, 0, 1))
	n, e := count(tr, tracer.KindLost)
	if n != 1 || e.Value != 4 || e.Time != 30 {
		t.Errorf("%d losses, the last %+v; want 4 events at 30", n, e)
	}
}

// A switch that was not seen is put in.
func TestRepair(t *testing.T) {
	d, tr := decodeRecords(describe(1, 0, 7, 100), status(2, 1, 7, 1), describe(2, 2, 8, 100), status(3, 3, 8, 1),
		switchTo(10, 4, 0, 7, 0), switchTo(20, 5, 8, 0, 1))
	if n, _ := count(tr, tracer.KindSwitch); n != 3 || d.counts.repaired != 1 {
		t.Errorf("%d switches, %d repaired; want 3, 1", n, d.counts.repaired)
	}
	if err := tracer.Validate(tr); err != nil {
		t.Error(err)
	}
}

// The state at the begin of the trace follows what happened since a task's
// status was taken.
func TestStatusAtBegin(t *testing.T) {
	_, tr := decodeRecords(describe(1, 0, 7, 100), status(2, 1, 7, 1), switchTo(3, 2, 0, 7, 0), describe(4, 3, 8, 100), status(5, 4, 8, 1))
	for i := range tr.Events {
		if e := &tr.Events[i]; e.Kind == tracer.KindStatus && tr.Tasks[e.Task].TID == 7 && e.State != tracer.StateRunning {
			t.Errorf("state %v, want running", e.State)
		}
	}
}

func TestSysPaths(t *testing.T) {
	for _, tt := range []struct{ base, path, want string }{
		{"", "/abs", "/abs"},
		{"b\x00a\x00", "rel", "/a/b/rel"},
		{"\x00", "rel", "/rel"},
		{"a\x00", ".", "/a"},
		{"a\x00", "", "/a"},
	} {
		var base []byte
		if tt.base != "" {
			base = []byte(tt.base)
		}
		if got := string(appendJoined(nil, base, []byte(tt.path))); got != tt.want {
			t.Errorf("%q in %q: %q, want %q", tt.path, tt.base, got, tt.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range [][]byte{describe(1, 0, 7, 100), switchTo(10, 2, 0, 7, 0),
		bytesOf(bpf.TraceRecSys{H: head(bpf.TraceRecTypeREC_SYS_EXIT, 9, 0, 1), Tid: 7}, 1, 0, 4, 0, '/', 'a', 'b', 0),
		bytesOf(bpf.TraceRecExec{H: head(bpf.TraceRecTypeREC_EXEC, 9, 0, 1), Tid: 7, ExeLen: 9})} {
		f.Add(r, uint8(len(r)))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		var recs [][]byte
		for len(data) > 0 {
			n := min(int(size)+1, len(data))
			recs = append(recs, data[:n])
			data = data[n:]
		}
		_, tr := decodeRecords(recs...)
		for i := range tr.Events {
			_ = tr.EventText(&tr.Events[i])
		}
	})
}

// Whatever the order, it ends up sorted, and equal ones stay as they came.
func TestSortNearly(t *testing.T) {
	for _, far := range []int{1, 10, 5000} {
		rng := rand.New(rand.NewPCG(1, uint64(far)))
		in := make([][2]int, 20000)
		for i := range in {
			in[i] = [2]int{i/2 + rng.IntN(far), i}
		}
		byKey := func(a, b [2]int) int { return a[0] - b[0] }
		want := slices.Clone(in)
		slices.SortStableFunc(want, byKey)
		if sortNearly(in, byKey); !slices.Equal(in, want) {
			t.Errorf("out of order by up to %d: not sorted", far)
		}
	}
}
