package crcache

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
)

// Options choose how the cache holds objects. The zero value holds them decoded and whole, as controller-runtime's
// cache does, and makes them share equal parts.
type Options struct {
	// Layout is how the cache holds objects in memory. The zero value is informer.LayoutShared. Reads return copies, as
	// those of controller-runtime do, so a program may write to what it reads. Code that reads without a copy, by
	// UnsafeDisableDeepCopy or in a handler, must not write: it would change other objects, too. Use
	// informer.LayoutSeparate until it does not.
	Layout informer.Layout
	// Parts makes caches that have the same one share equal parts of their objects, for example those of clusters that run
	// the same programs; see informer.Parts. Nil means that the cache shares nothing with others.
	Parts *informer.Parts
	// DropManagedFields leaves out metadata.managedFields, which only server-side apply uses. It costs nothing, unlike
	// cache.TransformStripManagedFields: a transform makes an informer share fewer parts.
	DropManagedFields bool
	// AuditEvery is the period in which each informer of the cache compares its objects with the server, and repairs them
	// if they differ; see informer.Config.AuditEvery. Zero means no periodic audits: an informer audits only after an
	// outage of the server.
	AuditEvery time.Duration
	// ReadTimeout limits how long a read waits for an informer whose first list fails. The read then returns the reason;
	// controller-runtime's cache waits until the context ends. A read returns sooner, after the first retry, if the server
	// answers 401 or 403, or does not serve the resource, and at once if the resource has no lists. A slow list is no
	// failure: a read waits for it. The informer keeps trying, so that later reads can succeed. GetInformer and
	// WaitForCacheSync wait until their contexts end, as in controller-runtime. Zero means 30 s.
	ReadTimeout time.Duration
	// IgnoreNewInformer makes the cache hold all kinds in its own informers, even if cache.Options.NewInformer is set.
	// False means that the function makes the informers, and controller-runtime's own cache has them. The options above
	// have no effect on them and must not be set.
	IgnoreNewInformer bool
	// MetricsRegistry is the registry of the metrics of the cache; see the documentation of the package. Nil means that of
	// controller-runtime, metrics.Registry. New's function registers the metrics with the first cache of a registry. If
	// the program has registered one of their names itself, the cache leaves that metric out and logs that.
	MetricsRegistry prometheus.Registerer
	// NoMetrics leaves out all metrics of the cache.
	NoMetrics bool
	// ByObject overrides Layout, DropManagedFields, AuditEvery and IgnoreNewInformer for some kinds, whether they are read
	// as typed objects, unstructured or as metadata. The keys are objects as in cache.Options.ByObject.
	ByObject map[client.Object]ByObject
}

// ByObject overrides [Options] for one kind. A nil field means that of Options.
type ByObject struct {
	Layout            *informer.Layout
	DropManagedFields *bool
	// AuditEvery is the period of audits of this kind. Zero means no periodic audits, also if Options.AuditEvery is set.
	AuditEvery *time.Duration
	// OnDemand makes the cache follow only the metadata of all objects, and read a whole object from the server when Get
	// or List asks for it. It suits kinds with many objects that are rarely read, such as Secrets. A Get sends a request
	// unless the cache holds the object at the version of its metadata; see package readthrough for the guarantees. The
	// cache holds at most 16 MiB of such objects, and none that nobody has read for 5 minutes. The program needs the
	// permission to get the objects.
	//
	// Handlers and predicates receive objects of the kind's type that have metadata only, without managedFields.
	// IndexField, NewIndex and lists by fields return an error. Layout must not be LayoutCompact.
	OnDemand bool
	// IgnoreNewInformer chooses between the informers of crcache and those of cache.Options.NewInformer.
	IgnoreNewInformer *bool
}

// defaultReadTimeout is that of package readthrough, too.
const defaultReadTimeout = 30 * time.Second

func (o *Options) readTimeout() (time.Duration, error) {
	if o.ReadTimeout < 0 {
		return 0, fmt.Errorf("crcache.Options.ReadTimeout is %v: it must not be negative", o.ReadTimeout)
	}
	return cmp.Or(o.ReadTimeout, defaultReadTimeout), nil
}

// storage says how the objects of one kind are held and audited.
type storage struct {
	clientcache.Options

	onDemand bool // the informer has metadata only; the fields above say how
	custom   bool // cache.Options.NewInformer makes the informer: the options do not apply
}

// storages has the storage of each kind.
type storages struct {
	others storage
	byKind map[schema.GroupVersionKind]storage
}

func (s *storages) of(gvk schema.GroupVersionKind) storage {
	if special, ok := s.byKind[gvk]; ok {
		return special
	}
	return s.others
}

// some reports whether match returns true for the storage of a kind.
func (s *storages) some(match func(storage) bool) bool {
	return match(s.others) || slices.ContainsFunc(slices.Collect(maps.Values(s.byKind)), match)
}

