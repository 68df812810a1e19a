package informer

import (
	"github.com/typedinformer/informer/internal/deliver"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/compact"
	"github.com/typedinformer/informer/internal/store/table"
)

// Opened returns a store that decodes the objects of packed, which is not in use yet. lost has the objects that readers
// could not decode.
func Opened[T object.Object](packed *Store[*compact.Object], lost *compact.Failures) *Store[T] {
	var opener compact.Opener[T]
	s := &Store[T]{packed: packed}
	packed.show = func(next *Snapshot[*compact.Object], changes []change[*compact.Object]) {
		version := &next.version
		next.late = &late{version, lost}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Store(&Snapshot[T]{
			version: table.Opened(version, opener),
			sources: next.sources,
			late:    next.late,
			labels:  func(slot uint32) labels.Labels { return version.Shared(slot).Labels() },
		})
		s.notifyLocked()
		if s.board.Waits() {
			s.board.Reached(arrivals[T]{s.Snapshot()}, deliver.Keys(changes))
		}
	}
	packed.show(packed.Snapshot(), nil)
	return s
}

// late are the objects of a snapshot with that version that readers could not decode. Nil has none.
type late struct {
	version *table.Version[*compact.Object]
	lost    *compact.Failures
}

// failure returns why the object with that key could not be decoded when it was read, or nil if it could.
func (l *late) failure(key object.Key) error {
	if l == nil {
		return nil
	}
	if p := l.get(key); p != nil {
		return p.Failed()
	}
	return nil
}

func (l *late) get(key object.Key) *compact.Object {
	_, p, _ := l.version.Find(key)
	return p
}

// failures returns all objects with a failure.
func (l *late) failures() (all []Failed) {
	if l == nil {
		return nil
	}
	for _, p := range l.lost.In(func(namespace, name string) *compact.Object {
		return l.get(object.Key{Namespace: namespace, Name: name})
	}) {
		all = append(all, Failed{object.KeyOf(p), p.Failed(), true})
	}
	return all
}
