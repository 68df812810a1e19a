package informer

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/source/reflector"
)

// queued puts deltas like a reflector that read them together.
func (f fed) queued(deltas ...Delta[*thing]) {
	f.t.Helper()
	for _, d := range deltas {
		if err := mirrorOf(f.engine).Buffer.Queue(f.t.Context(), read(d)); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := mirrorOf(f.engine).Drain.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

// Readers see changes that came together in one step, and flush has applied them when it returns.
// Guarantees: C6
func TestChangesThatCameTogetherAreOneStep(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		told := &recorder{}
		inf.Subscribe(told)
		inf.put(list(1, "a"))
		told.Want(t, "add a @1 initial=true")
		before := inf.store.core().Edits()
		inf.queued(upsert(2, "a"), upsert(3, "b"), remove(4, "b"))
		if rv, steps := inf.Store().ResourceVersion(), inf.store.core().Edits()-before; rv != "4" || steps != 1 {
			t.Errorf("the store is at %s after %d steps", rv, steps)
		}
		told.Want(t, "update a @1->@2")
		inf.queued()
		if steps := inf.store.core().Edits() - before; steps != 1 {
			t.Errorf("%d steps for nothing more", steps-1)
		}
	})
}

// After a warm start, additions are initial until the store has caught up, even if the change that shows this comes
// together with later ones. At that moment, the informer is synced and has its shard.
// Guarantees: S4
func TestAdditionsAreInitialUntilAWarmStartHasCaughtUp(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		told := &recorder{}
		inf.Subscribe(told)
		before := list(1, "a")
		before.from = &reflector.Origin{Kind: reflector.OlderState, Change: 1}
		inf.put(before)
		told.Want(t, "add a @1 initial=true")
		if has := mirrorOf(inf.engine).Sharding.Has(""); inf.HasSynced() || has != 0 {
			t.Errorf("synced %v with the shard %d after older objects", inf.HasSynced(), has)
		}
		last := Delta[*thing]{Type: Bookmarked, ResourceVersion: "3", from: &reflector.Origin{Kind: reflector.CaughtUp, Change: 1}}
		inf.queued(upsert(2, "b"), last, upsert(4, "c"))
		told.Want(t, "add b @2 initial=true", "add c @4 initial=false")
		if has := mirrorOf(inf.engine).Sharding.Has(""); !inf.HasSynced() || has != 1 {
			t.Errorf("synced %v with the shard %d after every change", inf.HasSynced(), has)
		}
	})
}

// A reflector does not wait for a handler. Changes beyond a full backlog wait to be applied, in order.
// Guarantees: F1, F3
func TestFlushDoesNotWaitForRoom(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{})}
		sub := inf.Subscribe(slow, SubscriptionConfig[*thing]{Delivery: DeliverEveryBlocking(1)})
		inf.put(list(1, "a"))
		synctest.Wait()
		for rv := 2; rv <= 10; rv++ {
			inf.queued(upsert(rv, "a"))
		}
		synctest.Wait()
		if rv, s := inf.Store().ResourceVersion(), sub.Status(); rv != "4" || !s.Blocking { // the list, and one update more than the limit
			t.Errorf("the store is at %s, status %+v", rv, s)
		}
		if s := inf.Status(); s.Queued != 6 {
			t.Errorf("%d changes wait, want 6", s.Queued)
		}
		close(slow.Gate)
		want := []string{"add a @1 initial=true"}
		for rv := 2; rv <= 10; rv++ {
			want = append(want, fmt.Sprintf("update a @%d->@%d", rv-1, rv))
		}
		slow.Want(t, want...)
	})
}

// A reflector that cannot apply its changes, because another goroutine is applying, leaves them to that goroutine.
// Guarantees: F1
func TestFlushDuringApply(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		told := &recorder{}
		inf.Subscribe(told)
		applying := make(chan struct{})
		NewIndex(inf.Informer, func(*thing) []string { <-applying; return nil })
		inf.put(list(1, "a"))
		synctest.Wait()
		inf.queued(upsert(2, "b"))
		told.Want(t)
		close(applying)
		told.Want(t, "add a @1 initial=true", "add b @2 initial=false")
	})
}

// A list is never applied together with changes: its additions are initial, and the informer has synced after it.
// Guarantees: F4
func TestFlushLeavesListsToApply(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		told := &recorder{}
		inf.Subscribe(told)
		bookmark := Delta[*thing]{Type: Bookmarked, ResourceVersion: "1"}
		inf.queued(bookmark, list(2, "a"), upsert(3, "b"))
		told.Want(t, "add a @2 initial=true", "add b @3 initial=false")
		if !inf.HasSynced() {
			t.Error("not synced")
		}
	})
}

// If an index function calls runtime.Goexit, the informer ends, even if the goroutine was the reflector's.
// Guarantees: C3
func TestIndexThatExitsEndsTheInformer(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		exits := false
		NewIndex(inf.Informer, func(*thing) []string {
			if exits {
				runtime.Goexit()
			}
			return nil
		})
		inf.put(list(1, "a"))
		synctest.Wait()
		exits = true
		go func() {
			_ = mirrorOf(inf.engine).Buffer.Queue(t.Context(), read(upsert(2, "a")))
			_ = mirrorOf(inf.engine).Drain.Flush()
		}()
		synctest.Wait()
		if err := inf.Subscribe(&recorder{}).Err(); err == nil {
			t.Error("the informer goes on")
		}
	})
}
