package watchcache_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// A list of a shard contains the objects of the shard, and the selector in its metadata. A watch of the shard delivers
// the events of those objects: an object with another UID may belong to another shard. Clients that do not know shards
// can read both.
// Guarantees: W4, S1
func TestShards(t *testing.T) {
	for _, shard := range []informer.Shard{
		{Ranges: []informer.HashRange{{First: 0, Last: 1<<63 - 1}}},
		{Ranges: []informer.HashRange{{First: 1 << 63, Last: 1<<64 - 1}}},
		{Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: informer.HashOf("a"), Last: informer.HashOf("a")}}},
	} {
		t.Run(shard.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testShard(t, shard) }) })
	}
}

func testShard(t *testing.T, shard informer.Shard) {
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	pod := func(i, rv int, uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: []string{"a", "b"}[i%2], Name: fmt.Sprint("p", 100+i), UID: types.UID(fmt.Sprint(i, uid, "-4444-8888-abcdef012345")), ResourceVersion: fmt.Sprint(rv),
		}}
	}
	put := func(d informer.Delta[*corev1.Pod]) {
		t.Helper()
		if err := cache.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	var items []*corev1.Pod
	var want, events []string
	for i := range 20 {
		items = append(items, pod(i, i+2, "u"))
	}
	put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: items, ResourceVersion: "30"})
	for i := range items { // an object with another UID takes the place of the first; no DELETED between them
		next := pod(i, 31+i, "v")
		put(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: next})
		switch was, has := shard.Has(items[i]), shard.Has(next); {
		case was && has:
			events = append(events, "MODIFIED "+next.Name)
		case was:
			events = append(events, "DELETED "+next.Name)
		case has:
			events = append(events, "ADDED "+next.Name)
		}
		if shard.Has(next) {
			want = append(want, next.Namespace+"/"+next.Name)
		}
	}
	slices.Sort(want)
	if len(want) == 0 || len(want) == len(items) {
		t.Fatalf("%d objects in the shard: the test tests nothing", len(want))
	}
	get := func(query, accept string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, "/api/v1/pods?"+query+"shardSelector="+url.QueryEscape(shard.String()), nil)
		request.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		cache.ServeList(w, request, "")
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		return w
	}
	for _, accept := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf, runtime.ContentTypeJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"} {
		w := get("", accept)
		if strings.Contains(accept, "as=") {
			if strings.Contains(w.Body.String(), "shardInfo") {
				t.Errorf("a list of metadata has shardInfo, which that of kube-apiserver has not")
			}
			continue
		}
		if !strings.Contains(w.Body.String(), shard.String()) {
			t.Errorf("the list does not have the selector")
		}
		list, _, err := scheme.Codecs.UniversalDeserializer().Decode(w.Body.Bytes(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range list.(*corev1.PodList).Items {
			got = append(got, item.Namespace+"/"+item.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: list has\n%v, want\n%v", accept, got, want)
		}
	}
	var page struct {
		Metadata struct {
			Continue           string
			RemainingItemCount *int64
			ShardInfo          struct{ Selector string }
		}
		Items []metav1.PartialObjectMetadata
	}
	var paged []string
	for token := ""; ; token = page.Metadata.Continue {
		page.Metadata.Continue, page.Items = "", nil
		if err := json.Unmarshal(get("limit=3&continue="+url.QueryEscape(token)+"&", runtime.ContentTypeJSON).Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			paged = append(paged, item.Namespace+"/"+item.Name)
		}
		if m := page.Metadata; m.ShardInfo.Selector != shard.String() || m.RemainingItemCount != nil {
			t.Errorf("a page has metadata %+v", m)
		}
		if page.Metadata.Continue == "" {
			break
		}
	}
	if !slices.Equal(paged, want) {
		t.Errorf("pages have\n%v, want\n%v", paged, want)
	}
	var got []string
	decoder := json.NewDecoder(get("watch=1&timeoutSeconds=1&resourceVersion=30&", runtime.ContentTypeJSON).Body)
	for decoder.More() {
		var e struct {
			Type   string
			Object metav1.PartialObjectMetadata
		}
		if err := decoder.Decode(&e); err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type+" "+e.Object.Name)
	}
	if !slices.Equal(got, events) {
		t.Errorf("the watch has\n%v, want\n%v", got, events)
	}
}

// The error is that of kube-apiserver 1.36: 500 without a reason.
func TestInvalidShardSelector(t *testing.T) {
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
	for _, query := range []string{"", "watch=1&"} {
		w := httptest.NewRecorder()
		cache.ServeList(w, httptest.NewRequest(http.MethodGet, "/?"+query+"shardSelector=+", nil), "")
		const want = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"invalid shard selector: ` +
			`empty shard selector is not allowed; omit the parameter for unfiltered lists","code":500}` + "\n"
		if w.Code != http.StatusInternalServerError || w.Body.String() != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
