package run

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const batchSize = 10 // of a full batch

// numbers is a batch.
type numbers []int

// newPipeline returns a pipeline whose functions may be replaced before its first use. It appends to *handed.
func newPipeline(workers int, handed *[]int) *Pipeline[numbers] {
	return &Pipeline[numbers]{
		Open:    func() *numbers { return &numbers{} },
		Full:    func(b *numbers) bool { return len(*b) >= batchSize },
		Do:      func(*numbers) {},
		Hand:    func(b *numbers) error { *handed = append(*handed, *b...); return nil },
		Cancel:  func(error) {},
		Workers: workers,
	}
}

func add(p *Pipeline[numbers], n int) { p.Add(func(b *numbers) { *b = append(*b, n) }) }

func always(d Dispatch) func(*numbers) Dispatch { return func(*numbers) Dispatch { return d } }

// Batches are handed on one at a time, in order and processed, however many workers there are and whoever is slow.
// Guarantees: F1
func TestPipelineHandsOnInOrder(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var handed []int
			var busy, working, most atomic.Int32
			workers := random.IntN(MaxWorkers + 1)
			p := newPipeline(workers, &handed)
			p.Do = func(b *numbers) {
				n := working.Add(1)
				most.Store(max(most.Load(), n))
				time.Sleep(time.Duration((*b)[0]*7%5) * time.Millisecond)
				for i := range *b {
					(*b)[i] *= 2
				}
				working.Add(-1)
			}
			hand := p.Hand
			p.Hand = func(b *numbers) error {
				if busy.Add(1) > 1 {
					t.Error("two batches are handed on at once")
				}
				time.Sleep(time.Duration((*b)[0]*3%4) * time.Millisecond)
				defer busy.Add(-1)
				return hand(b)
			}
			var want []int
			for i := range 500 {
				want = append(want, 2*i)
				add(p, i)
				if random.IntN(7) == 0 {
					p.Flush(always(Dispatch(random.IntN(3))))
				}
				if random.IntN(50) == 0 {
					if err := p.Wait(); err != nil || len(handed) != i+1 {
						t.Fatalf("seed %d: %d of %d are handed on, %v", seed, len(handed), i+1, err)
					}
				}
			}
			if err := p.Wait(); err != nil || !slices.Equal(handed, want) {
				t.Fatalf("seed %d: %v, %v", seed, err, handed)
			}
			if most.Load() > int32(max(workers, 1)) {
				t.Errorf("seed %d: %d workers at once, want %d at most", seed, most.Load(), workers)
			}
		})
	}
}

// Flush has the batch processed by the caller, or by a worker, or not yet.
func TestPipelineDispatch(t *testing.T) {
	for _, c := range []struct {
		workers  int
		dispatch Dispatch
		own      bool // the caller processes the batch
		open     bool // it stays open
	}{
		{0, Later, false, true}, {0, ByWorker, true, false}, {0, ByCaller, true, false},
		{2, Later, false, true}, {2, ByWorker, false, false}, {2, ByCaller, true, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var handed []int
				p := newPipeline(c.workers, &handed)
				wait := make(chan struct{})
				if c.own {
					close(wait)
				}
				p.Do = func(*numbers) { <-wait } // a deadlock if that is the caller, but should not be
				if p.Flush(always(c.dispatch)) {
					t.Error("there was a batch before the first Add")
				}
				add(p, 1)
				if !p.Flush(always(c.dispatch)) {
					t.Error("there was no batch")
				}
				if c.own && len(handed) != 1 {
					t.Error("the caller has not handed on the batch")
				}
				synctest.Wait()
				if running, open := p.State(); open != c.open || (running > 0) != (!c.own && !c.open) {
					t.Errorf("%d workers, an open batch: %v", running, open)
				}
				if !c.own {
					close(wait)
				}
				if err := p.Wait(); err != nil || len(handed) != 1 {
					t.Error(err, handed)
				}
			})
		})
	}
}

// While nothing is handed on, Add waits when each worker has a batch and the open one is full.
// Guarantees: F3
func TestPipelineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 20 * batchSize
		var handed []int
		p := newPipeline(2, &handed)
		taken := make(chan struct{})
		hand := p.Hand
		p.Hand = func(b *numbers) error { <-taken; return hand(b) }
		var added atomic.Int32
		ended := make(chan error)
		go func() {
			for i := range all {
				add(p, i)
				added.Add(1)
			}
			ended <- p.Wait()
		}()
		synctest.Wait()
		if n := added.Load(); n != 3*batchSize {
			t.Errorf("%d were added, want %d", n, 3*batchSize)
		}
		close(taken)
		if err := <-ended; err != nil || len(handed) != all {
			t.Errorf("%d of %d are handed on, %v", len(handed), all, err)
		}
	})
}

