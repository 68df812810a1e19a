package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// want fails the test unless f has received exactly these calls.
func (f *follower) want(calls ...string) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.calls, calls) {
		f.Errorf("calls %q, want %q", f.calls, calls)
	}
}

// forever is byHand until the listener ends, also after its backlog was empty.
func forever(l *Listener[*thing]) {
	byHand(l)
	l.wake = make(chan struct{}, 1)
}

// A listener that joins a synced hub is synced once its handler has processed the objects of the store. Later changes
// are not initial.
// Guarantees: H7, H8
func TestLateListenerIsSyncedAfterItsInitialAdditions(t *testing.T) {
	w, f := &world{}, follow(t)
	h := newHub(t, w)
	w.set(&thing{"a", 1, 1})
	w.set(&thing{"b", 1, 1})
	h.Load()
	l := NewListener(h, Handler[*thing](f), nil, Config{Name: "late"})
	forever(l)
	h.Join(l, nil)
	w.apply(t, h, &thing{"c", 1, 1})
	var p pending[*thing]
	for n := range 2 {
		if !l.next(&p) || l.HasSynced() {
			t.Fatalf("after %d of 2 initial additions: synced is %t", n, l.HasSynced())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		left := fmt.Sprintf("handler late of things has %d initial objects left", 2-n)
		if err := l.WaitSynced(ctx); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), left) {
			t.Errorf("%v, want %s", err, left)
		}
		l.deliver(&p)
	}
	if !l.next(&p) || !l.HasSynced() || !l.Status().Synced || l.WaitSynced(t.Context()) != nil {
		t.Error("the listener is not synced")
	}
	l.deliver(&p)
	f.want("add a@1 initial=true", "add b@1 initial=true", "add c@1 initial=false")
	l.End(errLeft)
}

// The changes of a key that fold into one keep the deletion of the object that the handler has, and how it was seen.
// Guarantees: H2, H4, H5
func TestFoldedChangesKeepTheFirstDeletion(t *testing.T) {
	had, next, other, third := &thing{"a", 1, 1}, &thing{"a", 1, 2}, &thing{"a", 2, 3}, &thing{"a", 3, 4}
	update := Change[*thing]{Old: had, New: next}
	gone := func(old *thing, final bool) Change[*thing] {
		return Change[*thing]{Old: old, Last: old, Deleted: true, Final: final}
	}
	again := func(old, new *thing, deleted bool) Change[*thing] {
		return Change[*thing]{Old: old, Last: old, New: new, Added: true, Deleted: deleted}
	}
	for name, c := range map[string]struct {
		changes []Change[*thing]
		want    []string
	}{
		"updated, deleted":             {[]Change[*thing]{update, gone(next, true)}, []string{"delete a@2 final=true"}},
		"updated, replaced":            {[]Change[*thing]{update, again(next, other, true)}, []string{"delete a@2 final=false", "add a@3 initial=false"}},
		"deleted, created":             {[]Change[*thing]{gone(had, true), again(nil, other, false)}, []string{"delete a@1 final=true", "add a@3 initial=false"}},
		"deleted, created, deleted":    {[]Change[*thing]{gone(had, true), again(nil, other, false), gone(other, false)}, []string{"delete a@1 final=true"}},
		"deleted, created, replaced":   {[]Change[*thing]{gone(had, false), again(nil, other, false), again(other, third, true)}, []string{"delete a@1 final=false", "add a@4 initial=false"}},
		"deleted, created, updated":    {[]Change[*thing]{gone(had, true), again(nil, other, false), {Old: other, New: &thing{"a", 2, 5}}}, []string{"delete a@1 final=true", "add a@5 initial=false"}},
		"replaced, deleted, created":   {[]Change[*thing]{again(had, other, true), gone(other, true), again(nil, third, false)}, []string{"delete a@1 final=false", "add a@4 initial=false"}},
		"updated twice, never deleted": {[]Change[*thing]{update, {Old: next, New: &thing{"a", 1, 6}}}, []string{"update a@1->@6"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := follow(t)
			f.has["a"] = had
			l := NewListener(newHub(t, &world{}), Handler[*thing](f), nil, Config{})
			forever(l)
			for _, change := range c.changes {
				change.Key = object.Key{Name: "a"}
				if err := l.enqueue([]Change[*thing]{change}, false, 0); err != nil {
					t.Fatal(err)
				}
			}
			var p pending[*thing]
			for l.next(&p) {
				l.deliver(&p)
			}
			f.want(c.want...)
		})
	}
}

