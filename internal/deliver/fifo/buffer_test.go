package fifo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// item is the number of an item of a producer.
type item struct {
	producer, number int
	alone            bool
}

func newBuffer(capacity int) *Buffer[item] {
	return New(capacity, func(i *item) bool { return i.alone })
}

// Guarantees: F1, F4
func TestOrderFromManyProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a lost wake-up is a deadlock here
		p := newBuffer(8)
		const producers, items = 4, 2000
		var wg sync.WaitGroup
		for producer := range producers {
			wg.Go(func() {
				for i := range items {
					if err := p.Put(t.Context(), &item{producer, i, i%100 == 99}); err != nil {
						return // the test has failed
					}
				}
			})
		}
		var next [producers]int
		var batch []item
		for taken := 0; taken < producers*items; {
			var err error
			if batch, err = p.Take(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
			taken += len(batch)
			for _, i := range batch {
				if i.number != next[i.producer] {
					t.Fatalf("producer %d: %d instead of %d", i.producer, i.number, next[i.producer])
				}
				next[i.producer]++
				if i.alone && len(batch) > 1 {
					t.Fatalf("a batch of %d contains an item that is a batch of its own", len(batch))
				}
			}
			if len(batch) > 8 {
				t.Fatalf("a batch of %d", len(batch))
			}
		}
		wg.Wait()
	})
}

// takeFew takes all items or none. If it takes none, it wakes the consumer.
// Guarantees: F4
func TestTakeFewTakesAllOrNone(t *testing.T) {
	for _, c := range []struct {
		name  string
		items []item
		takes bool
		wakes bool
	}{
		{"nothing", nil, true, false},
		{"few", make([]item, 3), true, false},
		{"many", make([]item, 4), false, true},
		{"one alone", []item{{alone: true}}, false, true},
		{"the first alone", []item{{alone: true}, {}}, false, true},
		{"the last alone", []item{{}, {alone: true}}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newBuffer(8)
			for _, i := range c.items {
				if err := p.Queue(t.Context(), &i); err != nil {
					t.Fatal(err)
				}
			}
			if len(p.readable) > 0 {
				t.Error("Queue wakes the consumer")
			}
			want := c.items
			if !c.takes {
				want = nil
			}
			if got := p.takeFew(nil, 3); !slices.Equal(got, want) {
				t.Errorf("took %v, want %v", got, want)
			}
			if left, _ := p.Len(); left != len(c.items)-len(want) || len(p.readable) > 0 != c.wakes {
				t.Errorf("%d items are left, and the consumer has %d tokens", left, len(p.readable))
			}
		})
	}
}

// Guarantees: F3
func TestFullMakesProducersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newBuffer(2)
		ctx, cancel := context.WithCancel(t.Context())
		results := make(chan error, 5)
		for range 5 {
			go func() { results <- p.Put(ctx, &item{}) }()
		}
		synctest.Wait()
		if n, blocked := p.Len(); n != 2 || blocked != 3 || len(results) != 2 {
			t.Errorf("%d items, %d blocked, %d done", n, blocked, len(results))
		}
		if batch, err := p.Take(t.Context(), nil); err != nil || len(batch) != 2 {
			t.Errorf("took %d, %v", len(batch), err)
		}
		synctest.Wait()
		if n, blocked := p.Len(); n != 2 || blocked != 1 {
			t.Errorf("%d items, %d blocked", n, blocked)
		}
		cancel()
		synctest.Wait()
		if n, blocked := p.Len(); n != 2 || blocked != 0 || len(results) != 5 {
			t.Errorf("after cancel: %d items, %d blocked, %d done", n, blocked, len(results))
		}
	})
}

// A producer that gives up passes its token to the next one waiting.
// Guarantees: F3
func TestCancelledProducerPassesTheTokenOn(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			p := newBuffer(1)
			if err := p.Put(t.Context(), &item{}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			for _, ctx := range []context.Context{ctx, t.Context()} { // they are woken in order of arrival
				go p.Put(ctx, &item{})
				synctest.Wait()
			}
			if _, err := p.Take(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			cancel() // the first usually has the token by now, but has not run
			synctest.Wait()
			if n, blocked := p.Len(); n != 1 {
				t.Fatalf("%d items, %d blocked", n, blocked)
			}
		})
	}
}

// Guarantees: F5
func TestClose(t *testing.T) {
	for _, drain := range []bool{true, false} {
		t.Run(fmt.Sprintf("drain=%v", drain), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newBuffer(1)
				if err := p.Put(t.Context(), &item{}); err != nil {
					t.Fatal(err)
				}
				put := make(chan error, 3)
				for range 3 {
					go func() { put <- p.Put(t.Context(), &item{}) }()
				}
				synctest.Wait()
				p.Close(drain)
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
					if batch, err := p.Take(t.Context(), nil); err != nil || len(batch) != 1 {
						t.Errorf("took %d, %v", len(batch), err)
					}
				}
				took := make(chan error, 2)
				for range 2 {
					go func() { _, err := p.Take(t.Context(), nil); took <- err }()
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
			p := newBuffer(1)
			took := make(chan error, 3)
			for range cap(took) {
				go func() { _, err := p.Take(t.Context(), nil); took <- err }()
			}
			synctest.Wait()
			p.Close(drain)
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
