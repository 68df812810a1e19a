package shard

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Logs, errors and statuses tell keys apart that differ only in their UID.
//
// Guarantees: S6
func TestKeyShowsItsUID(t *testing.T) {
	old, next := Key{informer.Key{Namespace: "shop", Name: "web"}, "1"}, Key{informer.Key{Namespace: "shop", Name: "web"}, "2"}
	if s := old.String(); s != "shop/web@1" {
		t.Errorf("the key is printed as %s", s)
	}
	for name, log := range map[string]func(w io.Writer) slog.Handler{
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		"JSON": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
	} {
		var a, b bytes.Buffer
		record := slog.Record{}
		record.Add("key", old)
		_ = log(&a).Handle(t.Context(), record)
		record = slog.Record{}
		record.Add("key", next)
		_ = log(&b).Handle(t.Context(), record)
		if a.String() == b.String() {
			t.Errorf("%s: both keys are logged as %s", name, &a)
		}
	}
	if reflect.DeepEqual(old.MarshalLog(), next.MarshalLog()) {
		t.Errorf("logr logs both keys as %v", old.MarshalLog())
	}
}

// A late request of a former owner fails once the next owner has written, if the request has the resource version or a
// precondition. Other requests are not fenced.
//
// Guarantees: S6
func TestLateRequestsOfAFormerOwner(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 3)
		former, next := informer.NewTypedClient[*corev1.Pod](s.client("former"), podsResource), informer.NewTypedClient[*corev1.Pod](s.client("next"), podsResource)
		for i := range 3 {
			key := informer.Key{Namespace: "ns", Name: fmt.Sprint("pod-", i)}
			seen := must(former.Get(s.Context(), key, metav1.GetOptions{})) // and then the process is suspended
			write := func(client *informer.TypedClient[*corev1.Pod], writer string, version string) error {
				pod := seen.DeepCopy()
				pod.ResourceVersion, pod.Labels = version, map[string]string{"by": writer}
				_, err := client.Update(s.Context(), pod, metav1.UpdateOptions{})
				return err
			}
			if err := write(next, "next", seen.ResourceVersion); err != nil {
				t.Fatal(err)
			}
			switch i {
			case 0:
				if err := write(former, "former", seen.ResourceVersion); !apierrors.IsConflict(err) {
					t.Errorf("an update with a resource version returned %v", err)
				}
			case 1:
				err := former.Delete(s.Context(), key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}})
				if !apierrors.IsConflict(err) {
					t.Errorf("a deletion with preconditions returned %v", err)
				}
			case 2:
				if err := write(former, "former", ""); err != nil {
					t.Errorf("an update without a resource version returned %v", err)
				}
			}
			pod, ok := s.pods.Get(key)
			if want := map[int]string{2: "former"}[i]; !ok || pod.Labels["by"] != cmp.Or(want, "next") {
				t.Errorf("%s: there is %t, written by %q", key, ok, pod.Labels["by"])
			}
		}
	})
}
