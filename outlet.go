package informer

import "context"

// outlet puts the deltas of a reflector into its sink. It is for one goroutine.
type outlet[T Object] struct {
	sink      Sink[T]
	batcher   batcher[T]  // sink as a batcher; nil if it is none
	undecoded undecodable // as of the last delta
	listed    bool        // the sink has had a list
}

// errSink wraps an error of the sink, which ends the reflector.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// put puts d into the sink. The caller must call flush later.
func (o *outlet[T]) put(ctx context.Context, d Delta[T]) error {
	put := o.sink.Put
	if o.batcher != nil && d.Type != Replaced {
		put = o.batcher.queue
	}
	if err := put(ctx, d); err != nil {
		return errSink{err}
	}
	return nil
}

// note notes which objects could not be decoded after d. It reports whether that has changed.
func (o *outlet[T]) note(d *Delta[T]) bool {
	before := o.undecoded
	o.undecoded = d.undecoded(before)
	return o.undecoded.Set != before.Set
}

// flush flushes the sink, if it is a batcher.
func (o *outlet[T]) flush() error {
	if o.batcher == nil {
		return nil
	}
	if err := o.batcher.flush(); err != nil {
		return errSink{err}
	}
	return nil
}
