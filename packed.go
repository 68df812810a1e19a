package informer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unique"
	"unsafe"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/pack"
	"github.com/typedinformer/informer/internal/snapshotfile"
)

// packed is one version of an object in encoded and compressed form. With Config.Compact, an informer of T is an
// informer of *packed inside: its store, FIFO and backlogs hold a *packed for each version, and only what a caller
// reads is decoded.
//
// Identity and labels can be read without decoding. packed is an [Object]. It is safe for concurrent use.
type packed struct {
	body            atomic.Pointer[body] // repack replaces it by an equal one, and fail by one that cannot be decoded
	namespace, name string
	labels          labelSet
	uid, version    uint32                      // their lengths in body.data
	decoded         atomic.Pointer[decode.Weak] // nil if the object has not been decoded since it was packed
}

// body is an object in encoded and compressed form. It never changes.
type body struct {
	form *form
	data string // the UID, the resource version, then the packed object
}

// form is what many packed objects have in common.
type form struct {
	by     *packer
	dict   *pack.Dictionary
	format decode.Format
	list   *decode.ListInfo // nil for objects that did not come in a list
	held   any              // an object that is not packed; its form belongs to it alone
	failed *DecodeError     // why a reader could not decode the object; the form then belongs to it alone
}

func (p *packed) GetNamespace() string       { return p.namespace }
func (p *packed) GetName() string            { return p.name }
func (p *packed) GetUID() types.UID          { return types.UID(p.body.Load().data[:p.uid]) }
func (p *packed) GetResourceVersion() string { return p.body.Load().data[p.uid:][:p.version] }

// heapSize returns the memory of what informers hold, in bytes, without a decoded object that somebody reads.
func (p *packed) heapSize() int {
	b := p.body.Load()
	size := int(unsafe.Sizeof(*p)+unsafe.Sizeof(*b)) + len(b.data) + len(p.name)
	if b.form.held != nil {
		var held heapsize.Set
		held.Add(b.form.held)
		size += held.Bytes()
	}
	return size
}

// alive returns p decoded, or nil if that takes time.
func (p *packed) alive() any {
	form := p.body.Load().form
	if known := p.decoded.Load(); known != nil {
		return known.Object(form.by.decoders.typ)
	}
	return form.held
}

// setDecoded notes that obj is p decoded, unless that is no longer the last known one.
func (p *packed) setDecoded(known *decode.Weak, obj any) bool {
	weak := decode.WeakOf(obj)
	return p.decoded.CompareAndSwap(known, &weak)
}

// object returns p decoded, or nil if that fails. While a caller holds the result, all callers get the same object. It
// can share memory with other, another version of the object in decoded form, or nil.
func (p *packed) object(other any) any {
	for {
		known := p.decoded.Load() // before alive, so that setDecoded replaces what alive found dead
		if obj := p.alive(); obj != nil {
			return obj
		}
		if obj := p.decode(other); obj == nil || p.setDecoded(known, obj) {
			return obj
		}
	}
}

// decode returns p decoded, as an object that only the caller has, or nil if that fails. It can share memory with
// other, as for object.
//
// The bytes were decoded once before they were packed. If that fails now, the type's own decoder does not always do the
// same, or the memory is damaged. From then on, p cannot be decoded, so that all readers of a snapshot get the same
// answer.
func (p *packed) decode(other any) any {
	form := p.body.Load().form
	if form.failed != nil {
		return nil
	}
	obj, err := form.by.unpack(p, other)
	if err != nil {
		p.fail(err)
		return nil
	}
	return obj
}

// fail makes p an object that cannot be decoded, because of err.
func (p *packed) fail(err error) {
	for {
		have := p.body.Load()
		if have.form.failed != nil {
			return
		}
		form := *have.form
		form.failed = &DecodeError{Resource: form.by.unreadable.resource, Key: KeyOf(p),
			Err: reasonOf(fmt.Errorf("it was decoded before, but cannot be decoded again: %w", err))}
		if p.body.CompareAndSwap(have, &body{&form, have.data}) {
			form.by.unreadable.add(p, form.failed)
			return
		}
	}
}

// failed returns why a reader could not decode p. Nil means that no reader has failed.
func (p *packed) failed() *DecodeError { return p.body.Load().form.failed }

// sameContent reports whether p and other have equal objects.
func (p *packed) sameContent(other *packed) bool {
	obj := p.object(nil)
	return obj != nil && reflect.DeepEqual(obj, other.object(nil))
}

// unpack returns the object of p, or the zero T if p is nil or cannot be decoded.
func unpack[T Object](p *packed) T {
	var none T
	if p == nil {
		return none
	}
	obj, _ := p.object(nil).(T)
	return obj
}

// unreadable has the packed objects that readers could not decode, as long as anything else holds them. It is safe for
// concurrent use.
type unreadable struct {
	resource Resource
	report   func(*DecodeError) // called once for each object, by its reader; nil for none

	mu      sync.Mutex // protects the fields below
	objects map[weak.Pointer[packed]]struct{}
	room    int // add drops the objects that nothing holds when there are more
}

