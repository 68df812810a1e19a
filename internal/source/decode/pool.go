package decode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pool decodes objects of one type. It has idle decoders, as each knows more with every object. Pools of equal types
// that have the same [Parts] use the same decoders. It is safe for concurrent use.
type Pool struct {
	goType            reflect.Type
	typ               *Type
	accept            string // for an object or a watch
	acceptList        string
	keepManagedFields bool
	parts             *Parts // nil for none
	idle              *idle
}

// DropManagedFields is a parameter of JSON in an Accept header. It asks the server to leave out managedFields
// (KEP-5958). Servers without the feature ignore it.
const DropManagedFields = ";drop=metadata.managedFields"

// NewPool returns a pool for objects of type t, a pointer, that accepts the media types in configured from which
// such objects can be decoded. An empty configured means protobuf and JSON. A nil parts means that the pool shares with
// no other.
func NewPool(t reflect.Type, configured string, keepManagedFields bool, parts *Parts) (*Pool, error) {
	typ, err := TypeOf(t)
	if err != nil {
		return nil, err
	}
	if configured == "" {
		configured = MediaProtobuf + "," + MediaJSON
	}
	var media []string
	for m := range strings.SplitSeq(configured, ",") {
		if f, err := FormatOf(m); err == nil && (f == JSON || typ.Protobuf()) {
			media = append(media, strings.TrimSpace(m))
		}
	}
	if len(media) == 0 {
		media = []string{MediaJSON}
	}
	as := func(kind string) string {
		all := slices.Clone(media)
		for i, m := range all {
			if t == reflect.TypeFor[*metav1.PartialObjectMetadata]() {
				all[i] += ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
			}
			if f, err := FormatOf(m); err == nil && f == JSON && !keepManagedFields {
				all[i] += DropManagedFields
			}
		}
		return strings.Join(all, ",")
	}
	return &Pool{
		goType:            t,
		typ:               typ,
		accept:            as("PartialObjectMetadata"),
		acceptList:        as("PartialObjectMetadataList"),
		keepManagedFields: keepManagedFields,
		parts:             parts,
		idle:              parts.idleOf(idleKey{t, keepManagedFields}),
	}, nil
}

// Type returns the type of the objects, a pointer.
func (p *Pool) Type() reflect.Type { return p.goType }

// Decodes returns the Type of the objects.
func (p *Pool) Decodes() *Type { return p.typ }

// Accept returns the media types that a request for an object or a watch accepts.
func (p *Pool) Accept() string { return p.accept }

// AcceptList returns the media types that a request for a list accepts.
func (p *Pool) AcceptList() string { return p.acceptList }

// Common reports whether the objects share parts with those of other pools, and so with their own versions before.
func (p *Pool) Common() bool { return p.parts != nil }

// Check returns an error if an object cannot be decoded from f.
func (p *Pool) Check(f Format) error {
	if f == Protobuf && !p.typ.Protobuf() {
		return fmt.Errorf("the server sent protobuf, but the request for %v was for JSON", p.goType.Elem())
	}
	return nil
}

// Get returns a decoder, for one goroutine. Put takes it back.
func (p *Pool) Get() *Decoder {
	if d := p.idle.first.Swap(nil); d != nil {
		return d
	}
	if d, ok := p.idle.more.Get().(*Decoder); ok {
		return d
	}
	d := NewDecoder(p.typ, p.keepManagedFields)
	d.doubt, d.parts = &p.idle.doubt, p.parts
	return d
}

// Put takes back a decoder of Get. A decoder that is not put back is lost to the pool, but does no harm.
func (p *Pool) Put(d *Decoder) {
	if !p.idle.first.CompareAndSwap(nil, d) {
		p.idle.more.Put(d)
	}
}

// Decode decodes one object, as [Decoder.Decode] does.
func (p *Pool) Decode(f Format, raw []byte, from Origin) (any, error) {
	d := p.Get()
	obj, err := d.Decode(f, raw, from)
	p.Put(d) // skipped if a method of the type has ended the goroutine
	return obj, err
}

// Marshals reports whether obj, of the type of the pool, can be encoded in protobuf and decoded again.
func (p *Pool) Marshals(obj any) bool {
	_, ok := obj.(marshaler)
	return ok && p.typ.Protobuf()
}
