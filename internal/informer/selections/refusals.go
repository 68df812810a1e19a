package selections

import (
	"iter"

	"github.com/typedinformer/informer/internal/object"
)

// Refuse reports that the server refuses p. Nothing waits for p any more, and what it has gives way to whatever is
// newer, until Update reports a step of it.
func (u *Union[T]) Refuse(p Part[T], content Content[T]) {
	if s := u.of(p); s != nil {
		s.refused = true
		u.advance(s, content)
	}
}

// Reshape reports that p, which the server refuses, may have others of the objects that it keeps, since the shard has
// changed.
func (u *Union[T]) Reshape(p Part[T], keeps iter.Seq[T], content Content[T]) {
	s := u.of(p)
	if s == nil {
		return
	}
	for obj := range keeps {
		key := object.KeyOf(obj)
		if _, ok := content.Get(key); ok {
			u.refresh(key, content)
		} else if has(p, key) {
			u.entered(s, obj, content)
		}
	}
	u.reshaped(s, content)
}

// serve notes that the server refuses s no more.
func (u *Union[T]) serve(s *state[T]) {
	if !s.refused {
		return
	}
	s.refused = false
	for _, l := range u.leaves {
		if l.awaits == s {
			u.wait(l, s)
		}
	}
}
