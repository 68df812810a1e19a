package informer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Priority orders the keys that wait in a [Queue]. There are three priorities: values below zero mean LowPriority, values
// above zero mean HighPriority.
type Priority int

const (
	// LowPriority is for keys that can wait: those of an initial list, and of a resync.
	LowPriority Priority = -1
	// NormalPriority is for changes as they happen. [Queue.Add] uses it.
	NormalPriority Priority = 0
	// HighPriority is for keys that must not wait behind changes.
	HighPriority Priority = 1
)

// String returns "low", "normal" or "high".
func (p Priority) String() string {
	return [priorities]string{"high", "normal", "low"}[p.level()]
}

// priorities is the number of priorities.
const priorities = 3

// level returns 0 for the highest priority, 2 for the lowest.
func (p Priority) level() int {
	return 1 - min(max(int(p), -1), 1)
}

// QueueState is the state of a [Queue].
//
//	Open -- Drain --> Draining -- the last key is done --> Closed
//	 |                   |                                   ^
//	 +------ Close ------+----------- Close -----------------+
type QueueState uint8

const (
	// QueueOpen accepts keys and hands them out.
	QueueOpen QueueState = iota
	// QueueDraining refuses new keys, and hands out the keys that it has.
	QueueDraining
	// QueueClosed refuses new keys, and hands out none.
	QueueClosed
)

// String returns "Open", "Draining" or "Closed".
func (s QueueState) String() string {
	switch s {
	case QueueOpen:
		return "Open"
	case QueueDraining:
		return "Draining"
	case QueueClosed:
		return "Closed"
	}
	return fmt.Sprintf("QueueState(%d)", uint8(s))
}

// QueueConfig is the configuration of a [Queue]. The zero value is right for most.
//
// [QueueStatus] has all metrics of client-go's workqueue. OnGet and OnDone are for measurements of your own, such as histograms
// by priority. The goroutine that calls Get or Done calls them, without a lock. If one of them panics or ends the goroutine, the queue stays consistent:
// a key that Get has not returned waits again, and a key that is done stays done.
type QueueConfig[K comparable] struct {
	// Name names the queue in errors and in QueueStatus. Empty means "queue".
	Name string
	// RateLimiter returns the delays for AddRateLimited. Nil means a new DefaultLimiter.
	RateLimiter RateLimiter[K]
	// OnGet receives the priority of each key that Get hands out, and the time since the key became ready. Nil means nothing.
	OnGet func(p Priority, waited time.Duration)
	// OnDone receives the priority of each key that is done, and the time since Get handed it out. Nil means nothing.
	OnDone func(p Priority, worked time.Duration)
}

// AddOptions configures [Queue.AddWith]. With the zero value, it adds keys as Add does.
type AddOptions struct {
	// Priority is the priority of the keys. Zero means NormalPriority. For a key in work that is added with After or
	// RateLimited, which is a retry, zero means the priority with which the key was handed out.
	Priority Priority
	// After is the delay until the keys are ready. Zero and below mean no delay.
	After time.Duration
	// RateLimited asks the queue's limiter for a delay for each key, which counts a try. The key waits for that delay or
	// for After, whichever is longer. False means that no limit applies.
	RateLimited bool
}

// QueueStatus is the status of a [Queue]. The comments name the equivalent metrics of client-go's workqueue.
type QueueStatus struct {
	Name  string
	State QueueState
	// Depth is the number of ready keys of each priority: workqueue_depth. It includes keys in work that were added again.
	// Each priority has an entry.
	Depth map[Priority]int
	// Delayed is the number of keys whose delay has not ended.
	Delayed int
	// InWork is the number of keys that were handed out and are not done.
	InWork int
	// Adds counts how often a key became ready: workqueue_adds_total.
	Adds uint64
	// Retries counts how often a key was added with a delay or rate-limited: workqueue_retries_total.
	Retries uint64
	// Refused counts how often a key was added to a draining or closed queue.
	Refused uint64
	// Awaited is the number of keys that wait until the queue owns them; see [Queue.Own].
	Awaited int
	// Foreign counts how often the queue dropped a key because it was KeyForeign.
	Foreign uint64
	// LongestRunning is the longest time that a key has been in work: workqueue_longest_running_processor_seconds.
	// LongestRunningKey is that key as text, 512 bytes at most. It is empty if no key is in work.
	LongestRunning    time.Duration
	LongestRunningKey string
	// Unfinished is the total time that all keys in work have been in work: workqueue_unfinished_work_seconds.
	Unfinished time.Duration
	// LongestReady is the longest time that a key has waited for Get. A key in work that was added again waits from its Done on, while
	// Waits counts from when it was added. Zero means that no key waits.
	LongestReady time.Duration
	// Waits has the times from a key being ready to Get: workqueue_queue_duration_seconds. Works has the times from Get to
	// Done: workqueue_work_duration_seconds.
	Waits, Works Durations
}