// Each round of a resync delivers each object once, and the next round follows. None begins after the end.
// Guarantees: H13
func TestResyncHasRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := &world{}, follow(t)
		h := newHub(t, w)
		defer h.Stop(errLeft)
		w.set(&thing{"a", 1, 1})
		w.set(&thing{"b", 1, 1})
		l := NewListener(h, Handler[*thing](f), nil, Config{Resync: time.Minute})
		h.Join(l, nil)
		time.Sleep(10 * time.Minute) // not loaded
		synctest.Wait()
		want := []string{"add a@1 initial=true", "add b@1 initial=true"}
		f.want(want...)
		h.Load()
		for range 3 {
			time.Sleep(67 * time.Second)
			synctest.Wait()
			want = append(want, "update a@1->@1", "update b@1->@1")
			f.want(want...)
		}
		l.End(errLeft)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		f.want(want...)
	})
}

// Changes that wait are delivered before the round of a resync goes on, and the round has the new versions.
// Guarantees: H13
func TestResyncComesAfterAllChanges(t *testing.T) {
	w, f := &world{}, follow(t)
	h := newHub(t, w)
	w.set(&thing{"a", 1, 1})
	w.set(&thing{"b", 1, 1})
	h.Load()
	l := NewListener(h, Handler[*thing](f), nil, Config{Resync: time.Hour})
	forever(l)
	h.Join(l, nil)
	var p pending[*thing]
	for l.next(&p) {
		l.deliver(&p)
	}
	l.beginResync()
	for n := 0; l.next(&p); n++ {
		if l.deliver(&p); n == 0 {
			w.apply(t, h, &thing{"b", 1, 2}, &thing{"c", 1, 1})
		}
	}
	f.want("add a@1 initial=true", "add b@1 initial=true", "update a@1->@1", "update b@1->@2", "add c@1 initial=false",
		"update b@2->@2", "update c@1->@1")
	l.End(errLeft)
}

// A call that takes long causes a warning after ten seconds, and each time that its duration has doubled. Later calls
// that are not slower cause none.
// Guarantees: H9
func TestSlowCallCausesFewWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := newHub(t, w)
		defer h.Stop(errLeft)
		l := NewListener(h, Handler[*thing](sleeper{}), nil, Config{})
		var log testkit.Log
		h.Log = log.Logger()
		h.Join(l, nil)
		for version, seconds := range []int{9, 50, 30, 9} {
			w.apply(t, h, &thing{"a", seconds, version + 1})
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		var want []string
		for _, busy := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			want = append(want, fmt.Sprintf(`level=WARN msg="a handler is slow" resource=things handler="" call=%v backlog=0 oldest=0s`, busy))
		}
		if slow := log.Take(); !slices.Equal(slow, want) {
			t.Errorf("warnings %q, want %q", slow, want)
		}
	})
}

// sleeper is a handler that takes as many seconds for an addition as the thing has for an id.
type sleeper struct{ ignore }

func (sleeper) OnAdd(t *thing, _ bool) { time.Sleep(time.Duration(t.id) * time.Second) }

// The status says for how long the present call and the oldest change have waited.
func TestStatusMeasuresCallsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := newHub(t, w)
		l := NewListener(h, Handler[*thing](ignore{}), nil, Config{})
		forever(l)
		h.Join(l, nil)
		check := func(backlog int, busy, oldest time.Duration) {
			t.Helper()
			if s := l.Status(); s.Backlog != backlog || s.Busy != busy || s.Oldest != oldest {
				t.Errorf("%d changes, busy for %v, the oldest %v; want %d, %v, %v", s.Backlog, s.Busy, s.Oldest, backlog, busy, oldest)
			}
		}
		w.apply(t, h, &thing{"a", 1, 1}, &thing{"b", 1, 1})
		time.Sleep(time.Second)
		w.apply(t, h, &thing{"a", 1, 2}, &thing{name: "b"}, &thing{"c", 1, 1}) // b is void, a as old as before
		time.Sleep(time.Second)
		check(2, 0, 2*time.Second)
		var p pending[*thing]
		l.next(&p)
		time.Sleep(time.Second)
		check(1, time.Second, 2*time.Second)
		l.next(&p)
		check(0, 0, 0)
		l.next(&p)
		time.Sleep(time.Second)
		check(0, 0, 0)
		l.End(errLeft)
	})
}

