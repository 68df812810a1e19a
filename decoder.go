package informer

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/run"
)

// keyOf returns the key of an encoded object. It returns the empty key if the name is not known.
func keyOf(id decode.Identity) Key {
	if len(id.Name) == 0 {
		return Key{}
	}
	return Key{Namespace: string(id.Namespace), Name: string(id.Name)}
}

// decoder decodes the objects of a reflector. It skips versions that the sink holds already, calls Config.Filter,
// decodes, and calls Config.Transform. A failure of an object becomes a DecodeError. Several goroutines may call decode
// at once. After decode of an object, finish must be called for it, and for one object at a time.
type decoder[T Object] struct {
	*decode.Pool
	packing   packing[T]   // makes a T of what decoders decode
	metadata  *decode.Pool // of *metav1.PartialObjectMetadata, for Config.Filter
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

// packing is the form in which an informer holds each object: it makes a T of the decoded object. Its methods are safe
// for concurrent use.
type packing[T Object] interface {
	// Type returns the type of the decoded objects, a pointer.
	Type() reflect.Type
	// Pack returns the T of obj, which one has decoded from raw. old is the previous version, or the zero T.
	Pack(one *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, obj any, old T) T
	// Alive returns the decoded object of old, or nil if it would have to be decoded again.
	Alive(old T) any
	// Encoded returns obj in encoded form, in the memory of buf[:cap(buf)] or of its own. ok is false if obj is not held
	// in encoded form; Whole returns the object to encode.
	Encoded(obj T, buf []byte) (e decode.Encoded, ok bool, err error)
	// Whole returns obj decoded.
	Whole(obj T) any
	// Restored returns the T of obj, which was decoded from e.
	Restored(e decode.Encoded, obj any) T
	// SameContent reports whether a and b are equal.
	SameContent(a, b T) bool
	// Measure adds the memory that obj takes to set.
	Measure(obj T, set *heapsize.Set)
}

// unpacked is the packing that holds the decoded objects themselves.
type unpacked[T Object] struct{ decoded reflect.Type }

func (u unpacked[T]) Type() reflect.Type { return u.decoded }

func (unpacked[T]) Pack(_ *decode.Decoder, _ decode.Format, _ []byte, _ *decode.ListInfo, obj any, _ T) T {
	return obj.(T)
}

func (unpacked[T]) Alive(old T) any { return old }

func (unpacked[T]) Encoded(T, []byte) (e decode.Encoded, ok bool, err error) { return e, false, nil }

func (unpacked[T]) Whole(obj T) any { return obj }

func (unpacked[T]) Restored(_ decode.Encoded, obj any) T { return obj.(T) }

func (unpacked[T]) SameContent(a, b T) bool { return reflect.DeepEqual(a, b) }

func (unpacked[T]) Measure(obj T, set *heapsize.Set) { set.Add(obj) }

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
		if e.old == none {
			from.Share = d.config.Share
		} else {
			from.Before = d.packing.Alive(e.old)
		}
		from.Made = d.own && from.Before != nil
	}
	obj, err := one.Decode(f, raw, from)
	if err != nil {
		e.err = err
		return
	}
	e.obj = d.packing.Pack(one, f, raw, list, obj, e.old)
}

// accepts calls Config.Filter. It returns true if the metadata cannot be decoded; decode then reports the error.
func (d *decoder[T]) accepts(f decode.Format, raw []byte, list *decode.ListInfo) bool {
	meta, err := d.metadata.Decode(f, raw, decode.Origin{List: list})
	if err != nil {
		return true
	}
	d.calling.Enter()
	defer d.calling.Leave()
	return d.config.Filter(meta.(*metav1.PartialObjectMetadata))
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
