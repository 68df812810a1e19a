package ondemand

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	secrets    = schema.GroupResource{Resource: "secrets"}
	keyA       = object.Key{Namespace: "ns", Name: "a"}
	errStopped = errors.New("stopped")
)

// thing is a whole object.
type thing struct{ Text string }

// object returns the object of a UID and a version. It takes some bytes more than size.
func newObject(uid, version string, size int) Object[*thing] {
	return Object[*thing]{&thing{uid + "@" + version + strings.Repeat(" ", size)}, ID{types.UID(uid), version}}
}

// rig is a reader of a store and a server that a test changes.
type rig struct {
	*testing.T
	*Reader[*thing]
	mu       sync.Mutex
	metadata map[object.Key]ID
	answer   func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) // of request n
	asked    []string                                                                                 // the versions of the requests
	looked   func(n int)                                                                              // called after the store was read for the nth time
	looks    int
}

func newRig(t *testing.T, change func(*Config[*thing])) *rig {
	r := &rig{T: t, metadata: map[object.Key]ID{keyA: {"u", "5"}}}
	config := Config[*thing]{
		Metadata: r.idOf, Fetch: r.fetch, MaxBytes: 1000, MaxIdle: time.Minute, Stopped: errStopped,
	}
	if change != nil {
		change(&config)
	}
	r.Reader = New(config)
	return r
}

func (r *rig) idOf(key object.Key) (ID, error) {
	r.mu.Lock()
	id, ok := r.metadata[key]
	r.looks++
	n := r.looks
	r.mu.Unlock()
	if r.looked != nil {
		r.looked(n)
	}
	if !ok {
		return ID{}, apierrors.NewNotFound(secrets, key.Name)
	}
	return id, nil
}

func (r *rig) fetch(ctx context.Context, key object.Key, version string) (Object[*thing], error) {
	r.mu.Lock()
	r.asked = append(r.asked, version)
	n := len(r.asked)
	r.mu.Unlock()
	return r.answer(ctx, n, key, version)
}

// see makes the store see an object, or its deletion if the version is empty.
func (r *rig) see(key object.Key, uid, version string) {
	r.mu.Lock()
	if r.metadata[key] = (ID{types.UID(uid), version}); version == "" {
		delete(r.metadata, key)
	}
	r.mu.Unlock()
	r.Changed(key)
}

// answers returns an answer for each request.
func answers(all ...any) func(context.Context, int, object.Key, string) (Object[*thing], error) {
	return func(_ context.Context, n int, _ object.Key, _ string) (Object[*thing], error) {
		switch a := all[n-1].(type) {
		case error:
			return Object[*thing]{}, a
		case string:
			uid, version, _ := strings.Cut(a, "@")
			return newObject(uid, version, 0), nil
		}
		panic("no answer")
	}
}

