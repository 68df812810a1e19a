package informer

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// unfinalized is a thing to be deleted, as the write that removed its last finalizer returned it.
type unfinalized struct{ *thing }

func (unfinalized) GetDeletionTimestamp() *metav1.Time    { return &metav1.Time{} }
func (unfinalized) GetDeletionGracePeriodSeconds() *int64 { return nil }
func (unfinalized) GetFinalizers() []string               { return nil }

// The write that removes the last finalizer of a deleted object returns a version that the store has. WaitForObject
// then waits until the store no longer has the object.
// Guarantees: C9
func TestWaitForObjectThatTheWriteRemoved(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		inf.put(list(5, "a", "b"))
		written := unfinalized{upsert(5, "a").Object}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForObject(short, written); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("before the deletion: %v", err)
		}
		met := make(chan error, 1)
		go func() { met <- inf.WaitForObject(t.Context(), written) }()
		inf.put(remove(6, "b"))
		synctest.Wait()
		select {
		case err := <-met:
			t.Errorf("after the deletion of another object: %v", err)
		default:
		}
		inf.put(remove(7, "a"))
		if err := <-met; err != nil {
			t.Error(err)
		}
		recreated := upsert(8, "a")
		recreated.Object.uid = "another"
		inf.put(recreated)
		if err := inf.WaitForObject(t.Context(), written); err != nil {
			t.Errorf("with another object of that name: %v", err)
		}
		nobody := unfinalized{upsert(8, "nobody").Object}
		nobody.uid = ""
		if err := inf.WaitForObject(t.Context(), nobody); err != nil {
			t.Errorf("without a UID: %v", err)
		}
	})
}
