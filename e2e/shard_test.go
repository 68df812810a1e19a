package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

// A kube-apiserver with the feature gate ShardedListAndWatch sends only the shard, one without it sends everything. The store is
// the same: the shard that the rule of KEP-5866 gives. A change of the shard, and changes of objects, come through in both cases.
func TestShards(t *testing.T) {
	gated, err := startCluster(t.Context(), cluster.Config{FeatureGates: map[string]bool{"ShardedListAndWatch": true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gated.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("answers", func(t *testing.T) { testShardAnswers(t, gated) })
	for name, c := range map[string]*cluster.Cluster{"gate on": gated, "gate off": server} {
		for _, field := range []informer.ShardField{informer.ShardByUID, informer.ShardByNamespace} {
			for _, paged := range []bool{false, true} {
				if !testkit.Whole() && paged != (field == informer.ShardByUID) {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/paged=%v", name, field, paged), func(t *testing.T) {
					testShards(t, c, field, paged, c == gated)
				})
			}
		}
	}
}

// shardRequests are sent to informertest, and so to watchcache, and to a kube-apiserver with the feature gate.
const shardRequests = `
?shardSelector=
?shardSelector=+
?shardSelector={in}
?shardSelector={in} as protobuf
?shardSelector={in} as metadatas
?shardSelector={in} as protobufmetadatas
?shardSelector=({in}||{in})
?shardSelector={out}
?shardSelector={out}||{in}
?shardSelector={uids}
?shardSelector={in}||{uids}
?shardSelector={in}&labelSelector=app%3Dx
?shardSelector={in}&labelSelector=app%3Dx&limit=1
?shardSelector={in}&fieldSelector=metadata.name%3Da
?shardSelector={out}&fieldSelector=metadata.name%3Da
?shardSelector={in}&resourceVersion=0
?shardSelector={in}&resourceVersion={s1}&resourceVersionMatch=Exact
?shardSelector={in}&limit=100
?shardSelector=shardRange(object.metadata.uid,'0x0000000000000000','0x0000000000000000')
?shardSelector=shardRange(object.metadata.uid,'0x0000000000000000','0xff')
?shardSelector=shardRange(object.metadata.uid,'0x0000000000000000','0x00000000000000FF')
?shardSelector=shardRange(object.metadata.uid,'0','0')
?shardSelector=shardRange(object.metadata.uid,'0x','0')
?shardSelector=shardRange(object.metadata.uid,'0x20000000000000000','0')
?shardSelector=shardRange(object.metadata.uid,'0x200000000000000000','0')
?shardSelector=shardRange(object.metadata.name,'0x0000000000000000','0x0000000000000001')
?shardSelector=shardRange(object.metadata.uid,'0x0000000000000000')
?shardSelector=shardRange()
?shardSelector=range(object.metadata.uid)
?shardSelector={in}&resourceVersion=abc
?shardSelector=+&resourceVersion=abc
?shardSelector=+&labelSelector=%3D%3D
?shardSelector=+&fieldSelector=metadata.nosuch%3Da
?shardSelector=+ as protobuf
?watch=1&shardSelector=+
?watch=1&shardSelector=+&resourceVersion=abc
?watch=1&timeoutSeconds=1&shardSelector={in}&resourceVersion={s0}
?watch=1&timeoutSeconds=1&shardSelector={in}&resourceVersion={s0} as protobuf
?watch=1&timeoutSeconds=1&shardSelector={out}&resourceVersion={s0}&allowWatchBookmarks=true
?watch=1&timeoutSeconds=1&shardSelector={in}&resourceVersion={s0}&labelSelector=app%3Dx
?watch=1&timeoutSeconds=1&shardSelector={in}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true
?watch=1&timeoutSeconds=1&shardSelector={out}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true
`

// Guarantees: W10, S1
func testShardAnswers(t *testing.T, gated *cluster.Cluster) {
	namespace, err := cluster.CreateNamespace(t.Context(), gated.Config(), "answers")
	if err != nil {
		t.Fatal(err)
	}
	inProcess := informertest.NewServer(informertest.Options{Shards: true})
	defer inProcess.Close()
	resource := batteryResource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), kind: "ConfigMap"}
	informertest.Register[*corev1.ConfigMap](inProcess, informertest.Resource{GroupVersionResource: resource.GroupVersionResource})
	config := inProcess.Config()
	config.AcceptContentTypes = "application/json" // for the writing client
	token := func(first, last uint64) string {
		s := informer.Shard{Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: first, Last: last}}}
		return url.QueryEscape(s.String())
	}
	var answers [2][]string
	for i, config := range []*rest.Config{config, gated.Config()} {
		s := newSide(t, config, resource, namespace, nil)
		hash := informer.HashOf(namespace)
		s.tokens["in"], s.tokens["out"] = token(hash, hash), token(hash+1, hash+1)
		s.tokens["uids"] = url.QueryEscape(informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}}.String())
		s.record(t.Context(), "start")
		s.run(t.Context(), []step{
			{"s0", "create", "a", "x", ""},
			{"s1", "create", "b", "y", ""},
			{"s2", "update", "a", "y", ""},
			{"s3", "delete", "b", "", ""},
			{"s4", "create", "c", "x", ""},
		})
		for line := range strings.Lines(shardRequests) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			sent := time.Now()
			response, err := s.do(t.Context(), line)
			s.must(err)
			answers[i] = append(answers[i], line+"\n\t"+strings.Join(s.answer(line, response, sent)(), "\n\t"))
		}
	}
	for i, want := range answers[1] {
		if got := answers[0][i]; got != want {
			t.Errorf("informertest: %s\n kube-apiserver: %s", got, want)
		}
	}
}

