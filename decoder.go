package informer

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
)

// limit is how many goroutines may do something at a time. Nil means any number.
type limit chan struct{}

func newLimit(n int) limit { return make(limit, n) }

func (l limit) enter() {
	if l != nil {
		l <- struct{}{}
	}
}

func (l limit) leave() {
	if l != nil {
		<-l
	}
}

// keyOf returns the key of an encoded object. It is empty if the name is not known.
func keyOf(id decode.Identity) Key {
	if len(id.Name) == 0 {
		return Key{}
	}
	return Key{Namespace: string(id.Namespace), Name: string(id.Name)}
}

// decoders decodes objects of one type, on any number of goroutines.
type decoders[T Object] struct {
	typ               *decode.Type
	accept            string // for an object or a watch
	acceptList        string
	keepManagedFields bool

	first atomic.Pointer[decode.Decoder] // stays, for what is decoded by one goroutine after the other
	more  sync.Pool                      // of *decode.Decoder: the garbage collector may take them
}

// newDecoders returns decoders that ask for the media types in configured, as far as T can be decoded from them; empty means the
// best that T can be decoded from.
func newDecoders[T Object](configured string, keepManagedFields bool) (*decoders[T], error) {
	typ, err := decode.TypeOf(reflect.TypeFor[T]())
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
		var none T
		if _, metadataOnly := any(none).(*metav1.PartialObjectMetadata); !metadataOnly {
			return strings.Join(media, ",")
		}
		suffix := ";as=" + kind + ";g=" + metav1.GroupName + ";v=v1"
		return strings.Join(media, suffix+",") + suffix
	}
	return &decoders[T]{
		typ:               typ,
		accept:            as("PartialObjectMetadata"),
		acceptList:        as("PartialObjectMetadataList"),
		keepManagedFields: keepManagedFields,
	}, nil
}

