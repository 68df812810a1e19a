package informer

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// maxWorkers is the maximum number of workers of a pipeline. More would wait for the goroutine that reads.
const maxWorkers = 4

// pipeline runs a function on batches, on several goroutines, and hands the batches on one by one, in order.
//
//	caller -> open batch --+-- worker: do ------------------ hand on, take the next batch ...
//	                       +-- worker: do, wait for its turn ----------- hand on ...
//
// A pipeline starts a worker when there is a batch to process. A worker ends when there is none. Input that arrives
// while all workers are busy accumulates in one batch. The methods are for one goroutine.
type pipeline[B any] struct {
	open       func() *B      // returns an empty batch
	full       func(*B) bool  // reports whether the caller has to wait before it adds to a batch
	do         func(*B)       // called by several goroutines at once
	hand       func(*B) error // called for one batch at a time, in order; not again after an error
	cancel     func(error)    // called once, with the first failure
	maxWorkers int            // 0: the caller does everything

	mu      sync.Mutex // protects the fields below
	changed sync.Cond  // signaled when a worker has taken the batch or ends
	batch   *B         // the open batch, which no worker has taken; nil for none
	workers int
	last    chan struct{} // closed when all batches that were taken have been handed on; nil if there was none

	failed  atomic.Bool // once true, no batch is handed on
	failure error       // the reason; the goroutine that set failed writes it
}

// start makes p ready for use. Its functions must be set.
func (p *pipeline[B]) start() {
	p.changed.L = &p.mu
	if n := runtime.GOMAXPROCS(0); n > 1 {
		p.maxWorkers = min(n, maxWorkers)
	}
}

// add calls put with the open batch. It first waits while the batch is full. After a failure it does nothing.
func (p *pipeline[B]) add(put func(*B)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch != nil && p.full(p.batch) {
		p.dispatchLocked(byWorker)
		for p.batch != nil && !p.failed.Load() { // workers that fail may leave it
			p.changed.Wait()
		}
	}
	if p.failed.Load() {
		return
	}
	if p.batch == nil {
		p.batch = p.open()
	}
	put(p.batch)
}

// dispatch selects who works on the open batch.
type dispatch uint8

const (
	later    dispatch = iota // nobody yet: more input may follow
	byWorker                 // the next free worker
	byCaller                 // the caller, unless there are workers
)

// flush dispatches the open batch as choose returns. It returns false if there is no open batch.
func (p *pipeline[B]) flush(choose func(*B) dispatch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch == nil {
		return false
	}
	p.dispatchLocked(choose(p.batch))
	return true
}

func (p *pipeline[B]) dispatchLocked(who dispatch) {
	switch {
	case p.batch == nil || who == later:
	case p.workers == 0 && (p.maxWorkers == 0 || who == byCaller):
		b := p.batch
		p.batch = nil
		p.do(b)
		p.handOn(b)
	case p.workers < p.maxWorkers:
		p.workers++
		go p.work()
	}
}

// wait waits until all added input has been handed on, and returns the first failure.
func (p *pipeline[B]) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatchLocked(byCaller)
	for p.workers > 0 {
		p.changed.Wait()
	}
	return p.failure
}

// work processes batches until there are no more.
func (p *pipeline[B]) work() {
	b, before, done := p.take()
	defer func() {
		if b != nil { // do or hand has ended the goroutine; if b is nil, take has removed the worker
			p.fail(errGoroutineEnded)
			close(done)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.workers--
			p.changed.Signal()
		}
	}()
	for ; b != nil; b, before, done = p.take() {
		p.do(b)
		if before != nil {
			<-before
		}
		p.handOn(b)
		close(done)
	}
}

// take takes the open batch. The worker may hand it on once before is closed or if it is nil, and then closes done. If
// b is nil, there is no batch, and the worker must end.
func (p *pipeline[B]) take() (b *B, before <-chan struct{}, done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Signal()
	if p.batch == nil {
		p.workers--
		return nil, nil, nil
	}
	b, before, done = p.batch, p.last, make(chan struct{})
	p.batch, p.last = nil, done
	return b, before, done
}

// handOn hands on b, unless p has failed. All earlier batches must have been handed on.
func (p *pipeline[B]) handOn(b *B) {
	if p.failed.Load() {
		return
	}
	if err := p.hand(b); err != nil {
		p.fail(err)
	}
}

func (p *pipeline[B]) fail(err error) {
	if p.failed.CompareAndSwap(false, true) {
		p.failure = err
		p.cancel(err)
	}
}

// errGoroutineEnded indicates that a user's function called runtime.Goexit, as testing.T's Fatal does.
var errGoroutineEnded = errors.New(
	"a function of the user, such as Transform, the function of an index or UnmarshalJSON, ended its goroutine")

// apart calls f on a goroutine of its own. It returns the error of f, or errGoroutineEnded when f ends that goroutine.
func apart(f func() error) error {
	err, done := errGoroutineEnded, make(chan struct{})
	go func() {
		defer close(done)
		err = f()
	}()
	<-done
	return err
}