// Queue holds keys to reconcile, each once, however often it is added. It is like client-go's workqueue, with priorities
// and without goroutines: it uses only its callers' goroutines, and a timer while keys are delayed.
//
// A key that Get hands out is in work until Done. Get does not hand it out again before. A key that is added while in work
// becomes ready again after Done. If a waiting key is added again, it gets the higher of both priorities and the earlier of
// both times. AddAfter never postpones a ready key, and does not make it run again later.
//
// Get hands out a ready key of the highest priority, in the order in which the keys got that priority. Low priorities do not
// starve: Get passes over the key that has been ready for longest at most 15 times in a row. A key behind n older ones is
// therefore handed out after at most 16 x (n + 1) others.
//
// [Queue.Own] makes the queue hand out only some keys, as one of several replicas needs.
//
// A queue takes about 150 bytes plus the size of the key for each key that it has, and frees this memory later. All methods
// are safe for concurrent use. Create one with [NewQueue].
type Queue[K comparable] struct {
	config  QueueConfig[K]
	limiter RateLimiter[K]
	epoch   time.Time     // the base of all times: time.Since reads the clock faster than time.Now
	ready   chan struct{} // holds a token while a Get may have something to return
	drained chan struct{} // closed when the last key of a Drain is done
	closed  chan struct{} // closed by Close, unless drained is closed

	mu      sync.Mutex // protects the fields below
	state   QueueState
	entries map[K]*entry[K]      // the keys that are ready, delayed, or in work; and some that are idle
	most    int                  // the largest length of entries since the map was created
	idle    chain[K]             // at most idleEntries entries of keys that are done, the oldest first: many are added again
	idling  int                  // the length of idle
	levels  [priorities]chain[K] // the ready keys that are not in work, by priority
	age     chain[K]             // all ready keys that are not in work, the oldest first
	passed  int                  // the consecutive keys that were handed out before the oldest
	working chain[K]             // the keys in work, the longest first
	own     func(K) Ownership    // nil means that all keys are Owned
	awaited chain[K]             // the keys that became ready while Awaited
	parked  int                  // the length of awaited
	foreign uint64
	unowned []*unowned[K]   // the calls of WaitReleased
	busy    int             // the length of working
	depth   [priorities]int // ready keys, including keys in work that were added again
	delayed delays[K]       // the keys whose delay has not ended
	order   uint64          // counts the delays
	timer   *time.Timer     // calls fall when the first delayed key is ready, or earlier; nil before the first delay
	armed   time.Duration   // when the timer fires; zero means never
	adds    uint64
	retries uint64
	refused uint64
	waits   Durations
	works   Durations
	// A key that becomes ready belongs to the newest generation until it is done. WaitProcessed begins a new generation, and
	// waits until the older ones have no keys.
	oldest, newest *generation
}

const (
	// starveAfter is the number of keys that may be handed out before the oldest one. With 15, low priorities get 6 % of the
	// workers under load, so their backlog still shrinks.
	starveAfter = 15
	// fallAtOnce is the number of delayed keys that become ready under one lock, which takes about 20 us.
	fallAtOnce = 64
)

