package readthrough

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/ondemand"
)

// Informer follows the metadata of a collection, and reads whole objects from the server when somebody asks for them.
//
// Create one with [New], and call Run. It is an informer for package manager. All methods are safe for concurrent use.
type Informer[T informer.Object] struct {
	resource informer.Resource
	config   Config[T]
	invalid  error // the reason why New rejected its arguments; nil if it did not
	client   *informer.TypedClient[T]
	metadata *informer.Informer[*metav1.PartialObjectMetadata]
	kept     *informer.Informer[T] // nil if no selector is set
	reader   *ondemand.Reader[T]
	started  atomic.Bool
}

// New returns an informer of resource. It starts no goroutine and sends no request; Run does.
//
// If client, resource, T or config is wrong, New logs the error. Run, WaitSynced, Get and List then return it at once.
func New[T informer.Object](client *informer.Client, resource informer.Resource, config Config[T]) *Informer[T] {
	i := &Informer[T]{
		resource: resource,
		config:   config,
		client:   informer.NewTypedClient[T](client, resource.GroupVersionResource),
		metadata: informer.New(client, resource, config.Metadata),
	}
	whole := resource
	whole.LabelSelector = and(resource.LabelSelector, config.KeepLabelSelector)
	whole.FieldSelector = and(resource.FieldSelector, config.KeepFieldSelector)
	i.invalid = config.validate()
	if i.invalid == nil {
		i.invalid = rejected(client, resource, config.whole())
	}
	if i.invalid == nil && config.keeps() {
		i.invalid = rejected(client, whole, config.whole())
	}
	if i.invalid != nil {
		config.logger().Error("the informer does not run", "resource", resource.String(), "err", i.invalid)
		return i
	}
	if config.keeps() {
		i.kept = informer.New(client, whole, config.whole())
	}
	i.reader = ondemand.New(ondemand.Config[T]{
		Metadata:    i.idOf,
		Kept:        i.keptObject,
		Fetch:       i.fetch,
		Undecodable: isUndecodable,
		MaxBytes:    config.maxBytes(),
		MaxIdle:     config.maxIdle(),
		Stopped:     informer.ErrStopped,
	})
	return i
}

// and returns a selector for what matches both.
func and(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// Metadata returns the informer of the metadata. It has events, indexes and waits for all objects. Its Run is called by
// Run.
func (i *Informer[T]) Metadata() *informer.Informer[*metav1.PartialObjectMetadata] { return i.metadata }

// Resource returns the collection that the informer follows.
func (i *Informer[T]) Resource() informer.Resource { return i.resource }

// Status returns the status of the informer of the metadata.
func (i *Informer[T]) Status() informer.InformerStatus { return i.metadata.Status() }

// Run follows the collection until ctx ends, and returns the cause of ctx. When it returns, every goroutine that the
// informer started has ended, requests of Get included, and it holds no whole object. An informer runs once; later
// calls return [informer.ErrRunning].
func (i *Informer[T]) Run(ctx context.Context) error {
	if i.invalid != nil {
		return i.invalid
	}
	if i.started.Swap(true) {
		return informer.ErrRunning
	}
	defer i.reader.Close()
	i.metadata.Subscribe(i.changes(), informer.SubscriptionConfig[*metav1.PartialObjectMetadata]{
		Name:     "readthrough",
		Delivery: informer.DeliverEvery(math.MaxInt), // an addition and a deletion must not cancel each other out
	})
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	if i.kept != nil {
		running.Go(func() { cancel(i.kept.Run(ctx)) })
	}
	cancel(i.metadata.Run(ctx))
	running.Wait()
	return context.Cause(ctx)
}

// changes is the handler that drops objects whose metadata have changed.
func (i *Informer[T]) changes() informer.Handler[*metav1.PartialObjectMetadata] {
	type metadata = *metav1.PartialObjectMetadata
	return informer.HandlerFuncs[metadata]{
		UpdateFunc: func(old, new metadata) {
			i.reader.Updated(informer.KeyOf(new), old.ResourceVersion, new.ResourceVersion)
		},
		DeleteFunc: func(last metadata, _ bool) { i.reader.Changed(informer.KeyOf(last)) },
	}
}

// HasSynced reports whether the informer has the metadata of the whole collection, and all objects that it keeps. Once
// true, it stays true.
func (i *Informer[T]) HasSynced() bool {
	return i.invalid == nil && i.metadata.HasSynced() && (i.kept == nil || i.kept.HasSynced())
}

// WaitSynced waits until the informer has the metadata of the whole collection, and all objects that it keeps. Its
// errors are those of [informer.Informer.WaitSynced].
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	if i.invalid != nil {
		return i.invalid
	}
	if err := i.metadata.WaitSynced(ctx); err != nil || i.kept == nil {
		return err
	}
	return i.kept.WaitSynced(ctx)
}

