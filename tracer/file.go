package tracer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// The recorded file. A header, then frames; integers are little endian.
//
//	header: magic [8]byte, major uint16, minor uint16, reserved uint32
//	frame:  type uint8, flags uint8, reserved uint16, stored uint32, raw uint32, crc uint32, payload [stored]byte
//
// crc is CRC-32C of the frame's first 12 bytes and its payload. With flagZstd
// the payload is a zstd frame of raw bytes; otherwise stored == raw. Frames of
// unknown type are skipped. A trace is a frameTrace, table and event frames,
// and a frameTraceEnd; frameEnd comes last, but more may be appended after it.
const (
	fileMagic       = "\x89STRACE\n" // a byte over 127 and a line end, to notice a transfer as text
	fileMajor       = 1              // a reader refuses newer ones
	fileMinor       = 0              // what it adds can be skipped
	fileHeaderSize  = 16
	frameHeaderSize = 16

	flagZstd = 1

	maxFrame = 64 << 20 // raw bytes of a frame
	maxRatio = 16       // raw bytes per stored byte: what a small hostile file can make a reader allocate
	goodRaw  = 1 << 20  // table frames are cut at about this size
)

type frameType uint8

const (
	frameMeta frameType = iota + 1
	frameTrace
	frameStrings
	frameArgs
	frameFrames
	frameStacks
	frameTasks
	frameEvents
	frameTraceEnd
	frameEnd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a recorded file. Each frame is one Write, so that what was
// written before a crash can be read. After an error it stays at that error.
type Writer struct {
	w   io.Writer
	enc *zstd.Encoder
	raw []byte // payload being made
	out []byte // frame being made
	ev  eventEncoder
	err error
}

// NewWriter writes the file's header to w. Close finishes the file; closing w
// is the caller's.
func NewWriter(w io.Writer) (*Writer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true)) // so that it says its size
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	header := append([]byte(fileMagic), make([]byte, fileHeaderSize-len(fileMagic))...)
	binary.LittleEndian.PutUint16(header[8:], fileMajor)
	binary.LittleEndian.PutUint16(header[10:], fileMinor)
	if _, err := w.Write(header); err != nil {
		return nil, fmt.Errorf("events file header: %w", err)
	}
	return &Writer{w: w, enc: enc}, nil
}

// WriteMeta writes an entry that means something to the caller only: a kind,
// and data (JSON, say). Entries may come before, between and after traces.
func (w *Writer) WriteMeta(kind string, data []byte) error {
	w.raw = append(appendLenString(w.raw[:0], kind), data...)
	return w.frame(frameMeta)
}

// Close writes the end mark; without it a reader reports the file as cut.
func (w *Writer) Close() error {
	w.raw = w.raw[:0]
	err := w.frame(frameEnd)
	if w.err == nil {
		w.err = errors.New("events file: writer is closed")
	}
	return errors.Join(err, w.enc.Close())
}

// frame writes w.raw as one frame.
func (w *Writer) frame(typ frameType) error {
	if w.err != nil {
		return w.err
	}
	if len(w.raw) > maxFrame {
		w.err = fmt.Errorf("events file: frame of %d bytes, at most %d fit", len(w.raw), maxFrame)
		return w.err
	}
	var header [frameHeaderSize]byte
	w.out = w.enc.EncodeAll(w.raw, append(w.out[:0], header[:]...))
	flags := byte(flagZstd)
	if stored := len(w.out) - frameHeaderSize; stored >= len(w.raw) || stored*maxRatio < len(w.raw) {
		flags = 0
		w.out = append(w.out[:frameHeaderSize], w.raw...)
	}
	w.out[0], w.out[1] = byte(typ), flags
	binary.LittleEndian.PutUint32(w.out[4:], uint32(len(w.out)-frameHeaderSize))
	binary.LittleEndian.PutUint32(w.out[8:], uint32(len(w.raw)))
	binary.LittleEndian.PutUint32(w.out[12:], frameSum(w.out[:12], w.out[frameHeaderSize:]))
	if _, err := w.w.Write(w.out); err != nil {
		w.err = fmt.Errorf("events file: %w", err)
	}
	return w.err
}

func frameSum(header, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(header, castagnoli), castagnoli, payload)
}

// ErrTruncated is the family of errors for a file that ends early or is
// damaged from some place on. What lay before it has been delivered.
var ErrTruncated = errors.New("events file is cut or damaged")

// TruncatedError says where: the end of the last frame that is whole.
type TruncatedError struct {
	Offset int64
	Err    error
}

func (e *TruncatedError) Error() string {
	return fmt.Sprintf("%v after byte %d: %v", ErrTruncated, e.Offset, e.Err)
}

func (e *TruncatedError) Unwrap() error        { return e.Err }
func (e *TruncatedError) Is(target error) bool { return target == ErrTruncated }

// VersionError says that a file was written by a newer program.
type VersionError struct{ Major, Minor int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("events file has version %d.%d, this program reads %d.x: use a newer one", e.Major, e.Minor, fileMajor)
}

// Item is one thing in a recorded file: a trace, or a caller's entry.
type Item struct {
	Trace *Trace // nil for an entry
	Kind  string // of an entry
	Data  []byte // of an entry
}

