package informer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/queue/controller"
	"github.com/typedinformer/informer/internal/queue/queue"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Priority orders the keys that wait in a [Queue]. There are three priorities: values below zero mean LowPriority,
// values above zero mean HighPriority.
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
	return [queue.Levels]string{"high", "normal", "low"}[p.level()]
}

// level returns 0 for the highest priority, 2 for the lowest, as package queue counts them.
func (p Priority) level() uint8 { return uint8(1 - min(max(int(p), -1), 1)) }

func priorityOf(level uint8) Priority { return Priority(1 - int(level)) }

// QueueConfig is the configuration of a [Queue]. The zero value is right for most.
//
// [status.Queue] has all metrics of client-go's workqueue. OnGet and OnDone are for measurements of your own, such as
// histograms by priority. The goroutine that calls Get or Done calls them, without a lock. If one of them panics or
// calls runtime.Goexit, the queue stays consistent: a key that Get has not returned waits again, and a key that is done
// stays done.
type QueueConfig[K comparable] struct {
	// Name names the queue in errors and in status.Queue. Empty means "queue".
	Name string
	// RateLimiter returns the delays for AddRateLimited. Nil means a new DefaultLimiter.
	RateLimiter RateLimiter[K]
	// OnGet receives the priority of each key that Get hands out, and the time since the key became ready. Nil means
	// nothing.
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
	// RateLimited delays each key by the queue's limiter, which counts a try. The key waits for that delay or for After,
	// whichever is longer. False means that no limit applies.
	RateLimited bool
}

// Ownership says whether a key belongs to this replica of a program. [Controller.Own] uses it.
type Ownership uint8

const (
	// KeyForeign keys belong to another replica. A queue drops them.
	KeyForeign Ownership = iota
	// KeyAwaited keys are about to belong to this replica. A queue keeps them, and does not hand them out.
	KeyAwaited
	// KeyOwned keys belong to this replica.
	KeyOwned
)

// Queue holds keys to reconcile, each once, however often it is added. It is like client-go's workqueue, with
// priorities and without goroutines: it uses only its callers' goroutines, and a timer while keys are delayed.
//
// A key that Get hands out is in work until Done. Get does not hand it out again before. A key that is added while in
// work becomes ready again after Done. A waiting key that is added again gets the higher of both priorities and the
// earlier of both times. AddAfter never postpones a ready key, and does not make it run again later.
//
// Get hands out a ready key of the highest priority, in the order in which the keys got that priority. Low priorities
// do not starve: Get passes over the oldest ready key at most 15 times in a row. A key with n older ones before it is
// therefore handed out after at most 16 x (n + 1) others.
//
// With [Controller.Own], the queue hands out only the keys of this replica.
//
// A queue takes about 150 bytes plus the size of the key for each key, and frees this memory later. All methods are
// safe for concurrent use. Create one with [NewQueue].
type Queue[K comparable] struct {
	config  QueueConfig[K]
	limiter RateLimiter[K]
	epoch   time.Time // the base of all times: time.Since reads the clock faster than time.Now

	mu    sync.Mutex      // protects the fields below
	queue *queue.Queue[K] // its channels are read without mu
	timer *time.Timer     // calls fall when the first delayed key is ready, or earlier; nil before the first delay
	armed time.Duration   // when the timer fires; zero means never
}

// NewQueue returns an empty queue. No configuration is invalid.
func NewQueue[K comparable](config QueueConfig[K]) *Queue[K] {
	q := &Queue[K]{config: config, limiter: config.RateLimiter, epoch: time.Now()}
	q.queue = queue.New[K](q.now)
	if q.config.Name == "" {
		q.config.Name = "queue"
	}
	if q.limiter == nil {
		q.limiter = DefaultLimiter[K]()
	}
	return q
}

// Add makes key ready at NormalPriority, and ends its delay if it has one. A draining or closed queue refuses keys,
// which [Queue.Status] counts.
func (q *Queue[K]) Add(key K) { q.add(key, AddOptions{}) }

// AddAfter makes key ready after delay, unless it is ready by then. A key in work keeps the priority with which it was
// handed out.
func (q *Queue[K]) AddAfter(key K, delay time.Duration) { q.add(key, AddOptions{After: delay}) }

// AddRateLimited makes key ready after the delay of the queue's limiter, unless it is ready by then. A key in work
// keeps the priority with which it was handed out.
func (q *Queue[K]) AddRateLimited(key K) { q.add(key, AddOptions{RateLimited: true}) }

