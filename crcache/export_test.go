package crcache

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/typedinformer/informer/status"
)

// Stopped returns a channel that is closed when an informer has stopped.
func Stopped(i cache.Informer) <-chan struct{} { return i.(*kind).done }

// Audits returns the status of the audits of each informer with one configuration.
func Audits(i cache.Informer) (audits []status.Audit) {
	for _, p := range i.(*kind).parts {
		audits = append(audits, p.informer.Status().Audit)
	}
	return audits
}

// SetLogger makes a cache that is not started log to l.
func SetLogger(c cache.Cache, l logr.Logger) { c.(*objectCache).log = l }

// LastDigits returns the value that the metrics show for a resource version.
func LastDigits(version string) int { return lastDigits(version) }

// Collectors returns new collectors of all metrics.
func Collectors() (all []prometheus.Collector) {
	for _, m := range metrics() {
		all = append(all, newCollector(m, &observed{}))
	}
	return all
}

// Observe registers the metrics at registry, and returns which ones it left out.
func Observe(registry prometheus.Registerer) (left error) {
	_, left = observe(registry)
	return left
}
