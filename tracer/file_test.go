package tracer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func writeFile(t testing.TB, items ...Item) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range items {
		if item.Trace != nil {
			err = w.WriteTrace(item.Trace)
		} else {
			err = w.WriteMeta(item.Kind, item.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func readFile(file []byte) (items []Item, err error) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		item, err := r.Next()
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
}

func throughFile(t testing.TB, trace *Trace) *Trace {
	t.Helper()
	items, err := readFile(writeFile(t, Item{Trace: trace}))
	if err != io.EOF || len(items) != 1 {
		t.Fatal(len(items), err)
	}
	return items[0].Trace
}

// busyTrace is a trace such as a busy machine gives.
func busyTrace(n int) *Trace {
	rnd := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder()
	const tasks = 200
	for i := range int32(tasks) {
		b.TaskInfo(b.Task(TaskKey{i + 1, Time(i)})).Comm = "worker"
	}
	names := []StringID{b.String("read"), b.String("write"), b.String("futex"), b.String("epoll_wait")}
	stack := b.Stack([]uint32{b.Frame(Frame{Func: b.String("schedule"), Kernel: true})}, false)
	now := Time(1e14)
	var cur [2]TaskID
	var seq [2]uint32
	b.Grow(n)
	for b.Len() < n {
		now += Time(rnd.IntN(3000))
		cpu := rnd.IntN(2)
		next := TaskID(rnd.IntN(tasks))
		e := Event{Time: now, CPU: int16(cpu), Seq: seq[cpu], Task: cur[cpu]}
		seq[cpu]++
		switch {
		case next != cur[cpu] && rnd.IntN(2) == 0:
			e.Kind, e.Peer, e.Name, e.State = KindSwitch, next, names[rnd.IntN(4)], StateBlocked
			if rnd.IntN(4) == 0 {
				e.Stack = stack
			}
			cur[cpu] = next
		default:
			if next == 0 {
				next = 1
			}
			e.Kind, e.Peer = KindWake, next
		}
		b.Add(e)
	}
	return b.Trace()
}

func TestFileRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		traces := rapid.SliceOfN(validTrace(), 1, 3).Draw(t, "traces")
		var file bytes.Buffer
		w, err := NewWriter(&file)
		if err != nil {
			t.Fatal(err)
		}
		for _, trace := range traces {
			if err := w.WriteTrace(trace); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		items, err := readFile(file.Bytes())
		if err != io.EOF || len(items) != len(traces) {
			t.Fatal(len(items), err)
		}
		for i := range traces {
			if !reflect.DeepEqual(items[i].Trace, traces[i]) {
				t.Fatalf("trace %d changed: %s", i, difference(traces[i], items[i].Trace))
			}
		}
	})
}

func TestFileLargeTrace(t *testing.T) {
	trace := busyTrace(3*eventsPerFrame + 5)
	trace.Events[7].CPU = -1 // not valid, but exact
	trace.Strings = append(trace.Strings, strings.Repeat("x", 3*goodRaw), "y")
	if got := throughFile(t, trace); !reflect.DeepEqual(got, trace) {
		t.Error("changed: " + difference(trace, got))
	}
	// What compresses better than a reader believes is stored as it is.
	regular := &Trace{Tasks: trace.Tasks, Strings: trace.Strings, Args: trace.Args, Stacks: trace.Stacks, Frames: trace.Frames,
		Events: make([]Event, 2*eventsPerFrame)}
	if got := throughFile(t, regular); !reflect.DeepEqual(got, regular) {
		t.Error("changed")
	}
}