// NewQueue returns an empty queue. No configuration is invalid.
func NewQueue[K comparable](config QueueConfig[K]) *Queue[K] {
	q := &Queue[K]{
		config:  config,
		limiter: config.RateLimiter,
		epoch:   time.Now(),
		ready:   make(chan struct{}, 1),
		drained: make(chan struct{}),
		closed:  make(chan struct{}),
		entries: map[K]*entry[K]{},
		age:     chain[K]{by: byAge},
		newest:  &generation{},
	}
	q.oldest = q.newest
	if q.config.Name == "" {
		q.config.Name = "queue"
	}
	if q.limiter == nil {
		q.limiter = DefaultLimiter[K]()
	}
	return q
}

// Add makes key ready at NormalPriority, and ends its delay if it has one. A draining or closed queue refuses keys, which
// [Queue.Status] counts.
func (q *Queue[K]) Add(key K) { q.add(key, AddOptions{}) }

// AddAfter makes key ready after delay, unless it is ready by then. A key in work keeps the priority with which it was
// handed out.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) { q.add(key, AddOptions{After: delay}) }

// AddRateLimited makes key ready after the delay of the queue's limiter, unless it is ready by then. A key in work keeps
// the priority with which it was handed out.
func (q *Queue[K]) AddRateLimited(key K) { q.add(key, AddOptions{RateLimited: true}) }

// AddWith adds keys with options o, one after the other.
func (q *Queue[K]) AddWith(o AddOptions, keys ...K) {
	for _, key := range keys {
		q.add(key, o)
	}
}

// Get waits for a ready key and hands it out. The caller must call Done for it. If ctx has ended, Get returns the cause of
// ctx, even if there are keys. It returns [ErrClosed] after Close, and once a draining queue has no key left to hand out.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	var none K
	for {
		if ctx.Err() != nil {
			signal(q.ready) // this call may have taken the token of another
			return none, context.Cause(ctx)
		}
		q.mu.Lock()
		e, foreign := q.nextOwnedLocked()
		if e != nil {
			waited := q.handOutLocked(e)
			key, p := e.key, priorityOf(e.given)
			q.mu.Unlock()
			q.forget(foreign)
			if q.config.OnGet != nil {
				q.observeGet(key, p, waited)
			}
			return key, nil
		}
		ended := q.endedLocked()
		q.mu.Unlock()
		q.forget(foreign)
		if ended {
			signal(q.ready)
			return none, ErrClosed
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
		}
	}
}

// observeGet calls OnGet. If OnGet does not return, nobody works on key, so key waits again.
func (q *Queue[K]) observeGet(key K, p Priority, waited time.Duration) {
	returned := false
	defer func() {
		if !returned {
			q.putBack(key)
		}
	}()
	q.config.OnGet(p, waited)
	returned = true
}

// Done ends the work on key. It must be called once for each key that Get returns. For a key that is not in work it does
// nothing.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	e := q.entries[key]
	if e == nil || e.working == nil {
		q.mu.Unlock()
		return
	}
	now := q.now()
	worked, p := now-e.began, priorityOf(e.given)
	q.works.add(worked)
	q.doneLocked(e, now)
	q.mu.Unlock()
	if q.config.OnDone != nil {
		q.config.OnDone(p, worked)
	}
}

// doneLocked ends the work on e.
func (q *Queue[K]) doneLocked(e *entry[K], now time.Duration) {
	q.working.remove(e)
	q.busy--
	q.finishLocked(e.working)
	e.working = nil
	q.noteReleasedLocked(e)
	if e.ready != nil {
		q.enqueueLocked(e, now)
	} else {
		q.releaseLocked(e)
	}
	q.settleLocked()
}

// Cancel removes key from the queue if it is ready, delayed or awaited, and reports whether it was. If key is in work, that work
// continues, but key does not run once more. Cancel does not reset the limiter; see Forget.
func (q *Queue[K]) Cancel(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	switch {
	case e == nil || e.ready == nil && e.at == 0 && !e.awaited:
		return false
	case e.awaited:
		q.unparkLocked(e)
	case e.at != 0:
		q.undelayLocked(e)
	default:
		if e.working == nil {
			q.dequeueLocked(e)
		}
		q.depth[e.level]--
		q.finishLocked(e.ready)
		e.ready = nil
	}
	q.releaseLocked(e)
	q.settleLocked()
	return true
}

