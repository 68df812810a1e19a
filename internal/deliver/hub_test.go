package deliver

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A write waits for few joining listeners, however many wait to join.
// Guarantees: H9
func TestWriteBeforeThoseWhoWaitToJoin(t *testing.T) {
	var w world
	h := newHub(t, &w)
	defer h.Stop(errLeft)
	var joins atomic.Int64
	h.View = func() View[*thing] { // a store that takes long to read
		joins.Add(1)
		for began := time.Now(); time.Since(began) < time.Millisecond; {
		}
		return w.view()
	}
	var joining sync.WaitGroup
	var over atomic.Bool
	for range 20 {
		joining.Go(func() {
			for !over.Load() {
				h.Join(NewListener(h, Handler[*thing](follow(t)), nil, Config{}), nil)
			}
		})
	}
	var during []int64
	for version := range 5 {
		for seen := joins.Load(); joins.Load() < seen+20; { // until most wait again
			runtime.Gosched()
		}
		before := joins.Load()
		w.apply(t, h, &thing{"a", 1, version + 1})
		during = append(during, joins.Load()-before)
	}
	over.Store(true)
	joining.Wait()
	slices.Sort(during)
	if usual := during[len(during)/2]; usual > 8 {
		t.Errorf("%d joined before a write that began earlier, in half of the cases: %v", usual, during)
	}
}
