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
	byKey   map[Key]uint64 // the number of the key's last entry
	initial int            // initial additions that wait, and those that the owner has taken and not returned yet
}

// pending is what a handler will receive for one key: that old, if it was given one, is gone or was replaced by new.
type pending[T Object] struct {
	change[T]
	initial bool
	void    bool // it came and went unseen: there is nothing to deliver
}

// maxIdleQueue is how many entries an empty backlog keeps room for. An idle handler should cost next to nothing.
const maxIdleQueue = 16

// reserve makes room for the changes of n keys in a new backlog.
func (b *backlog[T]) reserve(n int) {
	if b.byKey == nil {
		b.byKey = make(map[Key]uint64, n)
	}
}

// add appends c, or folds it into the entry of its key. reserve comes before it.
func (b *backlog[T]) add(c *change[T], initial bool) {
	if number, ok := b.byKey[c.key]; ok && !b.every {
		p := &b.queue[number-b.first]
		p.fold(c)
		if p.void {
			*p = pending[T]{initial: p.initial, void: true}
			delete(b.byKey, c.key)
		}
		return
	}
	if len(b.queue) == cap(b.queue) && len(b.byKey) < len(b.queue)/2 {
		b.compact()
	}
	b.byKey[c.key] = b.first + uint64(len(b.queue))
	p := pending[T]{change: *c, initial: initial && c.added}
	if p.initial {
		b.initial++
	}
	b.queue = append(b.queue, p)
}

// take moves the first entry to *p. It returns false if there is none.
func (b *backlog[T]) take(p *pending[T]) bool {
	for b.head < len(b.queue) {
		number := b.first + uint64(b.head)
		*p = b.queue[b.head]
		b.queue[b.head] = pending[T]{}
		b.head++
		if p.void {
			if p.initial {
				b.initial--
			}
			continue
		}
		if !b.every || b.byKey[p.key] == number {
			delete(b.byKey, p.key)
		}
		return true
	}
	*p = pending[T]{}
	b.first += uint64(b.head)
	b.queue, b.head = b.queue[:0], 0
	if cap(b.queue) > maxIdleQueue {
		b.queue, b.byKey = nil, nil
	}
	return false
}

// drop removes all entries.
func (b *backlog[T]) drop() { b.queue, b.byKey, b.head, b.first = nil, nil, 0, 0 }

// empty says whether take would return false, unless all entries are void.
func (b *backlog[T]) empty() bool { return b.head == len(b.queue) }

// len returns how many entries wait.
func (b *backlog[T]) len() int {
	if b.every {
		return len(b.queue) - b.head
	}
	return len(b.byKey)
}

// full says whether more changes wait than may.
func (b *backlog[T]) full() bool { return b.every && len(b.queue)-b.head-len(b.byKey) > b.limit }

// compact makes room by moving the entries that wait to the beginning of the queue, without the void ones.
func (b *backlog[T]) compact() {
	b.first += uint64(b.head)
	kept := b.queue[:0]
	for _, p := range b.queue[b.head:] {
		switch {
		case !p.void:
			b.byKey[p.key] = b.first + uint64(len(kept))
			kept = append(kept, p)
		case p.initial:
			b.initial--
		}
	}
	clear(b.queue[len(kept):])
	b.queue, b.head = kept, 0
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