// Forget resets the limiter for key, so that its next retry counts as the first. Call it when the work on key succeeded.
func (q *Queue[K]) Forget(key K) { q.limiter.Forget(key) }

// NumRequeues returns the number of times that key was added rate-limited since the last Forget.
func (q *Queue[K]) NumRequeues(key K) int { return q.limiter.NumRequeues(key) }

// Len returns the number of ready keys of the given priorities. Without arguments, it counts all priorities.
func (q *Queue[K]) Len(of ...Priority) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(of) == 0 {
		return q.waitingLocked()
	}
	n := 0
	for _, p := range of {
		n += q.depth[p.level()]
	}
	return n
}

// WaitProcessed waits until every key that is now ready or in work is done once or cancelled, and then returns nil. It does
// not wait for keys that are delayed or added later. A key that fails and is retried later therefore counts as done. If ctx
// ends first, the error has the number of keys left and wraps the cause of ctx. If Close drops keys, the error is
// [ErrClosed].
func (q *Queue[K]) WaitProcessed(ctx context.Context) error {
	q.mu.Lock()
	g := q.newest
	g.done = make(chan struct{})
	g.next = &generation{}
	q.newest = g.next
	q.advanceLocked()
	q.mu.Unlock()
	if isClosed(g.done) {
		return nil
	}
	select {
	case <-g.done:
		return nil
	case <-q.closed:
		return ErrClosed
	case <-ctx.Done():
		return q.unfinished(ctx)
	}
}

// Drain makes the queue refuse new keys, drops delayed and awaited keys, and waits until all ready keys and keys in work are done. This
// includes keys in work that were added again before. It then returns nil, also if called again. If ctx ends first, the
// error has the number of keys left and wraps the cause of ctx, and the queue continues to drain. If Close drops keys, the
// error is [ErrClosed].
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.mu.Lock()
	if q.state == QueueOpen {
		q.state = QueueDraining
		for _, e := range q.delayed {
			e.at = 0
			q.releaseLocked(e)
		}
		q.delayed = nil
		q.armLocked()
		for e := q.awaited.first; e != nil; e = q.awaited.first {
			q.unparkLocked(e)
			q.releaseLocked(e)
		}
		q.settleLocked()
	}
	q.mu.Unlock()
	if isClosed(q.drained) {
		return nil
	}
	select {
	case <-q.drained:
		return nil
	case <-q.closed:
		return ErrClosed
	case <-ctx.Done():
		return q.unfinished(ctx)
	}
}

// Close makes the queue refuse new keys and drops all waiting keys. It does not wait for keys in work, for which Done may
// still be called. Closing again does nothing.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == QueueClosed {
		return
	}
	q.state = QueueClosed
	close(q.closed)
	q.levels = [priorities]chain[K]{}
	q.age = chain[K]{by: byAge}
	q.depth = [priorities]int{}
	q.delayed = nil
	q.armLocked()
	q.awaited, q.parked = chain[K]{}, 0
	q.entries, q.idle, q.idling = map[K]*entry[K]{}, chain[K]{}, 0
	for e := q.working.first; e != nil; e = e.links[byPlace].next {
		e.ready, e.at = nil, 0
		q.entries[e.key] = e
	}
	q.settleLocked()
}

// Status returns the present status of the queue.
func (q *Queue[K]) Status() QueueStatus {
	s, longest := q.status()
	if longest != nil { // a key may have a String method, so no lock is held
		s.LongestRunningKey = keyText(*longest)
	}
	return s
}

// status is Status without the text of the key that has been in work for longest. It returns that key, or nil if there is none.
func (q *Queue[K]) status() (s QueueStatus, longest *K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s = QueueStatus{
		Name:    q.config.Name,
		State:   q.state,
		Depth:   make(map[Priority]int, priorities),
		Delayed: len(q.delayed),
		InWork:  q.busy,
		Adds:    q.adds,
		Retries: q.retries,
		Refused: q.refused,
		Awaited: q.parked,
		Foreign: q.foreign,
		Waits:   q.waits,
		Works:   q.works,
	}
	for level, n := range q.depth {
		s.Depth[priorityOf(uint8(level))] = n
	}
	if e := q.working.first; e != nil {
		longest = new(e.key)
	}
	now := q.now()
	for e := q.working.first; e != nil; e = e.links[byPlace].next {
		s.LongestRunning = max(s.LongestRunning, now-e.began)
		s.Unfinished += now - e.began
	}
	if e := q.age.first; e != nil {
		s.LongestReady = now - e.queued
	}
	return s, longest
}

