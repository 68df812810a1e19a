package informer

import (
	"context"
	"iter"
	"time"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/status"
)

// engine is the [core.Informer] behind an Informer of T. It is one of T, or of packed objects.
type engine[T Object] interface {
	Invalid() error
	Run(ctx context.Context) error
	WaitSynced(ctx context.Context) error
	WaitReadable(ctx context.Context, timeout time.Duration) error
	SetShard(ctx context.Context, shard shardset.Shard) error
	SetSelections(ctx context.Context, wanted []core.Part, validate func() error) error
	Latest() (shardset.Shard, []core.Part)
	Audit(ctx context.Context) (status.AuditResult, error)
	Audits() status.Audit
	Memory() int64
	Reflectors() (all []status.Reflector, queued, blocked int)
	Abandon()

	subscribe(h Handler[T], config SubscriptionConfig[T]) *Subscription
	// pull yields the events that a handler would receive, in the goroutine that calls it.
	pull(ctx context.Context, yield func(Event[T]) bool)
	handlers() []subscriber
}

// own is the engine of an informer that holds a T for each object.
type own[T Object] struct{ *core.Informer[T] }

// subscribe implements engine.
func (o own[T]) subscribe(h Handler[T], config SubscriptionConfig[T]) *Subscription {
	l, invalid := newListener(o.Hub, h, config)
	o.Subscribe(l, invalid)
	return &Subscription{l}
}

// pull implements engine.
func (o own[T]) pull(ctx context.Context, yield func(Event[T]) bool) { pull(ctx, o.Hub, yield) }

// handlers implements engine.
func (o own[T]) handlers() (all []subscriber) {
	for _, l := range o.Hub.All() {
		all = append(all, l)
	}
	return all
}

// newEngine returns an engine that holds objects of packing. settle is its Settle. If invalid is not nil, the engine is
// invalid for that reason.
func newEngine[T Object](client *Client, resource Resource, config Config[T], packing intake.Packing[T],
	settle func(context.Context, iter.Seq[T]), invalid error) *core.Informer[T] {
	if invalid == nil {
		invalid = resource.validate()
	}
	c := core.Config[T]{
		Kind:       resource.kind(),
		Name:       resource.String(),
		Parts:      resource.parts(),
		Selections: len(resource.Selections) > 0,
		Shard:      shardset.Shard(resource.Shard).Clone(),
		Packing:    packing,
		Audit:      auditConfig(client, resource, config),
		Log:        config.logger(),
		Settle:     settle,
	}
	c.Reflect = func(part core.Part, shard shardset.Shard, sink reflector.Sink[T],
		held func(Key) (T, bool)) (*reflector.Loop[T], error) {
		r := resource.part(selectionOf(part))
		r.Shard = Shard(shard)
		return newLoop(client, r, config, packing, sink, held)
	}
	c.NotSynced = func(why string, errs []error) error {
		return &NotSyncedError{Resource: resource, Why: why, errs: errs}
	}
	if config.WarmStart.Storage != nil {
		c.SaveEvery = config.WarmStart.interval()
	}
	return core.New(c, invalid)
}

// auditConfig describes the audits of an informer, but for what the engine adds.
func auditConfig[T Object](client *Client, resource Resource, config Config[T]) audit.Config {
	c := audit.Config{
		Resource:   resource.GroupVersionResource,
		Collection: resource.String(),
		Every:      config.AuditEvery,
		Different: func(r status.AuditResult) error {
			config.logger().Error("the store differs from the server", "resource", r.Collection, "differ", r.Differ,
				"objects", r.Objects, "resourceVersion", r.ResourceVersion, "first", audit.Text(r.Differences, r.Differ))
			return &AuditError{r}
		},
	}
	if client == nil { // the informer is invalid
		return c
	}
	c.Alone = client.http.Precedence.Alone
	if c.Every > 0 || config.WarmStart.Storage != nil {
		c.Identity = func(ctx context.Context, again bool) (string, error) {
			if !again && c.Every == 0 { // the warm start asks
				return client.cluster.Known(), nil
			}
			return client.cluster.UID(ctx, client.http, again)
		}
	}
	return c
}
