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

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Type is a Go type that a [Decoder] decodes objects into. It is safe for concurrent use.
type Type struct {
	elem     reflect.Type // the struct
	layout   layout
	protobuf bool // objects can be decoded from protobuf
	byMethod bool // a method of the type decodes it, and may return memory that several objects have
	plain    bool // identity and labels are those of the metadata; see plain
	shares   bool // see Shares
}

// named is implemented by every object.
type named interface{ GetName() string }

// message is implemented by messages of generated protobuf code.
type message interface{ Unmarshal([]byte) error }

var (
	namedType   = reflect.TypeFor[named]()
	messageType = reflect.TypeFor[message]()
)

// knownTypes caches the *Type, or the error, of each reflect.Type. newType takes longer than decoding an object.
var knownTypes sync.Map

// TypeOf returns the Type of t, which must be a pointer to a struct and have the method GetName. It returns an error if
// no object can be decoded into a t.
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
	t := &Type{elem: elem, layout: newLayout(elem), plain: plain(elem)}
	pointer := reflect.PointerTo(elem)
	t.byMethod = pointer.Implements(jsonUnmarshalerType) || pointer.Implements(messageType)
	t.shares = !pointer.Implements(jsonUnmarshalerType) // as *unstructured.Unstructured does
	if pointer.Implements(messageType) && !recursive(elem, map[reflect.Type]bool{}) {
		// A type that embeds a message, like metav1.ObjectMeta, inherits its method, which decodes the object as that
		// message.
		t.protobuf = trial(elem, Protobuf) == nil
	}
	return t
}

// Shares reports whether different objects of the type can share parts that are equal. Unstructured objects, and those
// that a method UnmarshalJSON decodes, share parts only with their previous versions.
func (t *Type) Shares() bool { return t.shares }

// Protobuf reports whether objects of the type can be decoded from protobuf. All types can be decoded from JSON.
func (t *Type) Protobuf() bool { return t.protobuf }

// decodable returns an error if no object with metadata can be decoded into a t.
func decodable(t reflect.Type) error {
	if path, reason := jsonObstacle(t, map[reflect.Type]bool{}); path != "" {
		return fmt.Errorf("%v cannot be decoded: field %s %s", t, path, reason)
	}
	if reflect.PointerTo(t).Implements(jsonUnmarshalerType) { // the method may expect other members
		return nil
	}
	if err := trial(t, JSON); err != nil {
		return fmt.Errorf("%v cannot be decoded: %w; the field of its metadata must have the tag `json:\"metadata\"`", t, err)
	}
	return nil
}

// trialName is the name of the object that trial decodes.
const trialName = "trial"

// trial decodes an object that has only metadata into a new t. t must have the methods that format f needs.
func trial(t reflect.Type, f Format) (err error) {
	defer func() {
		if r := recover(); r != nil { // the method belongs to an embedded pointer, which is nil
			err = fmt.Errorf("a method panics: %v", r)
		}
	}()
	obj := reflect.New(t).Interface()
	meta := metav1.ObjectMeta{Namespace: trialName, Name: trialName, UID: trialName, ResourceVersion: "1", Generation: 1,
		CreationTimestamp: metav1.Unix(1, 0)}
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

// recursive reports whether a t can contain another t, at any depth. Generated protobuf code calls itself for each
// level, without a limit, and a stack overflow ends the process. kube-apiserver and all versions of encoding/json limit
// JSON to 10,000 levels.
func recursive(t reflect.Type, in map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return recursive(t.Elem(), in)
	case reflect.Map:
		return recursive(t.Key(), in) || recursive(t.Elem(), in)
	case reflect.Interface:
		return true // it may contain anything
	case reflect.Struct:
		if t == reflect.TypeFor[runtime.RawExtension]() {
			return false // its interface is not decoded
		}
		known, seen := in[t]
		if seen {
			return known
		}
		in[t] = true // until all fields are checked
		for i := range t.NumField() {
			if recursive(t.Field(i).Type, in) {
				return true
			}
		}
		in[t] = false
	}
	return false
}

