// Package ownwrites notes what a reconcile has written to API servers, so that its controller can wait until the stores
// have it. The notes travel in the context of the reconcile.
package ownwrites

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/object"
)

// Deletable is an object whose deletion can take time.
type Deletable interface {
	object.Object
	GetDeletionTimestamp() *metav1.Time
	GetDeletionGracePeriodSeconds() *int64
	GetFinalizers() []string
}

// namespaces are kept by spec.finalizers, too, until the server has deleted what is in them.
var namespaces = schema.GroupResource{Resource: "namespaces"}

// Removed reports whether the write that returned obj removed the last finalizer of an object to be deleted, and
// returns the UID of that object. kube-apiserver then deletes the object and returns its last version, which precedes
// the deletion. Without a UID, obj does not come from a server.
func Removed(resource schema.GroupResource, obj any) (uid types.UID, ok bool) {
	o, ok := obj.(Deletable)
	if !ok || resource == namespaces || o.GetDeletionTimestamp() == nil || len(o.GetFinalizers()) > 0 {
		return "", false
	}
	if grace := o.GetDeletionGracePeriodSeconds(); grace != nil && *grace != 0 {
		return "", false
	}
	return o.GetUID(), o.GetUID() != ""
}

// Write is the latest write of an object.
type Write struct {
	// Server is the address of the API server, and Resource the collection of the object.
	Server   string
	Resource schema.GroupResource
	// Object is the object after the write, or, if Gone is true, a [Gone] of the object that the server no longer has.
	Object object.Object
	Gone   bool
	Before object.Object // if Gone is true: the object after an earlier write of these notes, or nil
	// Version is the highest resource version that a write returned, if versions can be compared, or else the latest.
	Version string
}

// Gone is the identity of an object that was deleted.
type Gone struct {
	Namespace, Name string
	UID             types.UID
}

// These methods implement Object.
func (g Gone) GetNamespace() string     { return g.Namespace }
func (g Gone) GetName() string          { return g.Name }
func (g Gone) GetUID() types.UID        { return g.UID }
func (Gone) GetResourceVersion() string { return "" }

// id names what a Write is about.
type id struct {
	server          string
	resource        schema.GroupResource
	namespace, name string
}

// Notes has the writes of one reconcile. It is safe for concurrent use.
type Notes struct {
	mu     sync.Mutex // protects the field below
	latest map[id]Write
}

type inContext struct{}

// With returns a context whose writes go to notes, which starts empty.
func With(ctx context.Context) (context.Context, *Notes) {
	notes := &Notes{}
	return context.WithValue(ctx, inContext{}, notes), notes
}

// Wanted reports whether Note keeps writes for ctx.
func Wanted(ctx context.Context) bool { return ctx.Value(inContext{}) != nil }

// Note notes that server returned obj for a write to resource, in place of an earlier write of the same object. obj may
// be a [Gone]. Without notes in ctx, or for an object without a version, such as a review, it does nothing.
func Note(ctx context.Context, server string, resource schema.GroupResource, obj object.Object) {
	notes, ok := ctx.Value(inContext{}).(*Notes)
	if !ok {
		return
	}
	w := Write{Server: server, Resource: resource, Object: obj, Version: obj.GetResourceVersion()}
	_, w.Gone = obj.(Gone)
	key := id{server: server, resource: resource, namespace: obj.GetNamespace(), name: obj.GetName()}
	notes.mu.Lock()
	defer notes.mu.Unlock()
	switch {
	case w.Gone:
		before := notes.latest[key]
		if w.Version, w.Before = before.Version, before.Object; before.Gone {
			w.Before = before.Before
		}
	case w.Version == "":
		return
	default: // writes at the same time can return in another order
		before := notes.latest[key].Version
		if c, err := resourceversion.CompareResourceVersion(before, w.Version); err == nil && c > 0 {
			w.Version = before
		}
	}
	if notes.latest == nil {
		notes.latest = map[id]Write{}
	}
	notes.latest[key] = w
}

// Take returns the writes noted until now, in no particular order, and forgets them.
func (n *Notes) Take() []Write {
	n.mu.Lock()
	defer n.mu.Unlock()
	writes := make([]Write, 0, len(n.latest))
	for _, w := range n.latest {
		writes = append(writes, w)
	}
	n.latest = nil
	return writes
}
