package informer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// owner is a function for Queue.own whose results can be changed.
type owner struct {
	mu    sync.Mutex // protects of
	owned map[string]Ownership
}

func (o *owner) get(key string) Ownership {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owned[key]
}

func (o *owner) set(ownership Ownership, keys ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.owned == nil {
		o.owned = map[string]Ownership{}
	}
	for _, key := range keys {
		o.owned[key] = ownership
	}
}

// wantNoKey fails the test if q hands out a key.
func wantNoKey(t *testing.T, q *Queue[string]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if key, err := q.Get(ctx); err == nil {
		t.Errorf("Get handed out %q", key)
	}
}

// wantKeys takes keys out of q and fails the test if they are others.
func wantKeys(t *testing.T, q *Queue[string], keys ...string) {
	t.Helper()
	for _, want := range keys {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		key, err := q.Get(ctx)
		cancel()
		if err != nil || key != want {
			t.Fatalf("Get handed out %q, %v; want %q", key, err, want)
		}
		q.Done(key)
	}
	wantNoKey(t, q)
}

// Guarantees: S3
func TestQueueHandsOutOnlyKeysThatItOwns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueConfig[string]{})
		var o owner
		o.set(KeyOwned, "own", "lost", "lost while delayed")
		o.set(KeyAwaited, "soon", "later", "never")
		q.AddWith(AddOptions{RateLimited: true}, "refused")
		q.Cancel("refused")
		q.own(o.get)
		for _, key := range []string{"soon", "own", "refused", "lost", "later", "never"} {
			q.Add(key)
		}
		q.AddAfter("lost while delayed", time.Second)
		q.AddAfter("later", time.Hour) // does not postpone it
		o.set(KeyForeign, "lost", "lost while delayed")
		wantKeys(t, q, "own")
		time.Sleep(time.Second)
		wantNoKey(t, q)
		s := q.Status()
		if s.Awaited != 3 || s.Foreign != 3 || s.Depth.Normal != 0 || s.Delayed != 0 {
			t.Errorf("the status is %+v", s)
		}
		if n := q.NumRequeues("refused"); n != 0 {
			t.Errorf("a foreign key keeps %d retries", n)
		}
		q.AddWith(AddOptions{Priority: HighPriority}, "later")
		o.set(KeyOwned, "soon", "later")
		wantNoKey(t, q) // until Own is called
		o.set(KeyForeign, "never")
		q.own(o.get)
		wantKeys(t, q, "later", "soon")
		if s := q.Status(); s.Awaited != 0 || s.Foreign != 4 {
			t.Errorf("the status is %+v", s)
		}
		q.own(nil)
		q.Add("refused")
		wantKeys(t, q, "refused")
	})
}

// Guarantees: S3
func TestQueueParksAKeyThatIsAddedAgainWhileInWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueConfig[string]{})
		var o owner
		o.set(KeyOwned, "a", "b")
		q.own(o.get)
		q.Add("a")
		q.Add("b")
		for range 2 {
			if _, err := q.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		q.Add("a")
		q.Add("b")
		o.set(KeyAwaited, "a")
		o.set(KeyForeign, "b")
		q.Done("a")
		q.Done("b")
		wantNoKey(t, q)
		o.set(KeyOwned, "a", "b")
		q.own(o.get)
		wantKeys(t, q, "a")
	})
}

// Guarantees: S3
func TestCancelDrainAndCloseEndAwaitedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owner
		o.set(KeyAwaited, "a", "b")
		q := NewQueue(QueueConfig[string]{})
		q.own(o.get)
		q.Add("a")
		q.Add("b")
		wantNoKey(t, q)
		if !q.Cancel("a") || q.Cancel("a") {
			t.Error("Cancel does not report that the key was in the queue")
		}
		if err := q.WaitProcessed(t.Context()); err != nil {
			t.Error(err) // an awaited key is not this queue's
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		o.set(KeyOwned, "a", "b")
		q.own(o.get)
		if s := q.Status(); s.Awaited != 0 || s.Adds != 2 || s.State != status.QueueClosed {
			t.Errorf("the status after Drain is %+v", s)
		}
		o.set(KeyAwaited, "a")
		q = NewQueue(QueueConfig[string]{})
		q.own(o.get)
		q.Add("a")
		wantNoKey(t, q)
		q.Close()
		o.set(KeyOwned, "a")
		q.own(o.get)
		if s := q.Status(); s.Awaited != 0 {
			t.Errorf("the status after Close is %+v", s)
		}
	})
}