// storages returns the storage of each kind, or an error that names the field that is wrong. newInformer says whether
// cache.Options.NewInformer is set.
func (o *Options) storages(kind kindOf, newInformer bool) (*storages, error) {
	s := &storages{
		others: storage{
			Options: clientcache.Options{
				Layout:            &o.Layout,
				Parts:             o.Parts,
				DropManagedFields: o.DropManagedFields,
				AuditEvery:        o.AuditEvery,
			},
			custom: newInformer && !o.IgnoreNewInformer,
		},
		byKind: map[schema.GroupVersionKind]storage{},
	}
	if err := checkLayout(o.Layout, "crcache.Options."); err != nil {
		return nil, err
	}
	if err := checkAuditEvery(o.AuditEvery, "crcache.Options."); err != nil {
		return nil, err
	}
	if err := s.others.checkEffect("crcache.Options."); err != nil {
		return nil, err
	}
	for obj, options := range o.ByObject {
		gvk, err := kind(obj)
		if err != nil {
			return nil, fmt.Errorf("crcache.Options.ByObject[%T]: %w", obj, err)
		}
		field := fmt.Sprintf("crcache.Options.ByObject[%T].", obj)
		special, own := s.others, storage{}
		options.override(&special.Options)
		options.override(&own.Options)
		if options.IgnoreNewInformer != nil {
			special.custom = newInformer && !*options.IgnoreNewInformer
		}
		own.custom, own.onDemand = special.custom, options.OnDemand
		if err := own.checkEffect(field); err != nil {
			return nil, err
		}
		if err := checkLayout(*special.Layout, field); err != nil {
			return nil, err
		}
		if special.onDemand = options.OnDemand; options.OnDemand && *special.Layout == informer.LayoutCompact {
			if options.Layout != nil {
				return nil, fmt.Errorf("%sOnDemand and LayoutCompact exclude each other: the cache has only metadata", field)
			}
			special.Layout = new(informer.LayoutShared)
		}
		if err := checkAuditEvery(special.AuditEvery, field); err != nil {
			return nil, err
		}
		s.byKind[gvk] = special
	}
	return s, nil
}

// override sets the fields of o that b has.
func (b *ByObject) override(o *clientcache.Options) {
	if b.Layout != nil {
		o.Layout = b.Layout
	}
	set(&o.DropManagedFields, b.DropManagedFields)
	set(&o.AuditEvery, b.AuditEvery)
}

// checkEffect returns an error if a field is set for an informer of the user, which it cannot change.
func (s storage) checkEffect(fields string) error {
	if !s.custom {
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Layout", s.Layout != nil && *s.Layout != informer.LayoutShared},
		{"Parts", s.Parts != nil},
		{"DropManagedFields", s.DropManagedFields},
		{"AuditEvery", s.AuditEvery != 0},
		{"OnDemand", s.onDemand},
	} {
		if f.set {
			return fmt.Errorf("%s%s has no effect on the informers of cache.Options.NewInformer: "+
				"set IgnoreNewInformer, so that crcache makes the informers", fields, f.name)
		}
	}
	return nil
}

func checkLayout(l informer.Layout, field string) error {
	if l > informer.LayoutCompact {
		return fmt.Errorf("%sLayout is %v: it must be LayoutShared, LayoutSeparate or LayoutCompact", field, l)
	}
	return nil
}

func checkAuditEvery(every time.Duration, field string) error {
	if every < 0 {
		return fmt.Errorf("%sAuditEvery is %v: it must not be negative", field, every)
	}
	return nil
}

func set[T any](field *T, to *T) {
	if to != nil {
		*field = *to
	}
}

// kindOf returns the kind of an object.
type kindOf func(client.Object) (schema.GroupVersionKind, error)

// checkSupported returns an error that names a field of opts that the informers of the cache cannot support.
func checkSupported(opts *cache.Options) error {
	if err := checkBookmarks(opts.DefaultEnableWatchBookmarks, "cache.Options.Default"); err != nil {
		return err
	}
	if err := checkNamespaces(opts.DefaultNamespaces, "cache.Options.DefaultNamespaces"); err != nil {
		return err
	}
	for obj, options := range opts.ByObject {
		field := fmt.Sprintf("cache.Options.ByObject[%T].", obj)
		if err := checkBookmarks(options.EnableWatchBookmarks, field); err != nil {
			return err
		}
		if err := checkNamespaces(options.Namespaces, field+"Namespaces"); err != nil {
			return err
		}
	}
	return nil
}

func checkNamespaces(namespaces map[string]cache.Config, field string) error {
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if err := checkBookmarks(namespaces[namespace].EnableWatchBookmarks,
			fmt.Sprintf("%s[%q].", field, namespace)); err != nil {
			return err
		}
	}
	return nil
}

func checkBookmarks(enable *bool, field string) error {
	if enable != nil && !*enable {
		return fmt.Errorf("%sEnableWatchBookmarks is false: the informers need bookmarks to resume a watch without a list",
			field)
	}
	return nil
}

// kindOfScheme returns a kindOf for the types of opts.Scheme.
func kindOfScheme(opts *cache.Options) kindOf {
	return func(obj client.Object) (schema.GroupVersionKind, error) {
		return apiutil.GVKForObject(obj, opts.Scheme)
	}
}
