package informer

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/source/reshard"
)

// While a namespace lacks its first list, only its additions are initial.
// Guarantees: S4
func TestAdditionsToEachNamespaceAreInitialOnTheirOwn(t *testing.T) {
	m := &Mirror[*metav1.PartialObjectMetadata]{Sharding: reshard.New(shardset.Shard{})}
	m.Sharding.Add("a", nil)
	m.Sharding.Add("b", nil)
	m.Sharding.Begin("b")
	var batch []reflector.Delta[*metav1.PartialObjectMetadata]
	for _, namespace := range []string{"a", "b", "b", "a"} {
		batch = append(batch, reflector.Delta[*metav1.PartialObjectMetadata]{Type: reflector.Upserted, Namespace: namespace})
	}
	var steps []string
	for len(batch) > 0 {
		n, initial := m.step(batch)
		steps = append(steps, fmt.Sprint(n, initial))
		batch = batch[n:]
	}
	if got := fmt.Sprint(steps); got != "[1 true 2 false 1 true]" {
		t.Errorf("steps %s", got)
	}
}
