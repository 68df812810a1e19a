package informer

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"

	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
)

// Feed is the reflector of a part of a mirror, and its sink: it puts deltas into the buffer of the mirror. It is also
// what an audit compares with the server.
type Feed[T object.Object] struct {
	mirror    *Mirror[T]
	part      Part
	Loop      *reflector.Loop[T]
	undecoded Undecoded // as of the last delta
}

// start lists and watches until ctx ends, on another goroutine. It calls done with the error at the end.
func (f *Feed[T]) start(ctx context.Context, done func(error)) {
	name := f.mirror.config.Kind + f.part.Text
	if name == f.mirror.config.Name { // the goroutine of the caller has the label
		f.Loop.Start(ctx, done)
		return
	}
	pprof.Do(ctx, pprof.Labels("informer", name), func(ctx context.Context) { f.Loop.Start(ctx, done) })
}

// Put implements reflector.Sink.
func (f *Feed[T]) Put(ctx context.Context, d reflector.Delta[T]) (err error) {
	if d.Type == reflector.Replaced {
		err = f.mirror.Buffer.Put(ctx, &d)
	} else {
		err = f.mirror.Buffer.Queue(ctx, &d)
	}
	if err == nil {
		f.undecoded = After(f.undecoded, &d)
	}
	return err
}

// Flush implements reflector.Sink.
func (f *Feed[T]) Flush() error { return f.mirror.Drain.Flush() }

// Held implements reflector.Sink.
func (f *Feed[T]) Held(ctx context.Context, key object.Key) (version string, ok bool, err error) {
	if err := f.mirror.Drain.Settle(ctx); err != nil {
		return "", false, err
	}
	if obj, has := f.mirror.get(key); has {
		version = obj.GetResourceVersion()
	}
	return version, true, nil
}

// Stale implements reflector.Sink.
func (f *Feed[T]) Stale() int { return f.undecoded.Len() }

// View implements audit.Source. Nothing is compared while the server refuses the part.
func (f *Feed[T]) View() (audit.View, bool) {
	if f.mirror.refused.Load() {
		return nil, false
	}
	snap := f.mirror.store.Snapshot()
	src, _ := snap.sources.Of(f.part.Namespace)
	v := audit.TableView[T]{
		Objects:   snap.version,
		Namespace: src.Namespace,
		Part:      src.Data.shard(),
		At:        src.Version,
		Failed:    src.Data.undecoded.Set,
	}
	return v, v.At != "" || v.Any() // the server may send no resource versions
}

// metadata returns a source of the metadata of the objects, for an audit.
func (f *Feed[T]) metadata() *fetch.Source {
	return f.Loop.Source.Metadata(f.Loop.Decoder.Metadata, object.Key{})
}

// List implements audit.Source.
func (f *Feed[T]) List(ctx context.Context, view audit.View,
	yield func(object.Key, object.ID)) (bytes int64, err error) {
	if view.Version() == "" {
		return 0, errors.New("the server sends no resource versions, which an audit needs to compare the same state")
	}
	source, shard := f.metadata(), view.Shard()
	ids := f.Loop.Decoder.Identities(intake.Asked{Shard: shard}, func(key object.Key, uid, version string) {
		yield(key, object.ID{UID: uid, Version: version})
	})
	err = source.ListAt(ctx, view.Version(), f.Loop.PageSize, ids, shard.String())
	return source.Received(), err
}

// Behind implements audit.Source.
func (f *Feed[T]) Behind(ctx context.Context, view audit.View) error {
	err := f.metadata().Reaches(ctx, view.Version(), view.Shard().String())
	if !fetch.IsTooLarge(err) {
		return nil
	}
	return fmt.Errorf("%w: %w", fetch.ErrBehind, err)
}

// Relist implements audit.Source.
func (f *Feed[T]) Relist(why error) { f.Loop.Relist(why) }