// Guarantees: S3
func TestDrainEndsWhenTheRestIsForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owner
		o.set(KeyOwned, "a", "b")
		q := NewQueue(QueueConfig[string]{})
		q.own(o.get)
		q.Add("a")
		q.Add("b")
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		o.set(KeyForeign, "a")
		o.set(KeyAwaited, "b")
		if _, err := q.Get(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Get returned %v", err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// Results of the function may change without a call of Own, as when the clock passes the end of a lease and the lease is then renewed.
//
// Guarantees: S3
func TestKeyThatWasAwaitedForAMomentIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueConfig[string]{})
		var o owner
		q.own(o.get)
		o.set(KeyAwaited, "a", "b")
		q.Add("a")
		q.AddWith(AddOptions{Priority: HighPriority}, "b")
		wantNoKey(t, q)
		o.set(KeyOwned, "a", "b")
		q.AddWith(AddOptions{Priority: LowPriority}, "b")
		q.AddAfter("a", time.Hour)
		wantKeys(t, q, "b", "a")
	})
}

// Guarantees: S3
func TestWaitReleasedWaitsForTheKeysInWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueConfig[string]{Name: "q"})
		for _, key := range []string{"a1", "a2", "b1"} {
			q.Add(key)
			if _, err := q.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ofA := func(key string) bool { return strings.HasPrefix(key, "a") }
		if err := q.waitReleased(t.Context(), func(key string) bool { return key == "c" }); err != nil {
			t.Error(err)
		}
		released := make(chan error, 1)
		go func() { released <- q.waitReleased(t.Context(), ofA) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.waitReleased(ctx, ofA); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "q has 2 of these keys in work") {
			t.Errorf("the error is %v", err)
		}
		q.Done("a2")
		q.Done("b1")
		synctest.Wait()
		select {
		case err := <-released:
			t.Fatalf("WaitReleased returned %v with a key in work", err)
		default:
		}
		q.putBack("a1")
		if err := <-released; err != nil {
			t.Error(err)
		}
	})
}

// Guarantees: S3
func TestNoKeyIsInWorkAfterItsRelease(t *testing.T) {
	const keys, rounds = 20, 300
	q := NewQueue(QueueConfig[int]{})
	var own atomic.Uint64 // a bit for each key
	var working [keys]atomic.Int32
	rule := func(key int) Ownership {
		if own.Load()>>key&1 == 1 {
			return KeyOwned
		}
		return KeyAwaited
	}
	q.own(rule)
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				key, err := q.Get(ctx)
				if err != nil {
					return
				}
				working[key].Add(1)
				q.Add(key)
				working[key].Add(-1)
				q.Done(key)
			}
		})
	}
	for i := range keys {
		q.Add(i)
	}
	for round := range rounds {
		before := own.Load()
		bits := uint64(round) * 0x9e3779b97f4a7c15 >> 44
		own.Store(bits)
		q.own(rule)
		lost := func(key int) bool { return before&^bits>>key&1 == 1 }
		if err := q.waitReleased(ctx, lost); err != nil {
			t.Fatal(err)
		}
		for key := range keys {
			if lost(key) && working[key].Load() != 0 {
				t.Fatalf("round %d: key %d is in work after its release", round, key)
			}
		}
	}
	cancel()
	workers.Wait()
	own.Store(1<<keys - 1)
	q.own(rule)
	if got := q.keys(); len(got) != keys {
		t.Errorf("keys %v are left, want %d", got, keys)
	}
}