// A handler or a filter that panics is one that returns: a panic of the filter means that the object does not pass.
// Guarantees: H10
func TestPanicsAreReportedAndDeliveryGoesOn(t *testing.T) {
	w, f := &world{}, follow(t)
	h := newHub(t, w)
	for _, name := range []string{"a", "bad", "c"} {
		w.set(&thing{name, 1, 1})
	}
	h.Load()
	var panics []any
	filter := func(t *thing) bool {
		if t.name == "bad" {
			panic("filter")
		}
		return true
	}
	handler := Handler[*thing](panicking{f})
	l := NewListener(h, handler, filter, Config{OnPanic: func(value any) { panics = append(panics, value) }})
	forever(l)
	h.Join(l, nil)
	var p pending[*thing]
	for l.next(&p) {
		l.deliver(&p)
	}
	w.apply(t, h, &thing{"a", 1, 2}, &thing{name: "c"}, &thing{name: "bad"})
	for l.next(&p) {
		l.deliver(&p)
	}
	f.want("add a@1 initial=true", "add c@1 initial=true", "update a@1->@2", "delete c@1 final=false")
	if want := []any{"add", "filter", "add", "update", "delete"}; !slices.Equal(panics, want) || !l.HasSynced() {
		t.Errorf("panics %v, want %v; synced: %t", panics, want, l.HasSynced())
	}
	l.End(errLeft)
}

// panicking is a follower that panics after each call.
type panicking struct{ *follower }

func (p panicking) OnAdd(t *thing, initial bool)    { p.follower.OnAdd(t, initial); panic("add") }
func (p panicking) OnUpdate(old, new *thing)        { p.follower.OnUpdate(old, new); panic("update") }
func (p panicking) OnDelete(last *thing, seen bool) { p.follower.OnDelete(last, seen); panic("delete") }

// A limit counts the changes besides one for each key. One more ends the listener, and only that one.
// Guarantees: H3
func TestListenerAtItsLimitEnds(t *testing.T) {
	w := &world{}
	h := newHub(t, w)
	var log testkit.Log
	h.Log = log.Logger()
	l := NewListener(h, Handler[*thing](follow(t)), nil, Config{Name: "limited", Limit: 2})
	folds := NewListener(h, Handler[*thing](follow(t)), nil, Config{Name: "folds"})
	forever(l)
	forever(folds)
	h.Join(l, nil)
	h.Join(folds, nil)
	w.apply(t, h, &thing{"a", 1, 1}, &thing{"b", 1, 1}, &thing{"a", 1, 2}, &thing{"b", 1, 2})
	if !l.Open() || l.Status().Backlog != 4 {
		t.Errorf("at the limit: %v, %+v", l.Err(), l.Status())
	}
	w.apply(t, h, &thing{"a", 1, 3})
	if l.Open() || !errors.Is(l.Err(), ErrBacklog) || l.Status().Backlog != 0 || !slices.Equal(h.All(), []*Listener[*thing]{folds}) {
		t.Errorf("above the limit: %v, %+v", l.Err(), l.Status())
	}
	w.apply(t, h, &thing{"a", 1, 4})
	want := []string{`level=ERROR msg="a subscription has ended" resource=things handler=limited why="` + ErrBacklog.Error() + `"`}
	if reported := log.Take(); !slices.Equal(reported, want) || folds.Status().Backlog != 2 {
		t.Errorf("reported %q, want %q; the other one: %+v", reported, want, folds.Status())
	}
	folds.End(errLeft)
}