// After a failure nothing is handed on, Cancel is called once, Add returns, and Wait returns the failure. No goroutine is
// left.
// Guarantees: L1
func TestPipelineEndsWithTheFirstFailure(t *testing.T) {
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		do, hand func(first int) error // what happens to the batch with that first number
		want     error
	}{
		"hand fails": {hand: func(int) error { return boom }, want: boom},
		"hand exits": {hand: func(int) error { runtime.Goexit(); return nil }, want: ErrGoroutineEnded},
		"do exits":   {do: func(int) error { runtime.Goexit(); return nil }, want: ErrGoroutineEnded},
	} {
		for failing := range 20 {
			for _, slow := range []int{0, 1, 2} {
				synctest.Test(t, func(t *testing.T) {
					var handed []int
					p := newPipeline(3, &handed)
					hand := p.Hand
					// A worker may take a batch before it is full, so the failure is not always at a multiple of batchSize.
					var failed atomic.Int64 // the first number of the earliest batch that fails
					failed.Store(math.MaxInt64)
					fails := func(first int, how func(int) error) error {
						for was := failed.Load(); int64(first) < was && !failed.CompareAndSwap(was, int64(first)); {
							was = failed.Load()
						}
						return how(first)
					}
					p.Do = func(b *numbers) {
						time.Sleep(time.Duration((*b)[0]*slow%5) * time.Millisecond)
						if c.do != nil && (*b)[0] >= failing*batchSize {
							_ = fails((*b)[0], c.do)
						}
					}
					p.Hand = func(b *numbers) error {
						if c.hand != nil && (*b)[0] >= failing*batchSize {
							return fails((*b)[0], c.hand)
						}
						return hand(b)
					}
					var cancelled atomic.Int32
					p.Cancel = func(err error) {
						if cancelled.Add(1) > 1 || err != c.want {
							t.Errorf("%s: cancelled with %v", name, err)
						}
					}
					for i := range 50 * batchSize {
						add(p, i)
						if i%batchSize == batchSize-1 {
							p.Flush(always(ByWorker))
						}
					}
					if err := p.Wait(); err != c.want || !p.Failed() || cancelled.Load() != 1 {
						t.Errorf("%s: %v, failed %v, cancelled %d times", name, err, p.Failed(), cancelled.Load())
					}
					first := int(failed.Load())
					if len(handed) > first || c.do == nil && len(handed) != first || first >= (failing+1)*batchSize {
						t.Errorf("%s: %d are handed on after the failure of number %d", name, len(handed), first)
					}
					for i, n := range handed {
						if i != n {
							t.Fatalf("%s: %v are handed on", name, handed)
						}
					}
					if err := p.Wait(); err != c.want {
						t.Errorf("%s: a second Wait returns %v", name, err)
					}
				}) // synctest.Test waits for all goroutines
			}
		}
	}
}

// All workers end at once while the caller waits for one of them to take a batch.
// Guarantees: L1
func TestPipelineDoesNotWaitForWorkersThatEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handed []int
		p := newPipeline(2, &handed)
		gate := make(chan struct{})
		p.Do = func(*numbers) { <-gate; runtime.Goexit() }
		ended := make(chan error, 1)
		go func() {
			for i := range 100 {
				add(p, i)
				p.Flush(always(ByWorker))
			}
			ended <- p.Wait()
		}()
		synctest.Wait()
		if running, open := p.State(); len(ended) > 0 || running != 2 || !open {
			t.Errorf("%d workers, an open batch: %v: the caller does not wait", running, open)
		}
		close(gate)
		if err := <-ended; err != ErrGoroutineEnded || len(handed) > 0 {
			t.Errorf("%v after %v, want %v", err, handed, ErrGoroutineEnded)
		}
	})
}

// Apart returns the error of its function, or says that it ended its goroutine.
func TestApart(t *testing.T) {
	boom := errors.New("boom")
	if err := Apart(func() error { return boom }); err != boom {
		t.Error(err)
	}
	if err := Apart(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := Apart(func() error { runtime.Goexit(); return nil }); err != ErrGoroutineEnded {
		t.Error(err)
	}
}

// Resume calls its function again whenever that ends its goroutine, and reports the end once.
func TestResume(t *testing.T) {
	boom, calls := errors.New("boom"), []bool{}
	ended := make(chan error, 2)
	Resume(func(again bool) error {
		if calls = append(calls, again); len(calls) < 3 {
			runtime.Goexit()
		}
		return boom
	}, func(err error) { ended <- err })
	if err := <-ended; err != boom || !slices.Equal(calls, []bool{false, true, true}) || len(ended) > 0 {
		t.Errorf("%v after %v", err, calls)
	}
}
