// Package union computes the union of overlapping collections: the objects that at least one of them has.
//
// Each part of the union reports its own changes in order, but one part may lag behind another. If one write moves an
// object between two parts, it may leave the first before it enters the second. So an object that no part has stays
// until every part that could have it knows the write that removed it.
package union

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/pointer"
	"github.com/typedinformer/informer/internal/sources"
)

// Key names an object.
type Key = types.NamespacedName

// Object is the metadata that a union compares.
type Object interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Part is one of the collections. A type of Part must be comparable.
type Part[T Object] interface {
	// Get returns the object with that key that the part has now.
	Get(key Key) (T, bool)
	// Covers reports whether the part can have objects of a namespace.
	Covers(namespace string) bool
	// Knows reports whether the part has every change up to a resource version.
	Knows(version string) bool
}

// Content is the content of the union. Only methods of a Union call its methods.
type Content[T Object] interface {
	Get(key Key) (T, bool)
	Put(obj T)
	// Remove removes an object. last is its last state, and final reports whether the server sent that.
	Remove(key Key, last T, final bool)
}

// Union is a union of parts. It is not safe for concurrent use: a part changes only together with the call that reports
// the change. [New] returns one.
//
// Invariant: leaves has the leave of an object while some part that covers the object does not know the version of the
// leave. The leave waits for one such part. Meanwhile, no older state of the object enters the content. As soon as
// every part knows the version, the content has the newest state of any part.
type Union[T Object] struct {
	parts  []Part[T]
	leaves map[Key]*leave[T]
	waits  map[Part[T]][]*leave[T] // the lowest version first; some wait for another part by now, or are over
}

// leave says that an object has left a part.
type leave[T Object] struct {
	key     Key
	version string // the highest version of a leave of this object
	last    T
	final   bool
	awaits  Part[T] // a part that does not know the version
	asked   bool    // Questions has returned it
	removed bool    // from the content, although a part does not know the version
	over    bool
}

// New returns a union without parts.
func New[T Object]() *Union[T] {
	return &Union[T]{leaves: map[Key]*leave[T]{}, waits: map[Part[T]][]*leave[T]{}}
}

// Add adds a part that has no objects yet.
func (u *Union[T]) Add(p Part[T]) { u.parts = append(u.parts, p) }

// Contains reports whether p is a part.
func (u *Union[T]) Contains(p Part[T]) bool { return slices.Contains(u.parts, p) }

// Entered reports that obj has entered a part, in place of old if old is not nil.
func (u *Union[T]) Entered(old, obj T, content Content[T]) {
	key := keyOf(obj)
	if l := u.leaves[key]; l != nil && !sources.Older(obj.GetResourceVersion(), l.version) {
		u.end(l)
	}
	have, ok := content.Get(key)
	switch {
	case !ok && u.leaves[key] != nil: // the part may be behind
	// The successor of the present state in a part is the next state, even if a restored server counts from a lower
	// version.
	case !ok, isVersion(have, old), isNewer(obj, have):
		content.Put(obj)
	}
}

func keyOf[T Object](obj T) Key { return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()} }

// isVersion reports whether other, which may be nil, is the same version of the same object as have.
func isVersion[T Object](have, other T) bool {
	return !pointer.IsNil(other) && have.GetUID() == other.GetUID() &&
		have.GetResourceVersion() == other.GetResourceVersion()
}

// isNewer reports whether obj is another version than have and does not precede it.
func isNewer[T Object](obj, have T) bool {
	return !isVersion(have, obj) && !sources.Older(obj.GetResourceVersion(), have.GetResourceVersion())
}

// Left reports that an object has left a part, which has every change up to version. last is the last state of the
// object there, and final reports whether the server sent that. If now is true, the object leaves the content at once
// unless another part has it.
func (u *Union[T]) Left(key Key, version string, last T, final, now bool, content Content[T]) {
	l := u.leaves[key]
	if l == nil || !sources.Older(version, l.version) {
		l = u.replace(l, leave[T]{key: key, version: version, last: last, final: final})
	}
	if _, has := u.newest(key); now && !has {
		u.remove(l, content)
	}
	u.settle(l, content)
}

// replace records l in place of old, which may be nil.
func (u *Union[T]) replace(old *leave[T], l leave[T]) *leave[T] {
	if old != nil {
		l.removed = old.removed
		u.end(old)
	}
	u.leaves[l.key] = &l
	return &l
}

