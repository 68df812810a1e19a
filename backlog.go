package informer

// backlog holds the changes that wait for one handler, in order. It is not safe for concurrent use.
//
// Unless every is set, it folds: it then has at most one entry a key, which leads from the object that the handler was
// given last to the latest one. A key that comes and goes unseen leaves a void entry, which is skipped.
type backlog[T Object] struct {
	every   bool // keep each change
	limit   int  // with every: how many changes may wait besides one for each key
	queue   []pending[T]
	head    int            // queue[:head] is taken
	first   uint64         // the number of queue[0], counted since the beginning
	byKey   map[Key]uint64 // the number of the key's last entry; nil while few entries wait, which are compared one by one
	void    int            // entries that wait and are void
	initial int            // initial additions that wait, and those that the owner has taken and not returned yet
}

// pending is what a handler will receive for one key: that old, if it was given one, is gone or was replaced by new.
type pending[T Object] struct {
	change[T]
	initial bool
	void    bool // it came and went unseen: there is nothing to deliver
}

// fewEntries is how many entries can be compared with a key in the time that the map takes.
const fewEntries = 8

// maxIdleQueue is how many entries an empty backlog keeps room for. An idle handler should cost next to nothing.
const maxIdleQueue = 16

// add appends c, or folds it into the entry of its key. Up to more changes follow it.
func (b *backlog[T]) add(c *change[T], initial bool, more int) {
	if !b.every {
		if p := b.find(c.key); p != nil {
			p.fold(c)
			if p.void {
				*p = pending[T]{initial: p.initial, void: true}
				b.void++
				delete(b.byKey, c.key)
			}
			return
		}
	}
	if len(b.queue) == cap(b.queue) && b.len() < len(b.queue)/2 {
		b.compact()
	}
	p := pending[T]{change: *c, initial: initial && c.added}
	if p.initial {
		b.initial++
	}
	b.queue = append(b.queue, p)
	switch last := len(b.queue) - 1; {
	case b.byKey != nil:
		b.byKey[c.key] = b.first + uint64(last)
	case last-b.head >= fewEntries:
		b.byKey = make(map[Key]uint64, last-b.head+1+more)
		for i := b.head; i <= last; i++ {
			if p := &b.queue[i]; !p.void {
				b.byKey[p.key] = b.first + uint64(i)
			}
		}
	}
}

// find returns the last entry of key that waits, or nil.
func (b *backlog[T]) find(key Key) *pending[T] {
	if b.byKey != nil {
		if number, ok := b.byKey[key]; ok {
			return &b.queue[number-b.first]
		}
		return nil
	}
	for i := len(b.queue) - 1; i >= b.head; i-- {
		if p := &b.queue[i]; p.key == key && !p.void {
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
		if b.byKey != nil && (!b.every || b.byKey[p.key] == number) {
			delete(b.byKey, p.key)
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

// drop removes all entries.
func (b *backlog[T]) drop() { b.queue, b.byKey, b.head, b.first, b.void = nil, nil, 0, 0, 0 }

// empty says whether take would return false, unless all entries are void.
func (b *backlog[T]) empty() bool { return b.head == len(b.queue) }

// len returns how many changes wait to be delivered.
func (b *backlog[T]) len() int { return len(b.queue) - b.head - b.void }

// full reports whether more changes wait than may.
func (b *backlog[T]) full() bool { return b.every && b.len() > b.limit && b.len()-b.keys() > b.limit }

// keys returns how many keys the changes have that wait.
func (b *backlog[T]) keys() (n int) {
	if b.byKey != nil {
		return len(b.byKey)
	}
	for i := b.head; i < len(b.queue); i++ {
		if b.find(b.queue[i].key) == &b.queue[i] {
			n++
		}
	}
	return n
}

// compact makes room by moving the entries that wait to the beginning of the queue, without the void ones.
func (b *backlog[T]) compact() {
	b.first += uint64(b.head)
	kept := b.queue[:0]
	for _, p := range b.queue[b.head:] {
		switch {
		case !p.void:
			if b.byKey != nil {
				b.byKey[p.key] = b.first + uint64(len(kept))
			}
			kept = append(kept, p)
		case p.initial:
			b.initial--
		}
	}
	clear(b.queue[len(kept):])
	b.queue, b.head, b.void = kept, 0, 0
}

// fold adds the change that follows.
func (p *pending[T]) fold(c *change[T]) {
	var none T
	p.new = c.new
	switch {
	case !c.deleted:
		p.added = p.added || c.added // an addition here follows a deletion that is still to be delivered
	case p.added && !p.deleted: // the handler was never given what is deleted
		p.void = c.new == none
	case !p.deleted: // the handler was given old, which was updated since
		p.deleted, p.last, p.final, p.added = true, c.last, c.final, c.added
	default: // what the handler was given is gone already, and so is what came after it
		p.added = c.added
	}
}
