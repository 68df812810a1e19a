package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
)

// Options choose how an informer holds its objects. The zero value holds each decoded, whole, and apart from the
// others, as client-go does.
type Options struct {
	// Layout is how the informer holds objects in memory. Nil means informer.LayoutSeparate, because programs for
	// client-go's informers may write to objects that they have read. With informer.LayoutShared, objects take half the
	// memory, and such code changes other objects, too. Objects of a ListerWatcher share nothing in either.
	Layout *informer.Layout
	// Parts makes informers that have the same one share equal parts of their objects, for example those of several
	// clusters; see informer.Parts. Nil means that an informer shares nothing with others.
	Parts *informer.Parts
	// DropManagedFields leaves out metadata.managedFields, which only server-side apply uses. It costs nothing, unlike a
	// transform that does the same.
	DropManagedFields bool
	// AuditEvery is the period in which an informer compares its objects with the server, and repairs them if they
	// differ; see informer.Config.AuditEvery. Zero means no periodic audits: an informer audits only after the server was
	// away. A difference is logged, and the watch error handler receives an *informer.AuditError. An informer over a
	// ListerWatcher cannot audit.
	AuditEvery time.Duration
}

func (o Options) layout() informer.Layout {
	if o.Layout == nil {
		return informer.LayoutSeparate
	}
	return *o.Layout
}

// Config configures an informer of [New] or [NewOfParts].
type Config struct {
	// Client sends the requests. [ClientFor] returns one for a client of client-go.
	Client *informer.Client
	// Resource is the collection.
	Resource informer.Resource
	// Object is an example of the objects, such as &corev1.Pod{}. Only its type matters. For
	// &metav1.PartialObjectMetadata{}, the informer requests metadata only.
	Object runtime.Object
	// ObjectDescription names the type in the reflector that a watch error handler receives. Empty means the Go type.
	ObjectDescription string
	// ResyncPeriod is the default resync period of handlers. Zero means that the informer does no resyncs, not even for a
	// handler that asks for one, as in client-go.
	ResyncPeriod time.Duration
	// Indexers are indexes that the informer has from the start.
	Indexers cache.Indexers
	// PageSize is the number of objects in a page of a list. Zero means 500.
	PageSize int
	// PagedList reads the collection by LIST. False means a streaming list, where the server supports it.
	PagedList bool
	// Options choose how the informer holds its objects.
	Options Options
	// Kind is set in each object before the transform is called. Empty means that objects are as the server sent them:
	// typed objects have no kind, and metadata have the kind PartialObjectMetadata.
	Kind schema.GroupVersionKind
	// Logger logs states and failures. Nil means the logger in the context of Run, which logs states at V(2).
	Logger *slog.Logger
	// OnStart is called once, by Run, with the informer of each [Part], before the first request and the first call of
	// a handler. It may add indexes. It must not block, and must not call methods of the informer that New returned.
	// [Result] returns the transform's result for an object. Nil means no call.
	OnStart func(parts []*informer.Informer[Object])
}

// Part is one of the collections of an informer of [NewOfParts].
type Part struct {
	// Client sends the requests.
	Client *informer.Client
	// Resource is the collection. No object may be in two parts.
	Resource informer.Resource
	// Transform is called for each object of the part before it is stored. SetTransform replaces it. Nil means none.
	Transform cache.TransformFunc
	// ResyncPeriod is the default resync period of handlers for this part; see Config.ResyncPeriod.
	ResyncPeriod time.Duration
}

// New returns an informer over a collection of an API server. It starts nothing. It returns an error if config is
// wrong. All methods of the informer are safe for concurrent use.
func New(config Config) (cache.SharedIndexInformer, error) {
	return create(config, []Part{{Client: config.Client, Resource: config.Resource, ResyncPeriod: config.ResyncPeriod}})
}

// NewOfParts is New for an informer over several collections of objects of one type, such as those of some namespaces.
// Client, Resource and ResyncPeriod of config must not be set: each part has its own. There must be at least one part.
// Lists return the objects of one part after the other.
func NewOfParts(config Config, parts []Part) (cache.SharedIndexInformer, error) {
	switch {
	case config.Client != nil || config.Resource.Resource != "" || config.ResyncPeriod != 0:
		return nil, errors.New("Config.Client, Resource and ResyncPeriod must not be set: each Part has its own")
	case len(parts) == 0:
		return nil, errors.New("an informer needs at least one Part")
	}
	return create(config, parts)
}

func create(config Config, parts []Part) (cache.SharedIndexInformer, error) {
	obj, ok := config.Object.(Object)
	if !ok {
		return nil, fmt.Errorf("Config.Object is a %T: it must be a pointer to a type with ObjectMeta", config.Object)
	}
	config.Object = obj
	for _, p := range parts {
		if err := config.validate(p); err != nil {
			return nil, err
		}
	}
	s := newShared(config, parts)
	if err := s.AddIndexers(config.Indexers); err != nil {
		return nil, err
	}
	return s, nil
}

// validate returns the error with which the informer of a part would reject c.
func (c *Config) validate(p Part) error {
	config := c.informer(p)
	config.Logger = slog.New(slog.DiscardHandler)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := informer.New(p.Client, p.Resource, config).WaitSynced(ended)
	if errors.Is(err, informer.ErrNotStarted) {
		return nil
	}
	return err
}

// informer returns the configuration of the informer that does the work for a part.
func (c *Config) informer(p Part) informer.Config[Object] {
	return informer.Config[Object]{
		Prototype:         c.Object.(Object),
		Transform:         transforming(c.Kind, p.Transform),
		KeepManagedFields: !c.Options.DropManagedFields,
		Layout:            c.Options.layout(),
		Parts:             c.Options.Parts,
		PageSize:          c.PageSize,
		PagedList:         c.PagedList,
		AuditEvery:        c.Options.AuditEvery,
		Logger:            c.Logger,
	}
}
