package informer

import (
	linked "container/list"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/errtext"
)

// ControllerStatus is the status of a [Controller].
type ControllerStatus struct {
	Name string
	// Running is true while Run is under way.
	Running bool
	// Workers is the maximum number of concurrent calls of Reconcile. Active is the number of calls under way. The queue
	// has the key of the longest one: QueueStatus.LongestRunningKey.
	Workers, Active int
	// Grace is Controller.Grace. Zero means the default.
	Grace time.Duration
	// Succeeded counts the calls of Reconcile that returned no error and no requeue. RequeuedAfter and BackedOff count
	// those that requested a requeue. Failed counts those that returned an error or panicked. Terminal and Panicked are
	// the parts of Failed with a TerminalError and a panic.
	Succeeded, RequeuedAfter, BackedOff, Failed, Terminal, Panicked uint64
	// Failing is the number of keys whose latest call failed. FailingKeys are those that have failed for longest, 10 at
	// most, the longest first.
	Failing     int
	FailingKeys []FailingKey
	// LastSuccess is the time at which a call last returned without an error. Zero means never.
	LastSuccess time.Time
	// LastError is the error of the latest call that failed, LastErrorTime its time, and LastErrorKey its key as text. Nil
	// means that no call has failed. A success does not clear it. The text of the error has 1 KiB at most. It may contain
	// whatever Reconcile put into it, even content of objects, so show it only to people who may read the log.
	LastError     error
	LastErrorTime time.Time
	LastErrorKey  string
	// Reconciles has the times that the calls of Reconcile took.
	Reconciles Durations
	// Queue is the status of the queue.
	Queue QueueStatus
}

// FailingKey is a key whose latest call of Reconcile failed.
type FailingKey struct {
	// Key is the key as text, 512 bytes at most.
	Key string
	// Since is the time of the first failure after the last success, and Failures the number of failures from then on.
	Since    time.Time
	Failures int
}

const maxFailingKeys = 10

// failures knows which keys of a controller fail. It has an entry for each of them, as the queue and its limiter have.
// The zero value is ready to use. All methods are safe for concurrent use, but calls of note for one key must not be
// concurrent.
type failures[K comparable] struct {
	mu      sync.Mutex            // protects the fields below
	entries map[K]*linked.Element // of order
	// of *failing[K]: each key whose latest call failed, the one that has failed for longest first
	order       linked.List
	lastSuccess time.Time
	lastError   error // nil before the first failure
	lastTime    time.Time
	lastKey     K
}

type failing[K comparable] struct {
	key   K
	since time.Time
	count int
}

// note records the result of a call for key that has ended now.
func (f *failures[K]) note(key K, err error, now time.Time) {
	if err != nil {
		err = errtext.Short(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.lastSuccess = now
		f.removeLocked(key)
		return
	}
	f.lastError, f.lastTime, f.lastKey = err, now, key
	if e := f.entries[key]; e != nil {
		e.Value.(*failing[K]).count++
		return
	}
	if f.entries == nil {
		f.entries = map[K]*linked.Element{}
	}
	f.entries[key] = f.order.PushBack(&failing[K]{key, now, 1})
}

// drop forgets the keys for which match returns true: another replica reconciles them from now on.
func (f *failures[K]) drop(match func(key K) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.entries {
		if match(key) {
			f.removeLocked(key)
		}
	}
}

func (f *failures[K]) removeLocked(key K) {
	if e := f.entries[key]; e != nil {
		f.order.Remove(e)
		delete(f.entries, key)
	}
	if len(f.entries) == 0 {
		f.entries = nil // a map does not shrink
	}
}

// fill sets the fields of s that failures knows.
func (f *failures[K]) fill(s *ControllerStatus) {
	f.mu.Lock()
	keys := make([]failing[K], 0, min(len(f.entries), maxFailingKeys))
	for e := f.order.Front(); e != nil && len(keys) < maxFailingKeys; e = e.Next() {
		keys = append(keys, *e.Value.(*failing[K]))
	}
	s.Failing, s.LastSuccess, s.LastError, s.LastErrorTime = len(f.entries), f.lastSuccess, f.lastError, f.lastTime
	last := f.lastKey
	f.mu.Unlock()
	if s.LastError != nil { // a key may have a String method, so no lock is held
		s.LastErrorKey = keyText(last)
	}
	for _, k := range keys {
		s.FailingKeys = append(s.FailingKeys, FailingKey{keyText(k.key), k.since, k.count})
	}
}
