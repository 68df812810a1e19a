package informertest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// object is an object of any collection. A server has one type of collection for all of them, so that a program that
// registers many types does not compile it for each.
type object = metav1.Object

// collection is the objects of one resource. A [Collection] is its face for one Go type.
type collection struct {
	server   *Server
	resource Resource
	typ      reflect.Type // of the objects, a pointer to a struct
	cache    *watchcache.Cache[object]
	dynamic  bool // the type is *unstructured.Unstructured
	custom   bool // the type has no protobuf encoding, and is served like custom resources
	spec     int  // the index of the struct's field Spec, or -1
	status   int  // likewise, of Status
	kin      *kin // protected by the server's lock
	away     bool // its API server does not answer; protected by the server's lock

	managers sync.Map // of metadata.managedFields, by subresource
}

// kin are the collections that have the same objects, each in its version of the kind.
type kin struct{ members []*collection }

// register makes the server serve a resource as objects of that type; see [Register].
func (s *Server) register(resource Resource, typ reflect.Type) *collection {
	c := &collection{server: s, typ: typ, spec: -1, status: -1,
		custom:  !typ.Implements(reflect.TypeFor[interface{ Marshal() ([]byte, error) }]()),
		dynamic: typ == reflect.TypeFor[*unstructured.Unstructured]()}
	if !c.dynamic {
		if resource.Kind == "" {
			resource.Kind = typ.Elem().Name()
		}
		c.spec, c.status = fieldIndex(typ.Elem(), "Spec"), fieldIndex(typ.Elem(), "Status")
		resource.StatusSubresource = c.status >= 0
	}
	if resource.Kind == "" || resource.Resource == "" || resource.Version == "" {
		panic(fmt.Sprintf("informertest: resource %v (%v) needs a version, resource and kind", resource.GroupVersionResource,
			typ))
	}
	if resource.ShortNames == nil {
		resource.ShortNames = builtinNames[schema.GroupKind{Group: resource.Group, Kind: resource.Kind}].short
	}
	c.resource = resource
	c.cache = watchcache.New[object](watchcache.Config{
		GroupVersionResource: resource.GroupVersionResource,
		Kind:                 resource.Kind,
		ListKind:             resource.ListKind,
		Type:                 typ,
		SelectableFields:     resource.SelectableFields,
		Window:               s.options.Window,
		Table:                resource.Table,
		ManagedFieldsOptOut:  s.options.ManagedFieldsOptOut,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	items := c.joinLocked(resource.ObjectsOf)
	if _, taken := s.collections[resource.GroupVersionResource]; taken {
		panic(fmt.Sprintf("informertest: resource %v is registered already", resource.GroupVersionResource))
	}
	c.put(informer.Delta[object]{Type: informer.Replaced, Items: items}, s.rv)
	s.collections[resource.GroupVersionResource] = c
	for _, obj := range items {
		s.controllers.noteLocked(change{c, nil, obj})
	}
	return c
}

// joinLocked makes c one of the kin of other, in the place of one for the same resource, and returns its objects. other
// may be nil.
func (c *collection) joinLocked(other *Collection[*unstructured.Unstructured]) (items []object) {
	c.kin = &kin{}
	if other != nil {
		if slices.Contains(other.core.kin.members, other.core) {
			c.kin = other.core.kin
		}
		for obj := range other.core.cache.All() {
			items = append(items, c.read(c.versioned(obj)))
		}
		if i := slices.IndexFunc(c.kin.members, c.isSame); i >= 0 {
			c.kin.members[i].leaveLocked()
		}
	}
	c.kin.members = append(c.kin.members, c)
	return items
}

// isSame reports whether another collection is for the same resource.
func (c *collection) isSame(other *collection) bool {
	return c.resource.GroupVersionResource == other.resource.GroupVersionResource
}

// leaveLocked removes the collection from the server and from its kin.
func (c *collection) leaveLocked() {
	c.kin.members = slices.DeleteFunc(c.kin.members, c.isSame)
	delete(c.server.collections, c.resource.GroupVersionResource)
	c.cache.EndWatches()
}

// versioned returns an object of the kin in the version of the collection.
func (c *collection) versioned(obj object) object {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u.GetAPIVersion() == c.resource.GroupVersion().String() {
		return obj
	}
	u = watchcache.ShallowCopy(u)
	u.SetAPIVersion(c.resource.GroupVersion().String())
	return u
}

// read returns an object of the version as clients read it after it has been stored.
func (c *collection) read(obj object) object {
	if c.resource.Hooks.Read == nil {
		return obj
	}
	return c.resource.Hooks.Read(obj)
}

func fieldIndex(t reflect.Type, name string) int {
	if f, ok := t.FieldByName(name); ok && len(f.Index) == 1 {
		return f.Index[0]
	}
	return -1
}

// unregister removes the resource from the server.
func (c *collection) unregister() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.collections[c.resource.GroupVersionResource] == c {
		c.leaveLocked()
	}
}

func (c *collection) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: c.resource.Group, Kind: c.resource.Kind}
}

// bookmarkLocked advances the version of the collection.
func (c *collection) bookmarkLocked(rv uint64) {
	c.put(informer.Delta[object]{Type: informer.Bookmarked}, rv)
}

// restoreLocked makes items the objects of the collection, and returns what the controllers have to know about that.
func (c *collection) restoreLocked(items []object, rv uint64) (changes []change) {
	before := slices.Collect(c.cache.All())
	c.put(informer.Delta[object]{Type: informer.Replaced, Items: items, Restored: true}, rv)
	if c.kin.members[0] != c {
		return nil // they know the objects by that one
	}
	for _, old := range before {
		changes = append(changes, change{c, old, nil})
	}
	for _, obj := range items {
		changes = append(changes, change{c, nil, obj})
	}
	return changes
}

// put puts a change into the cache. The caller holds the server's lock.
func (c *collection) put(d informer.Delta[object], rv uint64) {
	d.ResourceVersion = strconv.FormatUint(rv, 10)
	if err := c.cache.Put(context.Background(), d); err != nil {
		panic(err) // versions come from one counter, in order
	}
}