// Get handles each answer of the server, and each change of the store in the meantime. The store has u@5 at
// first.
// Guarantees: T1, T2, T3, T4
func TestReadIsNotOlderThanTheMetadata(t *testing.T) {
	gone := apierrors.NewNotFound(secrets, "a")
	forbidden := apierrors.NewForbidden(secrets, "a", errors.New("no"))
	ahead := apierrors.NewTimeoutError("Too large resource version: 5, current: 3", 1)
	ahead.ErrStatus.Details.Causes = append(ahead.ErrStatus.Details.Causes, metav1.StatusCause{Type: metav1.CauseTypeResourceVersionTooLarge})
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "get", secrets, "a", "404 page not found", 0, true)
	for _, c := range []struct {
		name  string
		sees  string // by the store, during the first request; "-" is a deletion
		sends []any  // by the server
		want  string // or the text of the error
		asked string
		held  int
		class func(error) bool // nil for no error
	}{
		{name: "the same version", sends: []any{"u@5"}, want: "u@5", asked: "5", held: 1},
		{name: "a newer version", sends: []any{"u@10"}, want: "u@10", asked: "5"},
		{name: "created again", sends: []any{"v@6"}, want: "v@6", asked: "5"},
		{name: "the store caught up", sees: "u@6", sends: []any{"u@6"}, want: "u@6", asked: "5", held: 1},
		{name: "the store is ahead", sees: "u@6", sends: []any{"u@5", "u@6"}, want: "u@6", asked: "5 6", held: 1},
		{name: "created again, as the store sees", sees: "v@7", sends: []any{"u@5", "v@7"}, want: "v@7", asked: "5 7", held: 1},
		{name: "the server ignores the version", sends: []any{"u@4", "u@5"}, want: "u@5", asked: "5 ", held: 1},
		{name: "the server is behind", sends: []any{ahead, "u@5"}, want: "u@5", asked: "5 ", held: 1},
		{name: "the server is restored", sends: []any{"u@4", "u@4"}, want: "older object", asked: "5 ", class: isStale},
		{name: "the server is restored, as the store sees", sees: "u@4", sends: []any{"u@4", "u@4", "u@4"}, want: "u@4", asked: "5  4", held: 1},
		{name: "another object of that version", sends: []any{"v@5", "v@5"}, want: "older object", asked: "5 ", class: isStale},
		{name: "deleted", sees: "-", sends: []any{"u@5"}, want: "not found", asked: "5", class: apierrors.IsNotFound},
		{name: "deleted, the watch is behind", sends: []any{gone}, want: "not found", asked: "5", class: apierrors.IsNotFound},
		{name: "deleted and created again, as the store sees", sees: "v@9", sends: []any{gone, "v@9"}, want: "v@9", asked: "5 9", held: 1},
		{name: "deleted behind a server that is behind", sends: []any{ahead, gone}, want: "not found", asked: "5 ", class: apierrors.IsNotFound},
		{name: "a page of a proxy", sends: []any{page}, want: "is not about the object", asked: "5", class: isUnknown},
		{name: "404 of no object", sends: []any{apierrors.NewNotFound(schema.GroupResource{}, "")}, want: "is not about the object", asked: "5", class: isUnknown},
		{name: "403", sends: []any{forbidden}, want: "forbidden", asked: "5", class: apierrors.IsForbidden},
		//lint:ignore SA1019 servers still answer it
		{name: "410", sends: []any{apierrors.NewGone("gone")}, want: "gone", asked: "5", class: apierrors.IsGone},
		{name: "429", sends: []any{apierrors.NewTooManyRequests("slow", 1)}, want: "slow", asked: "5", class: apierrors.IsTooManyRequests},
		{name: "500 of the second request", sends: []any{ahead, apierrors.NewInternalError(errors.New("x"))}, want: "x", asked: "5 ", class: apierrors.IsInternalError},
		{name: "403, deleted", sees: "-", sends: []any{forbidden}, want: "not found", asked: "5", class: apierrors.IsNotFound},
		{name: "no number", sends: []any{"u@x"}, want: "cannot be ordered", asked: "5", class: isUnknown},
		{name: "no version", sends: []any{"u@"}, want: "cannot be ordered", asked: "5", class: isUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			defer r.Close()
			send := answers(c.sends...)
			r.answer = func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
				if uid, version, _ := strings.Cut(c.sees, "@"); n == 1 && c.sees != "" {
					r.see(key, uid, version)
				}
				return send(ctx, n, key, version)
			}
			obj, err := r.Get(t.Context(), keyA)
			switch {
			case c.class == nil && (err != nil || obj.Text != c.want):
				t.Errorf("%v, %v, want %s", obj, err, c.want)
			case c.class != nil && (obj != nil || err == nil || !c.class(err) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, %v, want an error with %q", obj, err, c.want)
			}
			if asked := strings.Join(r.asked, " "); asked != c.asked || len(r.asked) != len(c.sends) {
				t.Errorf("asked for versions %q, want %q", r.asked, c.asked)
			}
			if held := r.Status().Held; held != c.held {
				t.Errorf("%d objects are held, want %d", held, c.held)
			}
		})
	}
}

func isStale(err error) bool { return errors.Is(err, ErrStale) }

// isUnknown is true for an error that nobody can take for an answer about the object.
func isUnknown(err error) bool { return !apierrors.IsNotFound(err) }

