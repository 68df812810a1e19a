package warmstart

import (
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

// maxKept is the capacity of the largest buffer that an encoder keeps.
const maxKept = 128 << 10

// encoder encodes objects so that a load decodes the same objects again. It is for one goroutine.
type encoder struct {
	seed     maphash.Seed
	decoders *decode.Pool
	packing  Packing
	checked  map[uint64]bool // the versions whose encoding loses nothing: true for protobuf
	next     map[uint64]bool // those of the save under way
	buf      []byte          // scratch memory
}

// begin begins a save.
func (e *encoder) begin() { e.next = make(map[uint64]bool, len(e.checked)) }

// end ends a save that has encoded each object.
func (e *encoder) end() { e.checked, e.next, e.buf = e.next, nil, nil }

// keep keeps the memory of raw for the next object.
func (e *encoder) keep(raw []byte) {
	if cap(raw) > cap(e.buf) && cap(raw) <= maxKept {
		e.buf = raw[:0]
	}
}

// record returns obj in encoded form, in memory that the next call uses again.
func (e *encoder) record(obj object.Object) (r snapshotfile.Record, err error) {
	have, ok, err := e.packing.Encoded(obj, e.buf)
	if ok || err != nil {
		e.keep(have.Raw)
		return savedRecord(have), err
	}
	whole := e.packing.Whole(obj)
	var h maphash.Hash
	h.SetSeed(e.seed)
	maphash.WriteComparable(&h, obj) // a restored server can send other content under the same UID and resource version
	h.WriteString(string(obj.GetUID()))
	h.WriteByte(0)
	h.WriteString(obj.GetResourceVersion())
	version := h.Sum64()
	if protobuf, known := e.checked[version]; known && obj.GetResourceVersion() != "" {
		e.next[version] = protobuf
		f, raw, err := decode.Encode(whole, protobuf, e.buf)
		e.keep(raw)
		return savedRecord(decode.Encoded{Format: f, Raw: raw}), err
	}
	f, raw, err := e.lossless(whole)
	if err != nil {
		return r, err
	}
	e.keep(raw)
	e.next[version] = f == decode.Protobuf
	return savedRecord(decode.Encoded{Format: f, Raw: raw}), nil
}

// errLossy indicates an object that no encoding holds.
var errLossy = errors.New("it changes when it is encoded and decoded again, so it cannot be saved; " +
	"LayoutCompact saves the bytes that the server sent")

// lossless returns obj in an encoding from which the same object is decoded.
func (e *encoder) lossless(obj any) (f decode.Format, raw []byte, err error) {
	for _, protobuf := range []bool{true, false} {
		if protobuf && !e.decoders.Marshals(obj) {
			continue
		}
		if f, raw, err = decode.Encode(obj, protobuf, e.buf); err != nil {
			continue
		}
		decoder := e.decoders.Get()
		var again any
		again, err = decoder.Decode(f, raw, decode.Origin{})
		e.decoders.Put(decoder)
		if err == nil && (reflect.DeepEqual(obj, again) || sameValues(obj, again)) {
			return f, raw, nil
		}
	}
	if err != nil {
		return f, nil, fmt.Errorf("%w: %w", errLossy, err)
	}
	return f, nil, errLossy
}

// sameValues reports whether a and b are equal, as the Kubernetes API defines it: quantities and times by their values.
// A nil slice differs from an empty one.
func sameValues(a, b any) (same bool) {
	defer func() { _ = recover() }() // it panics at an unexported field
	return equality.Semantic.DeepEqualWithNilDifferentFromEmpty(a, b)
}

// The formats of records.
const (
	recordJSON     = 0
	recordProtobuf = 1
)

// savedRecord returns a record of an encoded object.
func savedRecord(e decode.Encoded) snapshotfile.Record {
	r := snapshotfile.Record{Format: recordJSON, Raw: e.Raw}
	if e.Format == decode.Protobuf {
		r.Format = recordProtobuf
	}
	if e.List != nil {
		r.Kind, r.APIVersion = e.List.Kind, e.List.APIVersion
	}
	return r
}

func formatOf(r snapshotfile.Record) decode.Format {
	if r.Format == recordProtobuf {
		return decode.Protobuf
	}
	return decode.JSON
}

func listOf(r snapshotfile.Record) *decode.ListInfo {
	if r.Kind == "" && r.APIVersion == "" {
		return nil
	}
	return &decode.ListInfo{Kind: r.Kind, APIVersion: r.APIVersion}
}
