package tracer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// fileTable writes and reads the rows of one table of a Trace. A table's
// frames hold a row count and the rows; a long table takes several.
type fileTable struct {
	typ    frameType
	minRow int // bytes that a row takes at least, to check counts by
	rows   func(*Trace) int
	encode func(buf []byte, t *Trace, i int) []byte
	decode func(d *decoder, t *Trace)
}

var fileTables = []fileTable{
	{frameStrings, 1, func(t *Trace) int { return len(t.Strings) },
		func(buf []byte, t *Trace, i int) []byte { return appendLenString(buf, t.Strings[i]) },
		func(d *decoder, t *Trace) { t.Strings = append(t.Strings, d.string()) }},
	{frameArgs, 1, func(t *Trace) int { return len(t.Args) }, encodeArgs,
		func(d *decoder, t *Trace) { t.Args = append(t.Args, d.args()) }},
	{frameFrames, 5, func(t *Trace) int { return len(t.Frames) }, encodeFrame,
		func(d *decoder, t *Trace) { t.Frames = append(t.Frames, d.frame()) }},
	{frameStacks, 2, func(t *Trace) int { return len(t.Stacks) }, encodeStack,
		func(d *decoder, t *Trace) { t.Stacks = append(t.Stacks, d.stack()) }},
	{frameTasks, 11, func(t *Trace) int { return len(t.Tasks) }, encodeTask,
		func(d *decoder, t *Trace) { t.Tasks = append(t.Tasks, d.task()) }},
}

// WriteTrace writes one trace, whole. What it refers to must lie within its
// tables, or the reader will refuse it.
func (w *Writer) WriteTrace(t *Trace) error {
	w.raw = binary.AppendUvarint(encodeMeta(w.raw[:0], &t.Meta), uint64(len(t.Events)))
	if err := w.frame(frameTrace); err != nil {
		return err
	}
	for i := range fileTables {
		if err := w.table(&fileTables[i], t); err != nil {
			return err
		}
	}
	for events := t.Events; len(events) > 0; {
		n := min(len(events), eventsPerFrame)
		w.raw = w.ev.encode(w.raw[:0], events[:n])
		if err := w.frame(frameEvents); err != nil {
			return err
		}
		events = events[n:]
	}
	w.raw = binary.AppendUvarint(w.raw[:0], uint64(len(t.Events)))
	return w.frame(frameTraceEnd)
}

func (w *Writer) table(table *fileTable, t *Trace) error {
	var rows []byte
	for i, n := 0, table.rows(t); i < n; {
		first := i
		for rows = rows[:0]; i < n && len(rows) < goodRaw; i++ {
			rows = table.encode(rows, t, i)
		}
		w.raw = append(binary.AppendUvarint(w.raw[:0], uint64(i-first)), rows...)
		if err := w.frame(table.typ); err != nil {
			return err
		}
	}
	return nil
}

