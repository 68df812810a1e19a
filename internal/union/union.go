// Package union decides what a union of overlapping collections has: the objects that at least one of them has.
//
// Each part of the union reports its own changes, in order, but one part may be behind another. An object that moves
// from one part to another, by one write, leaves the first before or after it enters the second. So an object that no
// part has any more stays until every part that could have it knows the write after which it left.
package union

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/sources"
)

// Key names an object.
type Key = types.NamespacedName

// Object is the metadata that a union compares.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Part is one of the collections. A type of Part must be comparable.
type Part[T Object] interface {
	// Has reports whether the part has an object with that key now.
	Has(key Key) bool
	// Covers reports whether the part can have objects of a namespace.
	Covers(namespace string) bool
	// Knows reports whether the part has every change up to a resource version.
	Knows(version string) bool
}

// Content is what the union has. Its methods are called within those of a Union.
type Content[T Object] interface {
	Get(key Key) (T, bool)
	Put(obj T)
	// Remove removes an object. last is its last state, and final reports whether the server sent that.
	Remove(key Key, last T, final bool)
}

// Union is a union of parts. It is not safe for concurrent use: a part changes only together with the call that reports
// the change. [New] returns one.
//
// Invariant: a leave of an object is in leaves while a part that covers it does not know the version of the leave. It
// is then in the waits of one such part. While it is in leaves, no older state of the object is put into the content
// after it was removed.
type Union[T Object] struct {
	parts  []Part[T]
	leaves map[Key]*leave[T]
	waits  map[Part[T]][]*leave[T] // the lowest version first
}

// leave says that an object has left a part.
type leave[T Object] struct {
	key     Key
	version string // the highest version of a leave of this object
	last    T
	final   bool
	awaits  Part[T] // the part that does not know the version
	lacked  bool    // no part had it at version on the server, whether the part knows or not
	asked   bool    // Questions has returned it
	removed bool    // from the content
}

// New returns a union without parts.
func New[T Object]() *Union[T] {
	return &Union[T]{leaves: map[Key]*leave[T]{}, waits: map[Part[T]][]*leave[T]{}}
}

// Add adds a part that has no objects yet.
func (u *Union[T]) Add(p Part[T]) { u.parts = append(u.parts, p) }

// Contains reports whether p is a part.
func (u *Union[T]) Contains(p Part[T]) bool { return slices.Contains(u.parts, p) }

// Entered reports that a part has obj now, in place of old, or of nothing if old is nil.
func (u *Union[T]) Entered(old, obj T, content Content[T]) {
	key := keyOf(obj)
	if l := u.leaves[key]; l != nil && !sources.Older(obj.GetResourceVersion(), l.version) {
		u.forget(l)
	}
	have, ok := content.Get(key)
	switch {
	case !ok && u.leaves[key] != nil: // the part is behind
	// What follows the present state in the part that has it is the next state, also if a restored server counts from a
	// lower version.
	case !ok, isVersion(have, old), isNewer(obj, have):
		content.Put(obj)
	}
}

func keyOf[T Object](obj T) Key { return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()} }

// isVersion reports whether other, which may be nil, is the same version of the same object as have.
func isVersion[T Object](have, other T) bool {
	var none T
	return other != none && have.GetUID() == other.GetUID() && have.GetResourceVersion() == other.GetResourceVersion()
}

// isNewer reports whether obj is another version than have and does not precede it.
func isNewer[T Object](obj, have T) bool {
	return !isVersion(have, obj) && !sources.Older(obj.GetResourceVersion(), have.GetResourceVersion())
}

// Left reports that an object has left a part, which has every change up to version. last is the last state of the
// object there, and final reports whether the server sent that.
func (u *Union[T]) Left(key Key, version string, last T, final bool, content Content[T]) {
	l := u.leaves[key]
	if l == nil {
		l = &leave[T]{key: key, version: version, last: last, final: final}
		u.leaves[key] = l
	} else if !sources.Older(version, l.version) {
		*l = leave[T]{key: key, version: version, last: last, final: final, awaits: l.awaits}
	}
	u.resolve(l, content)
}

