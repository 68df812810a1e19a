package health_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/informertest"
)

// A program is ready when its informers have synced. It is live while its controllers and handlers make progress.
func Example() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: pods})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	i := informer.New(client, informer.Resource{GroupVersionResource: pods}, informer.Config[*corev1.Pod]{})

	config := health.Config{Informers: []func() informer.InformerStatus{i.Status}}
	mux := http.NewServeMux()
	mux.Handle("/readyz", health.Ready(config))
	mux.Handle("/livez", health.Live(config))
	ask := func(path string) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code)
	}
	ask("/readyz")
	ask("/livez")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	ask("/readyz")
	cancel()
	<-ended
	// Output:
	// /readyz 500
	// /livez 200
	// /readyz 200
}