// A version that is no number is held, and compares with nothing but itself. Without a version, nothing is held.
func TestVersionsThatAreNoNumbers(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	r.see(keyA, "u", "x")
	r.answer = answers("u@x", "u@", "u@")
	for range 2 {
		if obj, err := r.Get(t.Context(), keyA); err != nil || obj.Text != "u@x" {
			t.Errorf("%v, %v", obj, err)
		}
	}
	delete(r.metadata, keyA)
	r.metadata[keyA] = ID{UID: "u"}
	for range 2 {
		if obj, err := r.Get(t.Context(), keyA); err == nil {
			t.Errorf("%v of a server without versions", obj)
		}
	}
	if len(r.asked) != 3 {
		t.Errorf("%d requests", len(r.asked))
	}
}

// A read of an object that changes during each request ends with an error.
func TestReadOfAnObjectThatAlwaysChangesEnds(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	r.answer = func(_ context.Context, n int, key object.Key, version string) (Object[*thing], error) {
		r.see(key, "u", fmt.Sprint(5+n))
		return newObject("u", version, 0), nil
	}
	if _, err := r.Get(t.Context(), keyA); !errors.Is(err, errChanging) || len(r.asked) != maxRounds {
		t.Errorf("%v after %d requests", err, len(r.asked))
	}
}

// Reads of an object that is held send no request until its metadata change. A key without metadata never needs one.
// Guarantees: T1, T2
func TestHeldObjectNeedsNoRequest(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	r.answer = answers("u@5", "u@6", "u@7")
	for _, version := range []string{"5", "5", "6", "6", "7"} {
		r.see(keyA, "u", version)
		if obj, err := r.Get(t.Context(), keyA); err != nil || obj.Text != "u@"+version {
			t.Errorf("%v, %v at %s", obj, err, version)
		}
	}
	r.see(keyA, "", "")
	if s := r.Status(); s.Held != 0 || s.Bytes != 0 || s.Changed != 3 || s.Hits != 2 || s.Requests != 3 {
		t.Errorf("status %+v", s)
	}
	if _, err := r.Get(t.Context(), keyA); !apierrors.IsNotFound(err) || len(r.asked) != 3 {
		t.Errorf("%v after %d requests", err, len(r.asked))
	}
}

// A read that comes between a change of the store and the call of Changed does not get what is held.
// Guarantees: T1
func TestReadBeforeTheChangeIsReported(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	r.answer = answers("u@5", "u@6")
	for _, version := range []string{"5", "6"} {
		r.metadata[keyA] = ID{"u", version}
		if obj, err := r.Get(t.Context(), keyA); err != nil || obj.Text != "u@"+version {
			t.Errorf("%v, %v at %s", obj, err, version)
		}
	}
	delete(r.metadata, keyA)
	if obj, err := r.Get(t.Context(), keyA); !apierrors.IsNotFound(err) {
		t.Errorf("%v, %v of an object that was deleted", obj, err)
	}
}

// If the store changes between the read that finds an object worth holding and the holding, the object is dropped,
// although the change found nothing to drop.
// Guarantees: T1, T5
func TestChangeBeforeAnObjectIsHeld(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	r.answer = answers("u@5", "u@6")
	r.looked = func(n int) {
		if n == 2 { // by worthHolding
			r.looked = nil
			r.see(keyA, "u", "6")
		}
	}
	if obj, err := r.Get(t.Context(), keyA); err != nil || obj.Text != "u@6" {
		t.Errorf("%v, %v", obj, err)
	}
	if e := r.held.get(keyA); e == nil || e.obj.ID.Version != "6" || r.Status().Changed != 1 {
		t.Errorf("held %+v, status %+v", e, r.Status())
	}
}

