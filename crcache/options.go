package crcache

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Options choose how the cache holds objects. The zero value holds them decoded and whole, as controller-runtime's
// cache does.
type Options struct {
	// Compact holds objects as the server sent them, compressed, and decodes them when they are read; see
	// informer.Config.Compact. Compact and Share exclude each other.
	Compact bool
	// Share makes different objects share equal parts; see informer.Config.Share. Code that writes to an object which it
	// read without a copy then changes other objects, too.
	Share bool
	// DropManagedFields leaves out metadata.managedFields, which only server-side apply uses. It costs nothing, unlike
	// cache.TransformStripManagedFields: a transform makes an informer share fewer parts.
	DropManagedFields bool
	// AuditEvery is the period in which each informer of the cache compares its objects with the server, and repairs them
	// if they differ; see informer.Config.AuditEvery. Zero means no periodic audits: an informer audits only after the
	// server was away.
	AuditEvery time.Duration
	// ByObject overrides Compact, Share and DropManagedFields for some kinds, whether they are read as typed objects,
	// unstructured or as metadata. The keys are objects as in cache.Options.ByObject.
	ByObject map[client.Object]ByObject
}

// ByObject overrides [Options] for one kind. A nil field means that of Options.
type ByObject struct {
	Compact           *bool
	Share             *bool
	DropManagedFields *bool
}

// storage says how the objects of one kind are held.
type storage struct{ compact, share, dropManagedFields bool }

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

// storages returns the storage of each kind, or an error that names the field that is wrong.
func (o *Options) storages(of kindOf) (*storages, error) {
	s := &storages{
		others: storage{compact: o.Compact, share: o.Share, dropManagedFields: o.DropManagedFields},
		byKind: map[schema.GroupVersionKind]storage{},
	}
	if o.Compact && o.Share {
		return nil, errors.New("crcache.Options.Compact and Share exclude each other")
	}
	if o.AuditEvery < 0 {
		return nil, fmt.Errorf("crcache.Options.AuditEvery is %v: it must not be negative", o.AuditEvery)
	}
	for obj, by := range o.ByObject {
		gvk, err := of(obj)
		if err != nil {
			return nil, fmt.Errorf("crcache.Options.ByObject[%T]: %w", obj, err)
		}
		special := s.others
		set(&special.compact, by.Compact)
		set(&special.share, by.Share)
		set(&special.dropManagedFields, by.DropManagedFields)
		if special.compact && special.share {
			return nil, fmt.Errorf("crcache.Options.ByObject[%T]: Compact and Share exclude each other", obj)
		}
		s.byKind[gvk] = special
	}
	return s, nil
}

func set(field *bool, to *bool) {
	if to != nil {
		*field = *to
	}
}

// kindOf returns the kind of an object.
type kindOf func(client.Object) (schema.GroupVersionKind, error)

// checkSupported returns an error that names a field of opts that the cache cannot support.
func checkSupported(opts *cache.Options) error {
	if opts.NewInformer != nil {
		return errors.New("cache.Options.NewInformer is set: the cache has informers of its own")
	}
	if err := checkHTTPClient(opts.HTTPClient); err != nil {
		return fmt.Errorf("cache.Options.HTTPClient: %w", err)
	}
	if err := checkBookmarks(opts.DefaultEnableWatchBookmarks, "cache.Options.Default"); err != nil {
		return err
	}
	if err := checkNamespaces(opts.DefaultNamespaces, "cache.Options.DefaultNamespaces"); err != nil {
		return err
	}
	for obj, by := range opts.ByObject {
		field := fmt.Sprintf("cache.Options.ByObject[%T].", obj)
		if err := checkBookmarks(by.EnableWatchBookmarks, field); err != nil {
			return err
		}
		if err := checkNamespaces(by.Namespaces, field+"Namespaces"); err != nil {
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

func checkHTTPClient(c *http.Client) error {
	switch {
	case c == nil:
		return nil
	case c.Jar != nil:
		return errors.New("its Jar is set: the informers send no cookies")
	case c.CheckRedirect != nil:
		return errors.New("its CheckRedirect is set: the informers follow redirects to the same server only")
	}
	return nil
}

// kindOfScheme returns a kindOf for the types of opts.Scheme.
func kindOfScheme(opts *cache.Options) kindOf {
	return func(obj client.Object) (schema.GroupVersionKind, error) {
		return apiutil.GVKForObject(obj, opts.Scheme)
	}
}
