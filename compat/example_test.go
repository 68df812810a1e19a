package compat_test

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/compat"
)

// A lister with the methods of client-go's reads a store, here one that a test fills.
func ExampleNew() {
	store, writer := informer.NewStore[*corev1.Pod]()
	pods := compat.New(store, corev1.Resource("pods"))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"}}
	if err := writer.Apply(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: pod}); err != nil {
		log.Fatal(err)
	}
	list, err := pods.In("default").List(labels.Everything())
	fmt.Println(len(list), err)
	_, err = pods.In("default").Get("web-1")
	fmt.Println(err)
	// Output:
	// 1 <nil>
	// pods "web-1" not found
}
