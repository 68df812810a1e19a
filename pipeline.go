package informer

import (
	"context"
	"errors"
	"io"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// batchBytes is how much a batch has at most, but for its last object, and batchPieces how many objects; minBatchBytes
	// is how much is worth a worker when nobody waits for it.
	batchBytes    = 64 << 10
	minBatchBytes = 16 << 10
	batchPieces   = 1 << 10
	// maxWorkers is how many there are at most. More would wait for the one that reads.
	maxWorkers = 4
	// waiting is how long reading takes if it has to wait for the network. After so many reads in a row that did not, work
	// is shared: a few changes that come together are decoded sooner than another goroutine is awake.
	waiting = 30 * time.Microsecond
	minRush = 8
)

// decoder decodes a reflector's objects. It is for one goroutine.
type decoder[T Object] struct {
	codec    *codec[T]
	metadata *codec[*metav1.PartialObjectMetadata] // for Config.Filter
	adopter  adopter                               // for Config.Share
}

// newDecoder returns a decoder for which c, which has decoded nothing itself, says what to decode.
func newDecoder[T Object](c *codec[T]) *decoder[T] {
	own := *c
	return &decoder[T]{
		codec:    &own,
		metadata: &codec[*metav1.PartialObjectMetadata]{element: reflect.TypeFor[metav1.PartialObjectMetadata]()},
		adopter:  adopter{},
	}
}

// pipeline decodes the objects of one answer on several goroutines, and hands them on one by one, in the order in which
// they came.
//
//	reader -> open batch --+-- worker: decode ------------------ hand on, take the next batch ...
//	                       +-- worker: decode, wait for its turn ----------- hand on ...
//
// Workers come when there is something to do, and go when there is nothing. What is read while all of them are busy, makes
// one batch. When the network is what everything waits for, as mostly in a watch, there is no other goroutine: the reader
// decodes what is news as soon as it is there.
type pipeline[T Object] struct {
	reflector  *Reflector[T]
	format     format
	hand       func(obj T, failed *DecodeError, deleted bool, raw []byte) error // one at a time
	cancel     func(error)                                                      // ends the answer when hand fails
	maxWorkers int                                                              // 0: the reader does everything
	live       bool                                                             // what comes is news; else it is of no use before the end. Of the reader

	mu      sync.Mutex // protects the fields below
	changed sync.Cond  // a worker took the open batch, or went
	open    *batch[T]  // what no worker has taken; nil for nothing
	workers int
	last    chan struct{} // closed when all that was taken has been handed on; nil when nothing was

	failed  atomic.Bool // hand did: nothing is handed on any more
	failure error       // of hand; of the one who set failed
}

// batch is some objects that are decoded by one goroutine.
type batch[T Object] struct {
	raw    []byte
	pieces []piece[T]
	list   *listInfo // that they are items of, as far as it had been read; nil for none
}

// piece is one object.
type piece[T Object] struct {
	raw     span // in its batch
	deleted bool // it is the last state of what was deleted
	obj     T    // what was decoded
	held    bool // it is what is held already
	old     T    // what it is to share with
	err     error
}

// newPipeline returns one for an answer of r in that format. hand gets what decode makes of each object; when it fails,
// nothing is handed on any more, and cancel is told, which has to end the answer.
func newPipeline[T Object](r *Reflector[T], f format, cancel func(error), hand func(obj T, failed *DecodeError, deleted bool, raw []byte) error) *pipeline[T] {
	p := &pipeline[T]{reflector: r, format: f, hand: hand, cancel: cancel}
	p.changed.L = &p.mu
	if n := runtime.GOMAXPROCS(0); n > 1 && r.config.Filter == nil { // which is asked before anything is decoded, and about one object at a time
		p.maxWorkers = min(n, maxWorkers)
	}
	return p
}

// pipelineReader is what an answer is read from. Before it waits for the network, all that is there is on its way.
type pipelineReader[T Object] struct {
	io.Reader
	pipeline *pipeline[T]
	waited   bool // for the network, since the last flush of anything
	rush     int  // how many flushes in a row it had not
}

func (p *pipeline[T]) body(r io.Reader) io.Reader { return &pipelineReader[T]{Reader: r, pipeline: p} }

func (r *pipelineReader[T]) Read(b []byte) (int, error) {
	if r.waited {
		r.rush = 0
	}
	if r.pipeline.flush(r.rush < minRush) {
		r.waited = false
		r.rush++
	}
	if r.pipeline.failed.Load() {
		return 0, context.Canceled // wait tells why
	}
	began := time.Now()
	n, err := r.Reader.Read(b)
	r.waited = r.waited || time.Since(began) >= waiting
	return n, err
}

