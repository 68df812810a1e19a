package kinds

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// Nothing is synced before the set has the members of the first discovery: neither the set nor a handler.
//
// Guarantees: N2
func TestNothingIsSyncedBeforeTheFirstMembers(t *testing.T) {
	client, err := informer.NewClient(&rest.Config{Host: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("kinds%d", i))
	}
	d := status.Discovery{Groups: []status.APIGroup{{Name: "a", Versions: []status.APIVersion{version("a", "v1", status.FreshnessCurrent, names...)}}}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		s := New(client, Config[metadata]{}) // never runs: nothing can be synced
		sub := s.Subscribe(HandlerFuncs[metadata]{}, SubscriptionConfig{})
		done := make(chan struct{})
		go func() { s.take(d, nil); close(done) }()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			default:
			}
			if err := s.WaitSynced(ended); err == nil {
				t.Fatalf("WaitSynced returns nil; the set has %d members", len(s.members.Status()))
			}
			if err := sub.WaitSynced(ended); err == nil || sub.HasSynced() {
				t.Fatalf("the handler is synced; the set has %d members", len(s.members.Status()))
			}
		}
	}
}
