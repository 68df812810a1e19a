package ondemand

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/object"
)

// hanging is an answer that comes when it is released, or when the request is cancelled.
type hanging struct {
	release chan string
	ended   int // the requests that were cancelled
}

func (h *hanging) answer(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
	select {
	case a := <-h.release:
		return answers(a)(ctx, 1, key, version)
	case <-ctx.Done():
		h.ended++
		return Object[*thing]{}, context.Cause(ctx)
	}
}

// result is what a read returned.
type result struct {
	obj *thing
	err error
}

// reads begins some reads with a context.
func (r *rig) reads(ctx context.Context, n int) <-chan result {
	results := make(chan result, n)
	for range n {
		go func() {
			obj, err := r.Get(ctx, keyA)
			results <- result{obj, err}
		}()
	}
	synctest.Wait()
	return results
}

// Reads of one version share a request. It has the values of the first context and the cancellation of none: a read
// whose context ends returns, and the others get the object.
// Guarantees: T4
func TestReadsShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.Close()
		type value struct{}
		h := hanging{release: make(chan string)}
		r.answer = func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
			if ctx.Value(value{}) != "first" {
				t.Error("the request lacks the values of the first context")
			}
			return h.answer(ctx, n, key, version)
		}
		why := errors.New("too late")
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), value{}, "first"))
		first, others := r.reads(ctx, 1), r.reads(t.Context(), 99)
		cancel(why)
		if got := <-first; !errors.Is(got.err, why) {
			t.Errorf("the first read returned %+v", got)
		}
		h.release <- "u@5"
		for range 99 {
			if got := <-others; got.err != nil || got.obj.Text != "u@5" {
				t.Errorf("%+v", got)
			}
		}
		if s := r.Status(); s.Requests != 1 || s.Shared != 99 || s.Failures != 0 || h.ended != 0 {
			t.Errorf("status %+v, %d requests ended", s, h.ended)
		}
	})
}

// A request that nobody waits for any more ends. The next read begins another one. A read whose context has ended
// begins none.
// Guarantees: T4
func TestRequestEndsWithItsLastRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.Close()
		h := hanging{release: make(chan string)}
		r.answer = h.answer
		ctx, cancel := context.WithCancel(t.Context())
		results := r.reads(ctx, 3)
		cancel()
		for range 3 {
			if got := <-results; !errors.Is(got.err, context.Canceled) {
				t.Errorf("%+v", got)
			}
		}
		synctest.Wait()
		if h.ended != 1 || len(r.flights) != 0 {
			t.Errorf("%d requests ended, %d go on", h.ended, len(r.flights))
		}
		if _, err := r.Get(ctx, keyA); !errors.Is(err, context.Canceled) || len(r.asked) != 1 {
			t.Errorf("%v after %d requests", err, len(r.asked))
		}
		again := r.reads(t.Context(), 2)
		h.release <- "u@5"
		for range 2 {
			if got := <-again; got.err != nil {
				t.Errorf("%+v", got)
			}
		}
		if s := r.Status(); s.Requests != 2 || s.Failures != 0 || s.Held != 1 {
			t.Errorf("status %+v", s)
		}
		if _, err := r.Get(ctx, keyA); err != nil {
			t.Errorf("a held object, with a context that has ended: %v", err)
		}
	})
}

// A read that begins when the store has a newer version does not wait for the request of an older one.
// Guarantees: T1, T4
func TestVersionsHaveRequestsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		defer r.Close()
		requests := map[string]*hanging{"5": {release: make(chan string)}, "6": {release: make(chan string)}}
		r.answer = func(ctx context.Context, n int, key object.Key, version string) (Object[*thing], error) {
			return requests[version].answer(ctx, n, key, version)
		}
		early := r.reads(t.Context(), 1)
		r.see(keyA, "u", "6")
		late := r.reads(t.Context(), 1)
		requests["6"].release <- "u@6"
		if got := <-late; got.err != nil || got.obj.Text != "u@6" {
			t.Errorf("the late read: %+v", got)
		}
		requests["5"].release <- "u@5"
		if got := <-early; got.err != nil || got.obj.Text != "u@6" {
			t.Errorf("the early read: %+v", got)
		}
		if s := r.Status(); s.Requests != 2 || s.Hits != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// Close ends the requests, and waits for them. Later reads fail, and nothing is held.
// Guarantees: T5
func TestCloseEndsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.answer = answers("u@5")
		if _, err := r.Get(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		r.see(keyA, "u", "6")
		h := hanging{release: make(chan string)}
		r.answer = h.answer
		results := r.reads(t.Context(), 2)
		r.Close()
		if s := r.Status(); h.ended != 1 || s.Held != 0 || s.Bytes != 0 {
			t.Errorf("%d requests ended, status %+v", h.ended, s)
		}
		for range 2 {
			if got := <-results; !errors.Is(got.err, errStopped) {
				t.Errorf("%+v", got)
			}
		}
		if _, err := r.Get(t.Context(), keyA); !errors.Is(err, errStopped) {
			t.Error(err)
		}
		if _, _, _, err := r.List(t.Context(), []object.Key{keyA}, nil); !errors.Is(err, errStopped) {
			t.Error(err)
		}
	})
}