func testShards(t *testing.T, c *cluster.Cluster, field informer.ShardField, paged, serverKnows bool) {
	ctx := t.Context()
	var namespaces []string
	create := func(from, n int) {
		for _, namespace := range namespaces {
			pods := slices.Collect(cluster.Pods(namespace, from+n))
			if err := cluster.CreatePods(ctx, c.Config(), slices.Values(pods[from:]), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	thirds := map[uint64]bool{} // that have a namespace
	for len(namespaces) < 6 || len(thirds) < 3 {
		namespace, err := cluster.CreateNamespace(ctx, c.Config(), "shard")
		if err != nil {
			t.Fatal(err)
		}
		namespaces = append(namespaces, namespace)
		thirds[informer.HashOf(namespace)/(math.MaxUint64/3)] = true
	}
	create(0, 20)
	var made requests
	config := c.Config()
	config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return roundTripper{rt, &made} })
	client, err := informer.NewClient(config)
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
	if err := inf.WaitSynced(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	pods := informer.NewTypedClient[*corev1.Pod](client, resource.GroupVersionResource)
	check := func(when string) {
		t.Helper()
		list, _, err := pods.List(ctx, "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		in, settled := 0, within(t, patience)
		for _, pod := range list {
			if !shard.Has(pod) {
				continue
			}
			in++
			if _, err := inf.Await(settled, informer.KeyOf(pod), func(p *corev1.Pod) bool { return p != nil && p.UID == pod.UID }); err != nil {
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
		if err := inf.SetShard(within(t, patience), shard); err != nil {
			t.Fatal(err)
		}
		check("after a change of the shard")
	}
	create(30, 10)
	check("after more changes")
	parts := 0 // lists of what comes
	for i := range uint64(3) {
		shard = informer.Shard{Field: field, Ranges: slices.Concat(third(i).Ranges, third((i+1)%3).Ranges)}
		if err := inf.SetShard(within(t, patience), shard); err != nil {
			t.Fatal(err)
		}
		check("after a change of a part")
		create(40+10*int(i), 10)
		check("after a change of a part and of objects")
	}
	for _, r := range made.all() {
		if r.Query.Get("resourceVersionMatch") == "Exact" {
			parts++
		}
	}
	if (parts == 3) != serverKnows || parts > 3 {
		t.Errorf("%d lists of what comes", parts)
	}
	s := inf.Status().Reflectors[0]
	if (s.OutsideShard == 0) != serverKnows || s.Traffic.ListsBy[status.ReasonShard] != 6 || s.Failures > 0 {
		t.Errorf("%d objects from outside the shard, %d failures, lists %v", s.OutsideShard, s.Failures, s.Traffic.ListsBy)
	}
	t.Logf("%d objects, %d bytes, %d objects from outside the shard", inf.Store().Len(), s.Traffic.Bytes, s.OutsideShard)
}
