package ondemand

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
)

// Metadata that go back to a lower version drop every object: a version can come again with other content. An update
// to a newer version drops its own object only.
// Guarantees: T1, T5
func TestServerThatWentBackDropsEverything(t *testing.T) {
	r, keys := newList(t, 3, 0, 1, 2)
	defer r.Close()
	r.metadata[keys[0]] = ID{"000", "2"}
	r.Updated(keys[0], "1", "2")
	if s := r.Status(); s.Held != 2 || s.Changed != 1 {
		t.Errorf("after an update: %+v", s)
	}
	r.Updated(keys[1], "1", "1") // metadata of the same version
	if s := r.Status(); s.Held != 2 || s.Changed != 1 {
		t.Errorf("after an update of the same version: %+v", s)
	}
	r.metadata[keys[0]] = ID{"000", "1"}
	r.Updated(keys[0], "10", "9")
	if s := r.Status(); s.Held != 0 || s.Bytes != 0 || s.Changed != 3 {
		t.Errorf("after the server went back: %+v", s)
	}
}

// A failed request counts once, however many readers wait for it. A missing object is no failure. A request without
// readers is none either.
// Guarantees: T3, T4
func TestFailuresOfRequestsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.Close()
		h := hanging{release: make(chan string)}
		var fail error
		r.answer = func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
			if obj, err := h.answer(ctx, n, key, version); err != nil {
				return obj, err
			}
			return Object[*thing]{}, fail
		}
		for n, c := range []struct {
			fail error
			want uint64
		}{{errors.New("down"), 1}, {apierrors.NewNotFound(secrets, "a"), 1}, {apierrors.NewForbidden(secrets, "a", nil), 2}} {
			fail = c.fail
			results := r.reads(t.Context(), 3)
			h.release <- "u@5"
			for range 3 {
				if got := <-results; got.err == nil {
					t.Errorf("%v is no error", c.fail)
				}
			}
			synctest.Wait()
			if s := r.Status(); s.Failures != c.want || s.Requests != uint64(n)+1 || s.Held != 0 {
				t.Errorf("after %v: %+v, want %d failures", c.fail, s, c.want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		results := r.reads(ctx, 1)
		cancel()
		<-results
		synctest.Wait()
		if s := r.Status(); h.ended != 1 || s.Failures != 2 {
			t.Errorf("after a request that nobody waits for: %+v", s)
		}
	})
}

// A request that nobody waits for any more, but that still ends, does not touch the request after it.
// Guarantees: T4
func TestAbandonedRequestLeavesTheNextOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.Close()
		late, next := make(chan string), make(chan string)
		r.answer = func(_ context.Context, n int, key object.Key, version string) (Object[*thing], error) {
			if n == 1 {
				return answers(errors.New(<-late))(t.Context(), 1, key, version) // ignores its context
			}
			return answers(<-next)(t.Context(), 1, key, version)
		}
		ctx, cancel := context.WithCancel(t.Context())
		abandoned := r.reads(ctx, 1)
		cancel()
		<-abandoned
		second := r.reads(t.Context(), 1)
		late <- "too late"
		synctest.Wait()
		third := r.reads(t.Context(), 1)
		if s := r.Status(); s.Requests != 2 || s.Shared != 1 || s.Failures != 0 {
			t.Errorf("the third read does not share the second request: %+v", s)
		}
		next <- "u@5"
		for _, results := range []<-chan result{second, third} {
			if got := <-results; got.err != nil || got.obj.Text != "u@5" {
				t.Errorf("%+v", got)
			}
		}
	})
}

// Nothing is held after Close, also not the object of a request that ignored the end of its context.
// Guarantees: T5
func TestNothingIsHeldAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		late := make(chan string)
		r.answer = func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
			return answers(<-late)(ctx, n, key, version)
		}
		results := r.reads(t.Context(), 1)
		closed := make(chan struct{})
		go func() { r.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close does not wait for the request")
		default:
		}
		late <- "u@5"
		<-results
		<-closed
		if s := r.Status(); s.Held != 0 || s.Bytes != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// Objects of a store of whole objects cost a list nothing.
// Guarantees: T6, T7
func TestKeptObjectsCostAListNothing(t *testing.T) {
	r, keys := newList(t, 20)
	defer r.Close()
	r.config.Kept = func(key object.Key) (Object[*thing], bool) {
		if key == keys[4] {
			return newObject("old", "0", 0), true // older than its metadata
		}
		return newObject(key.Name, "1", 0), slices.Index(keys, key) < 15
	}
	want := Cost{Objects: 20, Held: 14, Requests: 6}
	if cost := r.CostOf(keys, 501); cost != want {
		t.Errorf("the list costs %+v beforehand, want %+v", cost, want)
	}
	if objects := r.wantList(keys, nil, want); len(objects) != 20 || objects[4].Text != "004@1" {
		t.Errorf("%d objects: %v", len(objects), objects)
	}
}