func TestFileItems(t *testing.T) {
	trace := mustParse(t, everyKind)
	want := []Item{{Kind: "run", Data: []byte(`{"a":1}`)}, {Trace: trace}, {Kind: "", Data: nil}, {Trace: trace}, {Kind: "late", Data: []byte("x")}}
	file := writeFile(t, want...)
	items, err := readFile(file)
	if err != io.EOF || len(items) != len(want) {
		t.Fatal(len(items), err)
	}
	for i := range want {
		if items[i].Kind != want[i].Kind || string(items[i].Data) != string(want[i].Data) || (items[i].Trace == nil) != (want[i].Trace == nil) {
			t.Errorf("item %d: %+v", i, items[i])
		}
	}
	// More can be appended to a finished file, and frames of the future are skipped.
	more := writeFile(t, Item{Kind: "appended"})[fileHeaderSize:]
	future := append([]byte(nil), more[:frameHeaderSize+10]...)
	future[0] = 200
	n := binary.LittleEndian.Uint32(future[4:])
	future = future[:frameHeaderSize+n]
	binary.LittleEndian.PutUint32(future[12:], frameSum(future[:12], future[frameHeaderSize:]))
	items, err = readFile(bytes.Join([][]byte{file, future, more}, nil))
	if err != io.EOF || len(items) != len(want)+1 || items[len(want)].Kind != "appended" {
		t.Error(len(items), err)
	}
}

// TestFileCut cuts a file at every byte: whole items come first, then the
// error with an offset that is the end of a frame.
func TestFileCut(t *testing.T) {
	small := mustParse(t, "task a\n0 0 switch idle -> a")
	one := len(writeFile(t, Item{Kind: "run"})) - frameHeaderSize // without the end
	two := len(writeFile(t, Item{Kind: "run"}, Item{Trace: small})) - frameHeaderSize
	file := writeFile(t, Item{Kind: "run"}, Item{Trace: small})
	for n := range file {
		items, err := readFile(file[:n])
		if n < fileHeaderSize {
			if err == nil || err == io.EOF || n >= 8 && !errors.Is(err, ErrTruncated) {
				t.Errorf("%d bytes: %v", n, err)
			}
			continue
		}
		want := 0
		for _, end := range []int{one, two} {
			if n >= end {
				want++
			}
		}
		var cut *TruncatedError
		if len(items) != want || !errors.Is(err, ErrTruncated) || !errors.As(err, &cut) {
			t.Fatalf("%d bytes: %d items, %v", n, len(items), err)
		}
		if cut.Offset > int64(n) || cut.Offset < fileHeaderSize {
			t.Errorf("%d bytes: offset %d", n, cut.Offset)
		}
	}
	for n := range file {
		if n >= 10 && n < fileHeaderSize {
			continue // minor version and reserved: anything goes
		}
		damaged := bytes.Clone(file)
		damaged[n] ^= 0x41
		_, err := readFile(damaged)
		if err == nil || err == io.EOF || n >= fileHeaderSize && !errors.Is(err, ErrTruncated) {
			t.Errorf("damage at %d: %v", n, err)
		}
	}
}

