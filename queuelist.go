package informer

import "time"

// entry is the state of a key.
type entry[K comparable] struct {
	key     K
	links   [2]link[K]    // in levels, working, awaited or idle, and in age
	ready   *generation   // the generation in which the key became ready; nil if the key is not ready
	working *generation   // the generation of the key in work; nil if the key is not in work
	at      time.Duration // when the delay ends; zero if the key is not delayed. Never set together with ready
	order   uint64        // orders entries with equal at
	index   int           // in delayed
	since   time.Duration // when the key became ready
	queued  time.Duration // when the key became ready and not in work: its place in Queue.age
	began   time.Duration // when the key was handed out
	level   uint8         // the level of the priority, while the key is ready or delayed
	given   uint8         // the level with which the key was handed out
	idle    bool          // the entry is in Queue.idle
	awaited bool          // the entry is in Queue.awaited. Then the key is neither ready, delayed nor in work
}

// generation counts the keys that became ready between two calls of WaitProcessed.
type generation struct {
	left int           // keys that are not done
	done chan struct{} // closed when this and all older generations have no keys left; nil in the newest
	next *generation   // nil in the newest
}

// unowned is a call of Queue.WaitReleased.
type unowned[K comparable] struct {
	left map[*entry[K]]struct{} // entries in work
	done chan struct{}          // closed when left is empty
}

// idleEntries is the number of entries that a queue keeps of keys that are done. Adding such a key again takes half the time in the
// map. A full queue of idle entries reuses the oldest one for another key. They take up to 1 MB.
const idleEntries = 4096

// link connects an entry with its neighbors in a chain.
type link[K comparable] struct{ next, prev *entry[K] }

// chain is a doubly linked list of entries.
type chain[K comparable] struct {
	first, last *entry[K]
	by          int // which of an entry's links it uses
}

const (
	byPlace = iota
	byAge
)

func (l *chain[K]) push(e *entry[K]) {
	e.links[l.by] = link[K]{prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.links[l.by].next = e
	}
	l.last = e
}

func (l *chain[K]) remove(e *entry[K]) {
	at := e.links[l.by]
	if at.prev == nil {
		l.first = at.next
	} else {
		at.prev.links[l.by].next = at.next
	}
	if at.next == nil {
		l.last = at.prev
	} else {
		at.next.links[l.by].prev = at.prev
	}
	e.links[l.by] = link[K]{}
}

// delays is a heap of entries, ordered by at, then by order. Each node has four children, which halves the levels of a
// binary heap.
type delays[K comparable] []*entry[K]

func (d delays[K]) before(a, b *entry[K]) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (d *delays[K]) push(e *entry[K]) {
	e.index = len(*d)
	*d = append(*d, e)
	d.up(e)
}

func (d *delays[K]) remove(e *entry[K]) {
	h := *d
	n := len(h) - 1
	last := h[n]
	h[n] = nil
	*d = h[:n]
	if last == e {
		return
	}
	last.index = e.index
	h[last.index] = last
	d.up(last)
	d.down(last)
}

// up moves e towards the root while it is before its parent.
func (d *delays[K]) up(e *entry[K]) {
	h, i := *d, e.index
	for i > 0 {
		parent := (i - 1) / 4
		if !d.before(e, h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].index = i
		i = parent
	}
	h[i], e.index = e, i
}

// down moves e away from the root while a child is before it.
func (d *delays[K]) down(e *entry[K]) {
	h, i := *d, e.index
	for {
		first := e
		for child := 4*i + 1; child < min(4*i+5, len(h)); child++ {
			if d.before(h[child], first) {
				first = h[child]
			}
		}
		if first == e {
			break
		}
		i, h[i] = first.index, first
		first.index, e.index = e.index, i
	}
	h[i] = e
}

// shrink frees the memory of an empty heap that was large.
func (d *delays[K]) shrink() {
	if cap(*d) > idleEntries {
		*d = nil
	}
}
