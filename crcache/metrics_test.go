package crcache_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/typedinformer/informer/crcache"
)

// metricsOf returns the values of the metrics with a label that begins with name.
func metricsOf(t *testing.T, registry prometheus.Gatherer, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
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

// registeredByImport is the error of registering the metrics before any cache exists.
var registeredByImport = func() error {
	for _, c := range crcache.Collectors() {
		if err := metrics.Registry.Register(c); err != nil {
			return err
		}
		metrics.Registry.Unregister(c)
	}
	return nil
}()

// Importing the package registers nothing.
func TestImportRegistersNothing(t *testing.T) {
	if registeredByImport != nil {
		t.Error(registeredByImport)
	}
}

// If the program has registered a metric of the same name, equal or not, the cache leaves that metric out and says so.
// If the cache is first, registering fails in the program.
func TestMetricsOfTheSameName(t *testing.T) {
	const name = "informer_queued_items"
	labels := []string{"name", "group", "version", "resource"}
	for _, test := range []struct {
		name   string
		help   string
		labels []string
	}{
		{"equal", "Number of items currently queued in the FIFO.", labels},
		{"other help", "Other.", labels},
		{"other labels", "Other.", []string{"name"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.pod("a", "x")
			theirs := func() prometheus.Collector {
				g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: test.help}, test.labels)
				values := make([]string, len(test.labels))
				values[0] = "theirs"
				g.WithLabelValues(values...).Set(7)
				return g
			}
			ours := map[string]float64{
				"reflector_lists_total": 1, "reflector_watches_total": 1, "reflector_last_resource_version": 2,
				"informer_store_resource_version": 2, name: 0,
			}
			check := func(registry *prometheus.Registry, want map[string]float64) {
				t.Helper()
				c := w.started(cache.Options{}, crcache.Options{MetricsRegistry: registry})
				w.informerOf(c)
				if got := metricsOf(t, registry, "typed"); !maps.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}

			oursFirst := prometheus.NewRegistry()
			check(oursFirst, ours)
			if err := oursFirst.Register(theirs()); err == nil {
				t.Error("two metrics of one name")
			}

			theirsFirst := prometheus.NewRegistry()
			theirsFirst.MustRegister(theirs())
			delete(ours, name)
			check(theirsFirst, ours)
			if got := metricsOf(t, theirsFirst, "theirs")[name]; got != 7 {
				t.Errorf("the metric of the program is %v", got)
			}
			if left := crcache.Observe(theirsFirst); left == nil || !strings.Contains(left.Error(), "metric "+name) || strings.Contains(left.Error(), "reflector") {
				t.Errorf("left out: %v", left)
			}
		})
	}
}

// Caches with the same registry share its metrics. A cache without metrics has none.
func TestRegistryOfMetrics(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	registry := prometheus.NewRegistry()
	for i, options := range []crcache.Options{{MetricsRegistry: registry}, {MetricsRegistry: registry}, {MetricsRegistry: registry, NoMetrics: true}} {
		w.informerOf(w.started(cache.Options{}, options))
		if got, want := metricsOf(t, registry, "typed")["reflector_lists_total"], float64(min(i+1, 2)); got != want {
			t.Errorf("%v lists after %d caches, want %v", got, i+1, want)
		}
	}
	if left := crcache.Observe(registry); left != nil {
		t.Error(left)
	}
}

// If several informers have the same labels, the counters have their sum, including those that have ended. The versions
// are those of the informer that is furthest behind.
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
		if got := metricsOf(t, metrics.Registry, name); !maps.Equal(got, want) {
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
	for version, want := range map[string]int{"": 0, "7": 7, "123456789012345": 123456789012345, "98123456789012345": 123456789012345} {
		if got := crcache.LastDigits(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}
