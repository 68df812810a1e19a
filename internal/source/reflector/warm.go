package reflector

import (
	"context"
	"errors"
	"log/slog"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/warmstart"
	"github.com/typedinformer/informer/status"
)

// NewSaved returns the saved state that c describes, of the objects that d decodes from source.
func NewSaved[T object.Object](c warmstart.Config, source *fetch.Source, d *intake.Decoder[T]) *warmstart.State {
	c.Kind = decode.NewKind(d.Pool.Type(), c.Identity.Resource.Resource)
	c.Source, c.Decoders, c.Packing = savedSource{source}, d.Pool, savedPacking[T]{d.Packing}
	c.Identity.Namespace = d.Namespace
	c.Identity.SetType(d.Pool.Type())
	return warmstart.New(c)
}

// warmStart is the start of a loop with the objects of a saved state, before its first list. It is for the goroutine of
// the loop, except status.
type warmStart[T object.Object] struct {
	state *warmstart.State // nil for none
	ended bool             // the sink has the saved objects, or the loop lists
	log   *slog.Logger
}

// pending reports whether to call load before a list.
func (w *warmStart[T]) pending() bool { return w.state != nil && !w.ended }

// load returns the objects of the saved state as a Replaced from the origin from, and the resource version that the
// server has now, or "" if that is the version of the objects. It returns nil if the loop has to list, and an error if
// it should try again.
func (w *warmStart[T]) load(ctx context.Context, from *Origin) (d *Delta[T], current string, err error) {
	var items []T
	l, err := w.state.Load(ctx, from.Shard.String(), func(obj object.Object) { items = append(items, obj.(T)) })
	if cold := (warmstart.Cold{}); errors.As(err, &cold) {
		w.list(cold.Why)
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if from.Listed = l.Listed; l.Current != l.Version {
		from.Kind, current = OlderState, l.Current
	}
	return &Delta[T]{Type: Replaced, Items: items, Version: l.Version, From: from}, current, nil
}

// loaded records that the sink has the objects.
func (w *warmStart[T]) loaded() {
	w.ended = true
	s := w.state.Status()
	w.log.Info("a saved state was loaded", "objects", s.LoadedObjects, "age", s.LoadedAge,
		"resourceVersion", s.LoadedVersion, "took", s.LoadTime)
}

// list records why the loop lists instead of loading a saved state.
func (w *warmStart[T]) list(why error) {
	w.ended = true
	w.state.GiveUp(why)
}

// caughtUp records that the sink has every change that the server had after the load, or that the loop lists.
func (w *warmStart[T]) caughtUp() { w.state.CaughtUp() }

// status returns the present status.
func (w *warmStart[T]) status() status.WarmStart {
	if w.state == nil {
		return status.WarmStart{}
	}
	return w.state.Status()
}

// savedSource is the collection of a loop for a [warmstart.State].
type savedSource struct{ *fetch.Source }

// Loading implements warmstart.Source.
func (s savedSource) Loading() { s.Awaits.Set(status.AwaitingWarmStart) }

// savedPacking is a packing for a [warmstart.State].
type savedPacking[T object.Object] struct{ packing intake.Packing[T] }

// Encoded implements warmstart.Packing.
func (p savedPacking[T]) Encoded(obj object.Object, buf []byte) (e decode.Encoded, ok bool, err error) {
	return p.packing.Encoded(obj.(T), buf)
}

// Whole implements warmstart.Packing.
func (p savedPacking[T]) Whole(obj object.Object) any { return p.packing.Whole(obj.(T)) }

// Restored implements warmstart.Packing.
func (p savedPacking[T]) Restored(decoder *decode.Decoder, e decode.Encoded, share bool) (object.Object, error) {
	return p.packing.Restored(decoder, e, share)
}
