package crcache

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	clientcache "github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/internal/ondemand"
)

// This file is about the kinds of ByObject.OnDemand. Their informers have metadata only, in objects of the kind's Go type
// that are otherwise empty, so that handlers, predicates and sources of that type work. Reads go to an ondemand.Reader.

const (
	onDemandBytes = 16 << 20
	onDemandIdle  = 5 * time.Minute
)

// onDemand reads the whole objects of a part from the server.
type onDemand struct {
	reader   *ondemand.Reader[clientcache.Object]
	client   *informer.TypedClient[clientcache.Object]
	resource informer.Resource
}

// onDemandPart makes of follows, which a part is to follow, what it follows on demand: metadata.
func (k *kind) onDemandPart(p *part, follows *clientcache.Part, prototype client.Object) {
	transform := follows.Transform
	d := &onDemand{
		client:   informer.NewTypedClientOf[clientcache.Object](follows.Client, follows.Resource.GroupVersionResource, prototype),
		resource: follows.Resource,
	}
	read := func(obj clientcache.Object) (ondemand.Object[clientcache.Object], error) {
		id := ondemand.ID{UID: obj.GetUID(), Version: obj.GetResourceVersion()}
		if k.dropsManagedFields {
			obj.SetManagedFields(nil)
		}
		held, err := clientcache.Transformed(obj, transform)
		return ondemand.Object[clientcache.Object]{Value: held, ID: id}, err
	}
	d.reader = ondemand.New(ondemand.Config[clientcache.Object]{
		Metadata: func(key client.ObjectKey) (ondemand.ID, error) {
			snap := p.informer.Store().Snapshot()
			held, ok := snap.Get(key)
			if !ok {
				return ondemand.ID{}, k.notFound(snap, key)
			}
			return ondemand.ID{UID: held.GetUID(), Version: held.GetResourceVersion()}, nil
		},
		Fetch: func(ctx context.Context, key client.ObjectKey, version string) (ondemand.Object[clientcache.Object], error) {
			obj, err := d.client.Get(ctx, key, metav1.GetOptions{ResourceVersion: version})
			if err != nil {
				return ondemand.Object[clientcache.Object]{}, err
			}
			return read(obj)
		},
		MaxBytes: onDemandBytes,
		MaxIdle:  onDemandIdle,
		Stopped:  k.errStopped(),
	})
	p.onDemand = d
}
