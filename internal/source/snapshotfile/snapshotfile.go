// Package snapshotfile is the format of the saved state of a collection: a header, and then encoded objects.
//
//	file  = "informer" version block*         the version is one byte
//	block = kind rawLen packedLen payload sum the lengths and the sum have 4 bytes each, little endian
//
// The first block has kind 'h' and the header, the last one kind 'e' and nothing. Those between have kind 'r' and whole
// records. S2 compresses each payload. The sum is the CRC-32C of all bytes of the file before it, without earlier sums.
// So a reader detects changed, lost or swapped bytes before it uses anything of the block, and a file that ends early
// has no block of kind 'e'.
//
// The checksums find damage. They do not protect against somebody who writes the file on purpose. A [Reader] of such a
// file neither panics nor allocates much more memory than one object may have.
package snapshotfile

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"
)

const (
	magic   = "informer"
	version = 1

	headerBlock  = 'h'
	recordsBlock = 'r'
	endBlock     = 'e'

	prefix    = 1 + 4 + 4 // the bytes of a block before its payload
	blockSize = 256 << 10 // a block is written when it has as many bytes
	// MaxObject is the length of the longest object, the same as in a response of a server.
	MaxObject = 32 << 20
	// MaxHeader is the length of the longest header.
	MaxHeader = 1 << 20
	maxName   = 4 << 10 // of a kind or API version
	maxRecord = MaxObject + 2*maxName + 4*binary.MaxVarintLen32
	maxBlock  = blockSize + maxRecord
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Record is one encoded object.
type Record struct {
	Format           byte
	Kind, APIVersion string // of the list of the object; empty if there was none
	Raw              []byte
}

// ErrTooLarge indicates that a header or an object is too large for the format.
var ErrTooLarge = errors.New("too large for a saved state")

// Writer writes a file. Create one with [NewWriter].
type Writer struct {
	w       *bufio.Writer
	sum     uint32
	records []byte // the open block
	packed  []byte // scratch memory
	written int64
}

// NewWriter returns a writer to w, and writes the header.
func NewWriter(w io.Writer, header []byte) (*Writer, error) {
	if len(header) > MaxHeader {
		return nil, fmt.Errorf("header of %d bytes: %w", len(header), ErrTooLarge)
	}
	out := &Writer{w: bufio.NewWriterSize(w, 64<<10)}
	begin := append([]byte(magic), version)
	out.sum = crc32.Checksum(begin, table)
	if err := out.write(begin); err != nil {
		return nil, err
	}
	return out, out.block(headerBlock, header)
}

// Append adds a record.
func (w *Writer) Append(r Record) error {
	if len(r.Raw) > MaxObject || len(r.Kind) > maxName || len(r.APIVersion) > maxName {
		return fmt.Errorf("object of %d bytes: %w", len(r.Raw), ErrTooLarge)
	}
	w.records = append(w.records, r.Format)
	w.records = appendString(w.records, r.Kind)
	w.records = appendString(w.records, r.APIVersion)
	w.records = appendString(w.records, r.Raw)
	if len(w.records) < blockSize {
		return nil
	}
	return w.flush()
}

func appendString[S ~string | ~[]byte](to []byte, s S) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

func (w *Writer) flush() error {
	if len(w.records) == 0 {
		return nil
	}
	err := w.block(recordsBlock, w.records)
	if w.records = w.records[:0]; cap(w.records) > 4*blockSize {
		w.records = nil
	}
	return err
}

// Close writes the end of the file. It does not close the writer below.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.block(endBlock, nil); err != nil {
		return err
	}
	return w.w.Flush()
}

// Written returns the number of bytes so far.
func (w *Writer) Written() int64 { return w.written }

func (w *Writer) block(kind byte, raw []byte) error {
	if need := prefix + s2.MaxEncodedLen(len(raw)); cap(w.packed) < need {
		w.packed = make([]byte, need)
	}
	b := w.packed[:cap(w.packed)]
	payload := s2.Encode(b[prefix:], raw)
	b[0] = kind
	binary.LittleEndian.PutUint32(b[1:], uint32(len(raw)))
	binary.LittleEndian.PutUint32(b[5:], uint32(len(payload)))
	b = b[:prefix+len(payload)]
	w.sum = crc32.Update(w.sum, table, b)
	if err := w.write(b); err != nil {
		return err
	}
	return w.write(binary.LittleEndian.AppendUint32(nil, w.sum))
}

func (w *Writer) write(b []byte) error {
	n, err := w.w.Write(b)
	w.written += int64(n)
	return err
}

// DamagedError indicates that a file is not as it was written.
type DamagedError struct {
	// Offset is the position of the block or record with the damage.
	Offset int64
	// Why says what is wrong.
	Why string
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("damaged at byte %d: %s", e.Offset, e.Why)
}

// VersionError indicates that a file has another version of the format.
type VersionError struct{ Version byte }

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("written in version %d of the format, and this program reads version %d", e.Version, version)
}

