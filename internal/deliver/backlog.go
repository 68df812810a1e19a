package deliver

import (
	"time"

	"github.com/typedinformer/informer/internal/object"
)

// backlog holds the changes that wait for one handler, in order. It is not safe for concurrent use.
//
// Without a limit, it folds changes: it has at most one entry per key, from the object that the handler received
// last to the latest one. If an object is added and deleted before the handler receives it, its entry becomes void. A
// void entry is not delivered.
type backlog[T object.Object] struct {
	limit   int // how many changes may wait besides one for each key; zero folds the changes of a key
	queue   []pending[T]
	head    int                   // queue[:head] has been taken
	first   uint64                // the number of queue[0], counting all entries since the beginning
	byKey   map[object.Key]uint64 // the number of the key's last entry; nil while few entries wait: find then scans them
	void    int                   // waiting entries that are void
	initial int                   // initial changes that wait or that the handler is processing
	loaded  bool                  // it has received all initial changes
}

// pending is the change that a handler will receive for one key: from old, if the handler has it, to new or a deletion.
type pending[T object.Object] struct {
	Change[T]
	arrival time.Duration // when the first of its folded changes came
	initial bool
	void    bool // added and deleted before the handler received it: there is nothing to deliver
}

// fewEntries is the number of entries that a scan compares in the time of a map lookup.
const fewEntries = 8

// maxIdleQueue is the capacity that an empty backlog keeps, in entries. An idle handler should cost next to nothing.
const maxIdleQueue = 16

// add appends c, or folds it into the entry of its key. initial means that c is one of those that the listener waits
// for to be synced. now must not precede that of earlier calls. more is the maximum number of changes that follow,
// which sizes the map.
func (b *backlog[T]) add(c *Change[T], initial bool, now time.Duration, more int) {
	if b.limit == 0 {
		if p := b.find(c.Key); p != nil {
			p.fold(c)
			if p.void {
				*p = pending[T]{initial: p.initial, void: true}
				b.void++
				delete(b.byKey, c.Key)
			}
			return
		}
	}
	if len(b.queue) == cap(b.queue) && b.len() < len(b.queue)/2 {
		b.compact()
	}
	p := pending[T]{Change: *c, arrival: now, initial: initial}
	if p.initial {
		b.initial++
	}
	b.queue = append(b.queue, p)
	switch last := len(b.queue) - 1; {
	case b.byKey != nil:
		b.byKey[c.Key] = b.first + uint64(last)
	case last-b.head >= fewEntries:
		b.byKey = make(map[object.Key]uint64, last-b.head+1+more)
		for i := b.head; i <= last; i++ {
			if p := &b.queue[i]; !p.void {
				b.byKey[p.Key] = b.first + uint64(i)
			}
		}
	}
}

// find returns the last waiting entry of key, or nil.
func (b *backlog[T]) find(key object.Key) *pending[T] {
	if b.byKey != nil {
		if number, ok := b.byKey[key]; ok {
			return &b.queue[number-b.first]
		}
		return nil
	}
	for i := len(b.queue) - 1; i >= b.head; i-- {
		if p := &b.queue[i]; p.Key == key && !p.void {
			return p
		}
	}
	return nil
}

// take moves the first entry to *p. It returns false if there is none.
func (b *backlog[T]) take(p *pending[T]) bool {
	for b.head < len(b.queue) {
		number := b.first + uint64(b.head)
		*p = b.queue[b.head]
		b.queue[b.head] = pending[T]{}
		b.head++
		if p.void {
			b.void--
			if p.initial {
				b.initial--
			}
			continue
		}
		if b.byKey != nil && (b.limit == 0 || b.byKey[p.Key] == number) {
			delete(b.byKey, p.Key)
		}
		return true
	}
	*p = pending[T]{}
	b.first += uint64(b.head)
	b.queue, b.head, b.byKey = b.queue[:0], 0, nil
	if cap(b.queue) > maxIdleQueue {
		b.queue = nil
	}
	return false
}

// oldest returns the first waiting entry, or nil.
func (b *backlog[T]) oldest() *pending[T] {
	for i := b.head; i < len(b.queue); i++ {
		if p := &b.queue[i]; !p.void {
			return p
		}
	}
	return nil
}

// drop removes all entries.
func (b *backlog[T]) drop() { b.queue, b.byKey, b.head, b.first, b.void = nil, nil, 0, 0, 0 }

// empty reports whether the queue has no entries. take also returns false if all entries are void.
func (b *backlog[T]) empty() bool { return b.head == len(b.queue) }

// len returns the number of changes to deliver.
func (b *backlog[T]) len() int { return len(b.queue) - b.head - b.void }

// full reports whether more changes wait than limit allows.
func (b *backlog[T]) full() bool {
	return b.limit > 0 && b.len() > b.limit && b.len()-b.keys() > b.limit
}

// keys returns the number of distinct keys of the waiting changes.
func (b *backlog[T]) keys() (n int) {
	if b.byKey != nil {
		return len(b.byKey)
	}
	for i := b.head; i < len(b.queue); i++ {
		if b.find(b.queue[i].Key) == &b.queue[i] {
			n++
		}
	}
	return n
}

// compact makes room: it moves the waiting entries to the beginning of the queue and removes void ones.
func (b *backlog[T]) compact() {
	b.first += uint64(b.head)
	kept := b.queue[:0]
	for _, p := range b.queue[b.head:] {
		switch {
		case !p.void:
			if b.byKey != nil {
				b.byKey[p.Key] = b.first + uint64(len(kept))
			}
			kept = append(kept, p)
		case p.initial:
			b.initial--
		}
	}
	clear(b.queue[len(kept):])
	b.queue, b.head, b.void = kept, 0, 0
}

// fold adds the next change of the same key to p.
func (p *pending[T]) fold(c *Change[T]) {
	p.New = c.New
	switch {
	case !c.Deleted:
		p.Added = p.Added || c.Added // c.Added: p has a deletion to deliver first
	case p.Added && !p.Deleted: // the handler never received the deleted object
		p.void = object.IsNil(c.New)
	case !p.Deleted: // the handler has a version of the deleted object
		p.Deleted, p.Last, p.Final, p.Added = true, c.Last, c.Final, c.Added
	default: // p has a deletion already; the handler never received the object that c deletes
		p.Added = c.Added
	}
}
