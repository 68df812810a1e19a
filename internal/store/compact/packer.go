package compact

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/store/pack"
)

// Packer packs objects of one type. It is safe for concurrent use. The exported fields must be set before the first
// object is packed.
type Packer struct {
	Transform func(obj any) (any, error) // changes an object before it is packed: see Transformed; nil for none
	Failures  Failures

	pool  *decode.Pool
	bytes *pack.Packer
	last  atomic.Pointer[form] // the form of the last object

	values atomic.Bool // Value was called
}

// NewPacker returns a packer of objects of type t, a pointer. It returns an error if no object can be decoded into a t.
//
// Several packers may have the same parts and bytes: they then use the same decoders and dictionaries. Nil means that
// the packer has its own.
func NewPacker(t reflect.Type, keepManagedFields bool, parts *decode.Parts, bytes *pack.Packer) (*Packer, error) {
	if bytes == nil {
		bytes = &pack.Packer{}
	}
	pool, err := decode.NewPool(t, "", keepManagedFields, parts)
	return &Packer{pool: pool, bytes: bytes}, err
}

// Type returns the type of the objects, a pointer.
func (k *Packer) Type() reflect.Type { return k.pool.Type() }

// Alive returns old in decoded form, or nil if that takes time.
func (k *Packer) Alive(old *Object) any {
	if old == nil || k.Transform != nil {
		return nil
	}
	return old.Alive()
}

// Unread returns the object that d would decode from raw in packed form, without decoding it. It returns nil if the
// object must be decoded: if d cannot check it, if there is a Transform, or if somebody has read old, the previous
// version, which may be nil, or the one before that. A handler or an index that has read old reads the next version
// too, and for that, Pack has it decoded already.
func (k *Packer) Unread(d *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, old *Object) *Object {
	if k.Transform != nil || old != nil && old.wasRead() {
		return nil
	}
	found, ok := d.Check(f, raw)
	if !ok {
		return nil
	}
	return k.packChecked(&found, f, d.Alone(f, raw), list, old)
}

// Pack returns obj, which d has decoded from raw, in packed form. old is the previous version, or nil.
//
// With a Transform it packs nothing: [Packer.Transformed] does.
func (k *Packer) Pack(d *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, obj any,
	old *Object) *Object {
	if k.Transform != nil {
		return k.Hold(obj)
	}
	p := k.PackBytes(obj, f, d.Alone(f, raw), list, old)
	p.arrived(obj, old)
	return p
}

// Hold returns obj without packing it.
func (k *Packer) Hold(obj any) *Object {
	p := identify(obj.(object.Object), nil)
	p.body.Store(&body{&form{packer: k, held: obj}, identityOf(obj.(object.Object))})
	return p
}

// PackBytes returns obj, whose encoded form is raw, in packed form, as if nobody had read it. old is the previous
// version, or nil.
func (k *Packer) PackBytes(obj any, f decode.Format, raw []byte, list *decode.ListInfo, old *Object) *Object {
	return k.pack(identify(obj.(object.Object), old), identityOf(obj.(object.Object)), f, raw, list)
}

// packChecked packs the object that found describes. raw is its encoded form. old is the previous version, or nil.
func (k *Packer) packChecked(found *decode.Checked, f decode.Format, raw []byte, list *decode.ListInfo,
	old *Object) *Object {
	return k.pack(identifyChecked(found, old), string(found.UID)+string(found.ResourceVersion), f, raw, list)
}

// pack gives p its body: its identity, which is the UID and the version, and raw.
func (k *Packer) pack(p *Object, identity string, f decode.Format, raw []byte, list *decode.ListInfo) *Object {
	data, dict := k.bytes.Pack(identity, raw)
	p.body.Store(&body{k.formOf(dict, f, list), data})
	return p
}

// Encoded returns p in encoded form, in the memory of buf[:cap(buf)] or of its own. ok is false if p is not held in
// encoded form; [Packer.Whole] returns the object to encode.
func (k *Packer) Encoded(p *Object, buf []byte) (e decode.Encoded, ok bool, err error) {
	have := p.body.Load()
	switch {
	case have.form.failed != nil:
		return e, false, have.form.failed
	case have.form.held != nil:
		return e, false, nil
	}
	raw, err := have.form.dict.Unpack(buf, have.data[p.uid+p.version:])
	return decode.Encoded{Format: have.form.format, Raw: raw, List: have.form.list}, true, err
}

// Whole returns p decoded, or nil if that fails.
func (k *Packer) Whole(p *Object) any { return p.Decoded(nil) }

// Restored packs the object whose encoded form is e. Unlike Pack and Unread, it packs with a Transform, too: e was made
// of a transformed object. If d cannot check e, Restored decodes the object, which shares memory with others if share
// is true.
func (k *Packer) Restored(d *decode.Decoder, e decode.Encoded, share bool) (*Object, error) {
	if found, ok := d.Check(e.Format, e.Raw); ok {
		return k.packChecked(&found, e.Format, e.Raw, e.List, nil), nil
	}
	obj, err := d.Decode(e.Format, e.Raw, decode.Origin{List: e.List, Share: share})
	if err != nil {
		return nil, err
	}
	p := k.PackBytes(obj, e.Format, e.Raw, e.List, nil)
	p.setDecoded(nil, obj)
	return p, nil
}