// Get returns the object with that key. It waits until the informer has synced; see Config.ReadTimeout. If the informer
// holds the object at the UID and the resource version of its metadata, or keeps it, Get sends no request. Otherwise it
// reads the object from the server; all callers that want that version at this time share the request, and each waits
// until its own ctx ends.
//
// The object is never older than the metadata that [Informer.Metadata] has; see the package documentation. It may be
// newer, if the watch is behind.
//
// All readers share the object: the caller must not write to it, but copy it first.
//
// If the store has no metadata of that key, or the server says that the object does not exist, the error meets
// apierrors.IsNotFound. The errors of a request are those of [informer.TypedClient.Get]: apierrors.IsForbidden,
// IsTooManyRequests and so on, or that of a server that cannot be reached. After 429 or 5xx with Retry-After, the
// request is repeated up to ten times. An object that cannot be decoded is a [*informer.DecodeError]. One that is older
// than its metadata, as after a restore from a backup, is the error [ErrStale]. If the first list of the metadata
// fails, the error is an [*informer.NotSyncedError]. After Run has returned, the error wraps [informer.ErrStopped].
func (i *Informer[T]) Get(ctx context.Context, key informer.Key) (T, error) {
	if err := i.ready(ctx, key.Namespace); err != nil {
		var none T
		return none, err
	}
	return i.reader.Get(ctx, key)
}

// ready waits until objects of a namespace can be read.
func (i *Informer[T]) ready(ctx context.Context, namespace string) error {
	if !i.HasSynced() {
		if err := i.waitReadable(ctx); err != nil {
			return err
		}
	}
	if followed := i.resource.Namespaces; namespace != "" && len(followed) > 0 && !slices.Contains(followed, namespace) {
		return fmt.Errorf("the informer of %s does not follow namespace %q", i.resource, namespace)
	}
	return nil
}

// waitReadable waits until the informer has synced, or a read should fail.
func (i *Informer[T]) waitReadable(ctx context.Context) error {
	if i.invalid != nil {
		return i.invalid
	}
	until := time.Now().Add(i.config.readTimeout())
	if err := i.metadata.WaitReadable(ctx, time.Until(until)); err != nil || i.kept == nil {
		return err
	}
	return i.kept.WaitReadable(ctx, time.Until(until))
}

// idOf returns the UID and the version of some metadata.
func (i *Informer[T]) idOf(key informer.Key) (ondemand.ID, error) {
	snap := i.metadata.Store().Snapshot()
	m, ok := snap.Get(key)
	if ok {
		return ondemand.ID{UID: m.UID, Version: m.ResourceVersion}, nil
	}
	if err := snap.Undecodable(key); err != nil {
		return ondemand.ID{}, err
	}
	return ondemand.ID{}, apierrors.NewNotFound(i.resource.GroupResource(), key.Name)
}

// keptObject returns an object that a selector names.
func (i *Informer[T]) keptObject(key informer.Key) (ondemand.Object[T], bool) {
	if i.kept == nil {
		return ondemand.Object[T]{}, false
	}
	obj, ok := i.kept.Store().Get(key)
	if !ok {
		return ondemand.Object[T]{}, false
	}
	return asFetched(obj), true
}

// asFetched returns obj with what it is compared by.
func asFetched[T informer.Object](obj T) ondemand.Object[T] {
	return ondemand.Object[T]{Value: obj, ID: ondemand.ID{UID: obj.GetUID(), Version: obj.GetResourceVersion()}}
}

// fetch reads an object from the server, not older than version.
func (i *Informer[T]) fetch(ctx context.Context, key informer.Key, version string) (ondemand.Object[T], error) {
	obj, err := i.client.Get(ctx, key, metav1.GetOptions{ResourceVersion: version})
	if err != nil {
		return ondemand.Object[T]{}, err
	}
	if sent := informer.KeyOf(obj); sent != key {
		return ondemand.Object[T]{}, fmt.Errorf("get %s %s: the server sent %.600s", i.resource.Resource, key, sent)
	}
	return i.finished(obj)
}

// finished returns an object from the server as the informer holds it.
func (i *Informer[T]) finished(obj T) (ondemand.Object[T], error) {
	read := asFetched(obj)
	if managed, ok := any(obj).(interface {
		SetManagedFields([]metav1.ManagedFieldsEntry)
	}); ok && !i.config.KeepManagedFields {
		managed.SetManagedFields(nil)
	}
	if i.config.Transform == nil {
		return read, nil
	}
	key := informer.KeyOf(obj)
	var err error
	if read.Value, err = i.config.Transform(obj); err == nil && asFetched(read.Value).ID != read.ID {
		err = errors.New("it changed uid or resourceVersion")
	}
	if err != nil {
		return read, &informer.DecodeError{Resource: i.resource, Key: key, Err: fmt.Errorf("Config.Transform: %w", err)}
	}
	return read, nil
}
