package informer

import (
	"fmt"
	"iter"
	"strings"
	"unique"

	"github.com/typedinformer/informer/internal/cow"
	"github.com/typedinformer/informer/internal/errtext"
)

// undecoded is the set of the objects of a source whose newest version could not be decoded, with the reason for each.
// A store has an older version of such an object, or none. Nil is the empty set. A set never changes: with and without
// return another one, which shares memory with it.
//
// A server determines what is in a set, so the memory is bounded: an entry takes 100 bytes, a key of at most 2*maxName
// bytes, and a reason of at most errtext.Max bytes, which entries with equal reasons share. The set has at most one
// entry for each object that the server has. An object whose name is unknown, or too long, takes no memory: it is only
// counted.
type undecoded struct {
	resource Resource
	keys     cow.Tree[reason, struct{}]
	gen      uint64 // of the last write to keys
	nameless int    // versions of objects without a known name, since the last list
	why      reason // of the last nameless one
}

const maxName = 300 // no name that kube-apiserver accepts is longer than 253

// reason is the text of an error. It holds no other memory of the error, which may be the object, and no longer wraps
// anything: a NotFound error of Config.Transform must not look like one of the server.
type reason unique.Handle[string]

func reasonOf(err error) reason {
	return reason(unique.Make(errtext.Short(err).Error()))
}

// Error implements error.
func (r reason) Error() string { return unique.Handle[string](r).Value() }

// len returns the number of objects.
func (u *undecoded) len() int {
	if u == nil {
		return 0
	}
	return u.keys.Len() + u.nameless
}

// unnamed returns the number of objects whose names are unknown.
func (u *undecoded) unnamed() int {
	if u == nil {
		return 0
	}
	return u.nameless
}

// with returns the set with one more object.
func (u *undecoded) with(failed *DecodeError) *undecoded {
	next := undecoded{resource: failed.Resource}
	if u != nil {
		next = *u
	}
	why := reasonOf(failed.Err)
	if key := failed.Key; key.Name == "" || len(key.Name) > maxName || len(key.Namespace) > maxName {
		next.nameless, next.why = next.nameless+1, why
	} else {
		next.gen++
		// key may be part of the object
		r := &cow.Record[struct{}]{Space: unique.Make(key.Namespace).Value(), Name: strings.Clone(key.Name)}
		next.keys.Set(next.gen, cow.Item[reason, struct{}]{Key: why, Record: r})
	}
	return &next
}

// without returns the set without the object with that key.
func (u *undecoded) without(key Key) *undecoded {
	if u == nil || !u.has(key) {
		return u
	}
	next := *u
	next.gen++
	next.keys.Delete(next.gen, &cow.Place{Space: key.Namespace, Name: key.Name})
	if next.len() == 0 {
		return nil
	}
	return &next
}

// has reports whether the object with that key is in the set.
func (u *undecoded) has(key Key) bool {
	return u != nil && u.keys.Get(&cow.Place{Space: key.Namespace, Name: key.Name}) != nil
}

// get returns why the newest version of the object with that key could not be decoded. The error is nil if the set does
// not have it.
func (u *undecoded) get(key Key) *DecodeError {
	if u == nil {
		return nil
	}
	it := u.keys.Get(&cow.Place{Space: key.Namespace, Name: key.Name})
	if it == nil {
		return nil
	}
	return &DecodeError{Resource: u.resource, Key: key, Err: it.Key}
}

// unknown returns an error for the object with that key, which may be one whose name is unknown. The error is nil if
// the set has no such object.
func (u *undecoded) unknown(key Key) *DecodeError {
	if u.unnamed() == 0 {
		return nil
	}
	return &DecodeError{Resource: u.resource, Key: key,
		Err: fmt.Errorf("it may be one of %d objects whose names are unknown: %w", u.nameless, u.why)}
}

// in yields the objects of one namespace, or all if namespace is empty, ordered by namespace, then name.
func (u *undecoded) in(namespace string) iter.Seq[*DecodeError] {
	return func(yield func(*DecodeError) bool) {
		if u == nil {
			return
		}
		u.keys.Ascend(&cow.Place{Space: namespace}, func(items []cow.Item[reason, struct{}]) bool {
			for i := range items {
				r := items[i].Record
				if namespace != "" && r.Space != namespace ||
					!yield(&DecodeError{Resource: u.resource, Key: Key{Namespace: r.Space, Name: r.Name}, Err: items[i].Key}) {
					return false
				}
			}
			return true
		})
	}
}

// reopenings are the readings of the objects of a snapshot that are decoded when they are read.
type reopenings interface {
	// failure returns why the object with that key could not be decoded when it was read, or nil if it could.
	failure(key Key) *DecodeError
	// failures returns failure of all objects.
	failures() []*DecodeError
}

// neverReopened are the reopenings of a snapshot that has decoded objects.
type neverReopened struct{}

func (neverReopened) failure(Key) *DecodeError { return nil }
func (neverReopened) failures() []*DecodeError { return nil }
