package crcache_test

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/typedinformer/informer/crcache"
)

// metricsOf returns the values of the metrics with a label that begins with name.
func metricsOf(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			for _, label := range m.Label {
				if strings.HasPrefix(label.GetValue(), name) {
					values[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return values
}

// Of several informers with the same labels, the counters have the sum, also of those that have ended, and the versions are those of the
// one that is furthest behind.
func TestMetricsOfSeveralCaches(t *testing.T) {
	const name = "typed/several"
	var caches []cache.Cache
	for _, pods := range []int{3, 1, 2} {
		w := newWorld(t, false)
		for i := range pods {
			w.pod("several", string(rune('a'+i)))
		}
		c := w.started(cache.Options{DefaultNamespaces: map[string]cache.Config{"several": {}}}, crcache.Options{})
		w.informerOf(c)
		caches = append(caches, c)
	}
	lists := float64(len(caches)) // each is a watch, too
	check := func(want map[string]float64) {
		t.Helper()
		if got := metricsOf(t, name); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	running := func(version float64) map[string]float64 {
		return map[string]float64{
			"reflector_lists_total": lists, "reflector_watches_total": lists,
			"reflector_last_resource_version": version, "informer_store_resource_version": version, "informer_queued_items": 0,
		}
	}
	remove := func(c cache.Cache) {
		t.Helper()
		i, err := c.GetInformer(t.Context(), &corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.RemoveInformer(t.Context(), &corev1.Pod{}); err != nil {
			t.Fatal(err)
		}
		<-crcache.Stopped(i)
	}
	check(running(2))
	remove(caches[1])
	check(running(3))
	remove(caches[2])
	check(running(4))
	remove(caches[0])
	check(map[string]float64{"reflector_lists_total": lists, "reflector_watches_total": lists})
}

// The metrics of versions have the last 15 digits, which a float64 holds exactly.
func TestLastDigits(t *testing.T) {
	for version, want := range map[string]float64{"": 0, "7": 7, "123456789012345": 123456789012345, "98123456789012345": 123456789012345} {
		if got := crcache.LastDigits(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}