// A writer waits for a blocking listener above its limit until that has room, ends, or the context ends.
// Guarantees: H3
func TestWriterWaitsForRoom(t *testing.T) {
	for name, end := range map[string]func(l *Listener[*thing], cancel func()){
		"room":    func(l *Listener[*thing], _ func()) { l.next(&pending[*thing]{}) },
		"end":     func(l *Listener[*thing], _ func()) { l.End(errLeft) },
		"context": func(_ *Listener[*thing], cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{}
				h := newHub(t, w)
				l := NewListener(h, Handler[*thing](follow(t)), nil, Config{Limit: 1, Block: true})
				forever(l)
				h.Join(l, nil)
				w.apply(t, h, &thing{"a", 1, 1}, &thing{"a", 1, 2})
				h.WaitForRoom(t.Context()) // at the limit
				w.apply(t, h, &thing{"a", 1, 3})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				waited := make(chan struct{})
				go func() { h.WaitForRoom(ctx); close(waited) }()
				synctest.Wait()
				select {
				case <-waited:
					t.Error("the writer does not wait")
				default:
				}
				if s := l.Status(); !h.Full() || !s.Blocking || s.Backlog != 3 || !l.Open() {
					t.Errorf("full: %t, %+v", h.Full(), s)
				}
				end(l, cancel)
				<-waited
				if s := l.Status(); name != "context" && (h.Full() || s.Blocking) {
					t.Errorf("full: %t, %+v", h.Full(), s)
				}
				l.End(errLeft)
			})
		})
	}
}

// A handler that ends its goroutine ends its listener, and no other.
// Guarantees: H9
func TestHandlerThatExitsEndsItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f := &world{}, follow(t)
		h := newHub(t, w)
		var log testkit.Log
		h.Log = log.Logger()
		exits := NewListener(h, Handler[*thing](exiting{}), nil, Config{})
		h.Join(exits, nil)
		h.Join(NewListener(h, Handler[*thing](f), nil, Config{}), nil)
		w.apply(t, h, &thing{"a", 1, 1}, &thing{"b", 1, 1})
		synctest.Wait()
		select {
		case <-exits.Released():
		default:
			t.Error("the listener goes on")
			exits.End(errLeft)
		}
		reported := log.Take()
		if !errors.Is(exits.Err(), errExited) || len(reported) != 1 || !strings.Contains(reported[0], errExited.Error()) || exits.Status().Busy != 0 {
			t.Errorf("%v, reported %v, %+v", exits.Err(), reported, exits.Status())
		}
		w.apply(t, h, &thing{"c", 1, 1})
		synctest.Wait()
		f.want("add a@1 initial=false", "add b@1 initial=false", "add c@1 initial=false")
		h.Stop(errLeft)
	})
}

type exiting struct{ ignore }

func (exiting) OnAdd(*thing, bool) { runtime.Goexit() }

// Stop waits for the call under way, and none begins after it. A listener that joins later has ended.
// Guarantees: H11
func TestStopWaitsForTheCallUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		h := newHub(t, w)
		l := NewListener(h, Handler[*thing](sleeper{}), nil, Config{})
		h.Join(l, nil)
		w.apply(t, h, &thing{"a", 5, 1}, &thing{"b", 5, 1})
		time.Sleep(time.Second)
		why, began := errors.New("over"), time.Now()
		h.Stop(why)
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("Stop took %v, want the rest of the call: 4s", took)
		}
		<-l.Released()
		f := follow(t)
		late := NewListener(h, Handler[*thing](f), nil, Config{})
		h.Join(late, nil)
		<-late.Released()
		if err := late.Err(); l.Err() != why || !errors.Is(err, why) || late.WaitSynced(t.Context()) == nil || len(h.All()) != 0 {
			t.Errorf("ended with %v, and the late one with %v", l.Err(), err)
		}
		f.want()
	})
}

// A filter compares with what the handler has: an update starts from the object that it received last, and an object
// that it never received is not deleted.
// Guarantees: H2, H12
func TestFilterComparesWithWhatTheHandlerHas(t *testing.T) {
	w, f := &world{}, follow(t)
	h := newHub(t, w)
	l := NewListener(h, Handler[*thing](f), func(t *thing) bool { return t.version%2 == 1 }, Config{})
	forever(l)
	h.Join(l, nil)
	for _, step := range []struct {
		next *thing
		want []string
	}{
		{&thing{"a", 1, 2}, nil},
		{&thing{"a", 1, 3}, []string{"add a@3 initial=false"}},
		{&thing{"a", 1, 5}, []string{"update a@3->@5"}},
		{&thing{"a", 1, 6}, []string{"delete a@5 final=false"}},
		{&thing{"a", 1, 8}, nil},
		{&thing{"a", 1, 9}, []string{"add a@9 initial=false"}},
		{&thing{"a", 2, 10}, []string{"delete a@9 final=false"}}, // created again
		{&thing{"a", 3, 11}, []string{"add a@11 initial=false"}},
		{&thing{name: "a"}, []string{"delete a@11 final=false"}},
		{&thing{"a", 4, 12}, nil},
		{&thing{name: "a"}, nil},
	} {
		f.calls = nil
		w.apply(t, h, step.next)
		var p pending[*thing]
		for l.next(&p) {
			l.deliver(&p)
		}
		if f.want(step.want...); len(l.filter.given) != len(f.has) {
			t.Errorf("the filter remembers %d objects, the handler has %d", len(l.filter.given), len(f.has))
		}
	}
	l.End(errLeft)
}