// check returns an error if T cannot be decoded from f.
func (d *decoders[T]) check(f decode.Format) error {
	if f == decode.Protobuf && !d.typ.Protobuf() {
		return fmt.Errorf("the server sent protobuf; for %v it was asked for JSON", reflect.TypeFor[T]().Elem())
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

// decodeOne decodes one object, which is an item of list unless that is nil.
func (d *decoders[T]) decodeOne(f decode.Format, raw []byte, list *decode.ListInfo) (T, error) {
	one := d.get()
	obj, err := one.Decode(f, raw, decode.Origin{List: list})
	d.put(one) // unless a method of T has ended the goroutine
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

// decoder turns the encoded objects of a reflector into objects of type T: it skips versions that are held already, asks
// Config.Filter, decodes, and calls Config.Transform. An object that fails is a DecodeError. decode and finish may be called on
// several goroutines at once, but for each object decode first and then finish, and finish for one object at a time.
type decoder[T Object] struct {
	*decoders[T]
	metadata  *decoders[*metav1.PartialObjectMetadata] // for Config.Filter, and for bookmarks
	resource  Resource
	namespace string // of all objects; empty for any
	config    Config[T]
	held      func(Key) (T, bool) // returns what the sink holds; nil if it does not say
	own       bool                // what held returns was made here
	failed    func(*DecodeError)  // logs and counts an object that cannot be decoded
	decoding  limit               // of batches, with the other reflectors of an informer; nil if there is none
	calling   limit               // 1: of calls of Config.Transform, Filter and OnDecodeError
}

// encoded is one encoded object on its way to T.
type encoded[T Object] struct {
	from, to int  // its bytes in the batch
	deleted  bool // the server reported it as deleted: this is its last state
	obj      T    // the result
	held     bool // obj is the version that is held
	old      T    // the version that is held, if it may have parts in common with obj
	filtered bool // Config.Filter refuses it
	err      error
}

// decoded is what became of one encoded object.
type decoded[T Object] struct {
	obj      T // if it is not filtered, and has not failed
	key      Key
	version  string // its resource version
	deleted  bool
	filtered bool
	failed   *DecodeError
}

// find looks for what is held of the object that raw encodes. If that is the same version, there is nothing to decode, so that
// a list without news costs little. After the server was restored, a version proves nothing.
func (d *decoder[T]) find(f decode.Format, raw []byte, restored bool, e *encoded[T]) {
	if d.held == nil {
		return
	}
	id := f.Glance(raw)
	obj, ok := d.held(keyOf(id))
	switch {
	case !ok:
	case !e.deleted && !restored && len(id.ResourceVersion) > 0 &&
		obj.GetResourceVersion() == string(id.ResourceVersion) && string(obj.GetUID()) == string(id.UID):
		e.obj, e.held = obj, true
	case d.config.Transform == nil || d.config.Share:
		e.old = obj
	}
}

// decode decodes raw by one, unless find has found the object.
func (d *decoder[T]) decode(one *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, e *encoded[T]) {
	var none T
	if e.held {
		return
	}
	if d.config.Filter != nil && !d.accepts(f, raw, list) {
		e.filtered = true
		return
	}
	from := decode.Origin{List: list}
	if d.config.Transform == nil { // which may write to all of its object
		if e.old != none {
			from.Before, from.Made = e.old, d.own
		} else {
			from.Share = d.config.Share
		}
	}
	var obj any
	if obj, e.err = one.Decode(f, raw, from); e.err == nil {
		e.obj = obj.(T)
	}
}

// accepts asks Config.Filter. An object whose metadata cannot be decoded is accepted, so that decode fails.
func (d *decoder[T]) accepts(f decode.Format, raw []byte, list *decode.ListInfo) bool {
	meta, err := d.metadata.decodeOne(f, raw, list)
	if err != nil {
		return true
	}
	d.calling.enter()
	defer d.calling.leave()
	return d.config.Filter(meta)
}

// errForeign indicates an object of another namespace. A list tells whether the server is well again.
var errForeign = errors.New("the server sent an object of another namespace than it was asked for")

// finish calls Config.Transform, and reports a failure to Config.OnDecodeError. Its error is the end of the whole list or watch: an
// object of another namespace. A server that ignores the namespace is broken or hostile, and its other objects are no better. A
// list that fails changes nothing in the sink, and after a watch that fails so, the reflector lists.
func (d *decoder[T]) finish(one *decode.Decoder, f decode.Format, raw []byte, e *encoded[T]) (decoded[T], error) {
	var none T
	result := decoded[T]{deleted: e.deleted, filtered: e.filtered}
	if e.err == nil && !e.filtered {
		result.key = KeyOf(e.obj)
	} else {
		id := f.Peek(raw)
		result.key, result.version = keyOf(id), string(id.ResourceVersion)
	}
	if d.namespace != "" && result.key.Name != "" && result.key.Namespace != d.namespace {
		return result, fmt.Errorf("%w: %.600s instead of one of %.300s", errForeign, result.key, d.namespace)
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

// transform calls Config.Transform, which has to keep the identity of the object.
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
	d.calling.enter()
	defer d.calling.leave()
	return d.config.Transform(obj)
}

// report reports that the object that raw encodes cannot be decoded. It gives raw to Config.OnDecodeError alone.
func (d *decoder[T]) report(failed *DecodeError, raw []byte) {
	short := *failed
	short.Key = Key{Namespace: shortened(failed.Key.Namespace), Name: shortened(failed.Key.Name)}
	d.failed(&short)
	if d.config.OnDecodeError == nil {
		return
	}
	whole := *failed
	whole.Raw = bytes.Clone(raw)
	d.calling.enter()
	defer d.calling.leave()
	d.config.OnDecodeError(&whole)
}

// shortened returns what a status keeps of a name, which a server can make as long as an object.
func shortened(name string) string {
	const longest = 300 // no name that kube-apiserver accepts is longer than 253
	if len(name) <= longest {
		return name
	}
	return strings.Clone(name[:longest])
}
