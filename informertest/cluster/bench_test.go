package cluster_test

import (
	"testing"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/cluster"
)

// BenchmarkNew is the time until a test has a cluster of its own.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		cluster.New(informertest.Options{}).Close()
	}
}