// add takes an encoded object, whose bytes it copies, and what list is known to be by now, if it is an item of one.
func (p *pipeline[T]) add(raw []byte, deleted bool, list *listInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil && (len(p.open.raw) >= batchBytes || len(p.open.pieces) >= batchPieces) {
		p.flushLocked(false)
		for p.open != nil {
			p.changed.Wait()
		}
	}
	if p.open == nil {
		p.open = p.reflector.batches.Get().(*batch[T])
		if list != nil {
			now := *list
			p.open.list = &now
		}
	}
	b := p.open
	b.pieces = append(b.pieces, piece[T]{deleted: deleted})
	it := &b.pieces[len(b.pieces)-1]
	if p.reflector.find(p.format, raw, it); !it.held {
		it.raw.from = len(b.raw)
		b.raw = append(b.raw, raw...)
		it.raw.to = len(b.raw)
	}
}

// flush has what was added decoded and handed on, unless there is time for more of it: quiet says that nothing more is to be
// expected for now. It returns false when there is nothing.
func (p *pipeline[T]) flush(quiet bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.open
	if b != nil && (p.live || len(b.raw) >= minBatchBytes || len(b.pieces) >= batchPieces) {
		p.flushLocked(quiet && p.live)
	}
	return b != nil
}

func (p *pipeline[T]) flushLocked(quiet bool) {
	switch {
	case p.open == nil:
	case p.workers == 0 && (p.maxWorkers == 0 || quiet || len(p.open.raw) == 0):
		b := p.open
		p.open = nil
		p.decode(p.reflector.decoder, b)
		p.handOn(p.reflector.decoder, b)
	case p.workers < p.maxWorkers:
		p.workers++
		go p.work()
	}
}

// wait waits until everything has been handed on that was added, and returns what hand failed with.
func (p *pipeline[T]) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushLocked(true)
	for p.workers > 0 {
		p.changed.Wait()
	}
	return p.failure
}

// errGoroutineEnded says that a function of the configuration called runtime.Goexit, as testing.T's Fatal does.
var errGoroutineEnded = errors.New("a function of the configuration, like Transform, ended its goroutine")

// work decodes one batch after the other, as long as there are any.
func (p *pipeline[T]) work() {
	d := p.reflector.decoders.Get().(*decoder[T])
	b, before, done := p.take()
	defer func() {
		if b != nil { // else take has noted that the worker goes
			p.fail(errGoroutineEnded)
			close(done)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.workers--
			p.changed.Signal()
		}
	}()
	for ; b != nil; b, before, done = p.take() {
		p.decode(d, b)
		if before != nil {
			<-before
		}
		p.handOn(d, b)
		close(done)
	}
	p.reflector.decoders.Put(d)
}

// take takes the open batch. Its turn is when before is closed; done is to be closed behind it. Without one, the worker has
// to go.
func (p *pipeline[T]) take() (b *batch[T], before <-chan struct{}, done chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Signal()
	if p.open == nil {
		p.workers--
		return nil, nil, nil
	}
	b, before, done = p.open, p.last, make(chan struct{})
	p.open, p.last = nil, done
	return b, before, done
}

func (p *pipeline[T]) decode(d *decoder[T], b *batch[T]) {
	for i := range b.pieces {
		if p.failed.Load() {
			return
		}
		p.reflector.decode(d, p.format, b.bytes(i), b.list, &b.pieces[i])
	}
}

// handOn hands on the objects of b, whose turn it is.
func (p *pipeline[T]) handOn(d *decoder[T], b *batch[T]) {
	for i := range b.pieces {
		if p.failed.Load() {
			break
		}
		it, raw := &b.pieces[i], b.bytes(i)
		obj, failed := p.reflector.finish(d, p.format, raw, it)
		if err := p.hand(obj, failed, it.deleted, raw); err != nil {
			p.fail(err)
		}
	}
	if cap(b.raw) <= 2*batchBytes {
		clear(b.pieces)
		b.pieces, b.raw, b.list = b.pieces[:0], b.raw[:0], nil
		p.reflector.batches.Put(b)
	}
}

func (p *pipeline[T]) fail(err error) {
	if p.failed.CompareAndSwap(false, true) {
		p.failure = err
		p.cancel(err)
	}
}

// bytes returns what piece i was encoded as.
func (b *batch[T]) bytes(i int) []byte { return b.raw[b.pieces[i].raw.from:b.pieces[i].raw.to] }
