package informer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

// Guarantees: F1, F2, F4
func TestOrderFromManyProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a lost wake-up is a deadlock here
		f := NewFIFO[*thing](8)
		const producers, each = 4, 2000
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for i := range each {
					d := Delta[*thing]{Type: Upserted, Namespace: strconv.Itoa(p), ResourceVersion: strconv.Itoa(i)}
					if i%100 == 99 {
						d.Type = Replaced
					}
					if err := f.Put(t.Context(), d); err != nil {
						return // the test has failed
					}
				}
			})
		}
		next := map[string]int{}
		var batch []Delta[*thing]
		for taken := 0; taken < producers*each; {
			var err error
			if batch, err = f.Take(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			taken += len(batch)
			for _, d := range batch {
				if d.ResourceVersion != strconv.Itoa(next[d.Namespace]) {
					t.Fatalf("producer %s: %s instead of %d", d.Namespace, d.ResourceVersion, next[d.Namespace])
				}
				next[d.Namespace]++
				if d.Type == Replaced && len(batch) > 1 {
					t.Fatalf("a batch of %d contains a Replaced", len(batch))
				}
			}
			if len(batch) > 8 {
				t.Fatalf("a batch of %d", len(batch))
			}
		}
		wg.Wait()
	})
}

// Guarantees: F3
func TestFullMakesProducersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFIFO[*thing](2)
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 5)
		for range 5 {
			go func() { results <- f.Put(ctx, Delta[*thing]{Type: Bookmarked}) }()
		}
		synctest.Wait()
		if n, blocked := f.Len(); n != 2 || blocked != 3 || len(results) != 2 {
			t.Errorf("%d deltas, %d blocked, %d done", n, blocked, len(results))
		}
		if batch, err := f.Take(t.Context(), nil); err != nil || len(batch) != 2 {
			t.Errorf("took %d, %v", len(batch), err)
		}
		synctest.Wait()
		if n, blocked := f.Len(); n != 2 || blocked != 1 {
			t.Errorf("%d deltas, %d blocked", n, blocked)
		}
		cancel()
		synctest.Wait()
		if n, blocked := f.Len(); n != 2 || blocked != 0 || len(results) != 5 {
			t.Errorf("after cancel: %d deltas, %d blocked, %d done", n, blocked, len(results))
		}
	})
}

// A producer that gives up passes its token to the next one waiting.
// Guarantees: F3
func TestCancelledProducerPassesTheTokenOn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			f := NewFIFO[*thing](1)
			if err := f.Put(t.Context(), Delta[*thing]{Type: Bookmarked}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			for _, ctx := range []context.Context{ctx, t.Context()} { // they are woken in order of arrival
				go f.Put(ctx, Delta[*thing]{Type: Bookmarked})
				synctest.Wait()
			}
			if _, err := f.Take(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			cancel() // the first usually has the token by now, but has not run
			synctest.Wait()
			if n, blocked := f.Len(); n != 1 {
				t.Fatalf("%d deltas, %d blocked", n, blocked)
			}
		})
	}
}

// Guarantees: F5
func TestClose(t *testing.T) {
	for _, drain := range []bool{true, false} {
		t.Run(fmt.Sprintf("drain=%v", drain), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := NewFIFO[*thing](1)
				if err := f.Put(t.Context(), Delta[*thing]{Type: Bookmarked}); err != nil {
					t.Fatal(err)
				}
				put := make(chan error, 3)
				for range 3 {
					go func() { put <- f.Put(t.Context(), Delta[*thing]{Type: Bookmarked}) }()
				}
				synctest.Wait()
				f.Close(drain)
				synctest.Wait()
				if len(put) != 3 {
					t.Fatalf("%d producers still wait", 3-len(put))
				}
				for range 3 {
					if err := <-put; err != ErrClosed {
						t.Errorf("Put: %v", err)
					}
				}
				if drain {
					if batch, err := f.Take(t.Context(), nil); err != nil || len(batch) != 1 {
						t.Errorf("took %d, %v", len(batch), err)
					}
				}
				took := make(chan error, 2)
				for range 2 {
					go func() { _, err := f.Take(t.Context(), nil); took <- err }()
				}
				for range 2 {
					if err := <-took; err != ErrClosed {
						t.Errorf("Take: %v", err)
					}
				}
			})
		})
	}
}

// Close wakes all waiting consumers with a single token that they pass on.
// Guarantees: F5
func TestCloseWakesConsumers(t *testing.T) {
	for _, drain := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := NewFIFO[*thing](1)
			took := make(chan error, 3)
			for range cap(took) {
				go func() { _, err := f.Take(t.Context(), nil); took <- err }()
			}
			synctest.Wait()
			f.Close(drain)
			synctest.Wait()
			if len(took) != cap(took) {
				t.Fatalf("drain=%v: %d consumers still wait", drain, cap(took)-len(took))
			}
			for range cap(took) {
				if err := <-took; err != ErrClosed {
					t.Errorf("drain=%v: %v", drain, err)
				}
			}
		})
	}
}
