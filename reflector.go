package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/internal/source/warmstart"
	"github.com/typedinformer/informer/status"
)

// Reflector reads one collection, or one namespace of it, by list and watch, and puts deltas into a [Sink]: one
// Replaced for a list, then one delta for each event of the watch. After a failure it resumes at its resource version.
// It lists again only when the server no longer has the changes since that version.
//
// A 404 alone counts as such a failure, since a proxy can send it. If the server's discovery documents also show that
// no version of the API group has the resource, the sink gets an empty Replaced; see [status.ReflectorState]. All
// authenticated users may read these documents by default. If a cluster has changed that, bind the ClusterRole
// system:discovery to the client.
//
// An [Informer] has a reflector for each namespace that it follows. Use a reflector alone to feed something other than
// a Store.
type Reflector[T Object] struct {
	resource Resource
	loop     *reflector.Loop[T]
}

// NewReflector returns a reflector of resource, whose Namespaces may name at most one. It does nothing before Run. It
// returns an error if client, resource, T, sink or config is wrong.
func NewReflector[T Object](client *Client, resource Resource, sink Sink[T], config Config[T]) (*Reflector[T], error) {
	if config.Layout == LayoutCompact {
		return nil, errors.New("Config.Layout is LayoutCompact: a reflector holds no objects, so it cannot hold them in " +
			"compact form; only an Informer can")
	}
	if config.WarmStart.Storage != nil {
		return nil, errors.New("Config.WarmStart: a reflector holds no objects, so it cannot save them; only an Informer can")
	}
	if sink == nil {
		return nil, errors.New("the sink is nil: a reflector needs a sink for its deltas")
	}
	o := &outlet[T]{resource: resource, sink: sink}
	var held func(Key) (T, bool)
	if o.holder, _ = sink.(Holder[T]); o.holder != nil {
		held = o.holder.Get
	}
	loop, err := newLoop(client, client.account(config.MaxMemory), resource, config,
		intake.Unpacked[T]{Decoded: config.goType()}, config.Transform, o, held)
	if err != nil {
		return nil, err
	}
	return &Reflector[T]{resource, loop}, nil
}

// newLoop returns the engine of a reflector of resource, with an account of client. It decodes objects of packing's
// type, from which packing makes an H, and puts deltas into sink. transform is Config.Transform of an H; nil for none.
// held returns an object that the sink has; nil if the sink does not know.
func newLoop[T, H Object](client *Client, account *budget.Account, resource Resource, config Config[T],
	packing intake.Packing[H], transform func(H) (H, error), sink reflector.Sink[H],
	held func(Key) (H, bool)) (*reflector.Loop[H], error) {
	if err := resource.validate(); err != nil {
		return nil, err
	}
	if len(resource.Namespaces) > 1 {
		return nil, fmt.Errorf("Resource.Namespaces of %s: a reflector follows one namespace or all, not %d",
			resource.Resource, len(resource.Namespaces))
	}
	if client == nil {
		return nil, errNoClient
	}
	if err := config.validate(); err != nil {
		return nil, err
	}
	t := packing.Type()
	if err := config.WarmStart.validate(resource, t, config.Transform != nil || config.Filter != nil); err != nil {
		return nil, err
	}
	d, err := newDecoder(client, resource, config, packing, transform)
	if err != nil {
		return nil, err
	}
	d.Held = held
	source := fetch.NewSource(fetch.Config{
		Client:        client.http,
		Path:          fetch.Path(resource.GroupVersionResource, d.Namespace),
		Resource:      resource.GroupVersionResource,
		Kind:          decode.NewKind(t, resource.Resource),
		LabelSelector: resource.LabelSelector,
		FieldSelector: resource.FieldSelector,
		Accept:        d.Pool.Accept(),
		AcceptList:    d.Pool.AcceptList(),
		Check:         d.Pool.Check,
		Torn:          held != nil, // a sink that knows its objects ignores what it has already
	})
	log := config.logger().With("resource", resource.String())
	c := reflector.Config[H]{
		Sink:       sink,
		Source:     source,
		Absence:    fetch.NewAbsence(source, len(resource.Namespaces) > 0),
		Decoder:    d,
		Shard:      reshard.NewAdoption(shardset.Shard(resource.Shard).Clone()),
		PagedList:  config.PagedList,
		PageSize:   config.PageSize,
		PollEvery:  config.PollEvery,
		TellAbsent: config.AbsentIsSynced,
		OnFailure:  config.OnFailure,
		Log:        log,
		Progress:   newProgress(source, d, account.List(resource.String(), log)),
	}
	if config.WarmStart.Storage != nil {
		c.Saved = reflector.NewSaved(savedConfig(client, resource, config, log), source, d)
	}
	return reflector.New(c), nil
}

