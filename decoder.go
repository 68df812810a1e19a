package informer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/snapshotfile"
)

// keyOf returns the key of an encoded object. It returns the empty key if the name is not known.
func keyOf(id decode.Identity) Key {
	if len(id.Name) == 0 {
		return Key{}
	}
	return Key{Namespace: string(id.Namespace), Name: string(id.Name)}
}

// decoders decodes objects of one type. It is safe for concurrent use.
type decoders[T Object] struct {
	goType            reflect.Type
	typ               *decode.Type
	accept            string // for an object or a watch
	acceptList        string
	keepManagedFields bool

	first atomic.Pointer[decode.Decoder] // an idle decoder that the garbage collector does not free
	more  sync.Pool                      // other idle ones, of type *decode.Decoder
}

// newDecoders returns decoders of objects of type t, a pointer, that accept the media types in configured from which
// such objects can be decoded. An empty configured means protobuf and JSON.
func newDecoders[T Object](t reflect.Type, configured string, keepManagedFields bool) (*decoders[T], error) {
	typ, err := decode.TypeOf(t)
	if err != nil {
		return nil, err
	}
	if configured == "" {
		configured = decode.MediaProtobuf + "," + decode.MediaJSON
	}
	var media []string
	for m := range strings.SplitSeq(configured, ",") {
		if f, err := decode.FormatOf(m); err == nil && (f == decode.JSON || typ.Protobuf()) {
			media = append(media, strings.TrimSpace(m))
		}
	}
	if len(media) == 0 {
		media = []string{decode.MediaJSON}
	}
	as := func(kind string) string {
		if metadataOnly := t == reflect.TypeFor[*metav1.PartialObjectMetadata](); !metadataOnly {
			return strings.Join(media, ",")
		}
		suffix := ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
		return strings.Join(media, suffix+",") + suffix
	}
	return &decoders[T]{
		goType:            t,
		typ:               typ,
		accept:            as("PartialObjectMetadata"),
		acceptList:        as("PartialObjectMetadataList"),
		keepManagedFields: keepManagedFields,
	}, nil
}

// check returns an error if T cannot be decoded from f.
func (d *decoders[T]) check(f decode.Format) error {
	if f == decode.Protobuf && !d.typ.Protobuf() {
		return fmt.Errorf("the server sent protobuf, but the request for %v was for JSON", d.goType.Elem())
	}
	return nil
}

func (d *decoders[T]) get() *decode.Decoder {
	if one := d.first.Swap(nil); one != nil {
		return one
	}
	if one, ok := d.more.Get().(*decode.Decoder); ok {
		return one
	}
	return decode.NewDecoder(d.typ, d.keepManagedFields)
}

func (d *decoders[T]) put(one *decode.Decoder) {
	if !d.first.CompareAndSwap(nil, one) {
		d.more.Put(one)
	}
}