// Decoder decodes objects of one type. It caches the types of the fields that it meets, and strings that repeat. So use
// one Decoder for many objects. It is not safe for concurrent use.
type Decoder struct {
	typ               *Type
	keepManagedFields bool
	plans             plans
	json              *jsonDecoder
	wire              *protobufDecoder
	shared            [2]weakSharer       // by Format
	parts             *Parts              // nil if the decoder shares with no other
	hash              func([]byte) uint64 // hashes the bytes of a part; tests set a weak hash
	found             Checked             // what Check has found so far
	alone             extent              // of the object that was decoded or checked last
	scratch           []byte              // memory for Alone
	recent            recent
	modified          string // the field that the last object was found to differ in; see Modified
	doubt             *doubt
}

// NewDecoder returns a Decoder for objects of type t. It drops metadata.managedFields unless keepManagedFields is set.
func NewDecoder(t *Type, keepManagedFields bool) *Decoder {
	plans, strings := plans{}, newInterner()
	return &Decoder{
		typ:               t,
		keepManagedFields: keepManagedFields,
		plans:             plans,
		json:              newJSONDecoder(plans, keepManagedFields, strings),
		wire:              newProtobufDecoder(plans, keepManagedFields, strings),
		shared:            [2]weakSharer{Protobuf: {format: Protobuf}},
		hash:              hashOfPart,
		doubt:             new(doubt),
	}
}

var errNoName = errors.New("it has no metadata.name")

// Origin describes where an encoded object comes from, and what the decoded object may share.
type Origin struct {
	List *ListInfo // the list that contains the object; nil if there is none
	// Before is another version of the object, or nil. Nobody may modify it any more. If it is a pointer of the decoder's
	// type, the new object shares its equal parts; otherwise Decode ignores it.
	Before any
	// Made means that Decode of a [Decoder] of this [Type] returned Before, if that is a pointer of the type. Decode then
	// skips parts whose bytes are unchanged. Nothing checks Made: if it is wrong, Decode reads memory that does not belong
	// to Before.
	Made bool
	// Share lets the object share parts with other objects. Before must be nil, unless the decoder has Parts.
	Share bool
	// Nameless means that an object without a name is no error.
	Nameless bool
}

// Decode decodes an encoded object into a new one, and returns a pointer to it. The object does not refer to raw's
// memory. An object without a name is an error, unless from.Nameless is set. Of the objects that may share parts with
// others, it verifies some: see [Decoder.Modified].
func (d *Decoder) Decode(f Format, raw []byte, from Origin) (any, error) {
	d.modified = ""
	obj, err := d.decode(f, raw, from)
	if err == nil && (from.Share || from.Before != nil) && d.doubt.due() {
		obj = d.verified(obj, f, raw, from)
	}
	return obj, err
}

func (d *Decoder) decode(f Format, raw []byte, from Origin) (any, error) {
	memory := reflect.New(d.typ.layout.memory).UnsafePointer()
	obj := reflect.NewAt(d.typ.elem, memory).Interface()
	if err := d.into(obj, f, raw, from); err != nil {
		return nil, err
	}
	if err := checkName(obj); err != nil && !(from.Nameless && err == errNoName) {
		return nil, err
	}
	return obj, nil
}

// Metadata decodes the metadata of an encoded object. Unlike [Decoder.Decode], it accepts an object without a name,
// like a bookmark.
func (f Format) Metadata(raw []byte) (*metav1.PartialObjectMetadata, error) {
	meta := &metav1.PartialObjectMetadata{}
	d := NewDecoder(&Type{elem: reflect.TypeFor[metav1.PartialObjectMetadata](), protobuf: true}, false)
	if err := d.into(meta, f, raw, Origin{}); err != nil {
		return nil, err
	}
	return meta, nil
}

// Adopt makes the fields of *now share the equal values of *before. It does nothing unless both are pointers of one
// type. It modifies the fields of *now, but nothing behind them, and nothing in *before.
func (d *Decoder) Adopt(before, now any) { d.plans.adopt(before, now) }

