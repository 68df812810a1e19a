package queue

import "slices"

// Ownership says whether a key may be handed out.
type Ownership uint8

const (
	// Foreign keys are dropped.
	Foreign Ownership = iota
	// Awaited keys are kept, and not handed out.
	Awaited
	// Owned keys are handed out.
	Owned
)

// ownership says which keys may be handed out, and has those that have to wait until they may.
type ownership[K comparable] struct {
	rule     func(K) Ownership // returns whether a key is Owned; nil if all keys are
	held     map[K]struct{}    // keys that are Awaited although they are Owned; see Queue.Hold
	awaited  chain[K]          // the keys that became ready while Awaited
	releases []*Release[K]
}

// restricts reports whether there may be keys that are not Owned.
func (o *ownership[K]) restricts() bool { return o.rule != nil || len(o.held) > 0 }

// get returns whether key may be handed out.
func (o *ownership[K]) get(key K) Ownership {
	owned := Owned
	if o.rule != nil {
		owned = o.rule(key)
	}
	if owned == Owned && len(o.held) > 0 {
		if _, ok := o.held[key]; ok {
			return Awaited
		}
	}
	return owned
}

func (o *ownership[K]) hold(key K) {
	if o.held == nil {
		o.held = map[K]struct{}{}
	}
	o.held[key] = struct{}{}
}

// letGo undoes hold.
func (o *ownership[K]) letGo(key K) {
	delete(o.held, key)
	if len(o.held) == 0 {
		o.held = nil // a map does not shrink
	}
}

func (o *ownership[K]) park(e *entry[K]) {
	e.place = awaited
	o.awaited.push(e)
}

func (o *ownership[K]) unpark(e *entry[K]) {
	e.place = nowhere
	o.awaited.remove(e)
}

// Release waits until none of some keys is in work.
type Release[K comparable] struct {
	left map[*entry[K]]struct{}
	done chan struct{} // closed when left is empty
}

// Done is closed when none of the keys is in work.
func (r *Release[K]) Done() <-chan struct{} { return r.done }

// released notes that the work on e has ended.
func (o *ownership[K]) released(e *entry[K]) {
	if len(o.releases) == 0 {
		return
	}
	o.releases = slices.DeleteFunc(o.releases, func(r *Release[K]) bool {
		delete(r.left, e)
		if len(r.left) > 0 {
			return false
		}
		close(r.done)
		return true
	})
}
