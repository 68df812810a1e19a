package informer

import (
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
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
func (t DeltaType) String() string { return reflector.DeltaType(t).String() }

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

	from *reflector.Origin // nil if the delta needs none, or does not come from a reflector
}

// read returns d as a reflector's engine has it.
func (d *Delta[T]) read() reflector.Delta[T] {
	r := reflector.Delta[T]{
		Type:      reflector.DeltaType(d.Type),
		Object:    d.Object,
		Key:       d.Key,
		Items:     d.Items,
		Restored:  d.Restored,
		Namespace: d.Namespace,
		Version:   d.ResourceVersion,
		From:      d.from,
	}
	for _, failed := range d.Undecoded {
		var f intake.Failure // without an error, it is invalid
		if failed != nil {
			f = intake.Failure{Key: failed.Key, UID: failed.UID, Version: failed.ResourceVersion, Err: failed.Err,
				Collection: &collection{failed.Resource}}
		}
		r.Undecoded = append(r.Undecoded, f)
	}
	return r
}

// deltaOf returns r, which a reflector of resource has read, as a [Sink] receives it.
func deltaOf[T Object](r *reflector.Delta[T], resource Resource) Delta[T] {
	d := Delta[T]{
		Type:            DeltaType(r.Type),
		Object:          r.Object,
		Key:             r.Key,
		Items:           r.Items,
		Restored:        r.Restored,
		Namespace:       r.Namespace,
		ResourceVersion: r.Version,
		from:            r.From,
	}
	for _, f := range r.Undecoded {
		d.Undecoded = append(d.Undecoded,
			&DecodeError{Resource: resource, Key: f.Key, UID: f.UID, ResourceVersion: f.Version, Err: f.Err})
	}
	return d
}
