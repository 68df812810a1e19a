package compat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/listers"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/compat"
	"github.com/typedinformer/informer/informertest"
)

// ResourceLister returns the same results as client-go's ResourceIndexer, errors included, except for the order.
func TestAnswersAsClientGo(t *testing.T) {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: gvr})
	peer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, name := range []string{"b/x", "a/y", "a/x"} {
		namespace, name, _ := strings.Cut(name, "/")
		pod, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"is": name}}})
		if err != nil {
			t.Fatal(err)
		}
		peer.Add(pod)
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	i := informer.New(client, informer.Resource{GroupVersionResource: gvr}, informer.Config[*corev1.Pod]{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := i.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}

	ours, theirs := compat.New(i, corev1.Resource("pod")), listers.New[*corev1.Pod](peer, corev1.Resource("pod"))
	show := func(list []*corev1.Pod, err error) string {
		var names []string
		for _, pod := range list {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
		slices.Sort(names)
		return fmt.Sprint(names, err)
	}
	for _, namespace := range []string{"", "a", "b", "c"} {
		ours, theirs := ours.In(namespace), listers.NewNamespaced(theirs, namespace)
		for _, selector := range []labels.Selector{labels.Everything(), labels.Nothing(), labels.SelectorFromSet(labels.Set{"is": "x"})} {
			if got, want := show(ours.List(selector)), show(theirs.List(selector)); got != want {
				t.Errorf("list of %q by %v: %s, client-go: %s", namespace, selector, got, want)
			}
		}
		for _, name := range []string{"x", "y", "z"} {
			got, err := ours.Get(name)
			want, wantErr := theirs.Get(name)
			if (got == nil) != (want == nil) || got != nil && got.UID != want.UID || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%s in %q: %v, %v, client-go: %v, %v", name, namespace, got, err, want, wantErr)
			}
		}
	}
}