// AddWith adds keys with options o, one after the other.
func (q *Queue[K]) AddWith(o AddOptions, keys ...K) {
	for _, key := range keys {
		q.add(key, o)
	}
}

// Get waits for a ready key and hands it out. The caller must call Done for it. If ctx has ended, Get returns the cause
// of ctx, even if there are keys. It returns [ErrClosed] after Close, and once a draining queue has no key left to hand
// out.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	var none K
	for {
		if ctx.Err() != nil {
			run.Signal(q.queue.Ready) // this call may have taken the token of another
			return none, context.Cause(ctx)
		}
		q.mu.Lock()
		turn, ok, foreign := q.queue.Next()
		ended := !ok && q.queue.Ended()
		q.mu.Unlock()
		q.forget(foreign)
		switch {
		case ok && q.config.OnGet != nil:
			q.observeGet(turn)
			return turn.Key, nil
		case ok:
			return turn.Key, nil
		case ended:
			run.Signal(q.queue.Ready)
			return none, ErrClosed
		}
		select {
		case <-q.queue.Ready:
		case <-ctx.Done():
		}
	}
}

// observeGet calls OnGet. If OnGet panics or calls runtime.Goexit, it puts the key back.
func (q *Queue[K]) observeGet(turn queue.Turn[K]) {
	returned := false
	defer func() {
		if !returned {
			q.putBack(turn.Key)
		}
	}()
	q.config.OnGet(priorityOf(turn.Level), turn.Waited)
	returned = true
}

// Done ends the work on key. It must be called once for each key that Get returns. For a key that is not in work it
// does nothing.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	worked, level, ok := q.queue.Done(key)
	q.mu.Unlock()
	if ok && q.config.OnDone != nil {
		q.config.OnDone(priorityOf(level), worked)
	}
}

// Cancel removes key from the queue if it is ready, delayed or awaited, and reports whether it was. If key is in work,
// that work continues, but key does not run again afterwards. Cancel does not reset the limiter; see Forget.
func (q *Queue[K]) Cancel(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.armLocked()
	return q.queue.Cancel(key)
}

// Forget resets the limiter for key, so that its next retry counts as the first. Call it when the work on key
// succeeded.
func (q *Queue[K]) Forget(key K) { q.limiter.Forget(key) }

// NumRequeues returns the number of times that key was added rate-limited since the last Forget.
func (q *Queue[K]) NumRequeues(key K) int { return q.limiter.NumRequeues(key) }

// Len returns the number of ready keys of the given priorities. Without arguments, it counts all priorities.
func (q *Queue[K]) Len(priorities ...Priority) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(priorities) == 0 {
		return q.queue.Waiting()
	}
	n := 0
	for _, p := range priorities {
		n += q.queue.Depth(p.level())
	}
	return n
}

// WaitProcessed waits until every key that is now ready or in work is done once or cancelled, and then returns nil. It
// does not wait for keys that are delayed or added later. A key that fails and is retried later therefore counts as
// done. If ctx ends first, the error has the number of keys left and wraps the cause of ctx. If Close drops keys, the
// error is [ErrClosed].
func (q *Queue[K]) WaitProcessed(ctx context.Context) error {
	q.mu.Lock()
	done := q.queue.Mark()
	q.mu.Unlock()
	return q.wait(ctx, done)
}

// Drain makes the queue refuse new keys, drops delayed and awaited keys, and waits until all ready keys and keys in
// work are done. This includes keys in work that were added again before. It then returns nil, also if called again. If
// ctx ends first, the error has the number of keys left and wraps the cause of ctx, and the queue continues to drain.
// If Close drops keys, the error is [ErrClosed].
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.mu.Lock()
	q.queue.Drain()
	q.armLocked()
	q.mu.Unlock()
	return q.wait(ctx, q.queue.Drained)
}

