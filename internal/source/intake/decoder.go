package intake

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// keyOf returns the key of an encoded object. It returns the empty key if the name is not known.
func keyOf(id decode.Identity) object.Key {
	if len(id.Name) == 0 {
		return object.Key{}
	}
	return object.Key{Namespace: string(id.Namespace), Name: string(id.Name)}
}

// Decoder decodes the objects of one source. It skips versions that are held already, calls Filter, decodes, and calls
// Transform. It reports objects for which that fails. The exported fields must be set before the first object.
type Decoder[T object.Object] struct {
	Pool      *decode.Pool
	Packing   Packing[T]   // makes a T of what Pool decodes
	Metadata  *decode.Pool // of *metav1.PartialObjectMetadata, for Filter
	Namespace string       // the namespace of all objects; empty for any
	// Collection is the collection of the objects, for their failures. It is not used otherwise.
	Collection Collection
	Share      bool                       // different objects share equal parts
	Held       func(object.Key) (T, bool) // returns the version that is held; nil if nothing is held
	// DropManagedFields removes metadata.managedFields from objects that are Go values. Pool does so for all others.
	DropManagedFields bool
	Own               bool      // all objects that Held returns come from decoders with the same configuration
	Decoding          run.Limit // of batches that are decoded at once; decoders may share it; nil for no limit

	// Report logs and counts an object that cannot be decoded. The key is not longer than a log should show.
	Report func(key object.Key, err error)

	// Functions of the user; nil for none. The decoder calls them by Call.
	Filter        func(*metav1.PartialObjectMetadata) bool    // reports whether to decode the object
	Transform     func(T) (T, error)                          // called once for each decoded object
	OnDecodeError func(key object.Key, err error, raw []byte) // called for each failure; raw may be nil
	Calling       run.Limit                                   // 1: of calls by Call; decoders may share it

	// ReportShared logs and counts keys that the server gives to several objects at once.
	ReportShared func(error)
	// ReportModified logs and counts an object that a program has modified while it was held; see decode.Decoder.Modified.
	ReportModified func(key object.Key, field string)

	outside atomic.Int64
	shared  sharedKeys[T]
	batches batches[T]
}

// Shared returns how many keys the server gives to several objects at once.
func (d *Decoder[T]) Shared() int { return int(d.shared.count.Load()) }

// Outside returns how many objects the server has sent from outside a shard.
func (d *Decoder[T]) Outside() int64 { return d.outside.Load() }

// Call calls f, a function of the user, while no other such call is under way. f may end the goroutine.
func (d *Decoder[T]) Call(f func()) {
	d.Calling.Enter()
	defer d.Calling.Leave()
	f()
}

// Asked is what the request for a response determines for its objects.
type Asked struct {
	Shard    shardset.Shard // the objects outside it are dropped
	Doubtful bool           // an equal version does not mean equal content
}

// encoded is one encoded object and the result of decode. After decode of an object, finish must be called for it, and
// for one object at a time.
type encoded[T object.Object] struct {
	from, to int       // its bytes in the batch; none if it is a value or exceeds the size limit
	value    any       // the object itself, if isValue is true
	obj      T         // the result
	old      T         // the version that is held, if obj may share parts with it
	other    types.UID // of the object that is held, if it is another one of the same key
	shared   any       // with Transform: obj before Transform, whose parts are shared; nil for none
	err      error     // before decode, only a *decode.LargeError
	modified string    // the field of the version before, or of another object, that a program has modified
	isValue  bool      // it was not encoded
	deleted  bool      // the server reported it as deleted: this is its last state
	held     bool      // obj is the version that is held
	filtered bool      // Filter rejected it, or it is outside the shard
	outside  bool      // it is outside the shard
	unsure   bool      // whether it is outside is known only when it has been decoded
}

// Result is the result for one encoded object.
type Result[T object.Object] struct {
	Object   T // the zero T if Filtered is true or Err is set
	Key      object.Key
	UID      string // the object's
	Version  string // its resource version
	Ignored  bool   // another object has its key, and the store keeps that one
	Succeeds bool   // another object had its key, and the store has lost that one: it is no event of the watch
	Deleted  bool   // the server reported it as deleted: this is its last state
	Filtered bool   // Filter rejected it, or it is outside the shard
	Outside  bool   // it is outside the shard
	Err      error  // why it could not be decoded
}

// find looks up the version that is held of the object in raw. If it is the same version, decode skips the object, so a
// relist without changes costs little. decode also skips an object outside the shard.
func (d *Decoder[T]) find(f decode.Format, raw []byte, asked *Asked, e *encoded[T]) {
	sharded := !asked.Shard.IsWhole()
	if d.Held == nil && !sharded {
		return
	}
	id := f.Glance(raw)
	if sharded {
		if e.unsure = !asked.knows(id); !e.unsure && !asked.hasIdentity(id) {
			e.outside, e.filtered = true, true
			d.outside.Add(1)
			return
		}
	}
	if d.Held == nil {
		return
	}
	obj, ok := d.Held(keyOf(id))
	if ok && len(id.UID) > 0 && string(obj.GetUID()) != string(id.UID) {
		e.other = obj.GetUID()
	}
	switch {
	case !ok:
	case !e.deleted && !asked.Doubtful && len(id.ResourceVersion) > 0 &&
		obj.GetResourceVersion() == string(id.ResourceVersion) && string(obj.GetUID()) == string(id.UID):
		e.obj, e.held = obj, true
	case d.Transform == nil || d.Share:
		e.old = obj
	}
}

