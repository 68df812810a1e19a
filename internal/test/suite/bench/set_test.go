package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/set"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// still is the transport to a server with a pod in each namespace, where nothing happens. It has no connections, so that
// figures are those of informers alone.
type still struct{}

func (still) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req}
	query := req.URL.Query()
	switch {
	case query.Has("sendInitialEvents"):
		resp.StatusCode = http.StatusUnprocessableEntity
		resp.Body = io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`))
	case query.Has("watch"):
		body, write := io.Pipe()
		context.AfterFunc(req.Context(), func() { _ = write.CloseWithError(io.EOF) })
		resp.Body = body
	default:
		namespace := strings.Split(req.URL.Path, "/")[4]
		resp.Body = io.NopCloser(bytes.NewReader(fmt.Appendf(nil, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",`+
			`"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"namespace":%q,"name":"a","uid":"u-%[1]s","resourceVersion":"5",`+
			`"labels":{"app":%[1]q}}}]}`, namespace)))
	}
	return resp, nil
}

var stillConfig = rest.Config{Host: "http://still", Transport: still{}, QPS: -1}

// crowd starts n informers of a pod each, and returns when they have synced. They run until ctx ends.
type crowd func(b *testing.B, ctx context.Context, running *sync.WaitGroup, n int)

// newMember returns an informer of a namespace.
func newMember(client *informer.Client, namespace string) *informer.Informer[*metav1.PartialObjectMetadata] {
	resource := informer.Resource{GroupVersionResource: podResource.GroupVersionResource, Namespaces: []string{namespace}}
	return informer.New(client, resource,
		informer.Config[*metav1.PartialObjectMetadata]{PagedList: true, Logger: slog.New(slog.DiscardHandler)})
}

func newStillClient(b *testing.B) *informer.Client {
	client, err := informer.NewClient(&stillConfig)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

var crowds = map[string]crowd{
	"informer": func(b *testing.B, ctx context.Context, running *sync.WaitGroup, n int) {
		client := newStillClient(b)
		var all []*informer.Informer[*metav1.PartialObjectMetadata]
		for i := range n {
			inf := newMember(client, fmt.Sprint("ns-", i))
			inf.Subscribe(informer.HandlerFuncs[*metav1.PartialObjectMetadata]{})
			informer.NewIndex(inf, func(p *metav1.PartialObjectMetadata) []string { return []string{p.Labels["app"]} })
			running.Go(func() { _ = inf.Run(ctx) })
			all = append(all, inf)
		}
		for _, inf := range all {
			if err := inf.WaitSynced(ctx); err != nil {
				b.Fatal(err)
			}
		}
	},
	"set": func(b *testing.B, ctx context.Context, running *sync.WaitGroup, n int) {
		s := newSet(b, n)
		s.Subscribe(set.HandlerFuncs[string, *metav1.PartialObjectMetadata]{}, set.SubscriptionConfig{})
		set.NewIndex(s, func(_ string, p *metav1.PartialObjectMetadata) []string { return []string{p.Labels["app"]} })
		running.Go(func() { _ = s.Run(ctx) })
		if err := s.WaitSynced(ctx); err != nil {
			b.Fatal(err)
		}
	},
	"client-go": func(b *testing.B, ctx context.Context, running *sync.WaitGroup, n int) {
		client, err := metadata.NewForConfig(&stillConfig)
		if err != nil {
			b.Fatal(err)
		}
		var synced []cache.InformerSynced
		for i := range n {
			inf := metadatainformer.NewFilteredMetadataInformer(client, corev1.SchemeGroupVersion.WithResource("pods"),
				fmt.Sprint("ns-", i), 0, cache.Indexers{"app": func(obj any) ([]string, error) {
					return []string{obj.(*metav1.PartialObjectMetadata).Labels["app"]}, nil
				}}, nil).Informer()
			if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
				b.Fatal(err)
			}
			running.Go(func() { inf.RunWithContext(ctx) })
			synced = append(synced, inf.HasSynced)
		}
		if !cache.WaitForCacheSync(ctx.Done(), synced...) {
			b.Fatal(ctx.Err())
		}
	},
}

// newSet returns a set of n informers of a pod each.
func newSet(b *testing.B, n int) *set.Set[string, *metav1.PartialObjectMetadata] {
	client := newStillClient(b)
	s := set.New(set.Config[string, *metav1.PartialObjectMetadata]{})
	for i := range n {
		namespace := fmt.Sprint("ns-", i)
		if err := s.Add(namespace, func() *informer.Informer[*metav1.PartialObjectMetadata] {
			return newMember(client, namespace)
		}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// BenchmarkSet starts 1,000 informers of metadata with a handler and an index, which then wait: members of a set, those
// of a program by itself, and those of client-go. It reports the time until all have synced, and the live heap, stacks
// and goroutines of each, without connections.
func BenchmarkSet(b *testing.B) {
	const n = 1000
	for _, impl := range []string{"set", "informer", "client-go"} {
		b.Run("impl="+impl, func(b *testing.B) {
			var bytes, goroutines float64
			for b.Loop() {
				b.StopTimer()
				heap, before := testkit.SteadyMemory(), runtime.NumGoroutine()
				b.StartTimer()
				ctx, cancel := context.WithCancel(b.Context())
				var running sync.WaitGroup
				crowds[impl](b, ctx, &running, n)
				b.StopTimer()
				bytes += float64(testkit.SteadyMemory() - heap)
				goroutines += float64(runtime.NumGoroutine() - before)
				cancel()
				running.Wait()
				b.StartTimer()
			}
			b.ReportMetric(bytes/float64(b.N)/n/1000, "kB/member")
			b.ReportMetric(goroutines/float64(b.N)/n, "goroutines/member")
		})
	}
}

// BenchmarkSetLookup looks up a key that one of the members of a set has.
func BenchmarkSetLookup(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("members=", n), func(b *testing.B) {
			s := newSet(b, n)
			x := set.NewIndex(s, func(_ string, p *metav1.PartialObjectMetadata) []string { return []string{p.Labels["app"]} })
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			defer func() { cancel(); <-ended }()
			if err := s.WaitSynced(ctx); err != nil {
				b.Fatal(err)
			}
			key := fmt.Sprint("ns-", n/2)
			for b.Loop() {
				found := 0
				for range x.Lookup(key) {
					found++
				}
				if found != 1 {
					b.Fatalf("found %d", found)
				}
			}
		})
	}
}