// An object of a store of whole objects needs no request, unless it is older than its metadata.
// Guarantees: T6
func TestKeptObjectNeedsNoRequest(t *testing.T) {
	kept := newObject("u", "5", 0)
	r := newRig(t, func(c *Config[*thing]) {
		c.Kept = func(key object.Key) (Object[*thing], bool) { return kept, key == keyA && kept.Value != nil }
	})
	defer r.Close()
	r.answer = answers("u@7", "u@8")
	for _, c := range []struct {
		kept, metadata, want string
		requests             int
	}{{"5", "5", "u@5", 0}, {"6", "5", "u@6", 0}, {"6", "7", "u@7", 1}, {"", "8", "u@8", 2}} {
		if kept = newObject("u", c.kept, 0); c.kept == "" {
			kept.Value = nil
		}
		r.see(keyA, "u", c.metadata)
		if obj, err := r.Get(t.Context(), keyA); err != nil || obj.Text != c.want || len(r.asked) != c.requests {
			t.Errorf("%+v: %v, %v after %d requests", c, obj, err, len(r.asked))
		}
	}
}

// The objects that are held stay within the limit: those that were not read for the longest time go. One that is larger
// than the limit is returned, not held.
// Guarantees: T5
func TestHeldObjectsStayWithinTheLimit(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	size := map[string]int{"a": 270, "b": 270, "c": 270, "d": 270, "large": 2000}
	r.answer = func(_ context.Context, _ int, key object.Key, _ string) (Object[*thing], error) {
		return newObject("u", "5", size[key.Name]), nil
	}
	read := func(names ...string) {
		for _, name := range names {
			r.metadata[object.Key{Name: name}] = ID{"u", "5"}
			if _, err := r.Get(t.Context(), object.Key{Name: name}); err != nil {
				t.Error(err)
			}
			if s := r.Status(); s.Bytes > 1000 || s.Bytes < 300*int64(s.Held) {
				t.Errorf("%d objects of %d bytes are held", s.Held, s.Bytes)
			}
		}
	}
	holds := func(names ...string) {
		t.Helper()
		var held []string
		for key := range r.held.entries {
			held = append(held, key.Name)
		}
		slices.Sort(held)
		if !slices.Equal(held, names) {
			t.Errorf("holds %v, want %v", held, names)
		}
	}
	read("a", "b", "c", "a", "d")
	holds("a", "c", "d")
	read("large", "b")
	holds("a", "b", "d")
	if s := r.Status(); s.Evicted != 2 || s.Requests != 6 || s.Hits != 1 {
		t.Errorf("status %+v", s)
	}
	r.Forget()
	if s := r.Status(); s.Held != 0 || s.Bytes != 0 {
		t.Errorf("status after Forget: %+v", s)
	}
}

// An object that nobody reads for MaxIdle is dropped then.
// Guarantees: T5
func TestIdleObjectsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.Close()
		r.answer = func(context.Context, int, object.Key, string) (Object[*thing], error) {
			return newObject("u", "5", 0), nil
		}
		keyB := object.Key{Name: "b"}
		r.metadata[keyB] = ID{"u", "5"}
		get := func(key object.Key) {
			if _, err := r.Get(t.Context(), key); err != nil {
				t.Error(err)
			}
		}
		holds := func(n int) {
			t.Helper()
			synctest.Wait()
			if s := r.Status(); s.Held != n {
				t.Errorf("%d objects are held, want %d", s.Held, n)
			}
		}
		get(keyA)
		time.Sleep(40 * time.Second)
		get(keyB)
		time.Sleep(19 * time.Second)
		holds(2)
		get(keyA) // at 59 s
		time.Sleep(40 * time.Second)
		holds(2)
		time.Sleep(2 * time.Second) // 101 s
		holds(1)
		time.Sleep(19 * time.Second)
		holds(0)
		get(keyA)
		time.Sleep(time.Minute + time.Second)
		holds(0)
		if s := r.Status(); s.Idled != 3 || s.Requests != 3 {
			t.Errorf("status %+v", s)
		}
	})
}

// Goexit in the function that decodes ends the request with an error, and nobody waits for ever.
func TestFetchThatExits(t *testing.T) {
	r := newRig(t, nil)
	defer r.Close()
	r.answer = func(context.Context, int, object.Key, string) (Object[*thing], error) {
		runtime.Goexit()
		panic("unreachable")
	}
	if _, err := r.Get(t.Context(), keyA); !errors.Is(err, errExited) {
		t.Errorf("%v", err)
	}
}
