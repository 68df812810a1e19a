package bench

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// The estimate of the memory is close to what the heap has more with the store than without.
// Guarantees: O1
func TestMemoryEstimate(t *testing.T) {
	for name, config := range map[string]informer.Config[*corev1.Pod]{
		"default":   {},
		"Separate":  {Layout: informer.LayoutSeparate},
		"Compact":   {Layout: informer.LayoutCompact},
		"Transform": {Layout: informer.LayoutCompact, Transform: func(p *corev1.Pod) (*corev1.Pod, error) { p.Status = corev1.PodStatus{}; return p, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			pods, low, high := 2000, 0.7, 1.3
			if config.Layout == informer.LayoutCompact {
				pods, low = 20_000, 0.5 // dictionaries and decoders take up to 6 MB, which does not count
			}
			server := canned.ListOf(t, "application/vnd.kubernetes.protobuf", fleet.New(fleet.Config{Pods: pods}).All())
			_, stop := runOwn(t, server, config) // allocates what is allocated once
			stop()
			before := testkit.LiveMemory()
			inf, stop := runOwn(t, server, config)
			held := testkit.LiveMemory() - before
			s := inf.Status()
			stop()
			if s.Objects != pods {
				t.Fatalf("%d objects", s.Objects)
			}
			if ratio := float64(s.Memory) / float64(held); ratio < low || ratio > high {
				t.Errorf("the estimate is %d B an object, the heap has %d: %.2f times as much", s.Memory/int64(pods), held/int64(pods), ratio)
			} else {
				t.Logf("the estimate is %d B an object, the heap has %d: %.2f times as much", s.Memory/int64(pods), held/int64(pods), ratio)
			}
		})
	}
}
