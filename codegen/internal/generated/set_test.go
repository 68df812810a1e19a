package generated

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	shopv1 "github.com/typedinformer/informer/codegen/testdata/crd/out/shop/v1"
	"github.com/typedinformer/informer/informertest"
)

// A Set starts, syncs and stops as one. It is synced when its last informer is. Each informer follows its own resource
// in the requested namespaces. After release, all stop.
func TestSetStartsAndSyncsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		widgets := informertest.Register[*shopv1.Widget](server, informertest.Resource{GroupVersionResource: shopv1.WidgetResource})
		specs := informertest.Register[*shopv1.WidgetSpec](server, informertest.Resource{GroupVersionResource: shopv1.WidgetSpecResource, ClusterScoped: true})
		for _, namespace := range []string{"shop", "other"} {
			if _, err := widgets.Create(&shopv1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "car"}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := specs.Create(&shopv1.WidgetSpec{ObjectMeta: metav1.ObjectMeta{Name: "spec"}}); err != nil {
			t.Fatal(err)
		}
		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		group := informer.NewGroup(client)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- group.Run(ctx) }()
		defer func() { cancel(); <-ended }()

		repair := server.Inject(informertest.Fault{Resource: "widgetspecs", Error: apierrors.NewServiceUnavailable("down")})
		set, release, err := shopv1.NewSet(group, "shop")
		if err != nil {
			t.Fatal(err)
		}
		soon, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		if err := group.WaitSynced(soon); err == nil || !strings.Contains(err.Error(), "widgetspecs not synced") || strings.Contains(err.Error(), "widgets in shop") {
			t.Errorf("while the widgetspecs cannot be listed: %v", err)
		}
		repair()
		if err := group.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		if got := namesOf(set.Widgets.Store().List()) + " " + namesOf(set.WidgetSpecs.Store().List()); got != "car spec" {
			t.Errorf("the set has %q", got)
		}
		if got := slices.Collect(set.Widgets.Store().Namespace("other")); len(got) > 0 {
			t.Errorf("the set has %q of a namespace that was not asked for", namesOf(got))
		}

		again, releaseAgain, err := shopv1.NewSet(group, "shop")
		if err != nil || again.Widgets != set.Widgets || again.WidgetSpecs != set.WidgetSpecs {
			t.Errorf("a second set of the group has informers of its own, %v", err)
		}
		release()
		if n := len(group.Status()); n != 2 {
			t.Errorf("%d informers while the second set is used", n)
		}
		releaseAgain()
		synctest.Wait()
		server.ResetRequests()
		server.EndWatches()
		<-time.After(time.Minute)
		if n, requests := len(group.Status()), server.Requests(); n != 0 || len(requests) > 0 {
			t.Errorf("%d informers after the last release, and %d requests", n, len(requests))
		}
	})
}
