package informer

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// waitUntil checks its condition at each publication, and returns the cause of its context.
// Guarantees: C9
func TestWaitUntilWakesAtEachPublication(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		calls := 0
		met := make(chan error)
		go func() {
			met <- inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { calls++; return s.ResourceVersion() == "13" })
		}()
		for rv := range 3 {
			synctest.Wait()
			select {
			case err := <-met:
				t.Fatalf("returned before %d: %v", 11+rv, err)
			default:
			}
			if calls != 1+rv {
				t.Errorf("%d calls after %d publications", calls, rv)
			}
			inf.put(Delta[*thing]{Type: Bookmarked, ResourceVersion: strconv.Itoa(11 + rv)})
		}
		if err := <-met; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if err := inf.waitUntil(ctx, func(*Snapshot[*thing]) bool { return false }); err != why {
			t.Fatalf("err = %v", err)
		}
	})
}

// WaitForObject returns at once for an object that the store has, even if the store has no resource version.
// Guarantees: C9
func TestWaitForObjectThatIsThere(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		d := upsert(5, "a")
		d.ResourceVersion = ""
		inf.put(d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForObject(ctx, d.Object); err != nil {
			t.Error(err)
		}
		if err := inf.WaitForObject(ctx, upsert(6, "a").Object); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a newer version: %v", err)
		}
	})
}
