// Package undecoded holds the set of objects of the server that could not be decoded.
package undecoded

import (
	"fmt"
	"iter"
	"strings"
	"unique"

	"github.com/typedinformer/informer/internal/errtext"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// Set is the set of the objects of a source whose newest version could not be decoded, with the reason for each. A
// store has an older version of such an object, or none. Nil is the empty set. A set never changes: With and Without
// return another one, which shares memory with it.
//
// A server determines what is in a set, so the memory is bounded: an entry takes 130 bytes, a key and an ID of at most
// 2*maxName bytes each, and a reason of at most errtext.Max bytes, which entries with equal reasons share. The set has
// at most one entry for each object that the server has. An object whose name is unknown, or too long, takes no memory:
// it is only counted.
type Set struct {
	keys     cow.Tree[reason, object.ID]
	gen      uint64 // of the last write to keys
	nameless int    // versions of objects without a known name, since the last list
	reason   reason // of the last nameless one
}

const maxName = 300 // no name that kube-apiserver accepts is longer than 253

// reason is the text of an error.
type reason unique.Handle[string]

// Error implements error.
func (r reason) Error() string { return unique.Handle[string](r).Value() }

// Reason returns an error with the text of err, which may be shortened. It holds no other memory of err, which may be
// the object, and no longer wraps anything: a NotFound error of a user's function must not look like one of the server.
func Reason(err error) error { return reasonOf(err) }

func reasonOf(err error) reason { return reason(unique.Make(errtext.Short(err).Error())) }

// Len returns the number of objects.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return s.keys.Len() + s.nameless
}

// Unnamed returns the number of objects whose names are unknown.
func (s *Set) Unnamed() int {
	if s == nil {
		return 0
	}
	return s.nameless
}

// Why returns why the last object with an unknown name could not be decoded. The set must have one.
func (s *Set) Why() error { return s.reason }

// With returns the set with one more object, which could not be decoded because of err.
func (s *Set) With(key object.Key, id object.ID, err error) *Set {
	var next Set
	if s != nil {
		next = *s
	}
	why := reasonOf(err)
	if key.Name == "" || len(key.Name) > maxName || len(key.Namespace) > maxName {
		next.nameless, next.reason = next.nameless+1, why
	} else {
		next.gen++
		// key may be part of the object
		r := &cow.Record[object.ID]{Space: unique.Make(key.Namespace).Value(), Name: strings.Clone(key.Name), Data: kept(id)}
		next.keys.Set(next.gen, cow.Item[reason, object.ID]{Key: why, Record: r})
	}
	return &next
}

// kept returns id without what is too long, in memory of its own.
func kept(id object.ID) object.ID {
	if len(id.UID) > maxName {
		id.UID = ""
	}
	if len(id.Version) > maxName {
		id.Version = ""
	}
	return object.ID{UID: strings.Clone(id.UID), Version: strings.Clone(id.Version)}
}

// Without returns the set without the object with that key.
func (s *Set) Without(key object.Key) *Set {
	if !s.Has(key) {
		return s
	}
	next := *s
	next.gen++
	next.keys.Delete(next.gen, &cow.Place[reason]{Space: key.Namespace, Name: key.Name})
	if next.Len() == 0 {
		return nil
	}
	return &next
}

// Has reports whether the object with that key is in the set.
func (s *Set) Has(key object.Key) bool { return s.Get(key) != nil }

// Get returns why the newest version of the object with that key could not be decoded, or nil if the set does not have
// the object.
func (s *Set) Get(key object.Key) error {
	if it := s.find(key); it != nil {
		return it.Key
	}
	return nil
}

// ID returns the identity and version of the object with that key that could not be decoded. It returns false if the
// set does not have the object.
func (s *Set) ID(key object.Key) (object.ID, bool) {
	if it := s.find(key); it != nil {
		return it.Record.Data, true
	}
	return object.ID{}, false
}

func (s *Set) find(key object.Key) *cow.Item[reason, object.ID] {
	if s == nil {
		return nil
	}
	return s.keys.Get(&cow.Place[reason]{Space: key.Namespace, Name: key.Name})
}

// Unknown returns why an object with any key may be in the set: its name is unknown. It returns nil if the set has no
// such object.
func (s *Set) Unknown() error {
	if s.Unnamed() == 0 {
		return nil
	}
	return fmt.Errorf("it may be one of %d objects whose names are unknown: %w", s.nameless, s.reason)
}

// In yields the objects of one namespace, or all if namespace is empty, with their reasons, ordered by namespace, then
// name. It leaves out objects whose names are unknown.
func (s *Set) In(namespace string) iter.Seq2[object.Key, error] {
	return func(yield func(object.Key, error) bool) {
		if s == nil {
			return
		}
		s.keys.Ascend(&cow.Place[reason]{Space: namespace}, func(items []cow.Item[reason, object.ID]) bool {
			for i := range items {
				r := items[i].Record
				if namespace != "" && r.Space != namespace ||
					!yield(object.Key{Namespace: r.Space, Name: r.Name}, items[i].Key) {
					return false
				}
			}
			return true
		})
	}
}
