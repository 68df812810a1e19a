package run

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// MaxWorkers is the largest number of workers of a pipeline that reads from the network or a file. More would wait for
// the goroutine that reads.
const MaxWorkers = 4

// Workers returns the number of workers for this machine. It is 0 if there is one processor only.
func Workers() int {
	if n := runtime.GOMAXPROCS(0); n > 1 {
		return min(n, MaxWorkers)
	}
	return 0
}

// Pipeline runs a function on batches, on several goroutines, and hands the batches on one by one, in order.
//
//	caller -> open batch --+-- worker: do ------------------ hand on, take the next batch ...
//	                       +-- worker: do, wait for its turn ----------- hand on ...
//
// A pipeline starts a worker when there is a batch to process. A worker ends when there is none. Input that arrives
// while all workers are busy accumulates in one batch. One goroutine sets the exported fields and then calls the
// methods. Only Failed may be called by others, such as the workers.
type Pipeline[B any] struct {
	Open    func() *B      // returns an empty batch
	Full    func(*B) bool  // reports whether the caller has to wait before it adds to a batch
	Do      func(*B)       // called by several goroutines at once
	Hand    func(*B) error // called for one batch at a time, in order; not again after an error
	Cancel  func(error)    // called once, with the first failure
	Workers int            // the largest number of workers; zero means that the caller does everything

	mu      sync.Mutex    // protects the fields below
	changed sync.Cond     // signaled when a worker has taken the batch or ends
	batch   *B            // the open batch, which no worker has taken; nil for none
	running int           // workers
	last    chan struct{} // closed when all batches that were taken have been handed on; nil if there was none

	failed  atomic.Bool // once true, no batch is handed on
	failure error       // the reason; the goroutine that set failed writes it
}

// Add calls put with the open batch. It first waits while the batch is full. After a failure it does nothing.
func (p *Pipeline[B]) Add(put func(*B)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch != nil && p.Full(p.batch) {
		p.dispatchLocked(ByWorker)
		for p.batch != nil && !p.failed.Load() { // workers that fail may leave it
			p.waitLocked()
		}
	}
	if p.failed.Load() {
		return
	}
	if p.batch == nil {
		p.batch = p.Open()
	}
	put(p.batch)
}

// Dispatch selects who works on the open batch.
type Dispatch uint8

const (
	Later    Dispatch = iota // nobody yet: more input may follow
	ByWorker                 // the next free worker
	ByCaller                 // the caller, unless there are workers
)

// Flush dispatches the open batch as choose returns. It returns false if there is no open batch.
func (p *Pipeline[B]) Flush(choose func(*B) Dispatch) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.batch == nil {
		return false
	}
	p.dispatchLocked(choose(p.batch))
	return true
}

func (p *Pipeline[B]) dispatchLocked(dispatch Dispatch) {
	switch {
	case p.batch == nil || dispatch == Later:
	case p.running == 0 && (p.Workers == 0 || dispatch == ByCaller):
		b := p.batch
		p.batch = nil
		p.Do(b)
		p.handOn(b)
	case p.running < p.Workers:
		p.running++
		go p.work()
	}
}

// Wait waits until all added input has been handed on, and returns the first failure.
func (p *Pipeline[B]) Wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatchLocked(ByCaller)
	for p.running > 0 {
		p.waitLocked()
	}
	return p.failure
}

// waitLocked waits until a worker has taken the batch or ends.
func (p *Pipeline[B]) waitLocked() {
	p.changed.L = &p.mu
	p.changed.Wait()
}

// Failed reports whether p has failed. The caller then need not add more: Wait returns the failure.
func (p *Pipeline[B]) Failed() bool { return p.failed.Load() }

// State returns the number of workers that run, and whether there is a batch that no worker has taken. It is for tests.
func (p *Pipeline[B]) State() (running int, open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running, p.batch != nil
}

// work processes batches until there are no more.
func (p *Pipeline[B]) work() {
	b, before, done := p.take()
	defer func() {
		if b != nil { // do or hand has ended the goroutine; if b is nil, take has removed the worker
			p.fail(ErrGoroutineEnded)
			close(done)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.running--
			p.changed.Signal()
		}
	}()
	for ; b != nil; b, before, done = p.take() {
		p.Do(b)
		if before != nil {
			<-before
		}
		p.handOn(b)
		close(done)
	}
}

// take takes the open batch. The worker may hand it on once before is closed or if it is nil, and then closes done. If
// b is nil, there is no batch, and the worker must end.
func (p *Pipeline[B]) take() (b *B, before <-chan struct{}, done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Signal()
	if p.batch == nil {
		p.running--
		return nil, nil, nil
	}
	b, before, done = p.batch, p.last, make(chan struct{})
	p.batch, p.last = nil, done
	return b, before, done
}

// handOn hands on b, unless p has failed. All earlier batches must have been handed on.
func (p *Pipeline[B]) handOn(b *B) {
	if p.failed.Load() {
		return
	}
	if err := p.Hand(b); err != nil {
		p.fail(err)
	}
}

func (p *Pipeline[B]) fail(err error) {
	if p.failed.CompareAndSwap(false, true) {
		p.failure = err
		p.Cancel(err)
	}
}

// ErrGoroutineEnded indicates that a user's function called runtime.Goexit, as testing.T's Fatal does.
var ErrGoroutineEnded = errors.New(
	"a callback of the program, such as Transform, an index function or UnmarshalJSON, called runtime.Goexit")

// Apart calls f on a goroutine of its own. It returns the error of f, or ErrGoroutineEnded when f ends that goroutine.
func Apart(f func() error) error {
	err, done := ErrGoroutineEnded, make(chan struct{})
	go func() {
		defer close(done)
		err = f()
	}()
	<-done
	return err
}

// Resume calls f(false) on a goroutine of its own. Whenever f ends that goroutine, Resume calls f(true) on another one.
// When f returns, Resume calls done with its error, on the goroutine of f. Resume does not wait.
func Resume(f func(again bool) error, done func(error)) {
	var start func(again bool)
	start = func(again bool) {
		go func() {
			returned := false
			defer func() {
				if !returned {
					start(true)
				}
			}()
			err := f(again)
			returned = true
			done(err)
		}()
	}
	start(false)
}
