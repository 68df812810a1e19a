package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
)

// A kube-apiserver with the feature gate ShardedListAndWatch sends only the shard, one without it sends everything. The store is
// the same: the shard that the rule of KEP-5866 gives. A change of the shard, and changes of objects, come through in both cases.
func TestShards(t *testing.T) {
	gated, err := cluster.Start(t.Context(), cluster.Config{FeatureGates: map[string]bool{"ShardedListAndWatch": true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gated.Stop(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]*cluster.Cluster{"gate on": gated, "gate off": server} {
		for _, field := range []informer.ShardField{informer.ShardByUID, informer.ShardByNamespace} {
			for _, paged := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/paged=%v", name, field, paged), func(t *testing.T) {
					testShards(t, c, field, paged, c == gated)
				})
			}
		}
	}
}

func testShards(t *testing.T, c *cluster.Cluster, field informer.ShardField, paged, serverKnows bool) {
	ctx := within(t, patience)
	var namespaces []string
	create := func(from, n int) {
		for _, namespace := range namespaces {
			pods := slices.Collect(cluster.Pods(namespace, from+n))
			if err := cluster.CreatePods(ctx, c.Config(), slices.Values(pods[from:]), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 6 {
		namespace, err := cluster.CreateNamespace(ctx, c.Config(), "shard")
		if err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, namespace)
	}
	create(0, 20)
	client, err := informer.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
	third := func(i uint64) informer.Shard {
		return informer.Shard{Field: field, Ranges: []informer.HashRange{{First: math.MaxUint64 / 3 * i, Last: math.MaxUint64/3*(i+1) - 1}}}
	}
	shard := third(0)
	resource.Shard = shard
	inf := informer.New(client, resource, informer.Config[*corev1.Pod]{PagedList: paged})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = inf.Run(running) }()
	defer func() { stop(); <-ended }()
	if err := inf.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	pods := informer.NewTypedClient[*corev1.Pod](client, resource.GroupVersionResource)
	check := func(when string) {
		t.Helper()
		list, _, err := pods.List(ctx, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		in := 0
		for _, pod := range list {
			if !shard.Has(pod) {
				continue
			}
			in++
			if _, err := inf.Await(ctx, informer.KeyOf(pod), func(p *corev1.Pod) bool { return p != nil && p.UID == pod.UID }); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		for pod := range inf.Store().All() {
			if !shard.Has(pod) {
				t.Errorf("%s: the store has %s, which is outside the shard", when, informer.KeyOf(pod))
			}
		}
		if n := inf.Store().Len(); n != in || in == len(list) {
			t.Errorf("%s: the store has %d objects, the shard %d of %d", when, n, in, len(list))
		}
	}
	check("after the list")
	create(20, 10)
	check("after changes")
	for _, next := range []uint64{1, 2, 0} {
		shard = third(next)
		if err := inf.SetShard(ctx, shard); err != nil {
			t.Fatal(err)
		}
		check("after a change of the shard")
	}
	create(30, 10)
	check("after more changes")
	s := inf.Status().Reflectors[0]
	if (s.OutsideShard == 0) != serverKnows || s.ListsBy[informer.ReasonShard] != 3 || s.Failures > 0 {
		t.Errorf("%d objects from outside the shard, %d failures, lists %v", s.OutsideShard, s.Failures, s.ListsBy)
	}
	t.Logf("%d objects, %d bytes, %d objects from outside the shard", inf.Store().Len(), s.Bytes, s.OutsideShard)
}