func (u *unreadable) add(p *packed, failed *DecodeError) {
	u.mu.Lock()
	if u.objects == nil {
		u.objects = map[weak.Pointer[packed]]struct{}{}
	}
	u.objects[weak.Make(p)] = struct{}{}
	if len(u.objects) > u.room {
		maps.DeleteFunc(u.objects, func(p weak.Pointer[packed], _ struct{}) bool { return p.Value() == nil })
		u.room = max(16, 2*len(u.objects))
	}
	u.mu.Unlock()
	if u.report != nil {
		u.report(failed)
	}
}

// in returns the errors of the objects that get returns for their keys.
func (u *unreadable) in(get func(Key) *packed) (all []*DecodeError) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for known := range u.objects {
		if p := known.Value(); p != nil && get(KeyOf(p)) == p {
			all = append(all, p.failed())
		}
	}
	return all
}

// packer packs objects of one type. It is safe for concurrent use. It implements [packing].
type packer struct {
	decoders  *decoders[*packed]
	transform func(obj any) (any, error) // Config.Transform; nil for none

	bytes      pack.Packer
	form       atomic.Pointer[form] // the last one
	unreadable unreadable
}

// newPacker returns a packer of objects of type t, a pointer. It returns an error if no object can be decoded into a t.
func newPacker(t reflect.Type, keepManagedFields bool) (*packer, error) {
	decoders, err := newDecoders[*packed](t, "", keepManagedFields)
	return &packer{decoders: decoders}, err
}

// goType returns the type of the objects, a pointer.
func (k *packer) goType() reflect.Type { return k.decoders.goType }

// alive returns old in decoded form, or nil if that takes time.
func (k *packer) alive(old *packed) any {
	if old == nil || k.transform != nil {
		return nil
	}
	return old.alive()
}

// pack returns obj, which one has decoded from raw, in packed form. old is the previous version, or nil.
//
// With Config.Transform it packs nothing: transformed does.
func (k *packer) pack(one *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, obj any,
	old *packed) *packed {
	if k.transform != nil {
		return k.hold(obj)
	}
	buf := rawBuffers.Get().(*[]byte)
	defer putRawBuffer(buf)
	if cap(*buf) < len(raw) {
		*buf = make([]byte, 0, len(raw))
	}
	p := k.packBytes(obj, f, one.Alone(f, raw, *buf), list, old)
	p.setDecoded(nil, obj)
	return p
}

// hold returns obj without packing it.
func (k *packer) hold(obj any) *packed {
	p := identify(obj.(identified), nil)
	p.body.Store(&body{&form{by: k, held: obj}, identityOf(obj.(identified))})
	return p
}

// identified has the methods of [Object].
type identified interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

func identityOf(obj identified) string { return string(obj.GetUID()) + obj.GetResourceVersion() }

// identify returns a packed with the identity and the labels of obj, but without body. It uses strings of old, if old
// is not nil: those of obj may be part of a larger string.
func identify(obj identified, old *packed) *packed {
	p := &packed{namespace: obj.GetNamespace(), name: obj.GetName(), uid: uint32(len(obj.GetUID())),
		version: uint32(len(obj.GetResourceVersion()))}
	if old != nil && KeyOf(old) == KeyOf(p) {
		p.namespace, p.name = old.namespace, old.name
	} else {
		p.namespace, p.name = unique.Make(p.namespace).Value(), strings.Clone(p.name)
	}
	if labeled, ok := obj.(interface{ GetLabels() map[string]string }); ok {
		if labels := labeled.GetLabels(); old != nil && old.labels.equal(labels) {
			p.labels = old.labels
		} else {
			p.labels = newLabelSet(labels)
		}
	}
	return p
}

// packBytes returns obj as packed, whose encoded form is raw.
func (k *packer) packBytes(obj any, f decode.Format, raw []byte, list *decode.ListInfo, old *packed) *packed {
	p := identify(obj.(identified), old)
	data, dict := k.bytes.Pack(identityOf(obj.(identified)), raw)
	p.body.Store(&body{k.formOf(dict, f, list), data})
	return p
}

// record implements [packing].
func (k *packer) record(p *packed, buf []byte) (r snapshotfile.Record, ok bool, err error) {
	have := p.body.Load()
	switch {
	case have.form.failed != nil:
		return r, false, have.form.failed
	case have.form.held != nil:
		return r, false, nil
	}
	raw, err := have.form.dict.Unpack(buf, have.data[p.uid+p.version:])
	return savedRecord(have.form.format, raw, have.form.list), true, err
}

// whole implements [packing].
func (k *packer) whole(p *packed) any { return p.object(nil) }

// recorded implements [packing]. The object of a snapshot has passed Config.Transform already.
func (k *packer) recorded(r snapshotfile.Record, obj any) *packed {
	p := k.packBytes(obj, formatOf(r), r.Raw, listOf(r), nil)
	p.setDecoded(nil, obj)
	return p
}

// settle packs objects again. Most were packed while the dictionary knew only the first ones.
func (k *packer) settle(ctx context.Context, objects iter.Seq[*packed]) {
	for p := range objects {
		if ctx.Err() != nil {
			return
		}
		k.repack(p)
	}
}

