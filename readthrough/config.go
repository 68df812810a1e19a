package readthrough

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

const (
	defaultMaxBytes = 16 << 20
	defaultMaxIdle  = 5 * time.Minute
	defaultTimeout  = 30 * time.Second
)

// Config is the configuration of an [Informer]. The zero value is right for most.
type Config[T informer.Object] struct {
	// Metadata configures the informer of the metadata. Its logger, and its Layout, PagedList and PageSize also apply to
	// the objects that KeepLabelSelector and KeepFieldSelector name.
	Metadata informer.Config[*metav1.PartialObjectMetadata]
	// KeepLabelSelector and KeepFieldSelector name objects that the informer keeps whole always, in the syntax of
	// metav1.ListOptions: those that match both. It follows them by a watch of its own, and Get needs no request for them.
	// Secrets have the field "type". If both are empty, it keeps none.
	KeepLabelSelector, KeepFieldSelector string
	// MaxBytes limits the memory of the other whole objects that the informer holds, as they are decoded. The ones that
	// were not read for the longest time go first. An object that is larger is returned, not held. Zero means 16 MiB.
	MaxBytes int64
	// MaxIdle is how long the informer holds an object that nobody reads. Zero means 5 minutes.
	MaxIdle time.Duration
	// ReadTimeout limits how long Get and List wait for a first list of metadata that fails; see
	// informer.Informer.WaitReadable. They return a 401, a 403 and an absent resource sooner, and wait longer for a slow
	// list. Zero means 30 s.
	ReadTimeout time.Duration
	// Transform is called once for each whole object that comes from the server, and returns the object to hold: usually
	// obj itself without fields that nobody reads. It may write to obj. It must keep namespace, name, uid and
	// resourceVersion, and be safe for concurrent use. Get returns its error as that of a [*informer.DecodeError]. Nil
	// means that objects are as the server sent them.
	Transform func(obj T) (T, error)
	// KeepManagedFields keeps metadata.managedFields of whole objects. False means that they are dropped.
	KeepManagedFields bool
}

// validate names the field that is wrong.
func (c *Config[T]) validate() error {
	switch {
	case c.MaxBytes < 0:
		return fmt.Errorf("readthrough.Config.MaxBytes is %d: it must not be negative", c.MaxBytes)
	case c.MaxIdle < 0:
		return fmt.Errorf("readthrough.Config.MaxIdle is %v: it must not be negative", c.MaxIdle)
	case c.ReadTimeout < 0:
		return fmt.Errorf("readthrough.Config.ReadTimeout is %v: it must not be negative", c.ReadTimeout)
	}
	return nil
}

func (c *Config[T]) maxBytes() int64 {
	if c.MaxBytes > 0 {
		return c.MaxBytes
	}
	return defaultMaxBytes
}

func (c *Config[T]) maxIdle() time.Duration {
	if c.MaxIdle > 0 {
		return c.MaxIdle
	}
	return defaultMaxIdle
}

func (c *Config[T]) readTimeout() time.Duration {
	if c.ReadTimeout > 0 {
		return c.ReadTimeout
	}
	return defaultTimeout
}

// keeps reports whether a selector names objects to keep.
func (c *Config[T]) keeps() bool { return c.KeepLabelSelector != "" || c.KeepFieldSelector != "" }

// whole returns the configuration of the informer of the objects to keep.
func (c *Config[T]) whole() informer.Config[T] {
	return informer.Config[T]{
		Transform:         c.Transform,
		KeepManagedFields: c.KeepManagedFields,
		Layout:            c.Metadata.Layout,
		PagedList:         c.Metadata.PagedList,
		PageSize:          c.Metadata.PageSize,
		PollEvery:         c.Metadata.PollEvery,
		AbsentIsSynced:    c.Metadata.AbsentIsSynced,
		AuditEvery:        c.Metadata.AuditEvery,
		Logger:            c.Metadata.Logger,
	}
}

func (c *Config[T]) logger() *slog.Logger {
	if c.Metadata.Logger != nil {
		return c.Metadata.Logger
	}
	return slog.Default()
}

// rejected returns the error with which an informer would reject its arguments.
func rejected[T informer.Object](client *informer.Client, resource informer.Resource, config informer.Config[T]) error {
	config.Logger = slog.New(slog.DiscardHandler)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := informer.New(client, resource, config).WaitSynced(ended)
	if errors.Is(err, informer.ErrNotStarted) {
		return nil
	}
	return err
}