// decodeOne decodes one object.
func (d *decoders[T]) decodeOne(f decode.Format, raw []byte, from decode.Origin) (T, error) {
	one := d.get()
	obj, err := one.Decode(f, raw, from)
	d.put(one) // skipped if a method of T has ended the goroutine
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

// encode returns obj encoded: in protobuf if protobuf is true, which requires that obj has a method Marshal; otherwise
// in JSON. It may use the memory of buf[:cap(buf)].
func encode(obj any, protobuf bool, buf []byte) (decode.Format, []byte, error) {
	if sized, ok := obj.(sizedMarshaler); ok && protobuf {
		size := sized.Size()
		if cap(buf) < size {
			buf = make([]byte, size, 2*size)
		}
		n, err := sized.MarshalToSizedBuffer(buf[:size]) // from the end of the buffer
		return decode.Protobuf, buf[size-n : size], err
	}
	if protobuf {
		raw, err := obj.(marshaler).Marshal()
		return decode.Protobuf, raw, err
	}
	raw, err := json.Marshal(obj)
	return decode.JSON, raw, err
}

// marshaler has the method of generated protobuf code.
type marshaler interface{ Marshal() ([]byte, error) }

// sizedMarshaler has more methods of that code.
type sizedMarshaler interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// marshals reports whether obj, whose type is typ, can be encoded in protobuf and decoded again.
func marshals(obj any, typ *decode.Type) bool {
	_, ok := obj.(marshaler)
	return ok && typ.Protobuf()
}

// decoder decodes the objects of a reflector. It skips versions that the sink holds already, calls Config.Filter,
// decodes, and calls Config.Transform. A failure of an object becomes a DecodeError. Several goroutines may call decode
// at once. After decode of an object, finish must be called for it, and for one object at a time.
type decoder[T Object] struct {
	*decoders[T]
	packing   packing[T]                               // makes a T of what decoders decode; nil if they decode a T
	metadata  *decoders[*metav1.PartialObjectMetadata] // for Config.Filter
	resource  Resource
	namespace string // the namespace of all objects; empty for any
	config    Config[T]
	held      func(Key) (T, bool) // returns the version that the sink holds; nil if the sink is no Holder
	own       bool                // all objects that held returns come from decoders of this informer
	outside   atomic.Int64        // objects that the server sent from outside a shard
	failed    func(*DecodeError)  // logs and counts an object that cannot be decoded
	decoding  run.Limit           // of batches in decode; the reflectors of an informer share it; nil if there is only one
	calling   run.Limit           // 1: of calls of Config.Transform, Filter, OnDecodeError and OnFailure
}

// packing makes a T of each decoded object of another type.
type packing[T Object] interface {
	// goType returns the type of the decoded objects, a pointer.
	goType() reflect.Type
	// pack returns the T of obj, which one has decoded from raw. old is the previous version, or the zero T.
	pack(one *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, obj any, old T) T
	// alive returns the decoded object of old, or nil if it would have to be decoded again.
	alive(old T) any
	// record returns obj in encoded form, in the memory of buf[:cap(buf)] or of its own. ok is false if obj is not held in
	// encoded form; whole returns the object to encode.
	record(obj T, buf []byte) (r snapshotfile.Record, ok bool, err error)
	// whole returns obj decoded.
	whole(obj T) any
	// recorded returns the T of obj, which was decoded from r.
	recorded(r snapshotfile.Record, obj any) T
	// settle is called once, when the handlers have processed the first list, with all objects. It may run until ctx ends.
	settle(ctx context.Context, objects iter.Seq[T])
}

// asked is what the request for a response determines for its objects.
type asked struct {
	shard    Shard // of all objects
	doubtful bool  // an equal version does not mean equal content
}

// encoded is one encoded object and the result of decode.
type encoded[T Object] struct {
	from, to int  // its bytes in the batch
	deleted  bool // the server reported it as deleted: this is its last state
	obj      T    // the result
	held     bool // obj is the version that the sink holds
	old      T    // the version that the sink holds, if obj may share parts with it
	filtered bool // Config.Filter rejected it, or it is outside the shard
	outside  bool // it is outside the shard
	unsure   bool // whether it is outside is known only when it has been decoded
	err      error
}

// decoded is the result for one encoded object.
type decoded[T Object] struct {
	obj      T // the zero T if filtered is true or failed is set
	key      Key
	version  string // its resource version
	deleted  bool
	filtered bool
	outside  bool
	failed   *DecodeError
}

// find looks up the version that the sink holds of the object in raw. If it is the same version, decode skips the
// object, so a relist without changes costs little. decode also skips an object outside the shard.
func (d *decoder[T]) find(f decode.Format, raw []byte, asked *asked, e *encoded[T]) {
	sharded := len(asked.shard.Ranges) > 0
	if d.held == nil && !sharded {
		return
	}
	id := f.Glance(raw)
	if sharded {
		value := id.UID
		if asked.shard.Field == ShardByNamespace {
			value = id.Namespace
		}
		if e.unsure = value == nil; !e.unsure && !asked.shard.hasHash(HashOf(value)) {
			e.outside, e.filtered = true, true
			d.outside.Add(1)
			return
		}
	}
	if d.held == nil {
		return
	}
	obj, ok := d.held(keyOf(id))
	switch {
	case !ok:
	case !e.deleted && !asked.doubtful && len(id.ResourceVersion) > 0 &&
		obj.GetResourceVersion() == string(id.ResourceVersion) && string(obj.GetUID()) == string(id.UID):
		e.obj, e.held = obj, true
	case d.config.Transform == nil || d.config.Share:
		e.old = obj
	}
}

// decode decodes raw with the decoder one, unless the sink holds the version already.
func (d *decoder[T]) decode(one *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, e *encoded[T]) {
	var none T
	if e.held || e.filtered {
		return
	}
	if d.config.Filter != nil && !d.accepts(f, raw, list) {
		e.filtered = true
		return
	}
	from := decode.Origin{List: list}
	if d.config.Transform == nil { // Transform may write to its object, so that must not share parts
		switch {
		case e.old == none:
			from.Share = d.config.Share
		case d.packing != nil:
			from.Before = d.packing.alive(e.old)
		default:
			from.Before = e.old
		}
		from.Made = d.own && from.Before != nil
	}
	obj, err := one.Decode(f, raw, from)
	switch {
	case err != nil:
		e.err = err
	case d.packing != nil:
		e.obj = d.packing.pack(one, f, raw, list, obj, e.old)
	default:
		e.obj = obj.(T)
	}
}

// accepts calls Config.Filter. It returns true if the metadata cannot be decoded; decode then reports the error.
func (d *decoder[T]) accepts(f decode.Format, raw []byte, list *decode.ListInfo) bool {
	meta, err := d.metadata.decodeOne(f, raw, decode.Origin{List: list})
	if err != nil {
		return true
	}
	d.calling.Enter()
	defer d.calling.Leave()
	return d.config.Filter(meta)
}

// finish calls Config.Transform, and reports a failure to Config.OnDecodeError. It returns an error for an object of
// another namespace, which ends the whole list or watch: a server that ignores the namespace is broken or hostile, so
// its other objects are not trustworthy, either. A list that fails changes nothing in the sink. After such a failure of
// a watch, the reflector lists.
func (d *decoder[T]) finish(one *decode.Decoder, f decode.Format, raw []byte, asked *asked,
	e *encoded[T]) (decoded[T], error) {
	var none T
	result := decoded[T]{deleted: e.deleted, filtered: e.filtered, outside: e.outside}
	if e.unsure && e.err == nil && !e.filtered && !asked.shard.Has(e.obj) {
		e.filtered, result.filtered, result.outside = true, true, true
		d.outside.Add(1)
	}
	if e.err == nil && !e.filtered {
		result.key = KeyOf(e.obj)
	} else {
		id := f.Peek(raw)
		result.key, result.version = keyOf(id), string(id.ResourceVersion)
	}
	if d.namespace != "" && result.key.Name != "" && result.key.Namespace != d.namespace {
		return result, fmt.Errorf("%w: %.600s instead of one of %.300s", fetch.ErrForeign, result.key, d.namespace)
	}
	if e.filtered {
		return result, nil
	}
	obj, err := e.obj, e.err
	if err == nil && d.config.Transform != nil && !e.held {
		obj, err = d.transform(obj, result.key)
		if err == nil && e.old != none {
			one.Adopt(e.old, obj)
		}
	}
	if err == nil {
		result.obj, result.version = obj, obj.GetResourceVersion()
		return result, nil
	}
	result.version = string(f.Peek(raw).ResourceVersion)
	result.failed = &DecodeError{Resource: d.resource, Key: result.key, Err: err}
	d.report(result.failed, raw)
	return result, nil
}

// transform calls Config.Transform. It returns an error if Transform changes the identity or version of the object.
func (d *decoder[T]) transform(obj T, key Key) (T, error) {
	var none T
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	obj, err := d.callTransform(obj)
	switch {
	case err != nil:
		return none, fmt.Errorf("transform: %w", err)
	case obj == none:
		return none, errors.New("transform: it returned nil and no error")
	case KeyOf(obj) != key || obj.GetUID() != uid || obj.GetResourceVersion() != version:
		return none, errors.New("transform: it changed the object's namespace, name, uid or resourceVersion")
	}
	return obj, nil
}

func (d *decoder[T]) callTransform(obj T) (T, error) {
	d.calling.Enter()
	defer d.calling.Leave()
	return d.config.Transform(obj)
}

// report reports that raw cannot be decoded. Only Config.OnDecodeError receives raw.
func (d *decoder[T]) report(failed *DecodeError, raw []byte) {
	short := *failed
	short.Key = Key{Namespace: shortened(failed.Key.Namespace), Name: shortened(failed.Key.Name)}
	d.failed(&short)
	if d.config.OnDecodeError == nil {
		return
	}
	whole := *failed
	whole.Raw = bytes.Clone(raw)
	d.calling.Enter()
	defer d.calling.Leave()
	d.config.OnDecodeError(&whole)
}

// shortened returns a name for a status, cut to 300 bytes: a server can send a name as long as an object.
func shortened(name string) string {
	const longest = 300 // no name that kube-apiserver accepts is longer than 253
	if len(name) <= longest {
		return name
	}
	return strings.Clone(name[:longest])
}
