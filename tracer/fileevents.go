package tracer

import "encoding/binary"

// eventsPerFrame is how many events share a frame: enough for the columns to
// compress, few enough to bound the memory that writing and reading needs.
const eventsPerFrame = 1 << 16

// Events are stored by column. What takes few values (kind, class, state,
// context, flags, and which other fields are there) is one number into a
// list of shapes; a field has an entry in its column only where its shape
// says that it is not what is expected. Expected are: of Task, whom the CPU
// was last switched to; of Seq, the next one of the CPU; of others, 0. Each
// frame stands by itself.
const (
	colShape = iota
	colCPU
	colTime // difference to the event before
	colTask
	colPeer
	colName
	colArgs
	colStack
	colFlow
	colValue
	colSeq
	colCount
)

// A shape packs Kind, Class, State, Ctx and Flags of an event, and a bit per
// column from colTask on that has an entry.
type shape uint64

func newShape(e *Event, present uint8) shape {
	return shape(e.Kind) | shape(e.Class)<<8 | shape(e.State)<<16 | shape(e.Ctx)<<24 | shape(e.Flags)<<32 | shape(present)<<48
}

func (s shape) has(column int) bool { return s>>(48+column-colTask)&1 != 0 }

// cpuState is what is expected of the next event of a CPU.
type cpuState struct {
	task TaskID
	seq  uint32
}

// cpuStates holds them by CPU number, as bits.
type cpuStates []cpuState

func (c *cpuStates) of(cpu int16) *cpuState {
	i := int(uint16(cpu))
	if i >= len(*c) {
		*c = append(*c, make([]cpuState, i+1-len(*c))...)
	}
	return &(*c)[i]
}

func (c *cpuState) advance(e *Event) {
	c.seq = e.Seq + 1
	if e.Kind == KindSwitch {
		c.task = e.Peer
	}
}

// eventEncoder keeps the buffers of one writer.
type eventEncoder struct {
	columns [colCount][]byte
	shapes  map[shape]uint64
	list    []shape
	cpus    cpuStates
}

// encode appends the payload of one frame.
func (c *eventEncoder) encode(buf []byte, events []Event) []byte {
	for i := range c.columns {
		c.columns[i] = c.columns[i][:0]
	}
	if c.shapes == nil {
		c.shapes = map[shape]uint64{}
	}
	clear(c.shapes)
	clear(c.cpus)
	c.list = c.list[:0]
	last := Time(0)
	var lastShape shape
	var lastID uint64
	for i := range events {
		e := &events[i]
		cpu := c.cpus.of(e.CPU)
		s := newShape(e, c.fields(e, cpu))
		if i == 0 || s != lastShape {
			lastShape, lastID = s, c.shape(s)
		}
		c.columns[colShape] = binary.AppendUvarint(c.columns[colShape], lastID)
		c.columns[colCPU] = binary.AppendUvarint(c.columns[colCPU], uint64(uint16(e.CPU)))
		c.columns[colTime] = binary.AppendVarint(c.columns[colTime], int64(e.Time-last))
		last = e.Time
		cpu.advance(e)
	}
	buf = binary.AppendUvarint(buf, uint64(len(events)))
	buf = binary.AppendUvarint(buf, uint64(len(c.list)))
	for _, s := range c.list {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(s))
	}
	for i := range c.columns {
		buf = binary.AppendUvarint(buf, uint64(len(c.columns[i])))
		buf = append(buf, c.columns[i]...)
	}
	return buf
}

// fields appends the fields that are not as expected and says which.
func (c *eventEncoder) fields(e *Event, cpu *cpuState) (present uint8) {
	put := func(column int, v uint64) {
		c.columns[column] = binary.AppendUvarint(c.columns[column], v)
		present |= 1 << (column - colTask)
	}
	if e.Task != cpu.task {
		put(colTask, zigzag(int64(e.Task)))
	}
	if e.Peer != 0 {
		put(colPeer, zigzag(int64(e.Peer)))
	}
	if e.Name != 0 {
		put(colName, uint64(e.Name))
	}
	if e.Args != 0 {
		put(colArgs, uint64(e.Args))
	}
	if e.Stack != 0 {
		put(colStack, uint64(e.Stack))
	}
	if e.Flow != 0 {
		put(colFlow, e.Flow)
	}
	if e.Value != 0 {
		put(colValue, zigzag(e.Value))
	}
	if e.Seq != cpu.seq {
		put(colSeq, uint64(e.Seq))
	}
	return present
}

