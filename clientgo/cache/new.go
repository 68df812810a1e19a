package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
)

// Options choose how an informer holds its objects. The zero value holds them decoded and whole, as client-go does.
type Options struct {
	// Share makes different objects share equal parts; see informer.Config.Share. Code that writes to a cached object
	// then changes other objects, too.
	Share bool
	// Compact holds objects as the server sent them, compressed, and decodes them when they are read; see
	// informer.Config.Compact. Compact and Share exclude each other.
	Compact bool
	// DropManagedFields leaves out metadata.managedFields, which only server-side apply uses. It costs nothing, unlike a
	// transform that does the same.
	DropManagedFields bool
	// AuditEvery is the period in which an informer compares its objects with the server, and repairs them if they
	// differ; see informer.Config.AuditEvery. Zero means no periodic audits: an informer audits only after the server was
	// away. A difference is logged, and the watch error handler receives an *informer.AuditError. An informer over a
	// ListerWatcher cannot audit.
	AuditEvery time.Duration
}

// Config configures an informer of [New].
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
}

// New returns an informer over a collection of an API server. It starts nothing. It returns an error if config is
// wrong. All methods of the informer are safe for concurrent use.
func New(config Config) (cache.SharedIndexInformer, error) {
	obj, ok := config.Object.(Object)
	if !ok {
		return nil, fmt.Errorf("Config.Object is a %T: it must be a pointer to a type with ObjectMeta", config.Object)
	}
	config.Object = obj
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := newShared(config)
	if err := s.AddIndexers(config.Indexers); err != nil {
		return nil, err
	}
	return s, nil
}

// validate returns the error with which an informer would reject c.
func (c *Config) validate() error {
	config := c.informer()
	config.Logger = slog.New(slog.DiscardHandler)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := informer.New(c.Client, c.Resource, config).WaitSynced(ended)
	if errors.Is(err, informer.ErrNotStarted) {
		return nil
	}
	return err
}

// informer returns the configuration of the informer that does the work.
func (c *Config) informer() informer.Config[Object] {
	return informer.Config[Object]{
		Prototype:         c.Object.(Object),
		KeepManagedFields: !c.Options.DropManagedFields,
		Share:             c.Options.Share,
		Compact:           c.Options.Compact,
		PageSize:          c.PageSize,
		PagedList:         c.PagedList,
		AuditEvery:        c.Options.AuditEvery,
	}
}
