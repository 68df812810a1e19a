package set

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

// After the set has stopped, Want changes nothing.
//
// Guarantees: N1
func TestWantAfterTheEndRemovesNothing(t *testing.T) {
	onStage(t, config{}, []string{"a"}, func(s *stage) {
		s.add("a")
		s.run()
		s.must(s.set.WaitSynced(s.Context()))
		s.stop()
		s.want(Deliver)
		s.wantMembers("a")
	})
}

// A set that does not know its members yet is not synced, and neither are its handlers and the sources of controllers.
// Waits last until it knows them.
//
// Guarantees: N2
func TestNothingIsSyncedUntilTheMembersAreKnown(t *testing.T) {
	onStage(t, config{}, []string{"a"}, func(s *stage) {
		known := make(chan struct{}) // of the bubble
		s.set = New(config{Known: known})
		s.run()
		sub := s.set.Subscribe(HandlerFuncs[string, *corev1.Pod]{}, SubscriptionConfig{})
		keys := source{s.set.Subscribe(HandlerFuncs[string, *corev1.Pod]{}, SubscriptionConfig{})}
		if s.set.HasSynced() || sub.HasSynced() || keys.HasSynced() {
			t.Error("synced before the members are known")
		}
		ended, cancel := context.WithCancel(s.Context())
		cancel()
		waits := map[string]func(context.Context) error{
			"set":     func(ctx context.Context) error { return s.set.WaitSynced(ctx) },
			"handler": sub.WaitSynced,
			"source":  keys.WaitSynced,
		}
		results := map[string]chan error{}
		for name, wait := range waits {
			if err := wait(ended); !errors.Is(err, context.Canceled) || !errors.Is(err, errUnknown) {
				t.Errorf("%s: %v, want that the members are not known", name, err)
			}
			result := make(chan error, 1)
			results[name] = result
			go func() { result <- wait(s.Context()) }()
		}
		synctest.Wait()
		for name, result := range results {
			select {
			case err := <-result:
				t.Errorf("%s: returned %v before the members are known", name, err)
			default:
			}
		}
		s.add("a")
		close(known)
		for name, result := range results {
			if err := <-result; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if !s.set.HasSynced() || !sub.HasSynced() || !keys.HasSynced() {
			t.Error("not synced")
		}
	})
}

// A wait for the members ends with the subscription, and with the set.
//
// Guarantees: N2
func TestWaitForUnknownMembersEnds(t *testing.T) {
	onStage(t, config{}, nil, func(s *stage) {
		s.set = New(config{Known: make(chan struct{})})
		s.run()
		closed := s.set.Subscribe(HandlerFuncs[string, *corev1.Pod]{}, SubscriptionConfig{})
		open := s.set.Subscribe(HandlerFuncs[string, *corev1.Pod]{}, SubscriptionConfig{})
		results := make(chan error, 3)
		go func() { results <- closed.WaitSynced(s.Context()) }()
		synctest.Wait()
		closed.Close()
		if err := <-results; !errors.Is(err, informer.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		go func() { results <- open.WaitSynced(s.Context()) }()
		go func() { results <- s.set.WaitSynced(s.Context()) }()
		synctest.Wait()
		s.stop()
		for range 2 {
			if err := <-results; !errors.Is(err, informer.ErrStopped) {
				t.Errorf("after the end: %v", err)
			}
		}
	})
}
