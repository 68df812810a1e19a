package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/decode/proto"
)

// Type is a Go type whose objects a [Decoder] makes. It is safe for concurrent use.
type Type struct {
	elem     reflect.Type // the struct
	layout   layout
	protobuf bool // it can be decoded from protobuf
}

// named is what every object has.
type named interface{ GetName() string }

// message is a message of generated protobuf code.
type message interface{ Unmarshal([]byte) error }

var (
	namedType   = reflect.TypeFor[named]()
	messageType = reflect.TypeFor[message]()
)

// knownTypes has the Type, or the error, of each reflect.Type that was asked for: to find out takes longer than to decode an object.
var knownTypes sync.Map

// TypeOf returns the Type of t, a pointer to a struct that has the method GetName. It returns an error if no object can be decoded
// into a t.
func TypeOf(t reflect.Type) (*Type, error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a pointer to a struct", t)
	}
	if !t.Implements(namedType) {
		return nil, fmt.Errorf("%v has no method GetName", t)
	}
	known, ok := knownTypes.Load(t)
	if !ok {
		known = newType(t.Elem())
		knownTypes.Store(t, known)
	}
	if err, failed := known.(error); failed {
		return nil, err
	}
	return known.(*Type), nil
}

// newType returns a *Type, or an error.
func newType(elem reflect.Type) any {
	if err := decodable(elem); err != nil {
		return err
	}
	t := &Type{elem: elem, layout: newLayout(elem)}
	if reflect.PointerTo(elem).Implements(messageType) && !recursive(elem, map[reflect.Type]bool{}) {
		// A type that embeds a message, like metav1.ObjectMeta, has the method as well, which takes the object for that message.
		t.protobuf = trial(elem, Protobuf) == nil
	}
	return t
}

// Protobuf reports whether objects of the type can be decoded from protobuf. All can be decoded from JSON.
func (t *Type) Protobuf() bool { return t.protobuf }

// decodable returns an error when no object that has what all objects have can be decoded into a t.
func decodable(t reflect.Type) error {
	if path, reason := jsonObstacle(t, map[reflect.Type]bool{}); path != "" {
		return fmt.Errorf("%v cannot be decoded: field %s %s", t, path, reason)
	}
	if reflect.PointerTo(t).Implements(jsonUnmarshalerType) { // who knows what it expects
		return nil
	}
	if err := trial(t, JSON); err != nil {
		return fmt.Errorf("%v cannot be decoded: %w; the field of its metadata must have the tag `json:\"metadata\"`", t, err)
	}
	return nil
}

// trialName is the name of the object that trial decodes.
const trialName = "trial"

// trial decodes an object that has metadata alone into a new t, in a format for which t has what it needs.
func trial(t reflect.Type, f Format) (err error) {
	defer func() {
		if r := recover(); r != nil { // it has the method of an embedded pointer
			err = fmt.Errorf("a method panics: %v", r)
		}
	}()
	obj := reflect.New(t).Interface()
	meta := metav1.ObjectMeta{Namespace: trialName, Name: trialName, UID: trialName, ResourceVersion: "1", Generation: 1, CreationTimestamp: metav1.Unix(1, 0)}
	if f == JSON {
		raw, _ := json.Marshal(map[string]any{"metadata": meta})
		err = unmarshalJSON(raw, obj)
	} else {
		raw, _ := meta.Marshal()
		err = obj.(message).Unmarshal(proto.AppendBytes(nil, objectMetadata, raw))
	}
	if err == nil {
		err = checkName(obj)
	}
	if err == nil && f == Protobuf && obj.(named).GetName() != trialName {
		err = errNoName
	}
	return err
}