func (c *eventEncoder) shape(s shape) uint64 {
	id, ok := c.shapes[s]
	if !ok {
		id = uint64(len(c.list))
		c.shapes[s] = id
		c.list = append(c.list, s)
	}
	return id
}

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// column is the unread part of one column.
type column struct {
	buf []byte
	bad bool
}

func (c *column) next() uint64 {
	if len(c.buf) > 0 && c.buf[0] < 0x80 {
		v := c.buf[0]
		c.buf = c.buf[1:]
		return uint64(v)
	}
	return c.long()
}

func (c *column) long() uint64 {
	v, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.bad, c.buf = true, nil
		return 0
	}
	c.buf = c.buf[n:]
	return v
}

// next32 is next for what must fit 32 bits.
func (c *column) next32() uint32 {
	v := c.next()
	c.bad = c.bad || v>>32 != 0
	return uint32(v)
}

func (c *column) nextTask() TaskID {
	v := unzigzag(c.next())
	c.bad = c.bad || v != int64(int32(v))
	return TaskID(v)
}

// eventDecoder keeps the buffers of one reader.
type eventDecoder struct {
	columns [colCount]column
	shapes  []shape
	cpus    cpuStates
	expect  uint64 // events of the whole trace, by its first frame
}

// grow makes room for n more events. The file is believed as to how many
// there will be only up to twice what has come.
func (c *eventDecoder) grow(events []Event, n int) []Event {
	need := len(events) + n
	if need <= cap(events) {
		return events
	}
	if double := 2 * need; c.expect <= uint64(double) {
		need = max(need, int(c.expect))
	} else {
		need = double
	}
	grown := make([]Event, len(events), need)
	copy(grown, events)
	return grown
}

// decode reads the payload of one frame and appends its events.
func (c *eventDecoder) decode(d *decoder, events []Event) []Event {
	const minEvent = 3 // an entry each of shape, CPU and time
	n := d.count(minEvent)
	c.shapes = c.shapes[:0]
	for k := d.count(8); k > 0; k-- {
		c.shapes = append(c.shapes, shape(binary.LittleEndian.Uint64(d.buf)))
		d.buf = d.buf[8:]
	}
	for i := range c.columns {
		c.columns[i] = column{buf: d.bytes()}
	}
	if d.err != nil || n > len(c.columns[colTime].buf) || n > eventsPerFrame {
		d.fail("events frame does not hold the %d events announced", n)
		return events
	}
	clear(c.cpus)
	events = c.grow(events, n)
	last := Time(0)
	for ; n > 0; n-- {
		id := c.columns[colShape].next()
		if id >= uint64(len(c.shapes)) {
			d.fail("events frame has no shape %d", id)
			return events
		}
		events = append(events, Event{})
		e := &events[len(events)-1]
		c.event(e, c.shapes[id])
		e.Time += last
		last = e.Time
	}
	for i := range c.columns {
		if c.columns[i].bad || len(c.columns[i].buf) > 0 {
			d.fail("column %d of an events frame is damaged", i)
		}
	}
	return events
}

// event fills e; its time is the difference.
func (c *eventDecoder) event(e *Event, s shape) {
	e.Kind, e.Class, e.State, e.Ctx, e.Flags = Kind(s), Class(s>>8), TaskState(s>>16), Context(s>>24), Flags(s>>32)
	number := c.columns[colCPU].next32()
	if number>>16 != 0 {
		c.columns[colCPU].bad = true
	}
	e.CPU = int16(uint16(number))
	e.Time = Time(unzigzag(c.columns[colTime].next()))
	cpu := c.cpus.of(e.CPU)
	e.Task, e.Seq = cpu.task, cpu.seq
	if s.has(colTask) {
		e.Task = c.columns[colTask].nextTask()
	}
	if s.has(colPeer) {
		e.Peer = c.columns[colPeer].nextTask()
	}
	if s.has(colName) {
		e.Name = StringID(c.columns[colName].next32())
	}
	if s.has(colArgs) {
		e.Args = ArgsID(c.columns[colArgs].next32())
	}
	if s.has(colStack) {
		e.Stack = StackID(c.columns[colStack].next32())
	}
	if s.has(colFlow) {
		e.Flow = c.columns[colFlow].next()
	}
	if s.has(colValue) {
		e.Value = unzigzag(c.columns[colValue].next())
	}
	if s.has(colSeq) {
		e.Seq = c.columns[colSeq].next32()
	}
	cpu.advance(e)
}