// SameContent reports whether a and b have equal objects.
func (k *Packer) SameContent(a, b *Object) bool {
	obj := a.Decoded(nil)
	return obj != nil && reflect.DeepEqual(obj, b.Decoded(nil))
}

// Measure adds the memory that p takes to set, without a decoded object that somebody reads.
func (k *Packer) Measure(p *Object, set *heapsize.Set) { set.AddBytes(p.HeapSize()) }

// Settle packs objects again. Most were packed while the dictionary knew only the first ones.
func (k *Packer) Settle(ctx context.Context, objects iter.Seq[*Object]) {
	for p := range objects {
		if ctx.Err() != nil {
			return
		}
		k.repack(p)
	}
}

// repack packs the object of p again if another dictionary has become better since p was packed. Readers may read p
// meanwhile.
func (k *Packer) repack(p *Object) {
	have := p.body.Load()
	if have.form.held != nil || have.form.failed != nil || !k.bytes.Outdated(have.form.dict) {
		return
	}
	buf := rawBuffers.Get().(*[]byte)
	defer putRawBuffer(buf)
	n := p.uid + p.version
	raw, err := have.form.dict.Unpack(*buf, have.data[n:])
	if err != nil {
		return // a reader of the object reports it
	}
	*buf = raw
	data, dict := k.bytes.Repack(have.data[:n], raw)
	// even if it is larger: the older dictionary takes memory, too
	p.body.CompareAndSwap(have, &body{k.formOf(dict, have.form.format, have.form.list), data})
}

// formOf returns a form, which is the last one if nothing has changed.
func (k *Packer) formOf(dict *pack.Dictionary, f decode.Format, list *decode.ListInfo) *form {
	var kind, version string
	if list != nil {
		kind, version = list.Kind, list.APIVersion
	}
	if last := k.last.Load(); last != nil && last.dict == dict && last.format == f &&
		(last.list != nil) == (list != nil) &&
		(list == nil || last.list.Kind == kind && last.list.APIVersion == version) {
		return last
	}
	next := &form{packer: k, dict: dict, format: f}
	if list != nil {
		next.list = &decode.ListInfo{Kind: kind, APIVersion: version}
	}
	k.last.Store(next)
	return next
}

// maxBuffer is the size of the largest memory that rawBuffers keeps.
const maxBuffer = 128 << 10

// rawBuffers is a pool of memory for encoded objects.
var rawBuffers = sync.Pool{New: func() any { return new([]byte) }}

func putRawBuffer(buf *[]byte) {
	if cap(*buf) <= maxBuffer {
		rawBuffers.Put(buf)
	}
}

// unpack decodes the data of p.
func (k *Packer) unpack(p *Object, other any) (any, error) {
	buf := rawBuffers.Get().(*[]byte)
	defer putRawBuffer(buf)
	have := p.body.Load()
	raw, err := have.form.dict.Unpack(*buf, have.data[p.uid+p.version:])
	if err != nil {
		return nil, err
	}
	*buf = raw
	return k.pool.Decode(have.form.format, raw, decode.Origin{List: have.form.list, Before: other,
		Made: k.makes() && other != nil})
}

// makes reports whether a decoder has made each object that k hands out, so that it may look for its marks behind them.
// Those of a Transform and those that Value received are made by others.
func (k *Packer) makes() bool { return k.Transform == nil && !k.values.Load() }

// bare returns an object with the identity and the version of p, or nil if that is not possible.
func (k *Packer) bare(p *Object) any {
	var meta metav1.PartialObjectMetadata
	meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion = p.namespace, p.name, p.GetUID(), p.GetResourceVersion()
	raw, err := json.Marshal(&meta)
	if err != nil {
		return nil
	}
	obj, err := k.pool.Decode(decode.JSON, raw, decode.Origin{List: p.body.Load().form.list})
	if err != nil {
		return nil
	}
	return obj
}

// Transformed calls Transform for p, which Pack returned. It encodes the result and packs that. If the encoding
// loses something, because a field has none, Transformed packs nothing.
func (k *Packer) Transformed(p *Object) (*Object, error) {
	obj, err := k.Transform(p.Decoded(nil))
	if obj == nil || err != nil {
		return nil, err
	}
	return k.encoded(obj), nil
}

// Value packs obj, which nobody has decoded. With a Transform it packs nothing: [Packer.Transformed] does.
func (k *Packer) Value(obj any) *Object {
	k.values.Store(true)
	if k.Transform != nil {
		return k.Hold(obj)
	}
	return k.encoded(obj)
}

// encoded encodes obj and packs that. If the encoding loses something, it packs nothing.
func (k *Packer) encoded(obj any) *Object {
	format, raw, err := decode.Encode(obj, k.pool.Marshals(obj), nil)
	if err != nil {
		return k.Hold(obj)
	}
	result := k.PackBytes(obj, format, raw, nil, nil)
	if again, err := k.unpack(result, nil); err != nil || !reflect.DeepEqual(obj, again) {
		return k.Hold(obj)
	}
	result.setDecoded(nil, obj)
	return result
}