// wait waits until done is closed.
func (q *Queue[K]) wait(ctx context.Context, done <-chan struct{}) error {
	if run.IsClosed(done) {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-q.queue.Closed:
		return ErrClosed
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return fmt.Errorf("%s has %d keys waiting and %d in work: %w", q.config.Name, q.queue.Waiting(), q.queue.InWork(),
		context.Cause(ctx))
}

// Close makes the queue refuse new keys and drops all waiting keys. It does not wait for keys in work, for which Done
// may still be called. Closing again does nothing.
func (q *Queue[K]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.Close()
	q.armLocked()
}

// Status returns the present status of the queue.
func (q *Queue[K]) Status() status.Queue {
	q.mu.Lock()
	s, longest := q.queue.Status(), q.queue.Longest()
	q.mu.Unlock()
	s.Name = q.config.Name
	if s.InWork > 0 {
		s.LongestRunningKey = controller.KeyText(longest) // without the lock: a key may have a String method
	}
	return s
}

func (q *Queue[K]) add(key K, o AddOptions) {
	retry := o.RateLimited || o.After > 0
	if o.RateLimited {
		o.After = max(o.After, q.limiter.When(key))
	}
	want := queue.Want{Level: o.Priority.level(), After: o.After, Retry: retry, Inherit: o.Priority == NormalPriority}
	q.mu.Lock()
	accepted := q.queue.Add(key, want)
	q.armLocked()
	q.mu.Unlock()
	if !accepted {
		q.limiter.Forget(key)
	}
}

// waitFor waits until gate is open. It also returns when ctx ends or q hands out no more keys: Get has that error.
func (q *Queue[K]) waitFor(ctx context.Context, gate *Gate) {
	for opens := gate.opened(); opens != nil; opens = gate.opened() {
		select {
		case <-opens:
		case <-ctx.Done():
			return
		case <-q.queue.Closed:
			return
		case <-q.queue.Drained:
			return
		}
	}
}

// putBack undoes the Get that handed key out, unless Done has been called. key is ready again at its priority, behind
// the other ready keys.
func (q *Queue[K]) putBack(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.PutBack(key)
	q.armLocked()
}

// hold keeps key from being handed out until letGo, or until the queue drains. It returns false if the queue does.
func (q *Queue[K]) hold(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.Hold(key)
}

// letGo ends a hold.
func (q *Queue[K]) letGo(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue.LetGo(key)
}

// owns reports whether the queue owns key.
func (q *Queue[K]) owns(key K) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.Owns(key)
}

// keys returns the keys that are ready, delayed, awaited or in work.
func (q *Queue[K]) keys() []K {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.Keys()
}

// own makes the queue hand out a key only while rule returns KeyOwned for it. Nil means that all keys are KeyOwned.
func (q *Queue[K]) own(rule func(key K) Ownership) {
	var owned func(K) queue.Ownership
	if rule != nil {
		owned = func(key K) queue.Ownership { return queue.Ownership(rule(key)) }
	}
	q.mu.Lock()
	foreign := q.queue.Own(owned)
	q.mu.Unlock()
	q.forget(foreign)
}

// waitReleased waits until no key for which match returns true is in work, and then returns nil. If the keys are not
// KeyOwned, none of them will be in work then. If ctx ends first, the error has the number of keys left and wraps the
// cause of ctx.
func (q *Queue[K]) waitReleased(ctx context.Context, match func(key K) bool) error {
	q.mu.Lock()
	release := q.queue.Released(match)
	q.mu.Unlock()
	if release == nil {
		return nil
	}
	select {
	case <-release.Done():
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if left := q.queue.Abandon(release); left > 0 {
		return fmt.Errorf("%s has %d of these keys in work: %w", q.config.Name, left, context.Cause(ctx))
	}
	return nil
}

// inWork returns the keys in work for which match returns true, and when Get handed out each.
func (q *Queue[K]) inWork(match func(key K) bool) map[K]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := map[K]time.Time{}
	for key, began := range q.queue.Working() {
		if match(key) {
			keys[key] = q.epoch.Add(began)
		}
	}
	return keys
}

// forget resets the limiter for keys that the queue has dropped.
func (q *Queue[K]) forget(keys []K) {
	for _, key := range keys {
		q.limiter.Forget(key)
	}
}

// armLocked makes the timer fire when the first delay ends, or earlier. Resetting the timer when that key is removed
// would cost more than a needless call of fall.
func (q *Queue[K]) armLocked() {
	due, ok := q.queue.Due()
	switch {
	case !ok && q.armed != 0:
		q.timer.Stop()
		q.armed = 0
	case !ok || q.armed != 0 && q.armed <= due:
	case q.timer == nil:
		q.armed = due
		q.timer = time.AfterFunc(due-q.now(), q.fall)
	default:
		q.armed = due
		q.timer.Reset(due - q.now())
	}
}

// fall makes keys ready whose delay has ended, and releases the lock in between. The timer calls it.
func (q *Queue[K]) fall() {
	for more := true; more; {
		q.mu.Lock()
		more = q.queue.Fall()
		if !more {
			q.armed = 0
			q.armLocked()
		}
		q.mu.Unlock()
	}
}

func (q *Queue[K]) now() time.Duration { return time.Since(q.epoch) }
