package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
)

// peer is a manager with one cache.
type peer struct {
	name string
	what string // its description
	set  func(*manager.Options)
	own  bool // the functions of crcache can read the cache
}

const (
	theirs   = "controller-runtime"
	stripped = "controller-runtime, stripped"
	own      = "crcache"
	dropped  = "crcache, stripped"
	separate = "crcache, separate"
	compact  = "crcache, Compact"
)

// peers are the compared managers, in the order of the columns.
var peers = []peer{
	{name: theirs, what: "its cache with default settings", set: func(*manager.Options) {}},
	{name: stripped, what: "its cache with `DefaultTransform: cache.TransformStripManagedFields()`",
		set: func(o *manager.Options) {
			o.Cache.DefaultTransform = cache.TransformStripManagedFields()
		}},
	{name: own, what: "`crcache.Options{}`, which keeps managedFields, too", set: with(crcache.Options{}), own: true},
	{name: dropped, what: "`crcache.Options{DropManagedFields: true}`",
		set: with(crcache.Options{DropManagedFields: true}), own: true},
	{name: separate, what: "`crcache.Options{Layout: informer.LayoutSeparate, DropManagedFields: true}`",
		set: with(crcache.Options{Layout: informer.LayoutSeparate, DropManagedFields: true}), own: true},
	{name: compact, what: "`crcache.Options{Layout: informer.LayoutCompact, DropManagedFields: true}`",
		set: with(crcache.Options{Layout: informer.LayoutCompact, DropManagedFields: true}), own: true},
}

func with(options crcache.Options) func(*manager.Options) {
	return func(o *manager.Options) { o.NewCache = crcache.New(options) }
}

// typedReads are reads of a cache of crcache without copies.
type typedReads struct {
	get   func(client.ObjectKey) (*corev1.Pod, error)
	list  func(...client.ListOption) ([]*corev1.Pod, error)
	index func(node string) (n int)
}

func newTypedReads(ctx context.Context, c cache.Cache) (*typedReads, error) {
	byNode, err := crcache.NewIndex(ctx, c, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	if err != nil {
		return nil, err
	}
	return &typedReads{
		get: func(key client.ObjectKey) (*corev1.Pod, error) { return crcache.Get[*corev1.Pod](ctx, c, key) },
		list: func(options ...client.ListOption) ([]*corev1.Pod, error) {
			return crcache.List[*corev1.Pod](ctx, c, options...)
		},
		index: func(node string) (n int) {
			for pod := range byNode.Lookup(node) {
				if pod.Name != "" {
					n++
				}
			}
			return n
		},
	}, nil
}
