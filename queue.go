package informer

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// Priority orders the keys that wait in a [Queue]. There are three, so that numbers kept by priority are bounded:
// values below zero are LowPriority, those above are HighPriority.
type Priority int

const (
	// LowPriority is for keys that can wait: those of an initial list, and of a resync.
	LowPriority Priority = -1
	// NormalPriority is for changes as they happen. It is what [Queue.Add] uses.
	NormalPriority Priority = 0
	// HighPriority is for what must not wait behind changes.
	HighPriority Priority = 1
)

// String returns "low", "normal" or "high".
func (p Priority) String() string {
	return [priorities]string{"high", "normal", "low"}[p.level()]
}

// priorities is how many there are.
const priorities = 3

// level returns 0 for the highest priority, 2 for the lowest.
func (p Priority) level() int {
	return 1 - min(max(int(p), -1), 1)
}

// QueueState is what a [Queue] takes and gives.
//
//	Open -- Drain --> Draining -- the last key is done --> Closed
//	 |                   |                                   ^
//	 +------ Close ------+----------- Close -----------------+
type QueueState uint8

const (
	// QueueOpen takes keys and hands them out.
	QueueOpen QueueState = iota
	// QueueDraining takes none, and hands out those that it has.
	QueueDraining
	// QueueClosed takes none and has none.
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
// OnGet and OnDone are for histograms; everything else that client-go's workqueue measures is in [QueueStatus]. The
// goroutine that calls Get or Done calls them, without a lock. If one of them panics or ends the goroutine, the queue
// stays as it should be: a key that Get has not returned waits again, and a key that is done is done.
type QueueConfig[K comparable] struct {
	// Name names the queue in errors and in QueueStatus. Empty means "queue".
	Name string
	// RateLimiter says how long AddRateLimited delays a key. Nil means one of the queue's own from DefaultLimiter.
	RateLimiter RateLimiter[K]
	// OnGet receives the priority of each key that is handed out, and how long the key waited since it was ready:
	// workqueue_queue_duration_seconds. Nil means that nobody measures.
	OnGet func(p Priority, waited time.Duration)
	// OnDone receives the priority of each key that is done, and how long the key was in work:
	// workqueue_work_duration_seconds. Nil means that nobody measures.
	OnDone func(p Priority, worked time.Duration)
}

// AddOptions says how [Queue.AddWith] adds keys. The zero value is what Add does.
type AddOptions struct {
	// Priority is that of the keys. Zero is NormalPriority, but for a key that is in work and added with After or
	// RateLimited: that is a retry, and zero keeps the priority with which the key was handed out.
	Priority Priority
	// After is how long until the keys are ready. Zero and below mean now.
	After time.Duration
	// RateLimited has the queue's limiter count the keys, and delays them by its answer or by After, whichever is
	// longer: what comes back at an interval cannot outrun the limit.
	RateLimited bool
}

// QueueStatus tells how a [Queue] is doing. With each field stands the metric that client-go's workqueue reports it as.
type QueueStatus struct {
	Name  string
	State QueueState
	// Depth is how many keys are ready and wait for a worker: workqueue_depth. A key in work that is to run once more
	// is one of them. Each priority has an entry.
	Depth map[Priority]int
	// Delayed is how many keys wait for their time.
	Delayed int
	// InWork is how many keys were handed out and are not done.
	InWork int
	// Adds is how often a key became ready that was not: workqueue_adds_total.
	Adds uint64
	// Retries is how often a key was added with a delay or rate-limited: workqueue_retries_total.
	Retries uint64
	// Refused is how often a key was added to a queue that takes none any more.
	Refused uint64
	// LongestRunning is for how long the key longest in work has been: workqueue_longest_running_processor_seconds.
	LongestRunning time.Duration
	// Unfinished is for how long all keys in work have been, added up: workqueue_unfinished_work_seconds.
	Unfinished time.Duration
}

// Queue holds the keys that are to be worked on, each once, however often it is added. It is like client-go's
// workqueue, with priorities, and without goroutines: nothing runs but its callers, and a timer while keys are delayed.
//
// A key that Get hands out is in work until Done, and given to nobody else until then. Added while in work, it runs
// once more after Done. Of all that a key was asked for while it waited, the best counts: the highest priority, and
// the earliest time. A key that is ready or delayed is what it is at the time of Add; adding it with a delay does not
// make it run again later.
//
// Get hands out the ready key of the highest priority, of these the one that came to that priority first; a key asked
// for at a higher priority goes behind those that are there. Low priorities do not starve: the key that has been ready
// for longest, whatever its priority, is passed over 15 times at most, so that a key behind n older ones is handed out
// after at most 16 x (n + 1) others.
//
// A queue costs about 150 bytes and the key's own size for each key that it has, and gives that back. All methods
// are safe for concurrent use. Create one with [NewQueue].
type Queue[K comparable] struct {
	config  QueueConfig[K]
	limiter RateLimiter[K]
	epoch   time.Time     // times are counted from here: reading the clock is cheaper without the date
	ready   chan struct{} // holds a token while there may be something for a Get
	drained chan struct{} // closed when the last key of a Drain is done
	closed  chan struct{} // closed by Close, unless drained is

	mu      sync.Mutex // protects the fields below
	state   QueueState
	entries map[K]*entry[K]      // the keys that are ready, delayed, or in work; and some that are idle
	most    int                  // entries has had, since it was made
	idle    chain[K]             // entries of keys that were done, the oldest first: many come again. Up to idleEntries
	idling  int                  // how many these are
	levels  [priorities]chain[K] // the ready keys that are not in work, by priority
	age     chain[K]             // all of these, the oldest first
	passed  int                  // how many keys in a row were handed out past the oldest
	working chain[K]             // the keys in work, the longest first
	busy    int                  // how many these are
	depth   [priorities]int      // ready keys, those in work that run once more included
	delayed delays[K]            // the keys that wait for their time
	order   uint64               // of the delays: counts them
	timer   *time.Timer          // calls fall when the first delayed key is ready, or earlier; nil before the first delay
	armed   time.Duration        // when that is; zero means never
	adds    uint64
	retries uint64
	refused uint64
	// A key that becomes ready belongs to the newest generation, until it is done. WaitProcessed begins a new one, and
	// waits until no key is left of those before.
	oldest, newest *generation
}

// entry is all that a queue knows of a key.
type entry[K comparable] struct {
	key     K
	links   [2]link[K]    // in levels or working, and in age
	ready   *generation   // in which the key became ready; nil when it is not
	working *generation   // in which the key in work was ready; nil when it is not in work
	at      time.Duration // when the key will be ready; zero when it is not delayed. Never set together with ready
	order   uint64        // among equal at
	index   int           // in delayed
	since   time.Duration // when it became ready, if anybody asks
	began   time.Duration // when it was handed out
	level   uint8         // of its priority: asked for, while ready or delayed
	given   uint8         // with which it was handed out
	idle    bool          // in idle
}

// generation counts the keys that became ready between two calls of WaitProcessed.
type generation struct {
	left int           // keys that are not done
	done chan struct{} // closed when none is left, here and before; nil in the newest
	next *generation   // nil in the newest
}

const (
	// starveAfter is how many keys are handed out past the oldest before it has its turn: enough that low priorities
	// take 6 % of the workers when there is plenty else to do, and few enough that a backlog of them goes down.
	starveAfter = 15
	// fallAtOnce is how many delayed keys become ready in one go, about 20 us; others get at the queue in between.
	fallAtOnce = 64
	// idleEntries is how many keys a queue remembers that it has no more. When they come again, that saves half of the
	// time in the map; and the entry serves another key when it is full. They cost it up to 1 MB.
	idleEntries = 4096
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

// Add makes key ready at NormalPriority. A delay that it has is forgotten. A queue that drains or is closed refuses
// keys, which [Queue.Status] counts.
func (q *Queue[K]) Add(key K) { q.add(key, AddOptions{}) }

// AddAfter makes key ready after delay, unless it is ready by then. A key in work keeps the priority with which it was
// handed out.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) { q.add(key, AddOptions{After: delay}) }

// AddRateLimited makes key ready when the queue's limiter says, unless it is ready by then. A key in work keeps the
// priority with which it was handed out.
func (q *Queue[K]) AddRateLimited(key K) { q.add(key, AddOptions{RateLimited: true}) }

// AddWith adds keys as o says, one after the other.
func (q *Queue[K]) AddWith(o AddOptions, keys ...K) {
	for _, key := range keys {
		q.add(key, o)
	}
}

// Get waits for a key and hands it out; Done must be called for it. When ctx has ended it returns the cause of that,
// even if there are keys. It returns [ErrClosed] when there are none and will be none: after Close, and once a
// draining queue has no key left to hand out.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	var none K
	for {
		if ctx.Err() != nil {
			signal(q.ready) // it may have been the token of another
			return none, context.Cause(ctx)
		}
		q.mu.Lock()
		if e := q.nextLocked(); e != nil {
			waited := q.handOutLocked(e)
			key, p := e.key, priorityOf(e.given)
			q.mu.Unlock()
			if q.config.OnGet != nil {
				q.observeGet(key, p, waited)
			}
			return key, nil
		}
		ended := q.endedLocked()
		q.mu.Unlock()
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

// Done ends the work on key. It must be called once for each Get. For a key that is not in work it does nothing.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	e := q.entries[key]
	if e == nil || e.working == nil {
		q.mu.Unlock()
		return
	}
	var worked time.Duration
	if q.config.OnDone != nil {
		worked = q.now() - e.began
	}
	p := priorityOf(e.given)
	q.doneLocked(e)
	q.mu.Unlock()
	if q.config.OnDone != nil {
		q.config.OnDone(p, worked)
	}
}

// doneLocked ends the work on e.
func (q *Queue[K]) doneLocked(e *entry[K]) {
	q.working.remove(e)
	q.busy--
	q.finishLocked(e.working)
	e.working = nil
	if e.ready != nil {
		q.enqueueLocked(e)
	} else {
		q.releaseLocked(e)
	}
	q.settleLocked()
}

// Cancel takes key out of the queue if it is ready or delayed, and says whether it was. Work on it that is under way
// goes on, but is not done once more. What the limiter knows of it stays; see Forget.
func (q *Queue[K]) Cancel(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	switch {
	case e == nil || e.ready == nil && e.at == 0:
		return false
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

// Forget has the limiter forget key, so that its next retry is the first. To be called when the work on it succeeded.
func (q *Queue[K]) Forget(key K) { q.limiter.Forget(key) }

// NumRequeues returns how often key was added rate-limited since it was last forgotten.
func (q *Queue[K]) NumRequeues(key K) int { return q.limiter.NumRequeues(key) }

// Len returns how many keys are ready, of the priorities named or, if none is, of all.
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

// WaitProcessed waits until every key that is now ready or in work was done once, or cancelled, and returns nil then.
// What is added from now on is not waited for; nor are delayed keys, so that one that fails counts as done when it was
// tried. It returns an error that says what is left when ctx ends first, and [ErrClosed] when keys are dropped by Close.
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

// Drain has the queue take no more keys, drops those that are delayed, and waits until those that are ready and in
// work are done: a key in work that was added before runs once more, one added now is refused. It returns nil then,
// also if called again. When ctx ends first it returns an error that says what is left, and the queue goes on
// draining; when Close drops keys it returns [ErrClosed].
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

// Close has the queue take no more keys and drops all that it has. Keys in work are not waited for; their Done is
// still welcome. Closing again does nothing.
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
	q.entries, q.idle, q.idling = map[K]*entry[K]{}, chain[K]{}, 0
	for e := q.working.first; e != nil; e = e.links[byPlace].next {
		e.ready, e.at = nil, 0
		q.entries[e.key] = e
	}
	q.settleLocked()
}

// Status returns how the queue is doing.
func (q *Queue[K]) Status() QueueStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := QueueStatus{
		Name:    q.config.Name,
		State:   q.state,
		Depth:   make(map[Priority]int, priorities),
		Delayed: len(q.delayed),
		InWork:  q.busy,
		Adds:    q.adds,
		Retries: q.retries,
		Refused: q.refused,
	}
	for level, n := range q.depth {
		s.Depth[priorityOf(uint8(level))] = n
	}
	now := q.now()
	for e := q.working.first; e != nil; e = e.links[byPlace].next {
		s.LongestRunning = max(s.LongestRunning, now-e.began)
		s.Unfinished += now - e.began
	}
	return s
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
	defer q.mu.Unlock()
	if q.state != QueueOpen {
		q.refused++
		return
	}
	e := q.entryLocked(key)
	if retry {
		q.retries++
		if o.Priority == NormalPriority && e.working != nil {
			level = e.given
		}
	}
	if e.ready != nil || e.at != 0 {
		level = min(level, e.level)
	}
	switch {
	case e.ready != nil:
		q.moveUpLocked(e, level)
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
}

// putBack undoes the Get that handed key out, unless Done has been called: key is ready at the priority that it had,
// behind the keys that are ready.
func (q *Queue[K]) putBack(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key]
	if e == nil || e.working == nil {
		return
	}
	if q.state == QueueClosed {
		q.doneLocked(e)
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
	e.ready, e.working = e.working, nil // a WaitProcessed goes on waiting for it
	q.enqueueLocked(e)
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

// handOutLocked puts e to work, and returns how long it waited if anybody asks.
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
	if q.config.OnGet != nil {
		waited = e.began - e.since
	}
	return waited
}

// makeReadyLocked makes e ready, which it is not.
func (q *Queue[K]) makeReadyLocked(e *entry[K]) {
	if q.config.OnGet != nil {
		e.since = q.now()
	}
	e.ready = q.newest
	e.ready.left++
	q.depth[e.level]++
	q.adds++
	if e.working == nil {
		q.enqueueLocked(e)
	}
}

// enqueueLocked lets e, which is ready and no longer in work, be handed out.
func (q *Queue[K]) enqueueLocked(e *entry[K]) {
	q.levels[e.level].push(e)
	q.age.push(e)
	signal(q.ready)
}

func (q *Queue[K]) dequeueLocked(e *entry[K]) {
	q.levels[e.level].remove(e)
	q.age.remove(e)
}

// moveUpLocked gives e, which is ready, another priority.
func (q *Queue[K]) moveUpLocked(e *entry[K], level uint8) {
	if level == e.level {
		return
	}
	q.depth[e.level]--
	q.depth[level]++
	if e.working == nil { // it keeps its place by age
		q.levels[e.level].remove(e)
		q.levels[level].push(e)
	}
	e.level = level
}

// delayLocked delays e, which is not ready, by d, unless it is delayed by less.
func (q *Queue[K]) delayLocked(e *entry[K], d time.Duration) {
	at := q.now() + d
	if at < 0 { // overflow: as good as never
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

// armLocked sees to it that the timer fires no later than the first delayed key is ready. It may fire earlier: to set
// it back when that key is taken away costs more than one call too many.
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

// fall is what the timer does: it makes the delayed keys ready whose time has come.
func (q *Queue[K]) fall() {
	for more := true; more; {
		q.mu.Lock()
		more = q.fallLocked()
		q.mu.Unlock()
	}
}

// fallLocked makes some of them ready, and says whether more are to be.
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

// endedLocked says whether no key is handed out any more.
func (q *Queue[K]) endedLocked() bool {
	return q.state != QueueOpen && q.waitingLocked() == 0
}

// settleLocked tells those who wait for the end if it has come.
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

// advanceLocked ends the generations that have no key left, nor have those before them.
func (q *Queue[K]) advanceLocked() {
	for q.oldest != q.newest && q.oldest.left == 0 {
		close(q.oldest.done)
		q.oldest = q.oldest.next
	}
}

// entryLocked returns the entry of key, which may be idle.
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

// releaseLocked lets e go if nothing is left to know of its key.
func (q *Queue[K]) releaseLocked(e *entry[K]) {
	if e.ready != nil || e.working != nil || e.at != 0 {
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

// link ties an entry into a chain.
type link[K comparable] struct{ next, prev *entry[K] }

// chain is a list of entries that takes one out of the middle without looking for it.
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

// delays is a heap of entries by time, and by order of their coming for equal times. It has four branches at each
// node, for half the levels of two.
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

// up moves e towards the first while it is before what is there.
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

// down moves e away from the first while what is there is before it.
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

// shrink gives back the memory of an empty heap that was large.
func (d *delays[K]) shrink() {
	if cap(*d) > idleEntries {
		*d = nil
	}
}