func TestFileVersion(t *testing.T) {
	file := writeFile(t)
	binary.LittleEndian.PutUint16(file[8:], 2)
	binary.LittleEndian.PutUint16(file[10:], 7)
	_, err := readFile(file)
	var v *VersionError
	if !errors.As(err, &v) || !strings.Contains(err.Error(), "2.7") || !strings.Contains(err.Error(), "1.x") {
		t.Error(err)
	}
	binary.LittleEndian.PutUint16(file[8:], fileMajor)
	if _, err := readFile(file); err != io.EOF {
		t.Errorf("newer minor version: %v", err)
	}
	for _, bad := range []string{"", "x", "\x7fELF and more bytes than a header"} {
		if _, err := NewReader(strings.NewReader(bad)); err == nil || errors.Is(err, ErrTruncated) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestWriterErrors(t *testing.T) {
	trace := mustParse(t, everyKind)
	for n := range 9 {
		w, err := NewWriter(&failing{n})
		if err != nil {
			continue
		}
		if err := errors.Join(w.WriteTrace(trace), w.Close()); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("%d writes: %v", n, err)
		}
	}
	w, err := NewWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteMeta("big", make([]byte, maxFrame)); err == nil {
		t.Error("a frame over the limit was written")
	}
	if w.WriteMeta("more", nil) == nil {
		t.Error("the error was forgotten")
	}
	if w, err = NewWriter(io.Discard); err != nil || w.Close() != nil || w.WriteMeta("", nil) == nil {
		t.Error("written after close")
	}
}

func TestReaderRefusesBadIDs(t *testing.T) {
	good := mustParse(t, everyKind)
	for name, spoil := range map[string]func(*Trace){
		"task":   func(t *Trace) { t.Events[3].Task = 99 },
		"peer":   func(t *Trace) { t.Events[3].Peer = -2 },
		"name":   func(t *Trace) { t.Events[3].Name = 9999 },
		"args":   func(t *Trace) { t.Events[3].Args = 9999 },
		"stack":  func(t *Trace) { t.Events[3].Stack = 9999 },
		"kind":   func(t *Trace) { t.Events[3].Kind = kindCount },
		"class":  func(t *Trace) { t.Events[3].Class = classCount },
		"state":  func(t *Trace) { t.Events[3].State = stateCount },
		"ctx":    func(t *Trace) { t.Events[3].Ctx = ctxCount },
		"frame":  func(t *Trace) { t.Frames[0].Func = 9999 },
		"frames": func(t *Trace) { t.Stacks[1].Frames[0] = 9999 },
		"leader": func(t *Trace) { t.Tasks[1].Leader = 99 },
		"table":  func(t *Trace) { t.Strings = nil },
	} {
		trace := throughFile(t, good)
		spoil(trace)
		if _, err := readFile(writeFile(t, Item{Trace: trace})); !errors.Is(err, ErrTruncated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	file := writeFile(f, Item{Kind: "run", Data: []byte("{}")}, Item{Trace: mustParse(f, everyKind)})
	f.Add(file, false)
	f.Add(file[fileHeaderSize:], true)
	f.Add(rawFrames(f, mustParse(f, everyKind)), true)
	f.Fuzz(func(t *testing.T, file []byte, frames bool) {
		if frames { // give the fuzzer payloads: header and checksums are right
			file = seal(file)
		}
		items, err := readFile(file)
		if err == nil {
			t.Fatal("no end")
		}
		for _, item := range items {
			if item.Trace != nil {
				_ = item.Trace.Validate()
				_ = throughFile(t, item.Trace)
				_ = textOf(t, item.Trace)
			}
		}
	})
}

// rawFrames is a trace's frames as seal takes them: type, length, payload.
func rawFrames(t testing.TB, trace *Trace) (frames []byte) {
	r, err := NewReader(bytes.NewReader(writeFile(t, Item{Trace: trace})))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		typ, err := r.frame()
		if err != nil {
			return frames
		}
		frames = append(frames, byte(typ), byte(len(r.raw)), byte(len(r.raw)>>8))
		frames = append(frames, r.raw...)
	}
}

// seal makes a file of frames given as type, length (2 bytes), payload.
func seal(frames []byte) []byte {
	file := append([]byte(fileMagic), 1, 0, 0, 0, 0, 0, 0, 0)
	for len(frames) >= 3 {
		n := min(int(frames[1])|int(frames[2])<<8, len(frames)-3)
		payload := frames[3 : 3+n]
		header := make([]byte, frameHeaderSize)
		header[0] = frames[0]
		binary.LittleEndian.PutUint32(header[4:], uint32(n))
		binary.LittleEndian.PutUint32(header[8:], uint32(n))
		binary.LittleEndian.PutUint32(header[12:], frameSum(header[:12], payload))
		file = append(append(file, header...), payload...)
		frames = frames[3+n:]
	}
	return file
}

func BenchmarkFile(b *testing.B) {
	trace := busyTrace(1 << 20)
	file := writeFile(b, Item{Trace: trace})
	perEvent := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*float64(len(trace.Events))/b.Elapsed().Seconds()/1e6, "Mevents/s")
		b.ReportMetric(float64(len(file))/float64(len(trace.Events)), "B/event")
	}
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w, err := NewWriter(io.Discard)
			if err == nil {
				err = w.WriteTrace(trace)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		perEvent(b)
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if items, err := readFile(file); err != io.EOF || len(items) != 1 {
				b.Fatal(err)
			}
		}
		perEvent(b)
	})
}