// With NewOnly, an update has no old object, also with a filter.
func TestNewOnlyHasNoOldObject(t *testing.T) {
	for _, filter := range []func(*thing) bool{nil, func(*thing) bool { return true }} {
		w, got := &world{}, olds{}
		h := newHub(t, w)
		w.set(&thing{"a", 1, 1})
		l := NewListener(h, Handler[*thing](&got), filter, Config{NewOnly: true})
		forever(l)
		h.Join(l, nil)
		var p pending[*thing]
		for version := range 2 {
			for l.next(&p) {
				l.deliver(&p)
			}
			w.apply(t, h, &thing{"a", 1, version + 2})
		}
		if !slices.Equal(got.old, []*thing{nil}) {
			t.Errorf("updates from %v", got.old)
		}
		l.End(errLeft)
	}
}

// olds has the old objects of updates.
type olds struct {
	ignore
	old []*thing
}

func (o *olds) OnUpdate(old, _ *thing) { o.old = append(o.old, old) }

// An iteration ends with its context, with its listener, or when drain says so.
// Guarantees: H11
func TestIterationEnds(t *testing.T) {
	for name, end := range map[string]func(l *Listener[*thing], cancel func()){
		"drain":    nil,
		"context":  func(_ *Listener[*thing], cancel func()) { cancel() },
		"listener": func(l *Listener[*thing], _ func()) { l.End(errLeft) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, f := &world{}, follow(t)
				h := newHub(t, w)
				w.set(&thing{"a", 1, 1})
				w.set(&thing{"b", 1, 1})
				l := NewListener(h, Handler[*thing](f), nil, Config{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan struct{})
				go func() {
					l.Pull(ctx, func() bool { return end != nil || len(f.calls) < 3 })
					close(ended)
				}()
				synctest.Wait()
				w.apply(t, h, &thing{"c", 1, 1})
				synctest.Wait()
				f.want("add a@1 initial=true", "add b@1 initial=true", "add c@1 initial=false")
				if end != nil {
					if !l.Open() {
						t.Error("the iteration has ended")
					}
					end(l, cancel)
				}
				<-ended
				if !errors.Is(l.Err(), errLeft) || len(h.All()) != 0 {
					t.Errorf("%v, %d listeners", l.Err(), len(h.All()))
				}
			})
		})
	}
}

// Pull releases its listener when the iteration ends, for whatever reason, but not while the body of the loop runs. A
// released listener refers to no object.
// Guarantees: H11
func TestIterationIsReleased(t *testing.T) {
	for name, last := range map[string]func(l *Listener[*thing]) bool{
		"drain":    func(*Listener[*thing]) bool { return false },
		"listener": func(l *Listener[*thing]) bool { l.End(errLeft); return true },
		"panic":    func(*Listener[*thing]) bool { panic("of the body") },
	} {
		t.Run(name, func(t *testing.T) {
			w, f := &world{}, follow(t)
			h := newHub(t, w)
			w.set(&thing{"a", 1, 1})
			all := func(*thing) bool { return true }
			l := NewListener(h, Handler[*thing](f), all, Config{})
			func() {
				defer func() { _ = recover() }()
				l.Pull(t.Context(), func() bool {
					defer func() {
						if run.IsClosed(l.Released()) || l.filter.given == nil {
							t.Error("the listener was released while the body runs")
						}
					}()
					return last(l)
				})
			}()
			if !run.IsClosed(l.Released()) || l.hub.Load() != nil || l.handler != nil || l.filter.given != nil ||
				l.filter.passes != nil || len(h.All()) != 0 {
				t.Error("the listener is not released")
			}
			l.End(errLeft)
		})
	}
}