// Guarantees: S3
func TestControllerReconcilesOnlyItsOwnKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owner
		o.set(KeyOwned, "a")
		o.set(KeyAwaited, "b")
		started, finish := make(chan string, 10), make(chan struct{})
		r := startController(t, &Controller[string]{
			MaxConcurrentReconciles: 2,
			Reconcile: func(ctx context.Context, key string) (Result, error) {
				started <- key
				select {
				case <-finish:
					return Result{RequeueAfter: time.Minute}, nil
				case <-ctx.Done():
					return Result{}, context.Cause(ctx)
				}
			},
		})
		r.Own(o.get)
		for _, key := range []string{"a", "b", "c"} {
			r.Queue.Add(key)
		}
		r.want("a@0s")
		o.set(KeyAwaited, "a")
		r.Own(o.get)
		all := func(string) bool { return true }
		began := time.Now()
		released := make(chan struct{})
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			r.WaitReleased(ctx, all)
			close(released)
		}()
		time.Sleep(2 * time.Second)
		if run.IsClosed(released) {
			t.Error("WaitReleased returned while a key was being reconciled")
		}
		if got := r.InWork(all); len(got) != 1 || !got["a"].Equal(began) {
			t.Errorf("in work are %v, want a since %v", got, began)
		}
		if got := r.InWork(func(key string) bool { return key == "b" }); len(got) != 0 {
			t.Errorf("in work are %v of the other keys", got)
		}
		time.Sleep(2 * time.Second) // the context of the call has ended
		if !run.IsClosed(released) {
			t.Error("WaitReleased did not end the context")
		}
		time.Sleep(time.Hour) // nor is the key retried
		r.want()
		if s := r.Status(); s.Failed != 1 || s.Queue.Awaited != 2 || s.Queue.Foreign != 1 {
			t.Errorf("the status is %+v", s)
		}
		close(finish)
		o.set(KeyOwned, "a", "b")
		r.Own(o.get)
		when := 4*time.Second + time.Hour
		r.wantInAnyOrder(fmt.Sprintf("a@%v", when), fmt.Sprintf("b@%v", when))
	})
}

// WaitReleased ends the contexts of the keys that match, and no others, and returns when their calls have returned, however long they need.
// Guarantees: S3
func TestWaitReleasedEndsOnlyTheCallsThatMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owner
		o.set(KeyOwned, "a", "b")
		causes := make(chan error, 2)
		finish := make(chan struct{})
		r := startController(t, &Controller[string]{
			MaxConcurrentReconciles: 2,
			Reconcile: func(ctx context.Context, key string) (Result, error) {
				if key == "a" {
					<-ctx.Done()
					causes <- context.Cause(ctx)
					time.Sleep(5 * time.Second)
					return Result{}, context.Cause(ctx)
				}
				select {
				case <-finish:
				case <-ctx.Done():
					causes <- errors.New("the call for b has lost its context")
				}
				return Result{}, nil
			},
		})
		r.Own(o.get)
		r.Queue.Add("a")
		r.Queue.Add("b")
		synctest.Wait()
		o.set(KeyForeign, "a")
		r.Own(o.get)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.WaitReleased(ctx, func(key string) bool { return key == "a" })
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("WaitReleased took %v, but the call needs 6 s", took)
		}
		if err := <-causes; !errors.Is(err, errNotOwned) {
			t.Errorf("the cause is %v", err)
		}
		close(finish)
		synctest.Wait()
		if len(causes) > 0 {
			t.Error(<-causes)
		}
		if s := r.Status(); s.Queue.InWork != 0 {
			t.Errorf("the status is %+v", s)
		}
	})
}

// The limiter forgets the tries of a key that becomes foreign.
// Guarantees: S3
func TestForeignKeysLeaveNoTriesBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o owner
		limiter := &ExponentialLimiter[string]{}
		q := NewQueue(QueueConfig[string]{Name: "q", RateLimiter: limiter})
		q.own(o.get)
		var keys []string
		for i := range 100 {
			keys = append(keys, fmt.Sprint("key", i))
		}
		o.set(KeyAwaited, keys...)
		q.AddWith(AddOptions{}, keys...)
		for _, key := range keys {
			limiter.When(key)
		}
		wantNoKey(t, q) // Get sets the keys aside that it may not hand out
		if s := q.Status(); s.Awaited != len(keys) {
			t.Errorf("the status is %+v", s)
		}
		o.set(KeyForeign, keys...)
		q.own(o.get)
		if s := q.Status(); s.Awaited != 0 || s.Foreign != uint64(len(keys)) {
			t.Errorf("the status is %+v", s)
		}
		if n := len(limiter.tries); n > 0 {
			t.Errorf("the limiter has the tries of %d keys", n)
		}
	})
}
