package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

const (
	// ttl is how long an answer is used, as in components of Kubernetes (DelegatingAuthenticationOptions in
	// k8s.io/apiserver).
	ttl        = 10 * time.Second
	timeout    = 10 * time.Second // of a review
	maxAnswers = 10_000           // of each kind
	maxReviews = 100              // under way at a time, of each kind
)

// ErrBusy indicates that too many reviews are under way. The caller may try again.
var ErrBusy = errors.New("too many reviews are under way")

var errFailed = errors.New("the review did not return")

// answers remembers at most maxAnswers answers, each for ttl. Concurrent requests for one answer share a review. It
// does not remember errors. The zero value is ready.
type answers[V any] struct {
	mu    sync.Mutex // protects the fields below
	byKey map[[sha256.Size]byte]*answer[V]
	asked int // reviews under way
	count Counts
}

type answer[V any] struct {
	done  chan struct{} // closed when the fields below are set
	value V
	err   error
	until time.Time // zero before done, protected by answers.mu
}

func (a *answers[V]) get(ctx context.Context, key [sha256.Size]byte, review func(context.Context) (V, error)) (value V,
	err error) {
	a.mu.Lock()
	known := a.byKey[key]
	switch {
	case known != nil && (known.until.IsZero() || time.Now().Before(known.until)):
		a.count.Remembered++
	case a.asked == maxReviews:
		a.mu.Unlock()
		return value, ErrBusy
	default:
		a.count.Requested++
		a.asked++
		known = &answer[V]{done: make(chan struct{}), err: errFailed}
		a.makeRoomLocked()
		a.byKey[key] = known
		go func() { // others may wait for it too, so it does not end with this request
			defer a.finish(key, known)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			known.value, known.err = review(ctx)
		}()
	}
	a.mu.Unlock()
	select {
	case <-known.done:
		return known.value, known.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (a *answers[V]) finish(key [sha256.Size]byte, known *answer[V]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked--
	known.until = time.Now().Add(ttl)
	if known.err != nil && a.byKey[key] == known {
		delete(a.byKey, key)
	}
	close(known.done)
}

// makeRoomLocked removes expired answers and, if that is not enough, others.
func (a *answers[V]) makeRoomLocked() {
	if a.byKey == nil {
		a.byKey = map[[sha256.Size]byte]*answer[V]{}
	}
	if len(a.byKey) < maxAnswers {
		return
	}
	now := time.Now()
	for key, known := range a.byKey {
		if !known.until.IsZero() && now.After(known.until) {
			delete(a.byKey, key)
		}
	}
	for key := range a.byKey {
		if len(a.byKey) < maxAnswers {
			return
		}
		delete(a.byKey, key)
	}
}

func (a *answers[V]) counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}