// trace reads the frames of a trace after its first.
func (r *Reader) trace() (*Trace, error) {
	t := &Trace{}
	d := decoder{buf: r.raw}
	d.meta(&t.Meta)
	ev := eventDecoder{expect: d.uint()}
	for d.err == nil {
		typ, err := r.frame()
		if err == io.EOF {
			err = r.truncated(io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, err
		}
		d = decoder{buf: r.raw}
		switch typ {
		case frameEvents:
			t.Events = ev.decode(&d, t.Events)
		case frameTraceEnd:
			if n := d.uint(); d.err == nil && n != uint64(len(t.Events)) {
				d.fail("trace of %d events, %d are there", n, len(t.Events))
			}
			if d.err == nil {
				d.err = checkIDs(t)
			}
			if d.err == nil {
				return t, nil
			}
		case frameMeta, frameTrace, frameEnd:
			d.fail("trace does not end")
		default:
			decodeTable(&d, typ, t)
		}
	}
	return nil, r.truncated(d.err)
}

// decodeTable reads a frame of a table; one of an unknown type is skipped.
func decodeTable(d *decoder, typ frameType, t *Trace) {
	for i := range fileTables {
		table := &fileTables[i]
		if table.typ != typ {
			continue
		}
		for n := d.count(table.minRow); n > 0 && d.err == nil; n-- {
			table.decode(d, t)
		}
	}
}

// checkIDs makes sure that nothing in a trace leads out of its tables, which
// is what the code that uses traces does not check again.
func checkIDs(t *Trace) error {
	if len(t.Tasks) == 0 || len(t.Strings) == 0 || len(t.Args) == 0 || len(t.Stacks) == 0 {
		return errors.New("trace lacks a table")
	}
	for i, f := range t.Frames {
		if n := StringID(len(t.Strings)); f.Func >= n || f.Object >= n || f.BuildID >= n {
			return fmt.Errorf("frame %d refers to a string outside of the table", i)
		}
	}
	for i := range t.Stacks {
		for _, f := range t.Stacks[i].Frames {
			if int(f) >= len(t.Frames) {
				return fmt.Errorf("stack %d refers to a frame outside of the table", i)
			}
		}
	}
	n := TaskID(len(t.Tasks))
	for i := range t.Tasks {
		if l, p := t.Tasks[i].Leader, t.Tasks[i].Parent; l < NoTask || l >= n || p < NoTask || p >= n {
			return fmt.Errorf("task %d refers to a task outside of the table", i)
		}
	}
	for i := range t.Events {
		if msg := boundsError(t, &t.Events[i]); msg != "" {
			return fmt.Errorf("event %d: %s", i, msg)
		}
	}
	return nil
}

func encodeArgs(buf []byte, t *Trace, i int) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(t.Args[i])))
	for _, a := range t.Args[i] {
		buf = appendLenString(appendLenString(buf, a.Key), a.Value)
	}
	return buf
}

func (d *decoder) args() Args {
	var args Args
	for n := d.count(2); n > 0 && d.err == nil; n-- {
		args = append(args, Arg{d.string(), d.string()})
	}
	return args
}

func encodeFrame(buf []byte, t *Trace, i int) []byte {
	f := &t.Frames[i]
	for _, v := range [...]uint64{uint64(f.Func), uint64(f.Object), uint64(f.BuildID), f.Offset} {
		buf = binary.AppendUvarint(buf, v)
	}
	return appendBool(buf, f.Kernel)
}

func (d *decoder) frame() Frame {
	return Frame{Func: StringID(d.uint32()), Object: StringID(d.uint32()), BuildID: StringID(d.uint32()),
		Offset: d.uint(), Kernel: d.bool()}
}

func encodeStack(buf []byte, t *Trace, i int) []byte {
	s := &t.Stacks[i]
	buf = binary.AppendUvarint(buf, uint64(len(s.Frames)))
	for _, f := range s.Frames {
		buf = binary.AppendUvarint(buf, uint64(f))
	}
	return appendBool(buf, s.Cut)
}

func (d *decoder) stack() Stack {
	var s Stack
	for n := d.count(1); n > 0 && d.err == nil; n-- {
		s.Frames = append(s.Frames, d.uint32())
	}
	s.Cut = d.bool()
	return s
}

func encodeTask(buf []byte, t *Trace, i int) []byte {
	task := &t.Tasks[i]
	for _, v := range [...]int64{int64(task.TID), int64(task.PID), int64(task.NSPID), int64(task.Start),
		int64(task.Leader), int64(task.Parent), int64(task.Born)} {
		buf = binary.AppendVarint(buf, v)
	}
	buf = appendLenString(appendLenString(buf, task.Comm), task.Cgroup)
	buf = appendBool(appendBool(buf, task.Kernel), task.Tracer)
	buf = binary.AppendUvarint(buf, uint64(len(task.Images)))
	for j := range task.Images {
		image := &task.Images[j]
		buf = binary.AppendVarint(buf, int64(image.Time))
		buf = appendLenString(appendLenString(buf, image.Exe), image.Comm)
		buf = appendBool(appendStrings(buf, image.Argv), image.Cut)
	}
	return buf
}

