package durable

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

// The bits of the format of a record.
const (
	recordProtobuf = 1 << iota // the object is in protobuf; otherwise in JSON
	recordSum                  // the object has no resource version: its sum stands before it
	recordGone                 // the object is deleted; the record has only its key
	recordAhead                // the handler may have the object: it was to receive its addition
)

const listSuffix = "List"

// codec encodes acknowledged objects as records, and decodes them. It is safe for concurrent use.
type codec[T object.Object] struct {
	objects  bool // records have whole objects, not only metadata
	packing  intake.Packing[T]
	decoders *decode.Pool // of the type of packing
	metadata *decode.Pool // of *metav1.PartialObjectMetadata
}

// body returns the format of a record, its encoded object, and its sum or nil.
func body(r *snapshotfile.Record) (f decode.Format, raw, sum []byte) {
	if r.Format&recordProtobuf != 0 {
		f = decode.Protobuf
	}
	if raw = r.Raw; r.Format&recordSum != 0 {
		n := min(sumSize, len(raw)) // the checksums of the file leave no doubt about its length
		raw, sum = raw[n:], raw[:n]
	}
	return f, raw, sum
}

// keyOf returns the key of a record.
func keyOf(r *snapshotfile.Record) object.Key {
	f, raw, _ := body(r)
	id := f.Glance(raw)
	return object.Key{Namespace: string(id.Namespace), Name: string(id.Name)}
}

// compare returns the key of a record, and whether get returns the same version of its object.
func (c *codec[T]) compare(r *snapshotfile.Record, get func(object.Key) (T, bool)) (key object.Key, same bool) {
	f, raw, sum := body(r)
	id := f.Glance(raw)
	key = object.Key{Namespace: string(id.Namespace), Name: string(id.Name)}
	obj, ok := get(key)
	switch {
	case !ok || string(id.UID) != string(obj.GetUID()):
		return key, false
	case sum != nil:
		return key, obj.GetResourceVersion() == "" && bytes.Equal(sum, c.sum(obj))
	}
	return key, len(id.ResourceVersion) > 0 && string(id.ResourceVersion) == obj.GetResourceVersion()
}

// same reports whether an entry has the same version as obj.
func (c *codec[T]) same(e entry[T], obj T) bool {
	switch version := obj.GetResourceVersion(); {
	case object.Same(e.obj, obj):
		return true
	case e.obj.GetUID() != obj.GetUID() || e.obj.GetResourceVersion() != version:
		return false
	case version != "":
		return true
	}
	if e.stored != nil {
		_, _, sum := body(e.stored)
		return sum != nil && bytes.Equal(sum, c.sum(obj))
	}
	return c.packing.SameContent(e.obj, obj)
}

// sumSize is the length of a sum of content.
const sumSize = 16

// sum returns a sum of the content of obj, the same in each process.
func (c *codec[T]) sum(obj T) []byte {
	raw, err := json.Marshal(c.packing.Whole(obj))
	if err != nil { // it equals nothing, so that no change is lost
		raw = []byte(rand.Text())
	}
	sum := sha256.Sum256(raw)
	return sum[:sumSize]
}

// encode returns a record of an acknowledged object.
func (c *codec[T]) encode(e entry[T]) snapshotfile.Record {
	if e.stored != nil {
		return *e.stored
	}
	r, ok := c.whole(e.obj)
	if !ok {
		r = c.meta(e.obj)
	}
	if e.obj.GetResourceVersion() == "" {
		r.Format |= recordSum
		r.Raw = append(c.sum(e.obj), r.Raw...)
	}
	return r
}

// whole returns a record of a whole object. ok is false if only metadata are wanted, or if obj cannot be encoded.
func (c *codec[T]) whole(obj T) (r snapshotfile.Record, ok bool) {
	if !c.objects {
		return r, false
	}
	e, err := c.encoded(obj)
	if err != nil || len(e.Raw) > snapshotfile.MaxObject-sumSize {
		return r, false
	}
	r = snapshotfile.Record{Format: byte(e.Format), Raw: e.Raw}
	if e.List != nil {
		r.Kind, r.APIVersion = e.List.Kind, e.List.APIVersion
	}
	return r, true
}

var errNotDecoded = errors.New("the object cannot be decoded")

// encoded returns obj in encoded form.
func (c *codec[T]) encoded(obj T) (e decode.Encoded, err error) {
	e, ok, err := c.packing.Encoded(obj, nil)
	if ok || err != nil {
		return e, err
	}
	whole := c.packing.Whole(obj)
	if object.IsNil(whole) {
		return e, errNotDecoded
	}
	e.Format, e.Raw, err = decode.Encode(whole, c.decoders.Marshals(whole), nil)
	return e, err
}