// repack packs the object of p again if another dictionary has become better since p was packed. Readers may read p
// meanwhile.
func (k *packer) repack(p *packed) {
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
func (k *packer) formOf(dict *pack.Dictionary, f decode.Format, list *decode.ListInfo) *form {
	var kind, version string
	if list != nil {
		kind, version = list.Kind, list.APIVersion
	}
	if last := k.form.Load(); last != nil && last.dict == dict && last.format == f &&
		(last.list != nil) == (list != nil) &&
		(list == nil || last.list.Kind == kind && last.list.APIVersion == version) {
		return last
	}
	next := &form{by: k, dict: dict, format: f}
	if list != nil {
		next.list = &decode.ListInfo{Kind: kind, APIVersion: version}
	}
	k.form.Store(next)
	return next
}

// rawBuffers is a pool of memory for encoded objects.
var rawBuffers = sync.Pool{New: func() any { return new([]byte) }}

func putRawBuffer(buf *[]byte) {
	if cap(*buf) <= 2*batchBytes {
		rawBuffers.Put(buf)
	}
}

// unpack decodes the data of p.
func (k *packer) unpack(p *packed, other any) (any, error) {
	buf := rawBuffers.Get().(*[]byte)
	defer putRawBuffer(buf)
	have := p.body.Load()
	raw, err := have.form.dict.Unpack(*buf, have.data[p.uid+p.version:])
	if err != nil {
		return nil, err
	}
	*buf = raw
	one := k.decoders.get()
	made := k.transform == nil // otherwise Transform may have made other
	obj, err := one.Decode(have.form.format, raw, decode.Origin{List: have.form.list, Before: other,
		Made: made && other != nil})
	k.decoders.put(one) // skipped if a method of T has ended the goroutine
	return obj, err
}

// bare returns an object with the identity and the version of p, or nil if that is not possible.
func (k *packer) bare(p *packed) any {
	var meta metav1.PartialObjectMetadata
	meta.Namespace, meta.Name, meta.UID, meta.ResourceVersion = p.namespace, p.name, p.GetUID(), p.GetResourceVersion()
	raw, err := json.Marshal(&meta)
	if err != nil {
		return nil
	}
	one := k.decoders.get()
	obj, err := one.Decode(decode.JSON, raw, decode.Origin{List: p.body.Load().form.list})
	k.decoders.put(one)
	if err != nil {
		return nil
	}
	return obj
}

// transformed calls Config.Transform for p, which pack returned. It encodes the result and packs that. If the encoding
// loses something, because a field has none, transformed packs nothing.
func (k *packer) transformed(p *packed) (*packed, error) {
	obj, err := k.transform(p.object(nil))
	if obj == nil || err != nil {
		return nil, err
	}
	format, raw, err := encode(obj, marshals(obj, k.decoders.typ), nil)
	if err != nil {
		return k.hold(obj), nil
	}
	result := k.packBytes(obj, format, raw, nil, nil)
	if again, err := k.unpack(result, nil); err != nil || !reflect.DeepEqual(obj, again) {
		return k.hold(obj), nil
	}
	result.setDecoded(nil, obj)
	return result, nil
}

// labelSet is a set of labels that takes little memory: equal sets of different objects are one. It implements
// labels.Labels.
type labelSet struct{ text unique.Handle[string] }

// The text of a labelSet has the key and the value of each label, in the order of the keys. Each string follows its
// length.
func newLabelSet(labels map[string]string) labelSet {
	if len(labels) == 0 {
		return labelSet{}
	}
	var text []byte
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		for _, s := range []string{key, labels[key]} {
			text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
		}
	}
	return labelSet{unique.Make(string(text))}
}

// equal reports whether s has exactly these labels.
func (s labelSet) equal(labels map[string]string) bool {
	n := 0
	for key, value := range s.all {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
		n++
	}
	return n == len(labels)
}

// all yields the labels in the order of the keys.
func (s labelSet) all(yield func(key, value string) bool) {
	if s == (labelSet{}) {
		return
	}
	for text := s.text.Value(); text != ""; {
		var key, value string
		key, text = cutLabel(text)
		value, text = cutLabel(text)
		if !yield(key, value) {
			return
		}
	}
}

// cutLabel returns the first string of the text of a labelSet, and the rest.
func cutLabel(text string) (first, rest string) {
	n, shift := 0, 0
	for text[0] >= 0x80 {
		n |= int(text[0]&0x7f) << shift
		text, shift = text[1:], shift+7
	}
	n |= int(text[0]) << shift
	return text[1 : 1+n], text[1+n:]
}

// Lookup returns the value of the label key.
func (s labelSet) Lookup(key string) (value string, ok bool) {
	for have, value := range s.all {
		if have == key {
			return value, true
		}
	}
	return "", false
}

// Has reports whether there is a label key.
func (s labelSet) Has(key string) bool {
	_, ok := s.Lookup(key)
	return ok
}

// Get returns the value of the label key, or "".
func (s labelSet) Get(key string) string {
	value, _ := s.Lookup(key)
	return value
}
