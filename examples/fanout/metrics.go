package main

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerprom"
	"github.com/typedinformer/informer/review"
	"github.com/typedinformer/informer/status"
)

// metrics are those of fanout, and those of its reflectors (package informerprom).
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	refused  *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanout_requests_total", Help: "Requests of clients that have ended, by code of the response.",
		}, []string{"resource", "verb", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanout_response_bytes_total", Help: "Bytes of responses.",
		}, []string{"resource", "verb"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanout_refused_total", Help: "Connections and requests that were refused, by reason: connections, rate, user, invalid, unauthenticated, forbidden, unavailable.",
		}, []string{"reason"}),
	}
	m.registry.MustRegister(m.requests, m.bytes, m.refused)
	return m
}

func (m *metrics) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	return mux
}

// add adds the metrics that are computed at a scrape. reviewer and listener may be nil.
func (m *metrics) add(p *proxy, reviewer *review.Reviewer, listener *limitedListener) {
	var config informerprom.Config
	for _, c := range p.collections {
		config.Informers = append(config.Informers, func() informer.InformerStatus { return c.informerStatus() })
	}
	config.Clients = []func() status.Client{p.client.Status}
	m.registry.MustRegister(informerprom.New(config))
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			value))
	}
	counter := func(name, help string, labels prometheus.Labels, value func() float64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			value))
	}
	if listener != nil {
		gauge("fanout_connections", "Open connections of clients.", nil, func() float64 { return float64(listener.open()) })
	}
	for _, c := range p.collections {
		labels := prometheus.Labels{"resource": c.GroupResource().String()}
		gauge("fanout_watchers", "Open watches of clients.", labels, func() float64 { return float64(c.stats().Watchers) })
		counter("fanout_events_sent_total", "Events sent to watches of clients, without bookmarks.", labels,
			func() float64 { return float64(c.stats().EventsSent) })
		counter("fanout_watchers_ended_total", "Watches ended because the client did not read fast enough.", labels,
			func() float64 { return float64(c.stats().SlowWatchers) })
		gauge("fanout_cache_age_seconds",
			"Time since the API server last sent a resource version. It sends one at least every ten minutes.", labels, func() float64 {
				if seen := c.status().ResourceVersionTime; !seen.IsZero() {
					return time.Since(seen).Seconds()
				}
				return 0
			})
	}
	if reviewer != nil {
		for kind, counts := range map[string]func() review.Counts{
			"token":  func() review.Counts { return reviewer.Status().Tokens },
			"access": func() review.Counts { return reviewer.Status().Accesses },
		} {
			counter("fanout_reviews_total", "Questions who a client is, or what it may read.",
				prometheus.Labels{"kind": kind, "from": "cache"},
				func() float64 { return float64(counts().Remembered) })
			counter("fanout_reviews_total", "Questions who a client is, or what it may read.",
				prometheus.Labels{"kind": kind, "from": "apiserver"},
				func() float64 { return float64(counts().Requested) })
		}
	}
}

// writer counts a response. If timeout is set, a client must read each part of the response within that time.
type writer struct {
	http.ResponseWriter
	timeout time.Duration
	code    int
	bytes   int
}

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *writer) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	defer w.limit()()
	n, err := w.ResponseWriter.Write(b)
	w.bytes += n
	return n, err
}

func (w *writer) FlushError() error {
	defer w.limit()()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// limit sets the deadline of a write, and returns the function that removes it: an idle watch has none.
func (w *writer) limit() func() {
	if w.timeout == 0 {
		return func() {}
	}
	control := http.NewResponseController(w.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(w.timeout))
	return func() { _ = control.SetWriteDeadline(time.Time{}) }
}

func (w *writer) observe(m *metrics, to route) {
	resource, verb := "", "other"
	if to.collection != nil {
		resource, verb = to.GroupResource().String(), to.verb
	}
	m.requests.WithLabelValues(resource, verb, strconv.Itoa(w.code)).Inc()
	m.bytes.WithLabelValues(resource, verb).Add(float64(w.bytes))
}
