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

// Line has the keys of a queue.
type Line[K comparable] struct {
	// Ready holds a token while Next may have something to return, and when the line has ended.
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

// New returns an empty line. The function now returns the time since a moment that the caller chooses.
func New[K comparable](now func() time.Duration) *Line[K] {
	return &Line[K]{
		now:     now,
		Ready:   make(chan struct{}, 1),
		Drained: make(chan struct{}),
		Closed:  make(chan struct{}),
		keys:    pool[K]{entries: map[K]*entry[K]{}},
		ranks:   ranks[K]{age: chain[K]{by: byAge}},
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
func (l *Line[K]) Add(key K, w Want) bool {
	if l.state != status.QueueOpen {
		l.counts.Refused++
		return true
	}
	owned := l.owner.get(key)
	if owned == Foreign {
		l.counts.Foreign++
		return false
	}
	e := l.keys.take(key)
	level := w.Level
	if w.Retry {
		l.counts.Retries++
		if w.Inherit && e.works != nil {
			level = e.given
		}
	}
	if e.place != nowhere {
		level = min(level, e.level)
	}
	if e.place == awaited && owned == Owned { // it has become owned since
		l.owner.unpark(e)
		w.After = 0
	}
	switch {
	case e.place == ready:
		l.moveUp(e, level)
	case e.place == awaited:
		e.level = level
	case w.After > 0:
		e.level = level
		l.delay(e, w.After)
	default:
		if e.place == delayed {
			l.undelay(e)
		}
		e.level = level
		l.makeReady(e)
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
func (l *Line[K]) Next() (turn Turn[K], ok bool, foreign []K) {
	e, foreign := l.nextOwned()
	if e == nil {
		return Turn[K]{}, false, foreign
	}
	l.ranks.remove(e)
	l.depth[e.level]--
	l.working.push(e)
	e.works, e.waits = e.waits, nil
	e.place = nowhere
	e.given = e.level
	e.began = l.now()
	if l.ranks.age.first != nil || l.Ended() {
		run.Signal(l.Ready)
	}
	waited := e.began - e.since
	histogram.Add(&l.counts.Waits, waited)
	return Turn[K]{e.key, e.given, waited}, true, foreign
}

// nextOwned returns the key to hand out, or nil, and the keys that it has dropped.
func (l *Line[K]) nextOwned() (e *entry[K], foreign []K) {
	for e = l.ranks.next(); e != nil && l.owner.restricts(); e = l.ranks.next() {
		owned := l.owner.get(e.key)
		if owned == Owned {
			break
		}
		l.unready(e)
		if owned == Awaited && l.state == status.QueueOpen {
			l.owner.park(e)
			continue
		}
		foreign = append(foreign, e.key)
		l.counts.Foreign++
		l.keys.release(e)
		l.settle()
	}
	return e, foreign
}

// Done ends the work on key. It returns how long that took, and the level with which the key was handed out. ok is
// false if the key is not in work.
func (l *Line[K]) Done(key K) (worked time.Duration, level uint8, ok bool) {
	e := l.keys.find(key)
	if e == nil || e.works == nil {
		return 0, 0, false
	}
	now := l.now()
	worked = now - e.began
	histogram.Add(&l.counts.Works, worked)
	l.done(e, now)
	return worked, e.given, true
}

func (l *Line[K]) done(e *entry[K], now time.Duration) {
	l.working.remove(e)
	l.turns.leave(e.works)
	e.works = nil
	l.owner.released(e)
	if e.place == ready {
		l.enqueue(e, now)
	} else {
		l.keys.release(e)
	}
	l.settle()
}

// PutBack undoes the Next that handed key out, unless Done has been called. The key is ready again at its priority,
// behind the other ready keys.
func (l *Line[K]) PutBack(key K) {
	e := l.keys.find(key)
	if e == nil || e.works == nil {
		return
	}
	if l.state == status.QueueClosed {
		l.done(e, l.now())
		return
	}
	level := e.given
	if e.place != nowhere { // added meanwhile
		level = min(level, e.level)
	}
	if e.place == ready {
		l.moveUp(e, level)
		l.turns.leave(e.waits)
	} else {
		if e.place == delayed {
			l.undelay(e)
		}
		e.place, e.level = ready, level
		l.depth[level]++
	}
	l.working.remove(e)
	l.owner.released(e)
	e.waits, e.works = e.works, nil // the old generation, so a Mark still waits for the key
	l.enqueue(e, l.now())
}

// Cancel removes key if it waits, and reports whether it did. Work on it continues.
func (l *Line[K]) Cancel(key K) bool {
	e := l.keys.find(key)
	if e == nil || e.place == nowhere {
		return false
	}
	switch e.place {
	case ready:
		l.unready(e)
	case delayed:
		l.undelay(e)
	case awaited:
		l.owner.unpark(e)
	}
	l.keys.release(e)
	l.settle()
	return true
}

// Due returns when the first delay ends. ok is false if no key is delayed.
func (l *Line[K]) Due() (at time.Duration, ok bool) {
	if len(l.delayed) == 0 {
		return 0, false
	}
	return l.delayed[0].at, true
}

// Fall makes keys ready whose delay has ended, but not many at once. It reports whether there may be more.
func (l *Line[K]) Fall() (more bool) {
	now := l.now()
	for range fallAtOnce {
		if at, ok := l.Due(); !ok || at > now {
			return false
		}
		e := l.delayed[0]
		l.undelay(e)
		l.makeReady(e)
	}
	return true
}

// Own makes the line hand out a key only while of returns Owned for it; nil means always. It goes through the keys that
// are awaited: they become ready, or are dropped and returned.
func (l *Line[K]) Own(of func(K) Ownership) (foreign []K) {
	l.owner.of = of
	for e := l.owner.awaited.first; e != nil; {
		next := l.owner.awaited.next(e)
		switch l.owner.get(e.key) {
		case Owned:
			l.owner.unpark(e)
			l.makeReady(e)
		case Foreign:
			l.owner.unpark(e)
			foreign = append(foreign, e.key)
			l.counts.Foreign++
			l.keys.release(e)
		}
		e = next
	}
	return foreign
}

// Hold makes key Awaited until LetGo, if it is Owned. It returns false, and does not, if the line is not Open.
func (l *Line[K]) Hold(key K) bool {
	if l.state == status.QueueOpen {
		l.owner.hold(key)
	}
	return l.state == status.QueueOpen
}

// LetGo ends a Hold. A key that waits for that becomes ready.
func (l *Line[K]) LetGo(key K) {
	l.owner.letGo(key)
	if e := l.keys.find(key); e != nil && e.place == awaited && l.owner.get(key) == Owned {
		l.owner.unpark(e)
		l.makeReady(e)
	}
}

// Owns reports whether key may be handed out.
func (l *Line[K]) Owns(key K) bool { return l.owner.get(key) == Owned }

// Released begins to wait for the keys in work for which match returns true. It returns nil if there are none.
func (l *Line[K]) Released(match func(K) bool) *Release[K] {
	r := &Release[K]{left: map[*entry[K]]struct{}{}, done: make(chan struct{})}
	for e := l.working.first; e != nil; e = l.working.next(e) {
		if match(e.key) {
			r.left[e] = struct{}{}
		}
	}
	if len(r.left) == 0 {
		return nil
	}
	l.owner.releases = append(l.owner.releases, r)
	return r
}

// Abandon ends the wait r, and returns the number of keys that are still in work.
func (l *Line[K]) Abandon(r *Release[K]) (left int) {
	l.owner.releases = slices.DeleteFunc(l.owner.releases, func(other *Release[K]) bool { return other == r })
	return len(r.left)
}

// Mark returns a channel that is closed when every key that is now ready or in work is done once or cancelled.
func (l *Line[K]) Mark() <-chan struct{} { return l.turns.mark() }

// Drain makes the line refuse keys, ends each Hold, and drops keys that are delayed or awaited.
func (l *Line[K]) Drain() {
	if l.state != status.QueueOpen {
		return
	}
	for key := range l.owner.held {
		l.LetGo(key)
	}
	l.state = status.QueueDraining
	for len(l.delayed) > 0 {
		e := l.delayed[len(l.delayed)-1]
		l.undelay(e)
		l.keys.release(e)
	}
	for e := l.owner.awaited.first; e != nil; e = l.owner.awaited.first {
		l.owner.unpark(e)
		l.keys.release(e)
	}
	l.settle()
}

// Close makes the line refuse keys, and drops those that wait.
func (l *Line[K]) Close() {
	if l.state == status.QueueClosed {
		return
	}
	l.state = status.QueueClosed
	close(l.Closed)
	l.ranks = ranks[K]{age: chain[K]{by: byAge}}
	l.depth = [Levels]int{}
	l.delayed = nil
	l.owner.awaited, l.owner.held = chain[K]{}, nil
	l.keys = pool[K]{entries: map[K]*entry[K]{}}
	for e := l.working.first; e != nil; e = l.working.next(e) {
		e.place, e.waits = nowhere, nil
		l.keys.entries[e.key] = e
	}
	l.settle()
}

// Ended reports whether the line hands out no more keys.
func (l *Line[K]) Ended() bool { return l.state != status.QueueOpen && l.Waiting() == 0 }

// Waiting returns the number of ready keys, including keys in work that were added again.
func (l *Line[K]) Waiting() int {
	n := 0
	for _, depth := range l.depth {
		n += depth
	}
	return n
}

// Depth returns the number of these keys of one level.
func (l *Line[K]) Depth(level uint8) int { return l.depth[level] }

// Working returns the keys in work, the longest first, and when each was handed out. The caller must not change the
// line meanwhile.
func (l *Line[K]) Working() iter.Seq2[K, time.Duration] {
	return func(yield func(K, time.Duration) bool) {
		for e := l.working.first; e != nil && yield(e.key, e.began); e = l.working.next(e) {
		}
	}
}

// InWork returns the number of keys in work.
func (l *Line[K]) InWork() int { return l.working.n }

// Keys returns the keys that wait or are in work.
func (l *Line[K]) Keys() []K {
	keys := make([]K, 0, len(l.keys.entries)-l.keys.idle.n)
	for key, e := range l.keys.entries {
		if e.place != nowhere || e.works != nil {
			keys = append(keys, key)
		}
	}
	return keys
}

// makeReady makes e, which is nowhere, ready.
func (l *Line[K]) makeReady(e *entry[K]) {
	e.place = ready
	e.since = l.now()
	e.waits = l.turns.join()
	l.depth[e.level]++
	l.counts.Adds++
	if e.works == nil {
		l.enqueue(e, e.since)
	}
}

// enqueue makes e available to Next. It must be ready and not in work.
func (l *Line[K]) enqueue(e *entry[K], now time.Duration) {
	e.queued = now
	l.ranks.push(e)
	run.Signal(l.Ready)
}

// unready takes e, which must be ready, out of its place.
func (l *Line[K]) unready(e *entry[K]) {
	if e.works == nil {
		l.ranks.remove(e)
	}
	l.depth[e.level]--
	l.turns.leave(e.waits)
	e.place, e.waits = nowhere, nil
}

// moveUp changes the priority of e, which must be ready.
func (l *Line[K]) moveUp(e *entry[K], level uint8) {
	if level == e.level {
		return
	}
	l.depth[e.level]--
	l.depth[level]++
	if e.works == nil {
		l.ranks.rank(e, level)
	}
	e.level = level
}

// delay delays e by d, unless its present delay ends earlier. e must not be ready.
func (l *Line[K]) delay(e *entry[K], d time.Duration) {
	at := l.now() + d
	if at < 0 { // overflow
		at = math.MaxInt64
	}
	if e.place == delayed && e.at <= at {
		return
	}
	l.order++
	e.at, e.order = at, l.order
	if e.place == delayed {
		l.delayed.up(e)
		return
	}
	e.place = delayed
	l.delayed.push(e)
}

// undelay takes e, which must be delayed, out of its place.
func (l *Line[K]) undelay(e *entry[K]) {
	l.delayed.remove(e)
	e.place = nowhere
}

// settle wakes the waiters if the line has ended.
func (l *Line[K]) settle() {
	if !l.Ended() {
		return
	}
	run.Signal(l.Ready)
	if l.state == status.QueueDraining && l.working.n == 0 {
		l.state = status.QueueClosed
		close(l.Drained)
	}
}