// Reader reads a recorded file, front to back. It trusts nothing in it: ids
// of a trace lie within its tables, and memory stays within a few hundred
// times the bytes really read.
type Reader struct {
	r      *bufio.Reader
	dec    *zstd.Decoder
	offset int64 // end of the last whole frame
	stored []byte
	raw    []byte
	err    error
}

// NewReader reads the file's header. Close frees the decoder.
func NewReader(r io.Reader) (*Reader, error) {
	var header [fileHeaderSize]byte
	buffered := bufio.NewReaderSize(r, 256<<10)
	if n, err := io.ReadFull(buffered, header[:]); err != nil && !isEOF(err) {
		return nil, fmt.Errorf("events file header: %w", err)
	} else if err != nil && n >= len(fileMagic) && string(header[:8]) == fileMagic {
		return nil, &TruncatedError{0, io.ErrUnexpectedEOF}
	}
	if string(header[:8]) != fileMagic {
		return nil, errors.New("not an events file: its first bytes are wrong")
	}
	major, minor := binary.LittleEndian.Uint16(header[8:]), binary.LittleEndian.Uint16(header[10:])
	if major > fileMajor {
		return nil, &VersionError{int(major), int(minor)}
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return &Reader{r: buffered, dec: dec, offset: fileHeaderSize}, nil
}

// Close frees the decoder; closing the file is the caller's.
func (r *Reader) Close() { r.dec.Close() }

// Next gives the next entry or trace, io.EOF at the proper end of the file,
// and a *TruncatedError (ErrTruncated) where it is cut or damaged. Every
// later call repeats the error.
func (r *Reader) Next() (Item, error) {
	if r.err != nil {
		return Item{}, r.err
	}
	item, err := r.next()
	if err != nil {
		r.err = err
	}
	return item, err
}

func (r *Reader) next() (Item, error) {
	ended := false
	for {
		typ, err := r.frame()
		switch {
		case err == io.EOF && ended:
			return Item{}, io.EOF
		case err == io.EOF:
			return Item{}, r.truncated(io.ErrUnexpectedEOF)
		case err != nil:
			return Item{}, err
		}
		ended = typ == frameEnd
		switch typ {
		case frameMeta:
			d := decoder{buf: r.raw}
			kind := d.string()
			if d.err != nil {
				return Item{}, r.truncated(d.err)
			}
			return Item{Kind: kind, Data: append([]byte(nil), d.buf...)}, nil
		case frameTrace:
			t, err := r.trace()
			return Item{Trace: t}, err
		}
	}
}

// frame reads the next frame into r.raw. io.EOF is the end of the file
// between two frames.
func (r *Reader) frame() (frameType, error) {
	var header [frameHeaderSize]byte
	switch _, err := io.ReadFull(r.r, header[:]); {
	case err == io.EOF:
		return 0, io.EOF
	case err != nil:
		return 0, r.broken(err)
	}
	stored := int64(binary.LittleEndian.Uint32(header[4:]))
	raw := int64(binary.LittleEndian.Uint32(header[8:]))
	compressed := header[1]&flagZstd != 0
	if stored > maxFrame+maxFrame/8 || raw > maxFrame || raw > stored*maxRatio || !compressed && raw != stored {
		return 0, r.truncated(fmt.Errorf("frame of %d bytes for %d", stored, raw))
	}
	if err := r.payload(stored); err != nil {
		return 0, r.broken(err)
	}
	if frameSum(header[:12], r.stored) != binary.LittleEndian.Uint32(header[12:]) {
		return 0, r.truncated(errors.New("checksum is wrong"))
	}
	if err := r.unpack(compressed, int(raw)); err != nil {
		return 0, r.truncated(err)
	}
	r.offset += frameHeaderSize + stored
	return frameType(header[0]), nil
}

// payload reads n bytes into r.stored, which grows only as they come.
func (r *Reader) payload(n int64) error {
	r.stored = r.stored[:0]
	for n > 0 {
		step := int(min(n, 1<<20))
		at := len(r.stored)
		if cap(r.stored) < at+step {
			r.stored = append(r.stored, make([]byte, step)...)
		}
		r.stored = r.stored[:at+step]
		if _, err := io.ReadFull(r.r, r.stored[at:]); err != nil {
			return err
		}
		n -= int64(step)
	}
	return nil
}

// unpack puts the payload's raw bytes into r.raw.
func (r *Reader) unpack(compressed bool, raw int) error {
	if !compressed {
		r.raw = append(r.raw[:0], r.stored...)
		return nil
	}
	var header zstd.Header
	if err := header.Decode(r.stored); err != nil {
		return fmt.Errorf("zstd: %w", err)
	}
	if !header.HasFCS || header.FrameContentSize != uint64(raw) {
		return fmt.Errorf("zstd content is not the %d bytes announced", raw)
	}
	var err error
	if r.raw, err = r.dec.DecodeAll(r.stored, r.raw[:0]); err != nil {
		return fmt.Errorf("zstd: %w", err)
	}
	if len(r.raw) != raw {
		return fmt.Errorf("zstd content of %d bytes, %d were announced", len(r.raw), raw)
	}
	return nil
}

func (r *Reader) truncated(err error) error { return &TruncatedError{r.offset, err} }

// broken is truncated for the errors that mean the file's end; an error of
// the medium itself is passed on.
func (r *Reader) broken(err error) error {
	if isEOF(err) {
		return r.truncated(io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("events file after byte %d: %w", r.offset, err)
}

func isEOF(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }
