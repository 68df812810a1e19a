package main

import (
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// events is an informer.Handler that counts events, and measures their delay.
type events struct {
	// writtenAt returns the time at which the server wrote a version. Nil means unknown, as for a real server.
	writtenAt func(resourceVersion string) (time.Time, bool)

	mu     sync.Mutex // protects the fields below
	counts counts
	lags   [lagSamples]time.Duration // a ring buffer of the latest events
	noted  int                       // number of lags ever recorded
	max    time.Duration             // of all events
}

// lagSamples is the number of latest events for the quantiles: at 500 events/s, those of four seconds.
const lagSamples = 2048

// counts are numbers of events after the initial sync.
type counts struct{ added, updated, deleted int }

func (c counts) total() int { return c.added + c.updated + c.deleted }

// perSecond returns the rates since a time ago at which the counts were old.
func (c counts) perSecond(old counts, ago time.Duration) counts {
	rate := func(n int) int { return int(math.Round(float64(n) / max(ago, time.Millisecond).Seconds())) }
	return counts{rate(c.added - old.added), rate(c.updated - old.updated), rate(c.deleted - old.deleted)}
}

// OnAdd also gets each pod of the initial sync, with initial set.
func (e *events) OnAdd(pod *corev1.Pod, initial bool) {
	if !initial {
		e.note(pod, &e.counts.added)
	}
}

func (e *events) OnUpdate(_, pod *corev1.Pod) { e.note(pod, &e.counts.updated) }

// OnDelete gets the pod with the resourceVersion of the deletion, if the informer saw the deletion.
func (e *events) OnDelete(pod *corev1.Pod, _ bool) { e.note(pod, &e.counts.deleted) }

func (e *events) note(pod *corev1.Pod, count *int) {
	now := time.Now()
	var written time.Time
	known := false
	if e.writtenAt != nil {
		written, known = e.writtenAt(pod.ResourceVersion)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	*count++
	if known {
		lag := now.Sub(written)
		e.max = max(e.max, lag)
		e.lags[e.noted%lagSamples] = lag
		e.noted++
	}
}

// lag is the delay from the server's write to the handler's call.
type lag struct {
	known         bool
	p50, p99, max time.Duration // p50 and p99 are of the latest events only
}

func (e *events) totals() (counts, lag) {
	e.mu.Lock()
	c, l := e.counts, lag{known: e.noted > 0, max: e.max}
	sorted := slices.Clone(e.lags[:min(e.noted, lagSamples)])
	e.mu.Unlock()
	slices.Sort(sorted)
	l.p50, l.p99 = quantile(sorted, 0.50), quantile(sorted, 0.99)
	return c, l
}

// quantile returns the smallest value that at least a share q of the values does not exceed, or zero if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted)))), 1)-1]
}
