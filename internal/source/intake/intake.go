// Package intake decodes the objects of responses on several goroutines, and hands on the results in order. A [Decoder]
// has the settings that all responses of one source share. It makes an intake for each response: a watch, or a page of
// a list, whose objects a [Collector] collects.
package intake

import (
	"context"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
)

const (
	// A batch is full when it has batchBytes bytes or batchObjects objects. A worker takes a batch of a list when it has
	// minBatchBytes bytes.
	batchBytes    = 64 << 10
	minBatchBytes = 16 << 10
	batchObjects  = 1 << 10
	// A read that takes at least waiting has waited for the network. After minRush consecutive reads of a watch that did
	// not wait, workers decode: the reader itself decodes a few changes sooner than another goroutine wakes up.
	waiting = 30 * time.Microsecond
	minRush = 8
)

// batch is a number of objects that one goroutine decodes.
type batch[T object.Object] struct {
	raw     []byte
	objects []encoded[T]
	list    *decode.ListInfo // the list of the objects, as far as it had been read; nil for a watch
}

func (b *batch[T]) bytes(e *encoded[T]) []byte { return b.raw[e.from:e.to] }

// batches is a pool of batches.
type batches[T object.Object] struct{ pool sync.Pool }

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

// intake decodes the objects of one response on several goroutines, and hands on the results in order.
//
// While the reader mostly waits for the network, as in a quiet watch, there is no other goroutine: the reader decodes
// each change at once.
type intake[T object.Object] struct {
	decoder  *Decoder[T]
	format   decode.Format
	asked    Asked
	live     bool // decode each object soon, for a watch; false for a list, which is of use only when complete
	hand     func(Result[T]) error
	handed   func() error // called after hand has returned for each object of a batch; nil for none
	pipeline run.Pipeline[batch[T]]

	waited bool // a read has waited for the network since the last flush of a batch
	rush   int  // consecutive flushes of a batch without such a wait
}

// Watch returns a function that makes the intake of a watch of what was asked. The intake calls hand for one object at
// a time, and handed after one or more of them. After an error of one of these it fails, and calls neither again.
func (d *Decoder[T]) Watch(asked Asked, hand func(Result[T]) error, handed func() error) fetch.NewIntake {
	return func(f decode.Format, cancel func(error)) fetch.Intake {
		in := d.intake(f, asked, cancel, hand)
		in.live, in.handed = true, handed
		return in
	}
}

// intake returns an intake for the response in format f to what was asked. It calls hand for one object at a time.
// After an error of hand it calls cancel, which must end the response, and does not call hand again.
func (d *Decoder[T]) intake(f decode.Format, asked Asked, cancel func(error), hand func(Result[T]) error) *intake[T] {
	in := &intake[T]{decoder: d, format: f, asked: asked, hand: hand}
	in.pipeline = run.Pipeline[batch[T]]{
		Open:    d.batches.get,
		Full:    func(b *batch[T]) bool { return len(b.raw) >= batchBytes || len(b.objects) >= batchObjects },
		Do:      in.decode,
		Hand:    in.handOn,
		Cancel:  cancel,
		Workers: run.Workers(),
	}
	return in
}

// Add implements fetch.Intake.
func (in *intake[T]) Add(raw []byte, deleted bool, list *decode.ListInfo) {
	in.pipeline.Add(func(b *batch[T]) {
		if list != nil && b.list == nil {
			now := *list
			b.list = &now
		}
		b.objects = append(b.objects, encoded[T]{deleted: deleted})
		e := &b.objects[len(b.objects)-1]
		if in.decoder.find(in.format, raw, &in.asked, e); !e.held {
			e.from = len(b.raw)
			b.raw = append(b.raw, raw...)
			e.to = len(b.raw)
		}
	})
}

// AddValue implements fetch.Intake.
func (in *intake[T]) AddValue(obj any, deleted bool) {
	in.pipeline.Add(func(b *batch[T]) {
		b.objects = append(b.objects, encoded[T]{value: obj, isValue: true, deleted: deleted})
	})
}

// AddLarge implements fetch.Intake.
func (in *intake[T]) AddLarge(large *decode.LargeError, deleted bool) {
	in.pipeline.Add(func(b *batch[T]) {
		e := encoded[T]{deleted: deleted, err: large}
		if a := &in.asked; !a.Shard.IsWhole() && a.knows(large.ID) && !a.hasIdentity(large.ID) {
			e.outside, e.filtered = true, true
			in.decoder.outside.Add(1)
		}
		b.objects = append(b.objects, e)
	})
}

// Fill flushes the added objects, and then reads more of the response.
func (in *intake[T]) Fill(body interface{ Fill() error }) error {
	if in.waited {
		in.rush = 0
	}
	if in.flush(in.rush < minRush) {
		in.waited = false
		in.rush++
	}
	if in.pipeline.Failed() {
		return context.Canceled // Wait returns the failure
	}
	began := time.Now()
	err := body.Fill()
	in.waited = in.waited || time.Since(began) >= waiting
	return err
}

// flush starts to decode the open batch, unless it is a small batch of a list. If quiet is true, no more objects are
// expected soon. It returns false if there is no open batch.
func (in *intake[T]) flush(quiet bool) bool {
	return in.pipeline.Flush(func(b *batch[T]) run.Dispatch {
		switch {
		case !in.live && len(b.raw) < minBatchBytes && len(b.objects) < batchObjects:
			return run.Later
		case in.live && quiet || len(b.raw) == 0: // nothing to decode
			return run.ByCaller
		}
		return run.ByWorker
	})
}

// Wait implements fetch.Intake.
func (in *intake[T]) Wait() error { return in.pipeline.Wait() }

func (in *intake[T]) decode(b *batch[T]) {
	in.decoder.Decoding.Enter()
	defer in.decoder.Decoding.Leave()
	decoder := in.decoder.Pool.Get()
	for i := range b.objects {
		if in.pipeline.Failed() {
			return
		}
		e := &b.objects[i]
		if e.isValue {
			in.decoder.takeValue(e, &in.asked)
			continue
		}
		in.decoder.decode(decoder, in.format, b.bytes(e), b.list, e)
	}
	in.decoder.Pool.Put(decoder)
}

func (in *intake[T]) handOn(b *batch[T]) error {
	var decoder *decode.Decoder
	if in.decoder.Transform != nil && in.decoder.Share {
		decoder = in.decoder.Pool.Get()
	}
	for i := range b.objects {
		e := &b.objects[i]
		result, err := in.decoder.finish(decoder, in.format, b.bytes(e), &in.asked, e)
		if err == nil {
			var next *Result[T]
			if in.live {
				next = in.decoder.share(&result, e.other)
			}
			if err = in.hand(result); err == nil && next != nil {
				err = in.hand(*next)
			}
		}
		if err != nil {
			return err
		}
	}
	if decoder != nil {
		in.decoder.Pool.Put(decoder)
	}
	in.decoder.batches.put(b)
	if in.handed != nil {
		return in.handed()
	}
	return nil
}