// keyText returns key as text, for a status.
func keyText(key any) string {
	const longest = 512 // bytes; a namespace and a name have 317 at most
	text := fmt.Sprint(key)
	if len(text) > longest {
		text = strings.Clone(text[:longest])
	}
	return strings.ToValidUTF8(text, "")
}

func (q *Queue[K]) unfinished(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Errorf("%s has %d keys waiting and %d in work: %w", q.config.Name, q.waitingLocked(), q.busy, context.Cause(ctx))
}

func (q *Queue[K]) add(key K, o AddOptions) {
	retry := o.RateLimited || o.After > 0
	if o.RateLimited {
		o.After = max(o.After, q.limiter.When(key))
	}
	level := uint8(o.Priority.level())
	q.mu.Lock()
	foreign := !q.addLocked(key, o, level, retry)
	q.mu.Unlock()
	if foreign {
		q.limiter.Forget(key)
	}
}

// addLocked adds key. It returns false if the key is foreign.
func (q *Queue[K]) addLocked(key K, o AddOptions, level uint8, retry bool) bool {
	if q.state != QueueOpen {
		q.refused++
		return true
	}
	ownership := q.ownershipLocked(key)
	if ownership == KeyForeign {
		q.foreign++
		return false
	}
	e := q.entryLocked(key)
	if retry {
		q.retries++
		if o.Priority == NormalPriority && e.working != nil {
			level = e.given
		}
	}
	if e.ready != nil || e.at != 0 || e.awaited {
		level = min(level, e.level)
	}
	if e.awaited && ownership == KeyOwned { // it has become owned since
		q.unparkLocked(e)
		o.After = 0
	}
	switch {
	case e.ready != nil:
		q.moveUpLocked(e, level)
	case e.awaited:
		e.level = level
	case o.After > 0:
		e.level = level
		q.delayLocked(e, o.After)
	default:
		e.level = level
		if e.at != 0 {
			q.undelayLocked(e)
		}
		q.makeReadyLocked(e)
	}
	return true
}

// putBack undoes the Get that handed key out, unless Done has been called. key is ready again at its priority, behind the
// other ready keys.
func (q *Queue[K]) putBack(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.working == nil {
		return
	}
	if q.state == QueueClosed {
		q.doneLocked(e, q.now())
		return
	}
	level := e.given
	if e.ready != nil || e.at != 0 { // added meanwhile
		level = min(level, e.level)
	}
	if e.ready != nil {
		q.moveUpLocked(e, level)
		q.finishLocked(e.ready)
	} else {
		if e.at != 0 {
			q.undelayLocked(e)
		}
		e.level = level
		q.depth[level]++
	}
	q.working.remove(e)
	q.busy--
	q.noteReleasedLocked(e)
	e.ready, e.working = e.working, nil // the old generation, so WaitProcessed still waits for the key
	q.enqueueLocked(e, q.now())
}

// nextOwnedLocked returns the key to hand out, or nil. It parks awaited keys, and drops and returns foreign ones.
func (q *Queue[K]) nextOwnedLocked() (e *entry[K], foreign []K) {
	for e = q.nextLocked(); e != nil && q.own != nil; e = q.nextLocked() {
		o := q.ownershipLocked(e.key)
		if o == KeyOwned {
			break
		}
		q.dequeueLocked(e)
		q.depth[e.level]--
		q.finishLocked(e.ready)
		e.ready = nil
		if o == KeyAwaited && q.state == QueueOpen {
			q.parkLocked(e)
			continue
		}
		foreign = append(foreign, e.key)
		q.foreign++
		q.releaseLocked(e)
		q.settleLocked()
	}
	return e, foreign
}

