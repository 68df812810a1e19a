package informertest_test

import (
	"io"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// loaded returns a server over TCP with a fleet.
func loaded(b *testing.B, n int) (*informertest.Server, *informertest.Collection[*corev1.Pod], []*corev1.Pod) {
	b.Helper()
	server := informertest.NewServer(informertest.Options{})
	b.Cleanup(server.Close)
	pods := informertest.Register[*corev1.Pod](server, podResource)
	var all []*corev1.Pod
	for pod := range fleet.New(fleet.Config{Pods: n}).All() {
		stored, err := pods.Create(pod)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, stored)
	}
	return server, pods, all
}

// BenchmarkUpdate updates a status among 20,000 pods, without HTTP.
func BenchmarkUpdate(b *testing.B) {
	_, pods, all := loaded(b, 20_000)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		pod := *all[i%len(all)]
		i++
		pod.ResourceVersion, pod.Status.Reason = "", strconv.Itoa(i)
		if _, err := pods.Update(&pod); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList lists 20,000 pods over TCP, without decoding them.
func BenchmarkList(b *testing.B) {
	for name, accept := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		b.Run("encoding="+name, func(b *testing.B) {
			server, _, all := loaded(b, 20_000)
			client, err := rest.HTTPClientFor(server.Config())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				request, err := http.NewRequest("GET", server.URL+"/api/v1/pods", nil)
				if err != nil {
					b.Fatal(err)
				}
				request.Header.Set("Accept", accept)
				response, err := client.Do(request)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
			}
			b.ReportMetric(float64(b.N*len(all))/b.Elapsed().Seconds(), "objects/s")
		})
	}
}