// A page that is exactly full needs no other one.
// Guarantees: T7
func TestCostOfFullPages(t *testing.T) {
	r, keys := newList(t, 9)
	defer r.Close()
	for all, want := range map[int]int{9: 1, PageSize - 1: 1, PageSize: 1, PageSize + 1: 2, 2 * PageSize: 2} {
		if cost := r.CostOf(keys, all); cost.Requests != want {
			t.Errorf("a list among %d objects costs %+v, want %d requests", all, cost, want)
		}
	}
}

// A list sends at most four requests for single objects at a time.
// Guarantees: T7
func TestListSendsFewRequestsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, keys := newList(t, fewMissing)
		defer r.Close()
		h := hanging{release: make(chan string)}
		r.answer = func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
			_, err := h.answer(ctx, n, key, version)
			return newObject(key.Name, "1", 0), err
		}
		listed := make(chan []*thing)
		go func() { listed <- r.wantList(keys, nil, Cost{Objects: fewMissing, Requests: fewMissing}) }()
		for n := range fewMissing {
			synctest.Wait()
			r.mu.Lock()
			if asked := len(r.asked); asked != min(n+maxParallel, fewMissing) {
				t.Errorf("%d requests after %d answers", asked, n)
			}
			r.mu.Unlock()
			h.release <- "x@1"
		}
		if objects := <-listed; len(objects) != fewMissing {
			t.Errorf("%d objects", len(objects))
		}
	})
}

// A list of several namespaces goes on to the last one, whatever the names there.
// Guarantees: T7
func TestListGoesOnToTheLastNamespace(t *testing.T) {
	r, _ := newList(t, 0)
	defer r.Close()
	var keys []object.Key
	for n := range 12 {
		key := object.Key{Namespace: fmt.Sprint("ns", n/6), Name: fmt.Sprintf("z%02d", n)}
		if n >= 6 {
			key.Name = fmt.Sprintf("a%02d", n) // below the names of the first namespace
		}
		r.see(key, key.Name, "1")
		keys = append(keys, key)
	}
	list := func(_ context.Context, take TakeFunc[*thing]) (int, error) {
		for n, key := range keys {
			if more := take(key, newObject(key.Name, "1", 0), nil); more != (n < len(keys)-1) {
				t.Errorf("after %s, the list needs more: %t", key, more)
			}
		}
		return 2, nil
	}
	if objects := r.wantList(keys, list, Cost{Objects: 12, Requests: 2}); len(objects) != 12 {
		t.Errorf("%d objects", len(objects))
	}
}

// An object that a read fetched during a list is held once.
// Guarantees: T5, T7
func TestObjectThatIsReadDuringAListIsHeldOnce(t *testing.T) {
	r, keys := newList(t, 9)
	defer r.Close()
	list := func(ctx context.Context, take TakeFunc[*thing]) (int, error) {
		if _, err := r.Get(ctx, keys[0]); err != nil {
			t.Error(err)
		}
		return r.all(keys)(ctx, take)
	}
	r.wantList(keys, list, Cost{Objects: 9, Requests: 2})
	size := sizeOf(newObject("000", "1", 0).Value)
	if s := r.Status(); s.Held != 9 || s.Bytes != 9*size || r.held.order.Len() != 9 {
		t.Errorf("%+v, %d in order; one takes %d bytes", s, r.held.order.Len(), size)
	}
}

// An object that is as large as the limit is held, and goes for another one.
// Guarantees: T5
func TestObjectAsLargeAsTheLimitIsHeld(t *testing.T) {
	r, keys := newList(t, 2)
	defer r.Close()
	r.held.limit = sizeOf(newObject("000", "1", 0).Value)
	for n, key := range keys {
		if _, err := r.Get(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if s := r.Status(); s.Held != 1 || s.Evicted != uint64(n) || s.Bytes != r.held.limit {
			t.Errorf("after %d reads: %+v", n+1, s)
		}
	}
}

// If a continue token expires, the namespace is read again without a limit. The next namespaces have the limit again, and
// an answer that expires at the first page is an error.
func TestPagesThatExpireKeepTheirNamespace(t *testing.T) {
	var asked []string
	list := func(_ context.Context, namespace string, o metav1.ListOptions) ([]int, metav1.ListMeta, error) {
		asked = append(asked, fmt.Sprintf("%s/%s/%d", namespace, o.Continue, o.Limit))
		switch len(asked) {
		case 3: // of b/x
			return nil, metav1.ListMeta{}, apierrors.NewResourceExpired("continue")
		case 2:
			return []int{1}, metav1.ListMeta{Continue: "x"}, nil
		case 6:
			return nil, metav1.ListMeta{}, apierrors.NewResourceExpired("list")
		}
		return []int{1}, metav1.ListMeta{}, nil
	}
	requests, err := Pages(t.Context(), list, []string{"a", "b", "c", "d"}, metav1.ListOptions{}, func(int) bool { return true })
	want := []string{"a//500", "b//500", "b/x/500", "b//0", "c//500", "d//500"}
	if !slices.Equal(asked, want) || requests != 6 || !apierrors.IsResourceExpired(err) {
		t.Errorf("%d requests %v, %v, want %v", requests, asked, err, want)
	}
}