// Reader reads a file. Create one with [NewReader]. It is not safe for concurrent use.
type Reader struct {
	// Header is the header of the file.
	Header []byte

	r      *bufio.Reader
	sum    uint32
	offset int64
	packed []byte // scratch memory
	ended  bool
}

// NewReader returns a reader of r, and reads the header. The error is a [*DamagedError], a [*VersionError] or one of r.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	begin, err := in.read(nil, len(magic)+1)
	if err != nil {
		return nil, err
	}
	if string(begin[:len(magic)]) != magic {
		return nil, in.damaged("it is not a saved state")
	}
	if begin[len(magic)] != version {
		return nil, &VersionError{begin[len(magic)]}
	}
	in.sum = crc32.Checksum(begin, table)
	in.offset = int64(len(begin))
	kind, header, err := in.block(nil)
	switch {
	case err != nil:
		return nil, err
	case kind != headerBlock:
		return nil, in.damaged("no header")
	}
	in.Header = header
	return in, nil
}

func (r *Reader) damaged(reason string) error { return &DamagedError{r.offset, reason} }

// Next returns the records of the next block, for [Cut]. It uses the memory of buf[:cap(buf)]. It returns io.EOF after
// the whole file: everything that it returned before is then as it was written.
func (r *Reader) Next(buf []byte) ([]byte, error) {
	if r.ended {
		return nil, io.EOF
	}
	kind, raw, err := r.block(buf)
	switch {
	case err != nil:
		return nil, err
	case kind == recordsBlock && len(raw) > 0:
		return raw, nil
	case kind != endBlock || len(raw) > 0:
		return nil, r.damaged("unexpected block")
	}
	if _, err := r.r.ReadByte(); err == nil {
		return nil, r.damaged("more bytes after the end")
	} else if err != io.EOF {
		return nil, err
	}
	r.ended = true
	return nil, io.EOF
}

// block reads one block, whose checksum is right.
func (r *Reader) block(buf []byte) (kind byte, raw []byte, err error) {
	head, err := r.read(r.packed[:0], prefix)
	if err != nil {
		return 0, nil, err
	}
	r.packed = head
	kind = head[0]
	// int may have 32 bits
	raw64, packed64 := uint64(binary.LittleEndian.Uint32(head[1:])), uint64(binary.LittleEndian.Uint32(head[5:]))
	limit := maxBlock
	if kind == headerBlock {
		limit = MaxHeader
	}
	if raw64 > uint64(limit) || packed64 > uint64(s2.MaxEncodedLen(int(raw64))) {
		return 0, nil, r.damaged("the length of a block is too large")
	}
	rawLen, packedLen := int(raw64), int(packed64)
	block, err := r.read(head, packedLen+crc32.Size)
	if err != nil {
		return 0, nil, err
	}
	r.packed = block
	content, sum := block[:prefix+packedLen], binary.LittleEndian.Uint32(block[prefix+packedLen:])
	if r.sum = crc32.Update(r.sum, table, content); r.sum != sum {
		return 0, nil, r.damaged("wrong checksum")
	}
	payload := content[prefix:]
	if n, err := s2.DecodedLen(payload); err != nil || n != rawLen {
		return 0, nil, r.damaged("wrong length")
	}
	if cap(buf) < rawLen {
		buf = make([]byte, rawLen)
	}
	if raw, err = s2.Decode(buf[:cap(buf)], payload); err != nil {
		return 0, nil, r.damaged(err.Error())
	}
	r.offset += int64(len(block))
	if cap(r.packed) > 8*blockSize {
		r.packed = nil
	}
	return kind, raw, nil
}

// read appends n bytes to buf. It allocates memory as the bytes come, since a damaged length may be far too large.
func (r *Reader) read(buf []byte, n int) ([]byte, error) {
	for n > 0 {
		step := min(n, 64<<10)
		from := len(buf)
		buf = append(buf, make([]byte, step)...)
		if _, err := io.ReadFull(r.r, buf[from:]); err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, r.damaged("the file ends early")
		} else if err != nil {
			return nil, err
		}
		n -= step
	}
	return buf, nil
}

// Cut returns the first record of a block, and the rest of the block. The record refers to the memory of the block.
func Cut(block []byte) (r Record, rest []byte, err error) {
	r.Format = block[0]
	rest = block[1:]
	var kind, apiVersion []byte
	for _, field := range []struct {
		to  *[]byte
		max uint64
	}{{&kind, maxName}, {&apiVersion, maxName}, {&r.Raw, MaxObject}} {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > field.max || n > uint64(len(rest)-size) {
			return r, nil, errors.New("damaged: a record is longer than its block")
		}
		*field.to, rest = rest[size:][:n:n], rest[size:][n:]
	}
	r.Kind, r.APIVersion = string(kind), string(apiVersion)
	return r, rest, nil
}
