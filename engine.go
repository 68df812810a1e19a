package informer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/informer/durable"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/status"
)

// engine is what is behind an Informer of T: a [core.Informer] of T, or [compact].
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
	Loading() iter.Seq[T]
	Reflectors() (all []status.Reflector, queued, blocked int)
	Abandon()
	Retire()
	Retired() bool
	Handlers() []status.Subscription
	Subscribe(h deliver.Handler[T], filter func(T) bool, c deliver.Config, keep *durable.Config,
		invalid error) deliver.Subscriber
	Pull(ctx context.Context, h deliver.Handler[T], drain func(open func() bool) bool)
}

// newEngine returns an informer that holds each object as an H, which packing makes. transform is Config.Transform for
// these, or nil. settle is [core.Config.Settle]. If invalid is not nil, the informer is invalid for that reason.
func newEngine[T, H Object](client *Client, resource Resource, config Config[T], packing intake.Packing[H],
	transform func(H) (H, error), settle func(context.Context, iter.Seq[H]), invalid error) *core.Informer[H] {
	if invalid == nil {
		invalid = resource.validate()
	}
	c := core.Config[H]{
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
	account := client.account(config.MaxMemory)
	c.Reflect = func(part core.Part, shard shardset.Shard, sink reflector.Sink[H],
		held func(Key) (H, bool)) (*reflector.Loop[H], error) {
		r := resource.part(selectionOf(part))
		r.Shard = Shard(shard)
		return newLoop(client, account, r, config, packing, transform, sink, held)
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

// durableConfig describes the state of the subscription to resource that c configures. It returns nil if that is not
// durable. The informer is valid.
func durableConfig[T Object](client *Client, resource Resource, config *Config[T],
	c *SubscriptionConfig[T]) (*durable.Config, error) {
	d := &c.Durable
	if d.Storage == nil {
		return nil, nil
	}
	t := config.goType()
	if !d.Secrets && isSecrets(resource, t) {
		return nil, errors.New("SubscriptionConfig.Durable.Secrets is false: set it to save the state of secrets; states are not encrypted")
	}
	decoders, err := decode.NewPool(t, client.http.Accept, config.KeepManagedFields, config.Parts.decoders())
	if err != nil {
		return nil, err
	}
	return &durable.Config{
		Name:     d.Name,
		Resource: resource.GroupVersionResource.GroupResource(),
		Storage:  d.Storage,
		Objects:  d.Objects,
		Interval: cmp.Or(d.Interval, defaultDurableInterval),
		NewOnly:  c.NewOnly,
		Recovers: c.OnPanic != nil,
		Identify: func(ctx context.Context) (uid, server string, err error) {
			uid, err = client.cluster.UID(ctx, client.http, false)
			return uid, client.cluster.Server(), err
		},
		Decoders: decoders,
		Metadata: client.metadata,
		Log:      config.logger().With("resource", resource.String()),
	}, nil
}