// noteReleasedLocked notes that the work on e has ended.
func (q *Queue[K]) noteReleasedLocked(e *entry[K]) {
	if len(q.unowned) == 0 {
		return
	}
	q.unowned = slices.DeleteFunc(q.unowned, func(w *unowned[K]) bool {
		delete(w.left, e)
		if len(w.left) > 0 {
			return false
		}
		close(w.done)
		return true
	})
}

// ownershipLocked returns whether the queue owns key.
func (q *Queue[K]) ownershipLocked(key K) Ownership {
	if q.own == nil {
		return KeyOwned
	}
	return q.own(key)
}

// owns reports whether the queue owns key.
func (q *Queue[K]) owns(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ownershipLocked(key) == KeyOwned
}

// keys returns the keys that are ready, delayed, awaited or in work.
func (q *Queue[K]) keys() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keys []K
	for key, e := range q.entries {
		if !e.idle {
			keys = append(keys, key)
		}
	}
	return keys
}

// parkLocked makes e, which must not be ready, wait until the queue owns it.
func (q *Queue[K]) parkLocked(e *entry[K]) {
	e.awaited = true
	q.awaited.push(e)
	q.parked++
}

func (q *Queue[K]) unparkLocked(e *entry[K]) {
	e.awaited = false
	q.awaited.remove(e)
	q.parked--
}

// forget resets the limiter for keys that the queue has dropped.
func (q *Queue[K]) forget(keys []K) {
	for _, key := range keys {
		q.limiter.Forget(key)
	}
}

// nextLocked returns the key to hand out, or nil.
func (q *Queue[K]) nextLocked() *entry[K] {
	for level := range q.levels {
		e := q.levels[level].first
		if e == nil {
			continue
		}
		if e == q.age.first {
			q.passed = 0
		} else if q.passed++; q.passed > starveAfter {
			q.passed = 0
			return q.age.first
		}
		return e
	}
	return nil
}

// handOutLocked marks e as in work. It returns how long e waited.
func (q *Queue[K]) handOutLocked(e *entry[K]) (waited time.Duration) {
	q.dequeueLocked(e)
	q.depth[e.level]--
	q.working.push(e)
	q.busy++
	e.working, e.ready = e.ready, nil
	e.given = e.level
	e.began = q.now()
	if q.age.first != nil || q.endedLocked() {
		signal(q.ready)
	}
	waited = e.began - e.since
	q.waits.add(waited)
	return waited
}

// makeReadyLocked makes e ready. It must not be ready already.
func (q *Queue[K]) makeReadyLocked(e *entry[K]) {
	e.since = q.now()
	e.ready = q.newest
	e.ready.left++
	q.depth[e.level]++
	q.adds++
	if e.working == nil {
		q.enqueueLocked(e, e.since)
	}
}

// enqueueLocked makes e available to Get. It must be ready and not in work.
func (q *Queue[K]) enqueueLocked(e *entry[K], now time.Duration) {
	e.queued = now
	q.levels[e.level].push(e)
	q.age.push(e)
	signal(q.ready)
}

func (q *Queue[K]) dequeueLocked(e *entry[K]) {
	q.levels[e.level].remove(e)
	q.age.remove(e)
}

// moveUpLocked changes the priority of e, which must be ready.
func (q *Queue[K]) moveUpLocked(e *entry[K], level uint8) {
	if level == e.level {
		return
	}
	q.depth[e.level]--
	q.depth[level]++
	if e.working == nil { // e keeps its position in age
		q.levels[e.level].remove(e)
		q.levels[level].push(e)
	}
	e.level = level
}

// delayLocked delays e by d, unless its present delay ends earlier. e must not be ready.
func (q *Queue[K]) delayLocked(e *entry[K], d time.Duration) {
	at := q.now() + d
	if at < 0 { // overflow
		at = math.MaxInt64
	}
	if e.at != 0 && e.at <= at {
		return
	}
	q.order++
	if e.at == 0 {
		e.at, e.order = at, q.order
		q.delayed.push(e)
	} else {
		e.at, e.order = at, q.order
		q.delayed.up(e)
	}
	q.armLocked()
}

