package queue

import (
	"iter"
	"math"
	"slices"
	"time"

	"github.com/typedinformer/informer/internal/histogram"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// fallAtOnce is the number of delayed keys that one call of Fall makes ready, which takes about 20 us.
const fallAtOnce = 64

// Queue keeps the keys that a queue holds, and decides which is next.
type Queue[K comparable] struct {
	// Ready holds a token while Next may have something to return, and when the queue has ended.
	Ready chan struct{}
	// Drained is closed when the last key of a Drain is done. Closed is closed by Close, unless Drained is closed.
	Drained, Closed chan struct{}

	now     func() time.Duration // the time since some moment
	state   status.QueueState
	keys    pool[K]
	ranks   ranks[K]
	depth   [Levels]int // ready keys, including keys in work that were added again
	working chain[K]    // the keys in work, the longest first
	delayed delays[K]
	order   uint64 // counts the delays
	owner   ownership[K]
	turns   generations
	counts  status.Queue // only what is counted; Status has the rest
}

// New returns an empty queue. The function now returns the time since a moment that the caller chooses.
func New[K comparable](now func() time.Duration) *Queue[K] {
	return &Queue[K]{
		now:     now,
		Ready:   make(chan struct{}, 1),
		Drained: make(chan struct{}),
		Closed:  make(chan struct{}),
		keys:    pool[K]{entries: map[K]*entry[K]{}},
		ranks:   ranks[K]{age: chain[K]{link: byAge}},
		turns:   newGenerations(),
	}
}

// Want says how to add a key.
type Want struct {
	Level uint8
	// After is the delay until the key is ready. Zero and below mean none.
	After time.Duration
	// Retry counts the key as a retry. With Inherit, a retry of a key in work gets the level with which the key was handed
	// out.
	Retry, Inherit bool
}

// Add adds key. A key that waits already gets the higher of both levels and the earlier of both times. Add returns
// false if the key is Foreign.
func (q *Queue[K]) Add(key K, w Want) bool {
	if q.state != status.QueueOpen {
		q.counts.Refused++
		return true
	}
	owned := q.owner.get(key)
	if owned == Foreign {
		q.counts.Foreign++
		return false
	}
	e := q.keys.take(key)
	level := w.Level
	if w.Retry {
		q.counts.Retries++
		if w.Inherit && e.works != nil {
			level = e.given
		}
	}
	if e.place != nowhere {
		level = min(level, e.level)
	}
	if e.place == awaited && owned == Owned { // it has become owned since
		q.owner.unpark(e)
		w.After = 0
	}
	switch {
	case e.place == ready:
		q.moveUp(e, level)
	case e.place == awaited:
		e.level = level
	case w.After > 0:
		e.level = level
		q.delay(e, w.After)
	default:
		if e.place == delayed {
			q.undelay(e)
		}
		e.level = level
		q.makeReady(e)
	}
	return true
}

// Turn is a key that was handed out.
type Turn[K comparable] struct {
	Key    K
	Level  uint8
	Waited time.Duration // since the key became ready
}

// Next hands out a key, which is in work until Done or PutBack. ok is false if no key is ready. Next keeps keys that
// are Awaited, and drops and returns those that are Foreign.
func (q *Queue[K]) Next() (turn Turn[K], ok bool, foreign []K) {
	e, foreign := q.nextOwned()
	if e == nil {
		return Turn[K]{}, false, foreign
	}
	q.ranks.remove(e)
	q.depth[e.level]--
	q.working.push(e)
	e.works, e.waits = e.waits, nil
	e.place = nowhere
	e.given = e.level
	e.began = q.now()
	if q.ranks.age.first != nil || q.Ended() {
		run.Signal(q.Ready)
	}
	waited := e.began - e.since
	histogram.Add(&q.counts.Waits, waited)
	return Turn[K]{e.key, e.given, waited}, true, foreign
}

// nextOwned returns the key to hand out, or nil, and the keys that it has dropped.
func (q *Queue[K]) nextOwned() (e *entry[K], foreign []K) {
	for e = q.ranks.next(); e != nil && q.owner.restricts(); e = q.ranks.next() {
		owned := q.owner.get(e.key)
		if owned == Owned {
			break
		}
		q.unready(e)
		if owned == Awaited && q.state == status.QueueOpen {
			q.owner.park(e)
			continue
		}
		foreign = append(foreign, e.key)
		q.counts.Foreign++
		q.keys.release(e)
		q.settle()
	}
	return e, foreign
}

// Done ends the work on key. It returns how long that took, and the level with which the key was handed out. ok is
// false if the key is not in work.
func (q *Queue[K]) Done(key K) (worked time.Duration, level uint8, ok bool) {
	e := q.keys.find(key)
	if e == nil || e.works == nil {
		return 0, 0, false
	}
	now := q.now()
	worked = now - e.began
	histogram.Add(&q.counts.Works, worked)
	q.done(e, now)
	return worked, e.given, true
}

func (q *Queue[K]) done(e *entry[K], now time.Duration) {
	q.working.remove(e)
	q.turns.leave(e.works)
	e.works = nil
	q.owner.released(e)
	if e.place == ready {
		q.enqueue(e, now)
	} else {
		q.keys.release(e)
	}
	q.settle()
}

// PutBack undoes the Next that handed key out, unless Done has been called. The key is ready again at its priority,
// behind the other ready keys.
func (q *Queue[K]) PutBack(key K) {
	e := q.keys.find(key)
	if e == nil || e.works == nil {
		return
	}
	if q.state == status.QueueClosed {
		q.done(e, q.now())
		return
	}
	level := e.given
	if e.place != nowhere { // added meanwhile
		level = min(level, e.level)
	}
	if e.place == ready {
		q.moveUp(e, level)
		q.turns.leave(e.waits)
	} else {
		if e.place == delayed {
			q.undelay(e)
		}
		e.place, e.level = ready, level
		q.depth[level]++
	}
	q.working.remove(e)
	q.owner.released(e)
	e.waits, e.works = e.works, nil // the old generation, so a Mark still waits for the key
	q.enqueue(e, q.now())
}

// Cancel removes key if it waits, and reports whether it did. Work on it continues.
func (q *Queue[K]) Cancel(key K) bool {
	e := q.keys.find(key)
	if e == nil || e.place == nowhere {
		return false
	}
	switch e.place {
	case ready:
		q.unready(e)
	case delayed:
		q.undelay(e)
	case awaited:
		q.owner.unpark(e)
	}
	q.keys.release(e)
	q.settle()
	return true
}

// Due returns when the first delay ends. ok is false if no key is delayed.
func (q *Queue[K]) Due() (due time.Duration, ok bool) {
	if len(q.delayed) == 0 {
		return 0, false
	}
	return q.delayed[0].due, true
}

// Fall makes keys ready whose delay has ended, but not many at once. It reports whether there may be more.
func (q *Queue[K]) Fall() (more bool) {
	now := q.now()
	for range fallAtOnce {
		if due, ok := q.Due(); !ok || due > now {
			return false
		}
		e := q.delayed[0]
		q.undelay(e)
		q.makeReady(e)
	}
	return true
}

// Own makes the queue hand out a key only while rule returns Owned for it. A nil rule means always. Own goes through
// the keys that are awaited: they become ready, or are dropped and returned.
func (q *Queue[K]) Own(rule func(K) Ownership) (foreign []K) {
	q.owner.rule = rule
	for e := q.owner.awaited.first; e != nil; {
		next := q.owner.awaited.next(e)
		switch q.owner.get(e.key) {
		case Owned:
			q.owner.unpark(e)
			q.makeReady(e)
		case Foreign:
			q.owner.unpark(e)
			foreign = append(foreign, e.key)
			q.counts.Foreign++
			q.keys.release(e)
		}
		e = next
	}
	return foreign
}

// Hold makes key Awaited until LetGo, if it is Owned. It returns false, and does not, if the queue is not Open.
func (q *Queue[K]) Hold(key K) bool {
	if q.state == status.QueueOpen {
		q.owner.hold(key)
	}
	return q.state == status.QueueOpen
}

// LetGo ends a Hold. A key that waits for that becomes ready.
func (q *Queue[K]) LetGo(key K) {
	q.owner.letGo(key)
	if e := q.keys.find(key); e != nil && e.place == awaited && q.owner.get(key) == Owned {
		q.owner.unpark(e)
		q.makeReady(e)
	}
}

// Owns reports whether key may be handed out.
func (q *Queue[K]) Owns(key K) bool { return q.owner.get(key) == Owned }

// Released begins to wait for the keys in work for which match returns true. It returns nil if there are none.
func (q *Queue[K]) Released(match func(K) bool) *Release[K] {
	r := &Release[K]{left: map[*entry[K]]struct{}{}, done: make(chan struct{})}
	for e := q.working.first; e != nil; e = q.working.next(e) {
		if match(e.key) {
			r.left[e] = struct{}{}
		}
	}
	if len(r.left) == 0 {
		return nil
	}
	q.owner.releases = append(q.owner.releases, r)
	return r
}

// Abandon ends the wait r, and returns the number of keys that are still in work.
func (q *Queue[K]) Abandon(r *Release[K]) (left int) {
	q.owner.releases = slices.DeleteFunc(q.owner.releases, func(other *Release[K]) bool { return other == r })
	return len(r.left)
}

// Mark returns a channel that is closed when every key that is now ready or in work is done once or cancelled.
func (q *Queue[K]) Mark() <-chan struct{} { return q.turns.mark() }

// Drain makes the queue refuse keys, ends each Hold, and drops keys that are delayed or awaited.
func (q *Queue[K]) Drain() {
	if q.state != status.QueueOpen {
		return
	}
	for key := range q.owner.held {
		q.LetGo(key)
	}
	q.state = status.QueueDraining
	for len(q.delayed) > 0 {
		e := q.delayed[len(q.delayed)-1]
		q.undelay(e)
		q.keys.release(e)
	}
	for e := q.owner.awaited.first; e != nil; e = q.owner.awaited.first {
		q.owner.unpark(e)
		q.keys.release(e)
	}
	q.settle()
}

// Close makes the queue refuse keys, and drops those that wait.
func (q *Queue[K]) Close() {
	if q.state == status.QueueClosed {
		return
	}
	q.state = status.QueueClosed
	close(q.Closed)
	q.ranks = ranks[K]{age: chain[K]{link: byAge}}
	q.depth = [Levels]int{}
	q.delayed = nil
	q.owner.awaited, q.owner.held = chain[K]{}, nil
	q.keys = pool[K]{entries: map[K]*entry[K]{}}
	for e := q.working.first; e != nil; e = q.working.next(e) {
		e.place, e.waits = nowhere, nil
		q.keys.entries[e.key] = e
	}
	q.settle()
}

// Ended reports whether the queue hands out no more keys.
func (q *Queue[K]) Ended() bool { return q.state != status.QueueOpen && q.Waiting() == 0 }

// Waiting returns the number of ready keys, including keys in work that were added again.
func (q *Queue[K]) Waiting() int {
	n := 0
	for _, depth := range q.depth {
		n += depth
	}
	return n
}

// Depth returns the number of these keys of one level.
func (q *Queue[K]) Depth(level uint8) int { return q.depth[level] }

// Working returns the keys in work, the longest first, and when each was handed out. The caller must not change the
// queue meanwhile.
func (q *Queue[K]) Working() iter.Seq2[K, time.Duration] {
	return func(yield func(K, time.Duration) bool) {
		for e := q.working.first; e != nil && yield(e.key, e.began); e = q.working.next(e) {
		}
	}
}

// InWork returns the number of keys in work.
func (q *Queue[K]) InWork() int { return q.working.n }

// Keys returns the keys that wait or are in work.
func (q *Queue[K]) Keys() []K {
	keys := make([]K, 0, len(q.keys.entries)-q.keys.idle.n)
	for key, e := range q.keys.entries {
		if e.place != nowhere || e.works != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// makeReady makes e, which is nowhere, ready.
func (q *Queue[K]) makeReady(e *entry[K]) {
	e.place = ready
	e.since = q.now()
	e.waits = q.turns.join()
	q.depth[e.level]++
	q.counts.Adds++
	if e.works == nil {
		q.enqueue(e, e.since)
	}
}

// enqueue makes e available to Next. It must be ready and not in work.
func (q *Queue[K]) enqueue(e *entry[K], now time.Duration) {
	e.queued = now
	q.ranks.push(e)
	run.Signal(q.Ready)
}

// unready takes e, which must be ready, out of its place.
func (q *Queue[K]) unready(e *entry[K]) {
	if e.works == nil {
		q.ranks.remove(e)
	}
	q.depth[e.level]--
	q.turns.leave(e.waits)
	e.place, e.waits = nowhere, nil
}

// moveUp changes the priority of e, which must be ready.
func (q *Queue[K]) moveUp(e *entry[K], level uint8) {
	if level == e.level {
		return
	}
	q.depth[e.level]--
	q.depth[level]++
	if e.works == nil {
		q.ranks.rank(e, level)
	}
	e.level = level
}

// delay delays e by d, unless its present delay ends earlier. e must not be ready.
func (q *Queue[K]) delay(e *entry[K], d time.Duration) {
	due := q.now() + d
	if due < 0 { // overflow
		due = math.MaxInt64
	}
	if e.place == delayed && e.due <= due {
		return
	}
	q.order++
	e.due, e.order = due, q.order
	if e.place == delayed {
		q.delayed.up(e)
		return
	}
	e.place = delayed
	q.delayed.push(e)
}

// undelay takes e, which must be delayed, out of its place.
func (q *Queue[K]) undelay(e *entry[K]) {
	q.delayed.remove(e)
	e.place = nowhere
}

// settle wakes the waiters if the queue has ended.
func (q *Queue[K]) settle() {
	if !q.Ended() {
		return
	}
	run.Signal(q.Ready)
	if q.state == status.QueueDraining && q.working.n == 0 {
		q.state = status.QueueClosed
		close(q.Drained)
	}
}