// checkName returns an error if obj has no name, or if GetName panics because the metadata is an embedded pointer that
// is nil.
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

// cleared calls clear, which clears a part of an object. It recovers if clear panics because that part is a nil
// embedded pointer.
func cleared(clear func()) {
	defer func() { _ = recover() }()
	clear()
}

func (d *Decoder) into(target any, f Format, raw []byte, from Origin) error {
	old := versionBefore(from.Before, reflect.TypeOf(target))
	reuse := d.reuse(target, old, from.Made)
	d.alone = extent{}
	if u, ok := target.(*unstructured.Unstructured); ok {
		if err := d.unstructured(u, d.without(f, raw), (*unstructured.Unstructured)(old), reuse); err != nil {
			return err
		}
		if from.List != nil && u.GetKind() == "" { // lists of built-in types name the kind once
			u.SetKind(strings.TrimSuffix(from.List.Kind, "List"))
			u.SetAPIVersion(from.List.APIVersion)
		}
	} else {
		if err := d.typed(target, f, raw, old, reuse, from.Share); err != nil {
			return err
		}
		if typed, ok := target.(interface{ GetObjectKind() schema.ObjectKind }); ok {
			cleared(func() { // the Go type implies the kind; client-go clears it too
				kind := typed.GetObjectKind()
				if !kind.GroupVersionKind().Empty() && d.typ.made(target, kind) {
					kind.SetGroupVersionKind(schema.GroupVersionKind{})
				}
			})
		}
	}
	if !d.keepManagedFields {
		// managedFields remain only if the server writes metadata twice or in an unusual way. The metadata is then not shared
		// with the previous version, which has no managedFields, so it may be modified.
		switch meta := target.(type) {
		case *unstructured.Unstructured:
			if _, found, _ := unstructured.NestedFieldNoCopy(meta.Object, "metadata", "managedFields"); found {
				meta.SetManagedFields(nil)
			}
		case metav1.ObjectMetaAccessor:
			cleared(func() {
				if m := meta.GetObjectMeta(); m.GetManagedFields() != nil && d.typ.made(target, m) {
					m.SetManagedFields(nil)
				}
			})
		}
	}
	return nil
}

// made reports whether this package has made the memory of part, to which target refers, so that it may write there.
func (t *Type) made(target, part any) bool {
	v := reflect.ValueOf(part)
	if v.Kind() != reflect.Pointer {
		return false
	}
	address, begin := v.Pointer(), reflect.ValueOf(target).Pointer()
	return !t.byMethod || begin <= address && address < begin+t.elem.Size()
}

// typed decodes raw into target, a pointer to a struct. If our own decoder rejects raw, it falls back to the format's
// library.
func (d *Decoder) typed(target any, f Format, raw []byte, old unsafe.Pointer, reuse reuse, share bool) error {
	v := reflect.ValueOf(target).Elem()
	var shared *sharer
	if share {
		shared = d.shared[f].get(d.parts)
	}
	var ok bool
	var err error
	if f == JSON {
		ok, err = d.json.decode(raw, v, old, reuse, shared)
	} else {
		ok, err = d.wire.decode(raw, v, old, reuse, shared)
	}
	if ok {
		d.noteAlone(f, raw)
	}
	if ok || err != nil {
		return err
	}
	v.SetZero()
	reuse.now.clear()
	if err := d.byLibrary(target, f, d.without(f, raw)); err != nil {
		return err
	}
	if old != nil {
		d.plans.keep(d.plans.of(v.Type()), v.Addr().UnsafePointer(), old)
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

// reuse returns the marks of target, and those of the previous version if a Decoder made it.
func (d *Decoder) reuse(target any, old unsafe.Pointer, made bool) reuse {
	r := reuse{layout: &d.typ.layout, hash: d.hash, now: d.typ.layout.marksOf(reflect.ValueOf(target).UnsafePointer())}
	if old != nil && made {
		r.was = d.typ.layout.marksOf(old)
		if !d.recent.has(old) {
			r.begin(old)
		}
	}
	d.recent.add(reflect.ValueOf(target).UnsafePointer())
	return r
}
