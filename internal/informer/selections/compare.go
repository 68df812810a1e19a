package selections

import (
	"iter"
	"slices"

	"github.com/typedinformer/informer/internal/object"
)

// Copy is a union at one moment, to compare with its content at that moment. [Union.Copy] returns one.
type Copy[T object.Object] struct {
	parts  []*state[T]
	open   map[object.Key]bool // has a leave
	leaves []*leave[T]         // those that end
}

// Copy returns a copy. ok is false while a part has to list again, because the server was restored: then the union has
// no meaning.
func (u *Union[T]) Copy() (c *Copy[T], ok bool) {
	c = &Copy[T]{open: map[object.Key]bool{}}
	for _, s := range u.parts {
		if s.epoch < u.epoch && !s.refused {
			return nil, false
		}
		c.parts = append(c.parts, &state[T]{Part: s.Frozen(), namespace: s.namespace, epoch: s.epoch, refused: s.refused})
	}
	for key, l := range u.leaves {
		c.open[key] = true
		if !l.settled() {
			c.leaves = append(c.leaves, l)
		}
	}
	return c, true
}

// Concluded reports whether each object that had left some part when c was made has left the content, or is in another
// part. Such objects are not compared, since a part may lag behind.
func (u *Union[T]) Concluded(c *Copy[T]) bool {
	for _, l := range c.leaves {
		if !l.settled() {
			return false
		}
	}
	return true
}

// settled reports whether l waits for nothing, for a refused part, or for an object that can be decoded.
func (l *leave[T]) settled() bool {
	return l.over || l.kept != nil || l.removed && l.awaits != nil && l.awaits.refused
}

// Compare compares c with content, and calls differs for each difference: have is nil if the content lacks an object,
// and want is nil if no part has it. It returns the number of objects in parts, and how many of them are only in parts
// that the server refuses.
func (c *Copy[T]) Compare(content interface {
	Get(key object.Key) (T, bool)
	All() iter.Seq[T]
}, differs func(key object.Key, have, want T)) (objects, refused int) {
	u := &Union[T]{parts: c.parts}
	for i, s := range c.parts {
		for obj := range s.All() {
			key := object.KeyOf(obj)
			if inAny(c.parts[:i], key) {
				continue
			}
			if objects++; !inServed(c.parts, key) {
				refused++
			}
			want, _ := u.newest(key)
			have, ok := content.Get(key)
			if same := ok && (object.Same(have, want) || object.SameVersion(have, want)); !same && !c.open[key] {
				differs(key, have, want)
			}
		}
	}
	var none T
	for obj := range content.All() {
		if key := object.KeyOf(obj); !c.open[key] && !inAny(c.parts, key) {
			differs(key, obj, none)
		}
	}
	return objects, refused
}

// inAny reports whether one of these parts has an object with that key.
func inAny[T object.Object](parts []*state[T], key object.Key) bool {
	return slices.ContainsFunc(parts, func(s *state[T]) bool { return has(s.Part, key) })
}

// inServed is inAny of the parts that the server does not refuse.
func inServed[T object.Object](parts []*state[T], key object.Key) bool {
	return slices.ContainsFunc(parts, func(s *state[T]) bool { return !s.refused && has(s.Part, key) })
}

// Rebuild makes the content agree with the parts, whatever it has. had are its objects.
func (u *Union[T]) Rebuild(had []T, content Content[T]) {
	for _, obj := range had {
		u.refresh(object.KeyOf(obj), content)
	}
	for _, s := range u.parts {
		for obj := range s.All() {
			u.refresh(object.KeyOf(obj), content)
		}
	}
}
