//go:build linux

package ebpf

import (
	"errors"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

const (
	slabBytes   = 1 << 20
	recordMax   = 40 << 10 // of one record: argv's 28 KB and its head
	recordAlign = 8
	maxRaw      = 3 << 30 // of one trace; what comes after is counted as lost

	minInterval = 2 * time.Millisecond
	maxInterval = 40 * time.Millisecond
)

// rawRecords is what was read from the ring buffer, as it came: slabs of
// records, each after its length (8 bytes, so that records are aligned).
type rawRecords struct {
	slabs [][]byte
	bytes int
	count int
}

// place is where a record lies.
type place struct{ slab, off uint32 }

// each calls fn with every record.
func (r *rawRecords) each(fn func(at place, rec []byte)) {
	for i, s := range r.slabs {
		for off := 0; off < len(s); {
			at := place{uint32(i), uint32(off)}
			rec := r.record(at)
			fn(at, rec)
			off += recordAlign + align(len(rec))
		}
	}
}

// record is what lies at a place that each gave.
func (r *rawRecords) record(at place) []byte {
	s := r.slabs[at.slab][at.off:]
	n := int(le.Uint64(s))
	return s[recordAlign : recordAlign+n : recordAlign+n]
}

func align(n int) int { return (n + recordAlign - 1) &^ (recordAlign - 1) }

// room is free space for one record at the end of the last slab.
func (r *rawRecords) room() []byte {
	n := len(r.slabs)
	if n == 0 || cap(r.slabs[n-1])-len(r.slabs[n-1]) < recordMax+recordAlign {
		r.slabs = append(r.slabs, make([]byte, 0, slabBytes))
		n++
	}
	s := r.slabs[n-1]
	return s[len(s)+recordAlign : len(s)+recordAlign : cap(s)]
}

// keep takes the record that was put into the room, or elsewhere when it was
// too large for it.
func (r *rawRecords) keep(rec []byte) {
	if len(rec) > recordMax {
		return // not ours
	}
	s := &r.slabs[len(r.slabs)-1]
	at := len(*s)
	*s = (*s)[:at+recordAlign+align(len(rec))]
	le.PutUint64((*s)[at:], uint64(len(rec)))
	copy((*s)[at+recordAlign:], rec) // onto itself, as a rule
	r.bytes += recordAlign + align(len(rec))
	r.count++
}

// reader empties the ring buffer at intervals: no program ever wakes it, since
// waking costs every event more than the event.
type reader struct {
	ring     *ringbuf.Reader
	raw      rawRecords
	rec      ringbuf.Record
	interval time.Duration
	onTick   func()             // called after each emptying
	onFlood  func(full float64) // called with how full the ring was, 0 ... 1
	stop     chan struct{}
	done     chan struct{}
	err      error // of the last reading; good after done
}

func startReader(ring *ringbuf.Reader, onTick func(), onFlood func(float64)) *reader {
	r := &reader{ring: ring, interval: maxInterval / 2, onTick: onTick, onFlood: onFlood,
		stop: make(chan struct{}), done: make(chan struct{})}
	go r.run()
	return r
}

func (r *reader) run() {
	defer close(r.done)
	timer := time.NewTimer(r.interval)
	defer timer.Stop()
	for {
		stopping := false
		select {
		case <-r.stop:
			stopping = true
		case <-timer.C:
		}
		before := r.raw.bytes
		if r.err = r.drain(); r.err != nil || stopping {
			r.onTick()
			return
		}
		r.onTick()
		r.adapt(float64(r.raw.bytes-before) / float64(r.ring.BufferSize()))
		timer.Reset(r.interval)
	}
}

// adapt reads more often when the ring fills, less often when it does not.
func (r *reader) adapt(full float64) {
	switch {
	case full > 0.25:
		r.interval = max(r.interval/2, minInterval)
	case full < 0.05:
		r.interval = min(r.interval*2, maxInterval)
	}
	r.onFlood(full)
}

// drain reads all there is: one system call, then memory.
func (r *reader) drain() error {
	r.ring.SetDeadline(time.Unix(1, 0)) // past: do not wait
	for {
		r.rec.RawSample = r.raw.room()
		err := r.ring.ReadInto(&r.rec)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if r.raw.bytes < maxRaw {
			r.raw.keep(r.rec.RawSample)
		}
	}
}

// finish reads what is left and ends the reader.
func (r *reader) finish() (*rawRecords, error) {
	close(r.stop)
	<-r.done
	return &r.raw, r.err
}
