package health

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// check is the result of one check.
type check struct {
	name    string
	failure string // empty if the check has passed
}

// ready returns the checks of readiness.
func (c *Config) ready(r *http.Request) (checks []check) {
	for _, s := range c.informers() {
		checks = append(checks,
			check{"informer/" + s.Resource.String() + "/synced", synced(s)},
			check{"informer/" + s.Resource.String() + "/watch", watching(s, limit(c.MaxNoWatch), optional(c.MaxVersionAge))})
	}
	return append(checks, own(c.ReadyChecks, r)...)
}

// live returns the checks of liveness.
func (c *Config) live(r *http.Request) (checks []check) {
	for _, s := range c.informers() {
		checks = append(checks, check{"informer/" + s.Resource.String() + "/handlers", handling(s, limit(c.MaxHandlerCall))})
	}
	for _, status := range c.Controllers {
		s := status()
		failure := progressing(s.Queue, limit(c.MaxWork))
		if failure == "" && s.Running {
			failure = taken(s.Queue, optional(c.MaxReady))
		}
		checks = append(checks, check{"controller/" + s.Name + "/queue", failure})
	}
	for _, status := range c.Queues {
		s := status()
		checks = append(checks, check{"queue/" + s.Name, cmp.Or(progressing(s, limit(c.MaxWork)),
			taken(s, optional(c.MaxReady)))})
	}
	return append(checks, own(c.LiveChecks, r)...)
}

// own returns the results of the program's own checks.
func own(checks []Check, r *http.Request) (results []check) {
	for _, c := range checks {
		result := check{name: c.Name}
		if err := c.Func(r); err != nil {
			result.failure = cmp.Or(err.Error(), "failed")
		}
		results = append(results, result)
	}
	return results
}

// informers returns the status of each informer, also of those in groups.
func (c *Config) informers() (all []informer.InformerStatus) {
	for _, status := range c.Informers {
		all = append(all, status())
	}
	for _, statuses := range c.Groups {
		all = append(all, statuses()...)
	}
	return all
}

// synced describes the reflectors of an informer that has not synced. It returns "" if the informer has synced.
func synced(s informer.InformerStatus) string {
	if s.Synced {
		return ""
	}
	failures := []string{"not synced"}
	for _, r := range s.Reflectors {
		failures = append(failures, describe(r))
	}
	return strings.Join(failures, "; ")
}

// watching describes the watches that have been down for longer than limit, or for a while because the server refuses
// them, or have received no resource version for longer than age. It skips a resource that the server does not serve,
// and an optional selection that it refuses.
func watching(s informer.InformerStatus, limit, age time.Duration) string {
	var failures []string
	for i, r := range s.Reflectors {
		fresh := r.ResourceVersionTime
		if fresh.Before(r.Since) { // the watch was down before
			fresh = r.Since
		}
		if old := time.Since(fresh); r.WatchOpen && !r.ResourceVersionTime.IsZero() && old > age {
			failures = append(failures, fmt.Sprintf("no resource version for %v, %s", round(old), describe(r)))
		}
		optional := i < len(s.Resource.Selections) && s.Resource.Selections[i].Optional && apierrors.IsForbidden(r.LastError)
		if r.NoWatchSince.IsZero() || r.State == status.ReflectorAbsent ||
			r.State == status.ReflectorPolled || optional {
			continue
		}
		down := time.Since(r.NoWatchSince)
		if down > limit || limit < math.MaxInt64 && down > maxRefused && refused(r) {
			failures = append(failures, fmt.Sprintf("no watch for %v, %s", round(down), describe(r)))
		}
	}
	return strings.Join(failures, "; ")
}

// maxRefused is how long the server may reject the credentials of a watch, or their rights. Unlike an outage, that does
// not pass by itself, and a probe should show it within a minute.
const maxRefused = 30 * time.Second

// refused reports whether the last answer since the watch ended was 401 or 403.
func refused(r status.Reflector) bool {
	return (apierrors.IsUnauthorized(r.LastError) || apierrors.IsForbidden(r.LastError)) &&
		!r.LastErrorTime.Before(r.NoWatchSince)
}

// handling names the handlers that have been in one call for longer than limit.
func handling(s informer.InformerStatus, limit time.Duration) string {
	var failures []string
	for _, h := range s.Handlers {
		if h.Busy > limit {
			failures = append(failures, fmt.Sprintf("handler %q in one call for %v, backlog %d", h.Name, round(h.Busy),
				h.Backlog))
		}
	}
	return strings.Join(failures, "; ")
}

// progressing returns a failure if a key has been in work for longer than limit.
func progressing(s status.Queue, limit time.Duration) string {
	if s.LongestRunning <= limit {
		return ""
	}
	return fmt.Sprintf("a key in work for %v, %d in work, %d ready", round(s.LongestRunning), s.InWork, s.Depth.Sum())
}

// taken returns a failure if a key has been ready for longer than limit while no key is in work. It passes a queue that
// has done no key: its controller may wait until its sources have synced.
func taken(s status.Queue, limit time.Duration) string {
	if s.LongestReady <= limit || s.InWork > 0 || s.Works.Count == 0 {
		return ""
	}
	return fmt.Sprintf("a key ready for %v, none in work, %d ready", round(s.LongestReady), s.Depth.Sum())
}

// describe describes the state of a reflector without the text of its error.
func describe(r status.Reflector) string {
	text := fmt.Sprintf("state %v for %v", r.State, round(time.Since(r.Since)))
	if r.Namespace != "" {
		text = "namespace " + r.Namespace + ": " + text
	}
	if r.LastError != nil {
		text += fmt.Sprintf(", last error %v ago: %s", round(time.Since(r.LastErrorTime)), class(r.LastError))
	}
	return text
}

// class classifies an error without its text, which may come from the server, a proxy or a login plugin.
func class(err error) string {
	var answer apierrors.APIStatus
	var decoding *informer.DecodeError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &decoding):
		return "an object cannot be decoded"
	case errors.As(err, &answer):
		return strings.TrimSpace(fmt.Sprintf("%d %s", answer.Status().Code, http.StatusText(int(answer.Status().Code))))
	case errors.Is(err, informer.ErrNoProgress), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, informer.ErrTooLarge):
		return "response too large"
	}
	return "see the log"
}

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
