package informer

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/source/reflector"
)

// Guarantees: F1, F2, F4
func TestOrderFromManyProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a lost wake-up is a deadlock here
		f := NewFIFO[*thing](8)
		const producers, deltas = 4, 2000
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for i := range deltas {
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
		for taken := 0; taken < producers*deltas; {
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

// Guarantees: F3, F5
func TestFIFOIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFIFO[*thing](0)
		put := make(chan error, 1)
		go func() {
			for {
				if err := f.Put(t.Context(), Delta[*thing]{Type: Bookmarked}); err != nil {
					put <- err
					return
				}
			}
		}()
		synctest.Wait()
		if deltas, blocked := f.Len(); deltas != 1024 || blocked != 1 {
			t.Errorf("%d deltas, %d blocked", deltas, blocked)
		}
		f.Close(true)
		if err := <-put; err != ErrClosed {
			t.Errorf("Put: %v", err)
		}
		if batch, err := f.Take(t.Context(), nil); err != nil || len(batch) != 1024 {
			t.Errorf("took %d, %v", len(batch), err)
		}
		if _, err := f.Take(t.Context(), nil); err != ErrClosed {
			t.Errorf("Take: %v", err)
		}
	})
}

// The types of deltas have the values of the engine.
// Guarantees: O1
func TestDeltasAreThoseOfTheEngine(t *testing.T) {
	for public, engine := range map[DeltaType]reflector.DeltaType{
		Upserted: reflector.Upserted, Removed: reflector.Removed, Replaced: reflector.Replaced, Bookmarked: reflector.Bookmarked,
	} {
		if DeltaType(engine) != public {
			t.Errorf("%d of the engine is %v, want %v", engine, DeltaType(engine), public)
		}
	}
}