// resolve removes the object of l from the content if no part has it or can get it. If a part does not know, l waits
// for that part.
func (u *Union[T]) resolve(l *leave[T], content Content[T]) {
	u.unwait(l)
	var behind Part[T]
	has := false
	for _, p := range u.parts {
		if !p.Covers(l.key.Namespace) {
			continue
		}
		if p.Knows(l.version) {
			has = has || p.Has(l.key)
			continue
		}
		if behind = p; !l.lacked {
			u.wait(l, p)
			return
		}
	}
	if !has && !l.removed {
		l.removed = true
		content.Remove(l.key, l.last, l.final)
	}
	if behind == nil {
		delete(u.leaves, l.key)
		return
	}
	u.wait(l, behind) // which may yet report older states
}

// wait makes l wait for p.
func (u *Union[T]) wait(l *leave[T], p Part[T]) {
	l.awaits = p
	waits := u.waits[p]
	i, _ := slices.BinarySearchFunc(waits, l, func(other, l *leave[T]) int {
		if sources.Older(l.version, other.version) {
			return 1
		}
		return -1 // before l, if they are equal
	})
	u.waits[p] = slices.Insert(waits, i, l)
}

// unwait makes l wait for no part.
func (u *Union[T]) unwait(l *leave[T]) {
	if l.awaits == nil {
		return
	}
	left := slices.DeleteFunc(u.waits[l.awaits], func(other *leave[T]) bool { return other == l })
	if u.waits[l.awaits] = left; len(left) == 0 {
		delete(u.waits, l.awaits)
	}
	l.awaits = nil
}

// forget drops l.
func (u *Union[T]) forget(l *leave[T]) {
	u.unwait(l)
	delete(u.leaves, l.key)
}

// Advanced reports that p has reached a later version, or can have no objects for now.
func (u *Union[T]) Advanced(p Part[T], content Content[T]) {
	for {
		waits := u.waits[p]
		if len(waits) == 0 || p.Covers(waits[0].key.Namespace) && !p.Knows(waits[0].version) {
			return
		}
		u.resolve(waits[0], content)
	}
}

// Restored reports that p has listed all its objects again, from a server that may have gone back in time. What was
// known of the versions before says nothing any more.
func (u *Union[T]) Restored(p Part[T], objects iter.Seq[T], content Content[T]) {
	for obj := range objects {
		if l := u.leaves[keyOf(obj)]; l != nil {
			u.forget(l)
		}
		if have, ok := content.Get(keyOf(obj)); !ok || !isVersion(have, obj) {
			content.Put(obj)
		}
	}
	for _, l := range slices.Clone(u.waits[p]) {
		u.forget(l)
		if !l.removed && !slices.ContainsFunc(u.parts, func(p Part[T]) bool { return p.Has(l.key) }) {
			content.Remove(l.key, l.last, l.final)
		}
	}
}

// Lacked reports that at a version of the server, which does not precede that of q, no part had the object of q.
func (u *Union[T]) Lacked(q Question, at string, content Content[T]) {
	if l := u.leaves[q.Key]; l != nil && l.version == q.Version {
		l.version, l.lacked = at, true
		u.resolve(l, content)
	}
}

// Question asks whether any part has an object at Version or later, for Lacked.
type Question struct {
	Key     Key
	Version string
}

// Questions returns a question for each object that waits and that no part has, once for each leave.
func (u *Union[T]) Questions() (questions []Question) {
	for _, l := range u.leaves {
		if !l.asked && !l.removed && !slices.ContainsFunc(u.parts, func(p Part[T]) bool { return p.Has(l.key) }) {
			l.asked = true
			questions = append(questions, Question{l.key, l.version})
		}
	}
	return questions
}

// Remove removes a part. had are its objects, as of version.
func (u *Union[T]) Remove(p Part[T], version string, had []T, content Content[T]) {
	u.parts = slices.DeleteFunc(u.parts, func(other Part[T]) bool { return other == p })
	for _, l := range slices.Clone(u.waits[p]) {
		u.resolve(l, content)
	}
	for _, obj := range had {
		u.Left(keyOf(obj), version, obj, false, content)
	}
}