// decode decodes raw with decoder, unless the version is held already.
func (d *Decoder[T]) decode(decoder *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo,
	e *encoded[T]) {
	if e.held || e.filtered || e.err != nil {
		return
	}
	if d.Filter != nil && !d.accepts(f, raw, list) {
		e.filtered = true
		return
	}
	if obj := d.Packing.Unread(decoder, f, raw, list, e.old); !object.IsNil(obj) {
		e.obj = obj
		return
	}
	from := decode.Origin{List: list}
	switch {
	case d.Transform == nil && !object.IsNil(e.old):
		from.Before = d.Packing.Alive(e.old)
		from.Made = d.Own && from.Before != nil
		from.Share = d.Share && d.Pool.Common()
	case d.Transform == nil:
		from.Share = d.Share
	}
	obj, err := decoder.Decode(f, raw, from)
	if err != nil {
		e.err = err
		return
	}
	e.modified = decoder.Modified()
	if d.Transform != nil && d.Share && object.IsNil(e.old) && d.Pool.Decodes().Shares() {
		// The object for Transform shares no parts, because Transform may write to it. A second object shares its parts.
		// finish replaces the parts that Transform did not change by those of the second object.
		from.Share = true
		e.shared, _ = decoder.Decode(f, raw, from) // as the first time, without an error
		e.modified = decoder.Modified()
	}
	e.obj = d.Packing.Pack(decoder, f, raw, list, obj, e.old)
}

// accepts calls Filter. It returns true if the metadata cannot be decoded; decode then reports the error.
func (d *Decoder[T]) accepts(f decode.Format, raw []byte, list *decode.ListInfo) (ok bool) {
	meta, err := d.Metadata.Decode(f, raw, decode.Origin{List: list})
	if err != nil {
		return true
	}
	d.Call(func() { ok = d.Filter(meta.(*metav1.PartialObjectMetadata)) })
	return ok
}

// finish calls Transform, and reports a failure. It returns an error for an object of another namespace, which ends the
// whole list or watch: a server that ignores the namespace is broken or hostile, so its other objects are not
// trustworthy, either. A list that fails changes nothing in the sink. After such a failure of a watch, the reflector
// lists.
func (d *Decoder[T]) finish(decoder *decode.Decoder, f decode.Format, raw []byte, asked *Asked,
	e *encoded[T]) (Result[T], error) {
	result := Result[T]{Deleted: e.deleted, Filtered: e.filtered, Outside: e.outside}
	if e.unsure && e.err == nil && !e.filtered && !asked.Shard.Has(e.obj) {
		e.filtered, result.Filtered, result.Outside = true, true, true
		d.outside.Add(1)
	}
	if e.err == nil && !e.filtered {
		result.Key, result.UID, result.Version = object.KeyOf(e.obj), string(e.obj.GetUID()), e.obj.GetResourceVersion()
	} else {
		result.Key, result.UID, result.Version = e.identity(f, raw)
	}
	if d.Namespace != "" && result.Key.Name != "" && result.Key.Namespace != d.Namespace {
		return result, fmt.Errorf("%w: %.600s instead of one of %.300s", fetch.ErrForeign, result.Key, d.Namespace)
	}
	if e.filtered {
		return result, nil
	}
	if e.modified != "" {
		d.ReportModified(result.Key, e.modified)
	}
	obj, err := e.obj, e.err
	if err == nil && d.Transform != nil && !e.held {
		obj, err = d.transform(obj, result.Key)
		switch {
		case err != nil || decoder == nil:
		case !object.IsNil(e.old):
			decoder.Adopt(e.old, obj)
		case e.shared != nil:
			decoder.Adopt(e.shared, obj)
		}
	}
	if err == nil {
		result.Object = obj
		return result, nil
	}
	result.Err = err
	d.report(result.Key, err, raw)
	return result, nil
}

// transform calls Transform. It returns an error if Transform changes the identity or version of the object.
func (d *Decoder[T]) transform(obj T, key object.Key) (T, error) {
	var none T
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	obj, err := d.callTransform(obj)
	switch {
	case err != nil:
		return none, fmt.Errorf("transform: %w", err)
	case object.IsNil(obj):
		return none, errors.New("transform: it returned nil and no error")
	case object.KeyOf(obj) != key || obj.GetUID() != uid || obj.GetResourceVersion() != version:
		return none, errors.New("transform: it changed the object's namespace, name, uid or resourceVersion")
	}
	return obj, nil
}

func (d *Decoder[T]) callTransform(obj T) (result T, err error) {
	d.Call(func() { result, err = d.Transform(obj) })
	return result, err
}

// report reports that raw cannot be decoded. Only OnDecodeError receives raw.
func (d *Decoder[T]) report(key object.Key, err error, raw []byte) {
	d.Report(object.Key{Namespace: shortened(key.Namespace), Name: shortened(key.Name)}, err)
	if d.OnDecodeError != nil {
		raw = append([]byte(nil), raw...) // nil for an object over the size limit
		d.Call(func() { d.OnDecodeError(key, err, raw) })
	}
}

// shortened returns a name for a status, cut to 300 bytes: a server can send a name as long as an object.
func shortened(name string) string {
	const longest = 300 // no name that kube-apiserver accepts is longer than 253
	if len(name) <= longest {
		return name
	}
	return strings.Clone(name[:longest])
}
