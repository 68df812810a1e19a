package health

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// Config says what to check. The handlers call its functions at each request, concurrently. Do not change it after
// [Ready] or [Live].
type Config struct {
	// Informers are the Status methods of informers outside of groups.
	Informers []func() informer.InformerStatus
	// Groups are the Status methods of groups. Informers that join later are checked, too.
	Groups []func() []informer.InformerStatus
	// Controllers are the Status methods of controllers.
	Controllers []func() status.Controller
	// Queues are the Status methods of queues that no controller uses.
	Queues []func() status.Queue
	// MaxNoWatch is how long an informer may be without an open watch. Zero means 5 minutes. Negative means no limit.
	// If the server answers 401 or 403, half a minute is enough: credentials that have ended do not come back by
	// themselves.
	MaxNoWatch time.Duration
	// MaxVersionAge is how long an open watch may be without a new resource version. kube-apiserver sends one at least
	// every ten minutes. Zero or negative means no limit: the API server of an extension may send none while nothing
	// changes.
	MaxVersionAge time.Duration
	// MaxHandlerCall is how long a call of a handler, or an iteration of Informer.Changes, may take. Zero means 5 minutes.
	// Negative means no limit.
	MaxHandlerCall time.Duration
	// MaxReady is how long a key may be ready while no key of its queue is in work. It applies to a queue that has done
	// a key. The queue of a controller passes while Run is not under way. Zero or negative means no limit: a queue
	// without a Controller may belong to a replica that is not the leader any more.
	MaxReady time.Duration
	// MaxWork is how long a key may be in work. It should exceed Controller.Timeout. Zero means 5 minutes. Negative means
	// no limit.
	MaxWork time.Duration
	// ReadyChecks and LiveChecks are checks of your own, of readiness and of liveness.
	ReadyChecks, LiveChecks []Check
	// Authorize reports whether the sender of a request may see the single checks. Nil means that nobody may.
	Authorize func(*http.Request) bool
}

// Check is a check of your own. Checks of controller-runtime fit, such as StartedChecker of its webhook server.
type Check struct {
	// Name names the check, such as "webhook".
	Name string
	// Func returns nil if the check has passed. Only callers that Config.Authorize admits see the text of its error. It is
	// called at each probe, so it must return soon. It may be called concurrently.
	Func func(*http.Request) error
}

// limit returns the duration of a limit in Config.
func limit(configured time.Duration) time.Duration {
	switch {
	case configured == 0:
		return 5 * time.Minute
	case configured < 0:
		return math.MaxInt64
	}
	return configured
}

// optional returns the duration of a limit in Config that has no default.
func optional(configured time.Duration) time.Duration {
	return limit(cmp.Or(configured, -1))
}

// Ready returns the handler for /readyz. It reports whether every informer has synced, and has a watch. Without
// informers, it passes.
func Ready(config Config) http.Handler { return &handler{config, "readyz", (*Config).ready} }

// Live returns the handler for /livez. It reports whether the handlers and queues make progress.
func Live(config Config) http.Handler { return &handler{config, "livez", (*Config).live} }

// handler answers a probe.
type handler struct {
	config Config
	name   string
	checks func(*Config, *http.Request) []check
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var lines bytes.Buffer
	passed := true
	for _, c := range h.checks(&h.config, r) {
		if c.failure == "" {
			fmt.Fprintf(&lines, "[+]%s ok\n", c.name)
			continue
		}
		passed = false
		fmt.Fprintf(&lines, "[-]%s failed: %s\n", c.name, c.failure)
	}
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	result := "passed"
	if !passed {
		result = "failed"
		w.WriteHeader(http.StatusInternalServerError)
	}
	authorized := h.config.Authorize != nil && h.config.Authorize(r)
	switch {
	case authorized && (!passed || r.URL.Query().Has("verbose")):
		_, _ = lines.WriteTo(w)
		fmt.Fprintf(w, "%s check %s\n", h.name, result)
	case passed:
		fmt.Fprint(w, "ok")
	default:
		fmt.Fprintf(w, "%s check failed\n", h.name)
	}
}
