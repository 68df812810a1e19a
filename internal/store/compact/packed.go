package compact

import (
	"fmt"
	"reflect"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/store/pack"
)

// Object is one version of an object in encoded and compressed form. Identity and labels can be read without decoding.
// It is safe for concurrent use.
type Object struct {
	body            atomic.Pointer[body] // repack replaces it by an equal one, and fail by one that cannot be decoded
	namespace, name string
	labels          Labels
	uid, version    uint32                  // their lengths in body.data
	decoded         atomic.Pointer[decoded] // nil if the object has not been decoded since it was packed
}

// decoded is an Object in decoded form, as long as somebody holds that.
type decoded struct {
	object decode.Weak
	// unread is how many versions, up to this one, were decoded when they arrived, and that nobody has read since.
	unread atomic.Uint32
}

// body is an object in encoded and compressed form. It never changes.
type body struct {
	form *form
	data string // the UID, the resource version, then the packed object
}

// form is what many packed objects have in common.
type form struct {
	packer *Packer
	dict   *pack.Dictionary
	format decode.Format
	list   *decode.ListInfo // nil for objects that did not come in a list
	held   any              // an object that is not packed; its form belongs to it alone
	failed error            // why a reader could not decode the object; the form then belongs to it alone
}

// GetNamespace, GetName, GetUID and GetResourceVersion make a pointer to Object an object like that which it holds.
func (p *Object) GetNamespace() string       { return p.namespace }
func (p *Object) GetName() string            { return p.name }
func (p *Object) GetUID() types.UID          { return types.UID(p.body.Load().data[:p.uid]) }
func (p *Object) GetResourceVersion() string { return p.body.Load().data[p.uid:][:p.version] }

// Labels returns the labels.
func (p *Object) Labels() Labels { return p.labels }

// fixedSize is the memory that each Object takes, without its texts.
var fixedSize = int(reflect.TypeFor[Object]().Size() + reflect.TypeFor[body]().Size())

// decodedSize is the memory that a decoded takes, with what the runtime keeps for a weak pointer.
var decodedSize = int(reflect.TypeFor[decoded]().Size()) + 16

// HeapSize returns the memory that p takes, in bytes, without a decoded object that somebody reads.
func (p *Object) HeapSize() int {
	b := p.body.Load()
	size := fixedSize + len(b.data) + len(p.name)
	if p.decoded.Load() != nil {
		size += decodedSize
	}
	if b.form.held != nil {
		var held heapsize.Set
		held.Add(b.form.held)
		size += held.Bytes()
	}
	return size
}

// Alive returns p decoded, or nil if that takes time.
func (p *Object) Alive() any {
	form := p.body.Load().form
	if known := p.decoded.Load(); known != nil {
		return known.object.Object(form.packer.pool.Decodes())
	}
	return form.held
}

// maxUnread is how many versions of an object that nobody reads are decoded when they arrive. A reader may be one
// version late.
const maxUnread = 2

// wasRead reports whether p is decoded, or somebody has read it or the version before. Otherwise, a collection that was
// read once would be decoded for ever.
func (p *Object) wasRead() bool {
	known := p.decoded.Load()
	return known != nil && known.unread.Load() < maxUnread || p.Alive() != nil
}

// setDecoded notes that obj is p decoded, unless that is no longer the last known one.
func (p *Object) setDecoded(known *decoded, obj any) bool {
	return p.decoded.CompareAndSwap(known, &decoded{object: decode.WeakOf(obj)})
}

// arrived notes that p was decoded to obj when it arrived, and that nobody has read it. old is the previous version, or
// nil.
func (p *Object) arrived(obj any, old *Object) {
	now := &decoded{object: decode.WeakOf(obj)}
	now.unread.Store(1)
	if old != nil {
		if was := old.decoded.Load(); was != nil {
			now.unread.Add(was.unread.Load())
		}
	}
	p.decoded.Store(now)
}

// Decoded returns p decoded, or nil if that fails. While a caller holds the result, all callers get the same object. It
// can share memory with other, another version of the object in decoded form, or nil.
func (p *Object) Decoded(other any) any {
	for {
		known := p.decoded.Load() // before Alive, so that setDecoded replaces what Alive found dead
		if obj := p.Alive(); obj != nil {
			if known != nil && known.unread.Load() > 0 {
				known.unread.Store(0)
			}
			return obj
		}
		if obj := p.Fresh(other); obj == nil || p.setDecoded(known, obj) {
			return obj
		}
	}
}

// Fresh returns p decoded, as an object that only the caller has, or nil if that fails. It can share memory with
// other, as for Decoded.
//
// The bytes were decoded or checked before they were packed. If decoding fails now, the type's own decoder does not
// always do the same, or the memory is damaged. From then on, p cannot be decoded, so that all readers get the same
// answer.
func (p *Object) Fresh(other any) any {
	form := p.body.Load().form
	if form.failed != nil {
		return nil
	}
	obj, err := form.packer.unpack(p, other)
	if err != nil {
		p.fail(err)
		return nil
	}
	return obj
}

// fail makes p an object that cannot be decoded, because of err.
func (p *Object) fail(err error) {
	for {
		have := p.body.Load()
		if have.form.failed != nil {
			return
		}
		form := *have.form
		failures := &form.packer.Failures
		form.failed = failures.errorOf(p, fmt.Errorf("it was decoded before, but cannot be decoded again: %w", err))
		if p.body.CompareAndSwap(have, &body{&form, have.data}) {
			failures.add(p, form.failed)
			return
		}
	}
}

// Failed returns why a reader could not decode p: the error of [Failures].Error. Nil means that no reader has failed.
func (p *Object) Failed() error { return p.body.Load().form.failed }

// Bare returns an object that has only the identity and the version of p, or nil if that is not possible.
func (p *Object) Bare() any { return p.body.Load().form.packer.bare(p) }