// recursive reports whether a t can contain another one, to any depth. Generated code that decodes protobuf calls itself
// for each level, however many there are, and the end of the stack is the end of the process. JSON is limited to 10,000 levels
// by every version of encoding/json and by kube-apiserver.
func recursive(t reflect.Type, in map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return recursive(t.Elem(), in)
	case reflect.Map:
		return recursive(t.Key(), in) || recursive(t.Elem(), in)
	case reflect.Interface:
		return true // for all that can be seen
	case reflect.Struct:
		if t == reflect.TypeFor[runtime.RawExtension]() {
			return false // its interface is not decoded
		}
		known, seen := in[t]
		if seen {
			return known
		}
		in[t] = true // until it turns out that it is not
		for i := range t.NumField() {
			if recursive(t.Field(i).Type, in) {
				return true
			}
		}
		in[t] = false
	}
	return false
}

// Decoder decodes objects of one type. It learns the types of the fields that it meets, and remembers strings that repeat: it is
// for one goroutine, and better used for many objects than for one.
type Decoder struct {
	typ               *Type
	keepManagedFields bool
	plans             plans
	json              *jsonDecoder
	wire              *protobufDecoder
	shared            weakSharer
	hash              func([]byte) uint64 // of the bytes of a part; tests put a weak one here
}

// NewDecoder returns a Decoder for objects of type t. Unless keepManagedFields, it drops metadata.managedFields.
func NewDecoder(t *Type, keepManagedFields bool) *Decoder {
	plans, strings := plans{}, newInterner()
	return &Decoder{
		typ:               t,
		keepManagedFields: keepManagedFields,
		plans:             plans,
		json:              newJSONDecoder(plans, keepManagedFields, strings),
		wire:              newProtobufDecoder(plans, keepManagedFields, strings),
		hash:              hashOfPart,
	}
}

var errNoName = errors.New("it has no metadata.name")

// Origin says what the object to decode comes with, and what it may share.
type Origin struct {
	List *ListInfo // the list that it is an item of, nil for none
	// Before is another version of the object, to which nobody writes any more: a pointer of the decoder's type, or nil. The
	// new object has the parts of it that are equal.
	Before any
	// Made says that Decode of a [Decoder] of this [Type] returned Before. Then parts whose bytes are the same are not decoded.
	// Nothing checks it: if it is false, memory is read that is not Before's.
	Made bool
	// Share lets parts of the object be parts of other objects too. Before has to be nil.
	Share bool
}

// Decode decodes one encoded object into a new one, and returns a pointer to it. Nothing of the object lies in raw's memory. An
// object without a name is an error.
func (d *Decoder) Decode(f Format, raw []byte, from Origin) (any, error) {
	memory := reflect.New(d.typ.layout.memory).UnsafePointer()
	obj := reflect.NewAt(d.typ.elem, memory).Interface()
	if err := d.into(obj, f, raw, from); err != nil {
		return nil, err
	}
	if err := checkName(obj); err != nil {
		return nil, err
	}
	return obj, nil
}

// Metadata decodes the metadata of an encoded object. Unlike the objects of a [Decoder], it need not have a name: a bookmark has none.
func (f Format) Metadata(raw []byte) (*metav1.PartialObjectMetadata, error) {
	meta := &metav1.PartialObjectMetadata{}
	d := NewDecoder(&Type{elem: reflect.TypeFor[metav1.PartialObjectMetadata](), protobuf: true}, false)
	if err := d.into(meta, f, raw, Origin{}); err != nil {
		return nil, err
	}
	return meta, nil
}

// Adopt makes the parts of *now that are equal to those of *before the same ones. Both are pointers of the decoder's type. Adopt
// may write to anything in *now, and writes to nothing in *before.
func (d *Decoder) Adopt(before, now any) { d.plans.adopt(before, now) }

// checkName returns an error when obj has no name, or has none to ask for: when its metadata is an embedded pointer, and was null.
func checkName(obj any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its method GetName panics: %v", r)
		}
	}()
	if obj.(named).GetName() == "" {
		return errNoName
	}
	return nil
}

// cleared calls clear, which clears a part of an object. Where that is an embedded pointer that is nil, clear panics.
func cleared(clear func()) {
	defer func() { _ = recover() }()
	clear()
}

