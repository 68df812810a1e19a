package informer

import (
	"context"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/decode"
)

const (
	// batchBytes is how much a batch has at most, but for its last object, and batchObjects how many objects; minBatchBytes
	// is how much is worth a worker when nobody waits for it.
	batchBytes    = 64 << 10
	minBatchBytes = 16 << 10
	batchObjects  = 1 << 10
	// waiting is how long reading takes if it has to wait for the network. After minRush reads in a row that did not wait, the
	// work is shared: a few changes that come together are decoded sooner than another goroutine is awake.
	waiting = 30 * time.Microsecond
	minRush = 8
)

// batch is some objects that one goroutine decodes.
type batch[T Object] struct {
	raw     []byte
	objects []encoded[T]
	list    *decode.ListInfo // whose items they are, as far as it had been read; nil for none
}

func (b *batch[T]) bytes(e *encoded[T]) []byte { return b.raw[e.from:e.to] }

// batches keeps batches for use again.
type batches[T Object] struct{ pool sync.Pool }

func (p *batches[T]) get() *batch[T] {
	if b, ok := p.pool.Get().(*batch[T]); ok {
		return b
	}
	return &batch[T]{}
}

func (p *batches[T]) put(b *batch[T]) {
	if cap(b.raw) <= 2*batchBytes {
		clear(b.objects)
		b.objects, b.raw, b.list = b.objects[:0], b.raw[:0], nil
		p.pool.Put(b)
	}
}

// intake decodes the objects of one response, on several goroutines, and hands on what becomes of them, in order.
//
// When all wait for the network, as mostly in a watch, there is no other goroutine: the reader decodes what is news as soon as it
// is there.
type intake[T Object] struct {
	decoder  *decoder[T]
	batches  *batches[T]
	format   decode.Format
	live     bool // each object is news; else no object is of use before the last one
	restored bool // the server was restored: equal versions prove nothing
	hand     func(decoded[T]) error
	handed   func() error // called after hand was, for all of a batch; nil for none
	pipeline pipeline[batch[T]]

	waited bool // for the network, since something was flushed
	rush   int  // how many times in a row something was flushed without that
}

// newIntake returns an intake for a response in that format. It hands on one object at a time. After an error of hand it hands on
// nothing more, and calls cancel, which has to end the response.
func newIntake[T Object](d *decoder[T], b *batches[T], f decode.Format, cancel func(error), hand func(decoded[T]) error) *intake[T] {
	in := &intake[T]{decoder: d, batches: b, format: f, hand: hand}
	in.pipeline = pipeline[batch[T]]{
		open:   b.get,
		full:   func(b *batch[T]) bool { return len(b.raw) >= batchBytes || len(b.objects) >= batchObjects },
		do:     in.decode,
		hand:   in.handOn,
		cancel: cancel,
	}
	in.pipeline.start()
	return in
}

// add takes an encoded object, whose bytes it copies. list is nil, or the list whose item it is, as far as that has been read.
func (in *intake[T]) add(raw []byte, deleted bool, list *decode.ListInfo) {
	in.pipeline.add(func(b *batch[T]) {
		if list != nil && b.list == nil {
			now := *list
			b.list = &now
		}
		b.objects = append(b.objects, encoded[T]{deleted: deleted})
		e := &b.objects[len(b.objects)-1]
		if in.decoder.find(in.format, raw, in.restored, e); !e.held {
			e.from = len(b.raw)
			b.raw = append(b.raw, raw...)
			e.to = len(b.raw)
		}
	})
}

// fill has what was added decoded, as far as that is worth it by now, and then reads more of the response.
func (in *intake[T]) fill(body interface{ Fill() error }) error {
	if in.waited {
		in.rush = 0
	}
	if in.flush(in.rush < minRush) {
		in.waited = false
		in.rush++
	}
	if in.pipeline.failed.Load() {
		return context.Canceled // wait returns the failure
	}
	began := time.Now()
	err := body.Fill()
	in.waited = in.waited || time.Since(began) >= waiting
	return err
}

// flush has what was added decoded, unless there is time for more of it. quiet says that no more is to be expected for now. It
// returns false when nothing was added.
func (in *intake[T]) flush(quiet bool) bool {
	return in.pipeline.flush(func(b *batch[T]) dispatch {
		switch {
		case !in.live && len(b.raw) < minBatchBytes && len(b.objects) < batchObjects:
			return later
		case in.live && quiet || len(b.raw) == 0: // nothing to decode
			return byCaller
		}
		return byWorker
	})
}

// wait waits until everything that was added has been handed on, and returns the first failure.
func (in *intake[T]) wait() error { return in.pipeline.wait() }

func (in *intake[T]) decode(b *batch[T]) {
	in.decoder.decoding.enter()
	defer in.decoder.decoding.leave()
	one := in.decoder.get()
	for i := range b.objects {
		if in.pipeline.failed.Load() {
			return
		}
		e := &b.objects[i]
		in.decoder.decode(one, in.format, b.bytes(e), b.list, e)
	}
	in.decoder.put(one)
}

func (in *intake[T]) handOn(b *batch[T]) error {
	var one *decode.Decoder
	if in.decoder.config.Transform != nil && in.decoder.config.Share {
		one = in.decoder.get()
	}
	for i := range b.objects {
		e := &b.objects[i]
		result, err := in.decoder.finish(one, in.format, b.bytes(e), e)
		if err == nil {
			err = in.hand(result)
		}
		if err != nil {
			return err
		}
	}
	if one != nil {
		in.decoder.put(one)
	}
	in.batches.put(b)
	if in.handed != nil {
		return in.handed()
	}
	return nil
}
