package main

import (
	"testing"

	"github.com/typedinformer/informer/bench/internal/canned"
)

// Every controller reconciles all changes, and no change before it was sent.
func TestDelays(t *testing.T) {
	const pods, changes, rate = 50, 300, 3000
	for name := range peers {
		t.Run(name, func(t *testing.T) {
			server, err := canned.Start(canned.Config{Pods: pods, Changes: changes, Formats: []string{canned.Protobuf}})
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			d, err := reconcileAtRate(name, server.URL, pods, changes, rate)
			if err != nil {
				t.Fatal(err)
			}
			if d.P50 <= 0 || d.P99 < d.P50 || d.Max < d.P99 || d.Rate <= 0 || d.Calls <= 0 {
				t.Errorf("the delays are %+v", d)
			}
		})
	}
}
