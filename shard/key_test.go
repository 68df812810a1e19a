package shard

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// A change of an object leads to a reconcile of the owner that its reference names by UID.
func TestEnqueueOwner(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")}
		configMaps := informertest.Register[*corev1.ConfigMap](s.server, informertest.Resource{GroupVersionResource: resource.GroupVersionResource})
		ref := func(name string, uid types.UID, controller bool) metav1.OwnerReference {
			return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid, Controller: &controller}
		}
		owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owned", OwnerReferences: []metav1.OwnerReference{
			ref("web", "1", true), ref("other", "2", false),
		}}}
		must(configMaps.Create(owned))
		pods := informer.Owner{GroupKind: schema.GroupKind{Kind: "Pod"}}
		inf := informer.New(s.client("a"), resource, informer.Config[*corev1.ConfigMap]{})
		var reconciled []Key
		ctl := &informer.Controller[Key]{Reconcile: func(_ context.Context, key Key) (informer.Result, error) {
			reconciled = append(reconciled, key)
			return informer.Result{}, nil
		}}
		ctl.Watch(EnqueueOwner(inf, pods))
		ctx, stop := context.WithCancel(s.Context())
		ended := make(chan struct{}, 2)
		go func() { _ = inf.Run(ctx); ended <- struct{}{} }()
		go func() { _ = ctl.Run(ctx); ended <- struct{}{} }()
		<-time.After(time.Second)
		stop()
		<-ended
		<-ended
		web := Key{informer.Key{Namespace: "ns", Name: "web"}, "1"}
		if !slices.Equal(reconciled, []Key{web}) {
			t.Errorf("reconciled %v", reconciled)
		}
		pods.All = true
		if got := OwnerKeys[*corev1.ConfigMap](pods)(owned); !slices.Equal(got, []Key{web, {informer.Key{Namespace: "ns", Name: "other"}, "2"}}) {
			t.Errorf("all owners are %v", got)
		}
	})
}
