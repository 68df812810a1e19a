package readthrough_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/readthrough"
)

// A controller reconciles Secrets. Their metadata are in memory, and those that it reconciles.
func Example() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	gvr := corev1.SchemeGroupVersion.WithResource("secrets")
	stored := informertest.Register[*corev1.Secret](server, informertest.Resource{GroupVersionResource: gvr})
	_, err := stored.Create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "token"},
		Data:       map[string][]byte{"token": []byte("abc")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		fmt.Println(err)
		return
	}

	secrets := readthrough.New(client, informer.Resource{GroupVersionResource: gvr}, readthrough.Config[*corev1.Secret]{
		KeepLabelSelector: "app.kubernetes.io/part-of=my-operator", // read all the time
		MaxBytes:          1 << 20,
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	ctl := &informer.Controller[informer.Key]{Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
		secret, err := secrets.Get(ctx, key)
		if err != nil {
			return informer.Result{}, err
		}
		fmt.Printf("%s has %d bytes\n", key, len(secret.Data["token"]))
		close(done)
		return informer.Result{}, nil
	}}
	ctl.Watch(informer.EnqueueObject(secrets.Metadata()))
	go secrets.Run(ctx)
	go ctl.Run(ctx)
	<-done
	fmt.Printf("%d request\n", secrets.CacheStatus().Requests)
	// Output:
	// default/token has 3 bytes
	// 1 request
}