func (q *Queue[K]) undelayLocked(e *entry[K]) {
	q.delayed.remove(e)
	e.at = 0
	q.armLocked()
}

// armLocked makes sure that the timer fires when the first delay ends, or earlier. Resetting the timer when that key is
// removed would cost more than a needless call of fall.
func (q *Queue[K]) armLocked() {
	if len(q.delayed) == 0 {
		q.delayed.shrink()
		if q.armed != 0 {
			q.timer.Stop()
			q.armed = 0
		}
		return
	}
	at := q.delayed[0].at
	if q.armed != 0 && q.armed <= at {
		return
	}
	q.armed = at
	if q.timer == nil {
		q.timer = time.AfterFunc(at-q.now(), q.fall)
	} else {
		q.timer.Reset(at - q.now())
	}
}

// fall makes the delayed keys ready whose delay has ended. The timer calls it.
func (q *Queue[K]) fall() {
	for more := true; more; {
		q.mu.Lock()
		more = q.fallLocked()
		q.mu.Unlock()
	}
}

// fallLocked makes at most fallAtOnce of these keys ready, and reports whether there may be more.
func (q *Queue[K]) fallLocked() bool {
	now := q.now()
	for range fallAtOnce {
		if len(q.delayed) == 0 || q.delayed[0].at > now {
			q.armed = 0
			q.armLocked()
			return false
		}
		e := q.delayed[0]
		q.delayed.remove(e)
		e.at = 0
		q.makeReadyLocked(e)
	}
	return true
}

// endedLocked reports whether the queue hands out no more keys.
func (q *Queue[K]) endedLocked() bool {
	return q.state != QueueOpen && q.waitingLocked() == 0
}

// settleLocked wakes Get and Drain if the queue has ended.
func (q *Queue[K]) settleLocked() {
	if !q.endedLocked() {
		return
	}
	signal(q.ready)
	if q.state == QueueDraining && q.busy == 0 {
		q.state = QueueClosed
		close(q.drained)
	}
}

func (q *Queue[K]) waitingLocked() int {
	n := 0
	for _, depth := range q.depth {
		n += depth
	}
	return n
}

// finishLocked counts a key of g as done.
func (q *Queue[K]) finishLocked(g *generation) {
	g.left--
	if g.left == 0 {
		q.advanceLocked()
	}
}

// advanceLocked ends the oldest generations, up to the first one that has keys left.
func (q *Queue[K]) advanceLocked() {
	for q.oldest != q.newest && q.oldest.left == 0 {
		close(q.oldest.done)
		q.oldest = q.oldest.next
	}
}

// entryLocked returns the entry of key. It creates one or reuses an idle one.
func (q *Queue[K]) entryLocked(key K) *entry[K] {
	e := q.entries[key]
	if e != nil {
		if e.idle {
			e.idle = false
			q.idle.remove(e)
			q.idling--
		}
		return e
	}
	if q.idling == idleEntries {
		e = q.idle.first
		q.idle.remove(e)
		q.idling--
		delete(q.entries, e.key)
		e.idle = false
	} else {
		e = &entry[K]{}
	}
	e.key = key
	q.entries[key] = e
	q.most = max(q.most, len(q.entries))
	return e
}

// releaseLocked makes e idle or removes it, if its key is neither ready, delayed nor in work.
func (q *Queue[K]) releaseLocked(e *entry[K]) {
	if e.ready != nil || e.working != nil || e.at != 0 || e.awaited {
		return
	}
	if q.idling == idleEntries {
		delete(q.entries, e.key)
	} else {
		e.idle = true
		q.idle.push(e)
		q.idling++
	}
	if q.idling == len(q.entries) && q.most > 4*idleEntries { // a map does not shrink
		q.entries, q.most = map[K]*entry[K]{}, 0
		q.idle, q.idling = chain[K]{}, 0
	}
}

func (q *Queue[K]) now() time.Duration { return time.Since(q.epoch) }

func priorityOf(level uint8) Priority { return Priority(1 - int(level)) }