// newProgress returns the progress of the lists of source, which d decodes.
func newProgress[H Object](source *fetch.Source, d *intake.Decoder[H], list *budget.List) *intake.Progress[H] {
	measure := core.Layouts[H]{Decoder: d}.Measure
	counter := func() *fetch.Source { return source.Counter(d.Metadata) }
	return &intake.Progress[H]{List: list, Counter: counter, Measure: measure}
}

// newDecoder returns the decoder of a reflector of resource.
func newDecoder[T, H Object](client *Client, resource Resource, config Config[T], packing intake.Packing[H],
	transform func(H) (H, error)) (*intake.Decoder[H], error) {
	pool, err := decode.NewPool(packing.Type(), client.http.Accept, config.KeepManagedFields, config.Parts.decoders())
	if err != nil {
		return nil, err
	}
	d := &intake.Decoder[H]{
		Pool:       pool,
		Packing:    packing,
		Metadata:   client.metadata,
		Namespace:  resource.sources()[0],
		Collection: &collection{resource},
		Share:      config.Layout == LayoutShared,
		Filter:     config.Filter,
		Transform:  transform,
		Calling:    run.NewLimit(1),

		DropManagedFields: !config.KeepManagedFields,
	}
	if report := config.OnDecodeError; report != nil {
		d.OnDecodeError = func(key Key, err error, raw []byte) {
			report(&DecodeError{Resource: resource, Key: key, Err: err, Raw: raw})
		}
	}
	return d, nil
}

// savedConfig describes the saved state of a reflector, but for what [reflector.NewSaved] adds.
func savedConfig[T Object](client *Client, resource Resource, config Config[T], log *slog.Logger) warmstart.Config {
	warm := config.WarmStart
	return warmstart.Config{
		Storage: warm.Storage,
		MaxAge:  warm.maxAge(),
		Identity: warmstart.Identity{
			Resource:      resource.GroupVersionResource,
			LabelSelector: resource.LabelSelector,
			FieldSelector: resource.FieldSelector,
			ManagedFields: config.KeepManagedFields,
			Transform:     config.Transform != nil,
			Filter:        config.Filter != nil,
			Revision:      warm.Revision,
		},
		Client:  client.http,
		Cluster: client.cluster,
		Share:   config.Layout == LayoutShared,
		Log:     log,
	}
}

// Run lists and watches until ctx ends or the sink fails. It returns the cause of ctx or the error of the sink. No
// other failure ends it, unless Config.PollEvery is negative. Every goroutine that it started has ended when it
// returns. A later Run resumes where this one ended. Two calls of Run must not overlap.
//
// In profiles, its goroutines have the label "informer" with the resource.
func (r *Reflector[T]) Run(ctx context.Context) (err error) {
	pprof.Do(ctx, pprof.Labels("informer", r.resource.String()), func(ctx context.Context) { err = r.loop.Run(ctx) })
	return err
}

// Status returns the present status of the reflector.
func (r *Reflector[T]) Status() status.Reflector { return r.loop.Status() }

// outlet is a [Sink] as a [reflector.Sink].
type outlet[T Object] struct {
	resource  Resource
	sink      Sink[T]
	holder    Holder[T]      // sink as a Holder; nil if it is none
	undecoded core.Undecoded // as of the last delta
}

// Put implements reflector.Sink.
func (o *outlet[T]) Put(ctx context.Context, d reflector.Delta[T]) error {
	err := o.sink.Put(ctx, deltaOf(&d, o.resource))
	if err == nil {
		o.undecoded = core.After(o.undecoded, &d)
	}
	return err
}

// Flush implements reflector.Sink.
func (o *outlet[T]) Flush() error { return nil }

// Held implements reflector.Sink.
func (o *outlet[T]) Held(_ context.Context, key Key) (version string, ok bool, err error) {
	if o.holder == nil {
		return "", false, nil
	}
	if obj, has := o.holder.Get(key); has {
		version = obj.GetResourceVersion()
	}
	return version, true, nil
}

// Stale implements reflector.Sink.
func (o *outlet[T]) Stale() int { return o.undecoded.Len() }
