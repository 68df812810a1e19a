package deliver

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/object"
)

// The end of a listener and its removal from the hub are one step.
//
// Guarantees: H2, H11
func TestEndingAndForgettingIsOneStep(t *testing.T) {
	w := &world{}
	h := newHub(t, w)
	l := NewListener(h, Handler[*thing](follow(t)), nil, Config{})
	h.Join(l, nil)
	l.mu.Lock() // stops End half way
	ending := make(chan struct{})
	go func() { l.End(errLeft); close(ending) }()
	for held := 0; held < 1000; held++ { // until End holds the lock of the hub
		if h.mu.TryLock() {
			held = 0
			known := slices.Contains(h.listeners, l)
			h.mu.Unlock()
			if !known {
				t.Error("the hub removed an open listener")
				break
			}
		}
		runtime.Gosched()
	}
	l.mu.Unlock()
	<-ending
	if len(h.All()) != 0 {
		t.Error("the hub has the listener")
	}
}

// If the listener ends after its goroutine has taken a change from the backlog, the change is dropped.
//
// Guarantees: H11
func TestEndBeforeTheCallDropsIt(t *testing.T) {
	for _, filter := range []func(*thing) bool{nil, func(*thing) bool { return true }} {
		for name, next := range map[string]*thing{"update": {"a", 1, 2}, "deletion": {name: "a"}} {
			t.Run(fmt.Sprintf("filter=%t/%s", filter != nil, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, f := &world{}, follow(t)
					h := newHub(t, w)
					w.set(&thing{"a", 1, 1})
					l := NewListener(h, Handler[*thing](f), filter, Config{})
					h.Join(l, nil)
					synctest.Wait()
					if want := []string{"add a@1 initial=true"}; !slices.Equal(f.calls, want) {
						t.Errorf("calls %q, want %q", f.calls, want)
					}
					byHand(l)
					w.apply(t, h, next)
					var p pending[*thing]
					if !l.next(&p) {
						t.Fatal("nothing to deliver")
					}
					l.End(errLeft)
					if l.deliver(&p); len(f.calls) != 1 {
						t.Errorf("calls %q", f.calls)
					}
					if l.next(&p) {
						t.Error("a listener that has ended has a change to deliver")
					}
					<-l.Released()
				})
			})
		}
	}
}

// A change of a key that a handler has allocates nothing.
func TestDeliveryAllocatesNothingInTheSteadyState(t *testing.T) {
	nothing := Handler[*thing](ignore{})
	l := NewListener(newHub(t, &world{}), nothing, nil, Config{})
	byHand(l)
	l.wake = make(chan struct{}, 1)
	changes := []Change[*thing]{{Key: object.Key{Name: "a"}, Old: &thing{"a", 1, 1}, New: &thing{"a", 1, 2}}}
	var p pending[*thing]
	allocs := testing.AllocsPerRun(1000, func() {
		_ = l.enqueue(changes, false, 0)
		l.next(&p)
		l.deliver(&p)
		l.next(&p)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

type ignore struct{}

func (ignore) OnAdd(*thing, bool)        {}
func (ignore) OnUpdate(_, _ *thing)      {}
func (ignore) OnDelete(_ *thing, _ bool) {}
