package cluster_test

import (
	"testing"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/cluster"
)

// BenchmarkStart is the time until a test has a cluster of its own, over HTTP, and over HTTPS with users.
func BenchmarkStart(b *testing.B) {
	for name, options := range map[string]informertest.Options{"http": {}, "https": {Auth: &informertest.Auth{}}} {
		b.Run("scheme="+name, func(b *testing.B) {
			for b.Loop() {
				cluster.New(options).Close()
			}
		})
	}
}
