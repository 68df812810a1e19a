package watchcache_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// A cache serves list and watch of a collection as an API server does. A reflector can fill it from another server; here
// the program does.
func Example() {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: gvr, Kind: "Pod"})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "1", ResourceVersion: "7"}}
	if err := cache.Put(ctx, informer.Delta[*corev1.Pod]{
		Type: informer.Replaced, Items: []*corev1.Pod{pod}, ResourceVersion: "7",
	}); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/pods", func(w http.ResponseWriter, r *http.Request) { cache.ServeList(w, r, "") })
	server := httptest.NewServer(mux)
	defer server.Close()

	client, err := informer.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		log.Fatal(err)
	}
	pods := informer.New(client, informer.Resource{GroupVersionResource: gvr}, informer.Config[*corev1.Pod]{})
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(pods.Store().Len(), pods.Store().ResourceVersion())
	cancel()
	<-ended
	cache.EndWatches()
	// Output: 1 7
}
