package queue

import "time"

// place says where a key waits. A key in work can wait too, in any place but awaited: it was added again.
//
//	  +------------ Add -------------+
//	  |                              v     not owned yet
//	nowhere -- Add later --> delayed --> ready ------> awaited
//	  ^                         |         |  ^------------'
//	  +-- Cancel, Next, Drain --+---------+
type place uint8

const (
	nowhere place = iota
	ready
	delayed
	awaited
)

// entry is the state of a key.
type entry[K comparable] struct {
	key    K
	place  place
	level  uint8         // the level of the priority, while the key waits
	given  uint8         // the level with which the key was handed out
	links  [2]link[K]    // in ranks, Queue.working, owner.awaited or pool.idle; and in ranks.age
	waits  *generation   // the generation in which the key became ready; nil if the key is not ready
	works  *generation   // the generation of the key in work; nil if the key is not in work
	due    time.Duration // when the delay ends; only while the place is delayed
	order  uint64        // orders entries with equal due
	index  int           // in delays
	since  time.Duration // when the key became ready
	queued time.Duration // when the key became ready and not in work: its place in ranks.age
	began  time.Duration // when the key was handed out
}

// link connects an entry with its neighbors in a chain.
type link[K comparable] struct{ next, prev *entry[K] }

// chain is a doubly linked list of entries.
type chain[K comparable] struct {
	first, last *entry[K]
	link        int // which of an entry's links it uses
	n           int // its length
}

const (
	byPlace = iota
	byAge
)

func (c *chain[K]) push(e *entry[K]) {
	e.links[c.link] = link[K]{prev: c.last}
	if c.last == nil {
		c.first = e
	} else {
		c.last.links[c.link].next = e
	}
	c.last = e
	c.n++
}

func (c *chain[K]) remove(e *entry[K]) {
	links := e.links[c.link]
	if links.prev == nil {
		c.first = links.next
	} else {
		links.prev.links[c.link].next = links.next
	}
	if links.next == nil {
		c.last = links.prev
	} else {
		links.next.links[c.link].prev = links.prev
	}
	e.links[c.link] = link[K]{}
	c.n--
}

// next returns the entry after e.
func (c *chain[K]) next(e *entry[K]) *entry[K] { return e.links[c.link].next }