// meta returns a record of the metadata of obj, from which a T can be decoded that has only these.
func (c *codec[T]) meta(obj T) snapshotfile.Record {
	e, ok, err := c.packing.Encoded(obj, nil)
	if ok && err == nil && e.Format == decode.Protobuf { // a packed object need not be decoded
		if raw := decode.MetadataAlone(e.Raw); raw != nil {
			return snapshotfile.Record{Format: recordProtobuf, Kind: c.packing.Type().Elem().Name(), Raw: slices.Clone(raw)}
		}
	}
	m := c.metadataOf(obj)
	m.ManagedFields = nil
	r := snapshotfile.Record{Kind: m.Kind, APIVersion: m.APIVersion}
	if r.Kind == "" {
		r.Kind = c.packing.Type().Elem().Name()
	}
	return c.encodeMeta(r, m)
}

// encodeMeta sets the metadata in r.
func (c *codec[T]) encodeMeta(r snapshotfile.Record, m *metav1.PartialObjectMetadata) snapshotfile.Record {
	if c.decoders.Check(decode.Protobuf) == nil {
		if raw, err := m.Marshal(); err == nil {
			r.Format, r.Raw = recordProtobuf, raw
			return r
		}
	}
	raw, err := json.Marshal(m)
	if err != nil { // metadata that came from a server have JSON
		raw, _ = json.Marshal(bare(object.KeyOf(m), m.UID, m.ResourceVersion))
	}
	r.Raw = raw
	return r
}

// metadataOf returns the metadata of obj. The result may share memory with obj.
func (c *codec[T]) metadataOf(obj T) *metav1.PartialObjectMetadata {
	if o, ok := any(obj).(metav1.Object); ok {
		m := meta.AsPartialObjectMetadata(o)
		if typed, ok := any(obj).(runtime.Object); ok {
			m.APIVersion, m.Kind = typed.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		}
		return m
	}
	e, err := c.encoded(obj)
	if err == nil {
		if m, err := c.metadata.Decode(e.Format, e.Raw, decode.Origin{List: e.List}); err == nil {
			return m.(*metav1.PartialObjectMetadata)
		}
	}
	return bare(object.KeyOf(obj), obj.GetUID(), obj.GetResourceVersion())
}

// bare returns metadata with only an identity and a version.
func bare(key object.Key, uid types.UID, version string) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	m.Namespace, m.Name, m.UID, m.ResourceVersion = key.Namespace, key.Name, uid, version
	return m
}

// gone returns a record of a deletion.
func (c *codec[T]) gone(key object.Key) snapshotfile.Record {
	r := c.encodeMeta(snapshotfile.Record{}, bare(key, "", ""))
	r.Format |= recordGone
	return r
}

// decode returns the object of a record: as much of it as the type has. The type may be another one than when the
// record was written.
func (c *codec[T]) decode(r *snapshotfile.Record) (obj T, err error) {
	f, raw, _ := body(r)
	e := decode.Encoded{Format: f, Raw: raw}
	if strings.HasSuffix(r.Kind, listSuffix) {
		e.List = &decode.ListInfo{Kind: r.Kind, APIVersion: r.APIVersion}
	}
	if c.decoders.Check(f) == nil {
		if obj, err = c.restored(e); err == nil {
			return obj, nil
		}
	}
	m := &metav1.PartialObjectMetadata{}
	if found, err := c.metadata.Decode(f, raw, decode.Origin{}); err == nil {
		m = found.(*metav1.PartialObjectMetadata)
	} else {
		id := f.Glance(raw)
		key := object.Key{Namespace: string(id.Namespace), Name: string(id.Name)}
		m = bare(key, types.UID(id.UID), string(id.ResourceVersion))
	}
	m.Kind = strings.TrimSuffix(r.Kind, listSuffix)
	m.APIVersion = r.APIVersion
	if m.Kind == "" {
		m.Kind = "Unknown" // an untyped object needs one
	}
	if raw, err = json.Marshal(m); err != nil {
		return obj, err
	}
	if obj, err = c.restored(decode.Encoded{Format: decode.JSON, Raw: raw}); err != nil {
		return obj, fmt.Errorf("metadata cannot be decoded into %v: %w", c.decoders.Type(), err)
	}
	return obj, nil
}

func (c *codec[T]) restored(e decode.Encoded) (obj T, err error) {
	decoder := c.decoders.Get()
	defer c.decoders.Put(decoder)
	if obj, err = c.packing.Restored(decoder, e, false); err == nil && reflect.ValueOf(obj).IsZero() {
		err = errNotDecoded
	}
	return obj, err
}
