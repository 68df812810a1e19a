package controller

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/histogram"
	"github.com/typedinformer/informer/status"
)

// Holds are the keys that wait until stores hold the writes for them. The zero value has none. All methods are
// safe for concurrent use.
//
// Invariant: a key that was held is let go exactly once: when the last of its waits ends, or at the deadline.
type Holds struct {
	mu     sync.Mutex // protects the fields below
	status status.OwnWrites
	held   map[*hold]struct{} // those that wait
}

// Await begins to wait. It calls done once when the wait is over, unless the caller calls cancel first. If there is
// nothing to wait for, it returns nil and does not call done. done may take locks of a queue.
type Await func(done func()) (cancel func())

// Held is a key to hold.
type Held struct {
	// Hold holds the key, or returns false if it cannot. LetGo ends that.
	Hold  func() bool
	LetGo func()
	// Deadline is the time after which LetGo is called at the latest. Late is called before it then.
	Deadline time.Duration
	Late     func()
}

// hold is a key that is held.
type hold struct {
	holds *Holds
	held  Held
	began time.Time

	mu      sync.Mutex // protects the fields below; after Holds.mu
	left    int        // the waits that are not over, and one for Holds.Hold
	over    bool
	timer   *time.Timer // calls expire; nil before the first wait has begun
	cancels []func()
}

// Hold holds a key until all waits are over. If there is nothing to wait for, the key is not held when Hold returns.
func (h *Holds) Hold(held Held, waits []Await) {
	if len(waits) == 0 {
		return
	}
	k := &hold{holds: h, held: held, began: time.Now(), left: 1}
	if !held.Hold() { // before a wait ends
		return
	}
	var cancels []func()
	for _, await := range waits {
		k.add(1)
		if cancel := await(k.done); cancel != nil {
			cancels = append(cancels, cancel)
		} else {
			k.add(-1)
		}
	}
	if len(cancels) == 0 {
		held.LetGo()
		return
	}
	h.mu.Lock()
	h.status.Waiting++
	if h.held == nil {
		h.held = map[*hold]struct{}{}
	}
	h.held[k] = struct{}{}
	k.mu.Lock()
	k.cancels = cancels
	k.timer = time.AfterFunc(held.Deadline, k.expire)
	k.mu.Unlock()
	h.mu.Unlock()
	k.done()
}

func (k *hold) add(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left += n
}

// done notes that a wait is over.
func (k *hold) done() {
	k.mu.Lock()
	k.left--
	last := k.left == 0 && !k.over
	if last {
		k.over = true
		k.timer.Stop()
	}
	k.mu.Unlock()
	if last {
		k.end(false)
	}
}

// expire is called at the deadline.
func (k *hold) expire() {
	if k.cancel() {
		k.held.Late()
		k.end(true)
	}
}

// cancel ends the waits that are not over. It returns false if there are none.
func (k *hold) cancel() bool {
	k.mu.Lock()
	waits := !k.over
	k.over = true
	k.timer.Stop()
	cancels := k.cancels
	k.mu.Unlock()
	if !waits {
		return false
	}
	for _, cancel := range cancels {
		cancel()
	}
	return true
}

func (k *hold) end(late bool) {
	h := k.holds
	h.mu.Lock()
	delete(h.held, k)
	h.status.Waiting--
	histogram.Add(&h.status.Waits, time.Since(k.began))
	if late {
		h.status.Expired++
	}
	h.mu.Unlock()
	k.held.LetGo()
}

// End lets all keys go that are held now.
func (h *Holds) End() {
	h.mu.Lock()
	held := slices.Collect(maps.Keys(h.held))
	h.mu.Unlock()
	for _, k := range held {
		if k.cancel() {
			k.end(false)
		}
	}
}

// Status returns the present status.
func (h *Holds) Status() status.OwnWrites {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status
}