func (d *Decoder) into(target any, f Format, raw []byte, from Origin) error {
	if u, ok := target.(*unstructured.Unstructured); ok {
		before, _ := from.Before.(*unstructured.Unstructured)
		if err := d.unstructured(u, d.alone(f, raw), before, d.reuse(target, from)); err != nil {
			return err
		}
		if from.List != nil && u.GetKind() == "" { // lists of built-in types name the kind once
			u.SetKind(strings.TrimSuffix(from.List.Kind, "List"))
			u.SetAPIVersion(from.List.APIVersion)
		}
	} else {
		if err := d.typed(target, f, raw, from); err != nil {
			return err
		}
		if typed, ok := target.(interface{ GetObjectKind() schema.ObjectKind }); ok {
			cleared(func() { // the type says it; so does client-go
				if kind := typed.GetObjectKind(); !kind.GroupVersionKind().Empty() {
					kind.SetGroupVersionKind(schema.GroupVersionKind{})
				}
			})
		}
	}
	if !d.keepManagedFields {
		// Nothing is left of them, unless the server writes metadata twice or out of the ordinary. If so, the metadata are not
		// those of the version before, which had none either, so they may be written to.
		switch meta := target.(type) {
		case *unstructured.Unstructured:
			if _, found, _ := unstructured.NestedFieldNoCopy(meta.Object, "metadata", "managedFields"); found {
				meta.SetManagedFields(nil)
			}
		case interface {
			GetManagedFields() []metav1.ManagedFieldsEntry
			SetManagedFields([]metav1.ManagedFieldsEntry)
		}:
			cleared(func() {
				if meta.GetManagedFields() != nil {
					meta.SetManagedFields(nil)
				}
			})
		}
	}
	return nil
}

// typed decodes raw into target, a pointer to a struct: by our own decoder what is as usual, by the library of the format all else.
func (d *Decoder) typed(target any, f Format, raw []byte, from Origin) error {
	v := reflect.ValueOf(target).Elem()
	var shared *sharer
	if from.Share {
		shared = d.shared.get()
	}
	var old unsafe.Pointer
	if from.Before != nil {
		old = reflect.ValueOf(from.Before).UnsafePointer()
	}
	reuse := d.reuse(target, from)
	var ok bool
	var err error
	if f == JSON {
		ok, err = d.json.decode(raw, v, old, reuse, shared)
	} else {
		ok, err = d.wire.decode(raw, v, old, reuse, shared)
	}
	if ok || err != nil {
		return err
	}
	v.SetZero()
	reuse.now.clear()
	if err := d.byLibrary(target, f, d.alone(f, raw)); err != nil {
		return err
	}
	if from.Before != nil {
		d.Adopt(from.Before, target)
	}
	return nil
}

func (d *Decoder) byLibrary(target any, f Format, raw []byte) error {
	if f == JSON {
		return d.json.byLibrary(raw, target)
	}
	t := reflect.TypeOf(target).Elem()
	if !d.wire.fits(raw, t) {
		return errDecodedTooLarge
	}
	return withoutContent(target.(message).Unmarshal(raw), t)
}

// reuse returns what target takes from the version before.
func (d *Decoder) reuse(target any, from Origin) reuse {
	r := reuse{layout: &d.typ.layout, hash: d.hash, now: d.typ.layout.marksOf(reflect.ValueOf(target).UnsafePointer())}
	if from.Before != nil && from.Made {
		r.was = d.typ.layout.marksOf(reflect.ValueOf(from.Before).UnsafePointer())
	}
	return r
}

// alone returns raw without what may stand behind it in its frame, and without managedFields unless they are kept.
func (d *Decoder) alone(f Format, raw []byte) []byte {
	if f == JSON {
		cursor := cursor{b: raw}
		if value := cursor.value(0); value != nil && cursor.space() == ',' {
			raw = value
		}
	}
	if !d.keepManagedFields {
		raw = f.cut(raw)
	}
	return raw
}
