package informer

import (
	"sync"
	"sync/atomic"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/informer/edits"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/store/arrival"
	"github.com/typedinformer/informer/internal/store/compact"
	"github.com/typedinformer/informer/internal/store/table"
)

// Store is the state of an informer.Store. Readers take its present snapshot; writers are serialized by its lock. Its
// methods are safe for concurrent use.
//
// Invariant: while nobody has the lock, the table has the objects and the indexes of the present snapshot. An edit that
// does not end leaves both as they were.
type Store[T object.Object] struct {
	current atomic.Pointer[Snapshot[T]]
	packed  *Store[*compact.Object]                 // has the indexes, in place of table; nil for none
	show    func(*Snapshot[T], []deliver.Change[T]) // called with each snapshot before it is published; nil for none
	same    func(a, b T) bool                       // reports whether two objects are equal
	// values means that the objects come from functions of the program; see fetch.Source.HasValues. An object may lack a
	// name, and one with a known UID and resource version may have new content.
	values bool

	mu    sync.Mutex           // serializes writers; protects the fields below
	wake  chan struct{}        // closed at the next publication; nil if nothing waits
	table table.Table[T]       // makes the versions of the snapshots
	reads []reflector.Delta[T] // scratch memory of Apply

	board arrival.Board // has a lock of its own
}

// NewStore returns an empty store, whose objects are equal if same returns true. It panics if == is not defined for T.
func NewStore[T object.Object](same func(a, b T) bool) *Store[T] {
	s := &Store[T]{same: same}
	s.current.Store(&Snapshot[T]{version: table.Empty[T]()})
	return s
}

// NewDecodedStore returns an empty store of decoded objects.
func NewDecodedStore[T object.Object]() *Store[T] { return NewStore(intake.Unpacked[T]{}.SameContent) }

// Snapshot returns the current state. It costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return s.current.Load() }

// AddIndex adds x to the store. The current snapshot has it when AddIndex returns.
func (s *Store[T]) AddIndex(x table.AnyIndex[T]) {
	if s.packed != nil {
		s.packed.AddIndex(table.OpenedIndex(x, compact.Opener[T]{}))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var w edit[T]
	w.beginLocked(s)
	w.AddIndex(x)
	w.publishLocked()
}

// Scratch returns memory for the deltas of an Apply. It takes no closure, since that would move the caller's deltas to
// the heap.
func (s *Store[T]) Scratch() []reflector.Delta[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = nil
	return reads
}

// Apply applies batch, in memory of Scratch, in one step. If a delta is invalid, Apply returns an error and does
// nothing.
func (s *Store[T]) Apply(batch []reflector.Delta[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		clear(batch) // it must not keep objects in memory
		if s.reads = batch[:0]; cap(batch) > maxScratch {
			s.reads = nil
		}
	}()
	_, err := s.applyLocked(batch, edits.Edit[T]{Quiet: true})
	return err
}

// maxScratch is the capacity above which scratch memory for deltas or changes is dropped: only a list has that many,
// and lists are rare.
const maxScratch = 1024

// Published returns a channel that is closed at the next publication. Take the channel before the snapshot, to miss no
// publication.
func (s *Store[T]) Published() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

// notifyLocked wakes those who wait for a publication: it closes the channel that Published returned.
func (s *Store[T]) notifyLocked() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Await calls arrived once the store has want, unless cancel is called first. It returns nil if the store has it
// already.
func (s *Store[T]) Await(want arrival.Want, arrived func()) (cancel func()) {
	wait := s.board.Add(want, func() arrival.State { return arrivals[T]{s.Snapshot()} }, arrived)
	if wait == nil {
		return nil
	}
	return func() { s.board.Cancel(wait) }
}

// Check returns an error that names a broken invariant of the current snapshot, or nil. It takes long.
func (s *Store[T]) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.Snapshot()
	if err := s.table.Check(&next.version); err != nil {
		return err
	}
	return next.sources.Check()
}

// Edits returns how many edits have begun.
func (s *Store[T]) Edits() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Edits()
}
