package informer

import (
	"fmt"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// DeltaType is the kind of a [Delta].
type DeltaType uint8

const (
	// Upserted adds Delta.Object, or replaces an earlier version of it.
	Upserted DeltaType = iota + 1
	// Removed removes an object. Delta.Object is its state at the deletion.
	Removed
	// Replaced replaces the contents of Delta.Namespace with Delta.Items.
	Replaced
	// Bookmarked changes no object of the store. The source has reported every change up to Delta.ResourceVersion. An
	// object whose change could not be decoded is in Delta.Undecoded.
	Bookmarked
)

// String returns "Upserted", "Removed", "Replaced" or "Bookmarked".
func (t DeltaType) String() string {
	switch t {
	case Upserted:
		return "Upserted"
	case Removed:
		return "Removed"
	case Replaced:
		return "Replaced"
	case Bookmarked:
		return "Bookmarked"
	}
	return fmt.Sprintf("DeltaType(%d)", uint8(t))
}

// Delta is one change of a collection. A [Reflector] produces deltas, and a [StoreWriter] applies them.
type Delta[T Object] struct {
	Type DeltaType
	// Object is the object of Upserted and Removed.
	Object T
	// Key names the object of Removed if Object is nil, because the state at the deletion could not be decoded.
	Key Key
	// Items are the objects of Replaced, in any order. If several have one key, the last one counts.
	Items []T
	// Undecoded are objects of Replaced and Bookmarked that exist, but could not be decoded. The store keeps its versions
	// of them; see [Store.Undecodable]. Replaced has all such objects of the source. An empty key stands for an object
	// whose name could not be decoded; Replaced then removes nothing.
	Undecoded []*DecodeError
	// Restored indicates that the source went back in time, as a server does when etcd is restored from a backup. An
	// object can then have new content under a known UID and resource version, so Replaced compares objects by content.
	// The first list after a start from a saved state has Restored set, too: the server may have a new version or another
	// CRD since the save.
	Restored bool
	// Namespace is the namespace that the source watches. Empty means the whole collection.
	Namespace string
	// ResourceVersion is the version of the collection after the change. Empty means unknown.
	ResourceVersion string

	from *origin // nil if the delta needs none, or does not come from a reflector
}

// origin describes where a delta of a reflector comes from.
type origin = reflector.Origin

// whence returns the origin of d, or that of a list of the whole collection if d has none.
func (d *Delta[T]) whence() origin {
	if d.from == nil {
		return origin{}
	}
	return *d.from
}

// undecodable are the objects of a source whose newest version could not be decoded.
type undecodable struct {
	*undecoded.Set
	resource *Resource // that of the first object; nil if there was none
}

// with returns u with one more object.
func (u undecodable) with(failed *DecodeError) undecodable {
	if u.Set == nil {
		u.resource = new(failed.Resource)
	}
	u.Set = u.With(failed.Key, object.ID{UID: failed.UID, Version: failed.ResourceVersion}, failed.Err)
	return u
}

// failure returns the error of the object with that key for a reason of the set.
func (u undecodable) failure(key Key, why error) *DecodeError {
	return &DecodeError{Resource: *u.resource, Key: key, Err: why}
}

// undecoded returns the objects of the source that could not be decoded after d, given those before.
func (d *Delta[T]) undecoded(before undecodable) undecodable {
	switch {
	case d.Type == Replaced && d.whence().Kind != reflector.RestOfShard:
		before = undecodable{}
	case before.Set == nil: // the common case
	case d.Type == Upserted:
		before.Set = before.Without(KeyOf(d.Object))
	case d.Type == Removed:
		before.Set = before.Without(d.removedKey())
	}
	for _, failed := range d.Undecoded {
		if d.Namespace == "" || failed.Key.Namespace == d.Namespace || failed.Key.Name == "" {
			before = before.with(failed)
		}
	}
	return before
}

// removedKey returns the key of the object that d, a Removed, removes.
func (d *Delta[T]) removedKey() Key {
	if !object.IsNil(d.Object) {
		return KeyOf(d.Object)
	}
	return d.Key
}

// validate returns an error if d has no type, if one of its objects is nil, has no name or is outside d.Namespace, or
// if an entry of Undecoded has no error. If nameless is true, objects may lack a name.
func (d *Delta[T]) validate(nameless bool) error {
	for _, failed := range d.Undecoded {
		if failed == nil || failed.Err == nil {
			return fmt.Errorf("%v has an entry of Undecoded without an error", d.Type)
		}
	}
	switch d.Type {
	case Upserted:
		return d.validateObject(d.Object, nameless)
	case Removed:
		return d.validateKey(d.removedKey(), nameless)
	case Replaced:
		for _, obj := range d.Items {
			if err := d.validateObject(obj, nameless); err != nil {
				return err
			}
		}
		return nil
	case Bookmarked:
		return nil
	}
	return fmt.Errorf("unknown type %v", d.Type)
}

func (d *Delta[T]) validateObject(obj T, nameless bool) error {
	if object.IsNil(obj) {
		return fmt.Errorf("%v has a nil object", d.Type)
	}
	return d.validateKey(KeyOf(obj), nameless)
}

func (d *Delta[T]) validateKey(key Key, nameless bool) error {
	switch {
	case key.Name == "" && !nameless:
		return fmt.Errorf("%v has an object without a name", d.Type)
	case d.Namespace != "" && key.Namespace != d.Namespace:
		return fmt.Errorf("%v of namespace %q has object %s of another namespace", d.Type, d.Namespace, key)
	}
	return nil
}
