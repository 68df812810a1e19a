package informer

import (
	"context"
	"errors"
	"log/slog"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/saved"
)

// warmStart is the start of a reflector with the objects of a saved state, before its first list. It is for the
// goroutine of the reflector, except status.
type warmStart[T Object] struct {
	state *saved.State // nil without Config.WarmStart
	ended bool         // the sink has the saved objects, or the reflector lists
	log   *slog.Logger
}

// newWarmStart returns the warm start of a reflector that reads source and decodes with d.
func newWarmStart[T Object](client *Client, resource Resource, config Config[T], source *fetch.Source,
	d *intake.Decoder[T], log *slog.Logger) warmStart[T] {
	warm := config.WarmStart
	if warm.Storage == nil {
		return warmStart[T]{}
	}
	server := *client.http.Base
	server.User = nil // saved states and logs have no credentials
	c := saved.Config{
		Storage: warm.Storage,
		MaxAge:  warm.maxAge(),
		Identity: saved.Identity{
			Server:        server.String(),
			CA:            client.cluster.CA(),
			Resource:      resource.GroupVersionResource,
			Namespace:     d.Namespace,
			LabelSelector: resource.LabelSelector,
			FieldSelector: resource.FieldSelector,
			ManagedFields: config.KeepManagedFields,
			Transform:     config.Transform != nil,
			Filter:        config.Filter != nil,
			Revision:      warm.Revision,
		},
		Client:   client.http,
		Cluster:  client.cluster,
		Source:   warmSource{source},
		Decoders: d.Pool,
		Packing:  savedPacking[T]{d.Packing},
		Share:    config.Share,
		Log:      log,
	}
	c.Identity.SetType(d.Pool.Type())
	return warmStart[T]{state: saved.New(c), log: log}
}

// pending reports whether to call load before a list.
func (w *warmStart[T]) pending() bool { return w.state != nil && !w.ended }

// load returns the objects of the saved state as a Replaced from the origin from, and the resource version that the
// server has now, or "" if that is the version of the objects. It returns nil if the reflector has to list, and an
// error if it should try again.
func (w *warmStart[T]) load(ctx context.Context, from *origin) (d *Delta[T], current string, err error) {
	var items []T
	l, err := w.state.Load(ctx, from.shard.String(), func(obj saved.Object) { items = append(items, obj.(T)) })
	if cold := (saved.Cold{}); errors.As(err, &cold) {
		w.list(cold.Why)
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	if from.listed = l.Listed; l.Current != l.Version {
		from.kind, current = olderState, l.Current
	}
	return &Delta[T]{Type: Replaced, Items: items, ResourceVersion: l.Version, from: from}, current, nil
}

// loaded records that the sink has the objects.
func (w *warmStart[T]) loaded() {
	w.ended = true
	s := w.state.Status()
	w.log.Info("a saved state was loaded", "objects", s.LoadedObjects, "age", s.LoadedAge,
		"resourceVersion", s.LoadedVersion, "took", s.LoadTime)
}

// list records why the reflector lists instead of loading a saved state.
func (w *warmStart[T]) list(why error) {
	w.ended = true
	w.state.GiveUp(why)
}

// caughtUp records that the sink has every change that the server had after the load, or that the reflector lists.
func (w *warmStart[T]) caughtUp() { w.state.CaughtUp() }

// status returns the present status.
func (w *warmStart[T]) status() WarmStartStatus {
	if w.state == nil {
		return WarmStartStatus{}
	}
	return WarmStartStatus(w.state.Status())
}

// warmSource is the collection of a reflector for a [saved.State].
type warmSource struct{ *fetch.Source }

// Loading implements saved.Source.
func (s warmSource) Loading() { s.Awaits.Set(fetch.AwaitingWarmStart) }

// savedPacking is a packing for a [saved.State].
type savedPacking[T Object] struct{ of intake.Packing[T] }

// Encoded implements saved.Packing.
func (p savedPacking[T]) Encoded(obj saved.Object, buf []byte) (e decode.Encoded, ok bool, err error) {
	return p.of.Encoded(obj.(T), buf)
}

// Whole implements saved.Packing.
func (p savedPacking[T]) Whole(obj saved.Object) any { return p.of.Whole(obj.(T)) }

// Restored implements saved.Packing.
func (p savedPacking[T]) Restored(e decode.Encoded, obj any) saved.Object {
	return p.of.Restored(e, obj)
}