func (d *decoder) task() Task {
	t := Task{TID: d.int32(), PID: d.int32(), NSPID: d.int32(), Start: Time(d.int()),
		Leader: TaskID(d.int32()), Parent: TaskID(d.int32()), Born: Time(d.int()),
		Comm: d.string(), Cgroup: d.string(), Kernel: d.bool(), Tracer: d.bool()}
	for n := d.count(5); n > 0 && d.err == nil; n-- {
		t.Images = append(t.Images, Image{Time: Time(d.int()), Exe: d.string(), Comm: d.string(),
			Argv: d.strings(), Cut: d.bool()})
	}
	return t
}

func encodeMeta(buf []byte, m *Meta) []byte {
	for _, s := range [...]string{m.Backend, m.Host, m.Kernel, m.Machine} {
		buf = appendLenString(buf, s)
	}
	for _, v := range [...]int64{int64(m.CPUs), int64(m.Begin), int64(m.End), int64(m.SleepStack),
		int64(m.SamplePeriod), int64(m.SelfPID), m.RunNs} {
		buf = binary.AppendVarint(buf, v)
	}
	buf = appendStrings(appendStrings(buf, m.Probes), m.Notes)
	buf = binary.AppendUvarint(buf, uint64(len(m.Extra)))
	for _, k := range slices.Sorted(maps.Keys(m.Extra)) {
		buf = appendLenString(appendLenString(buf, k), m.Extra[k])
	}
	return buf
}

// meta reads what encodeMeta wrote; what a later minor version appended is
// left unread.
func (d *decoder) meta(m *Meta) {
	m.Backend, m.Host, m.Kernel, m.Machine = d.string(), d.string(), d.string(), d.string()
	m.CPUs, m.Begin, m.End, m.SleepStack = int(d.int32()), Time(d.int()), Time(d.int()), Time(d.int())
	m.SamplePeriod, m.SelfPID, m.RunNs = Time(d.int()), d.int32(), d.int()
	m.Probes, m.Notes = d.strings(), d.strings()
	for n := d.count(2); n > 0 && d.err == nil; n-- {
		if m.Extra == nil {
			m.Extra = map[string]string{}
		}
		key := d.string()
		m.Extra[key] = d.string()
	}
}

func appendBool(buf []byte, v bool) []byte {
	if v {
		return append(buf, 1)
	}
	return append(buf, 0)
}

func appendStrings(buf []byte, list []string) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(list)))
	for _, s := range list {
		buf = appendLenString(buf, s)
	}
	return buf
}

// decoder takes values off the front of buf. After an error everything is
// zero.
type decoder struct {
	buf []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
	d.buf = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.buf)
	if n <= 0 {
		d.fail("number is cut")
		return 0
	}
	d.buf = d.buf[n:]
	return v
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) uint32() uint32 {
	v := d.uint()
	if v != uint64(uint32(v)) {
		d.fail("number %d does not fit 32 bits", v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) int32() int32 {
	v := d.int()
	if v != int64(int32(v)) {
		d.fail("number %d does not fit 32 bits", v)
		return 0
	}
	return int32(v)
}

func (d *decoder) bool() bool { return d.uint() != 0 }

// count reads how many things of at least size bytes follow, and checks that
// they can.
func (d *decoder) count(size int) int {
	n := d.uint()
	if n > uint64(len(d.buf)/size) {
		d.fail("%d entries in %d bytes", n, len(d.buf))
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count(1)
	p := d.buf[:n]
	d.buf = d.buf[n:]
	return p
}

func (d *decoder) string() string { return string(d.bytes()) }

func (d *decoder) strings() []string {
	var list []string
	for n := d.count(1); n > 0 && d.err == nil; n-- {
		list = append(list, d.string())
	}
	return list
}
