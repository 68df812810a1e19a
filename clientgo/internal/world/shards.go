package world

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
)

// namespaces are those in which Spread creates pods, in order. Half selects half of them.
var namespaces = []string{"five", "four", "one", "six", "three", "two"}

// Half selects the namespaces whose hash is in the first half of all hashes.
func Half() sharding.Selector {
	return sharding.NewSelector(sharding.ShardRangeRequirement{
		Key: "object.metadata.namespace", Start: "0x0000000000000000", End: "0x8000000000000000",
	})
}

// Spread creates a pod in each of some namespaces, and returns the namespaces that Half selects, in order. The server
// does not know shards.
func (w *World) Spread(name string) (half []string) {
	w.Helper()
	for _, namespace := range namespaces {
		selected, err := Half().Matches(w.Pod(namespace, name))
		if err != nil {
			w.Fatal(err)
		}
		if selected {
			half = append(half, namespace)
		}
	}
	return half
}

// Namespaces returns the namespaces of objects, in order.
func Namespaces[T any](objects []T) (all []string) {
	for _, obj := range objects {
		all = append(all, any(obj).(metav1.Object).GetNamespace())
	}
	slices.Sort(all)
	return all
}