// end drops l.
func (u *Union[T]) end(l *leave[T]) {
	l.over = true
	delete(u.leaves, l.key)
}

// remove removes the object of l from the content.
func (u *Union[T]) remove(l *leave[T], content Content[T]) {
	if !l.removed {
		l.removed = true
		content.Remove(l.key, l.last, l.final)
	}
}

// newest returns the newest state of an object that a part has.
func (u *Union[T]) newest(key Key) (newest T, ok bool) {
	for _, p := range u.parts {
		if !p.Covers(key.Namespace) {
			continue
		}
		if obj, has := p.Get(key); has && (!ok || isNewer(obj, newest)) {
			newest, ok = obj, true
		}
	}
	return newest, ok
}

// settle ends l if each part knows its version. Otherwise, l waits for one that does not.
func (u *Union[T]) settle(l *leave[T], content Content[T]) {
	for _, p := range u.parts {
		if !p.Covers(l.key.Namespace) || p.Knows(l.version) {
			continue
		}
		if l.awaits != p {
			u.wait(l, p)
		}
		return
	}
	u.conclude(l, content)
}

// conclude ends l, and makes the content agree with the parts on its object.
func (u *Union[T]) conclude(l *leave[T], content Content[T]) {
	u.end(l)
	newest, has := u.newest(l.key)
	if !has {
		u.remove(l, content)
	} else if have, ok := content.Get(l.key); !ok || !isVersion(have, newest) {
		content.Put(newest)
	}
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

// take removes the first n waits of p, and returns those that still wait for p.
func (u *Union[T]) take(p Part[T], n int) (taken []*leave[T]) {
	for _, l := range u.waits[p][:n] {
		if !l.over && l.awaits == p {
			l.awaits = nil
			taken = append(taken, l)
		}
	}
	if u.waits[p] = slices.Delete(u.waits[p], 0, n); len(u.waits[p]) == 0 {
		delete(u.waits, p)
	}
	return taken
}

// Advanced reports that p has reached a later version, or that leaves need no longer wait for it.
func (u *Union[T]) Advanced(p Part[T], content Content[T]) {
	n := 0
	for _, l := range u.waits[p] {
		if !l.over && p.Covers(l.key.Namespace) && !p.Knows(l.version) {
			break
		}
		n++
	}
	for _, l := range u.take(p, n) {
		u.settle(l, content)
	}
}

// WentBack reports that p follows a server that was restored, and has reached a lower version than before. The versions
// of earlier leaves mean nothing any more.
func (u *Union[T]) WentBack(p Part[T], content Content[T]) {
	for _, l := range u.take(p, len(u.waits[p])) {
		u.conclude(l, content)
	}
}

// Question asks whether any part has an object at Version or later, for Lacked.
type Question struct {
	Key     Key
	Version string
}

// Questions returns up to limit questions, about waiting objects that no part has. It returns each question once; see
// Unanswered.
func (u *Union[T]) Questions(limit int) (questions []Question) {
	for _, l := range u.leaves {
		if len(questions) == limit {
			break
		}
		if l.asked || l.removed {
			continue
		}
		if _, has := u.newest(l.key); !has {
			l.asked = true
			questions = append(questions, Question{l.key, l.version})
		}
	}
	return questions
}

// Open reports whether q still needs an answer.
func (u *Union[T]) Open(q Question) bool {
	l := u.leaves[q.Key]
	return l != nil && l.version == q.Version && !l.removed
}

// Unanswered makes Questions return q again.
func (u *Union[T]) Unanswered(q Question) {
	if u.Open(q) {
		u.leaves[q.Key].asked = false
	}
}

// Lacked answers q: no part had the object at the server's version at, which does not precede that of q.
func (u *Union[T]) Lacked(q Question, at string, content Content[T]) {
	if !u.Open(q) {
		return
	}
	old := u.leaves[q.Key]
	l := u.replace(old, leave[T]{key: q.Key, version: at, last: old.last, final: old.final})
	u.remove(l, content)
	u.settle(l, content)
}

// Remove removes a part. had are its objects, as of version.
func (u *Union[T]) Remove(p Part[T], version string, had []T, content Content[T]) {
	u.parts = slices.DeleteFunc(u.parts, func(other Part[T]) bool { return other == p })
	for _, l := range u.take(p, len(u.waits[p])) {
		u.settle(l, content)
	}
	for _, obj := range had {
		u.Left(keyOf(obj), version, obj, false, true, content)
	}
}
