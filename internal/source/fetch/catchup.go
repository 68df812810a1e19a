package fetch

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/source/transport"
)

const (
	// firstCatchUp is the timeout of the watch after a warm start. Before the timeout, kube-apiserver sends a bookmark,
	// which shows that no change is missing. Each further watch has twice the timeout of the previous one, to leave time
	// for many changes.
	firstCatchUp = 3 * time.Second
	maxDoublings = 5
	// maxQuiet is the time without a later version after which the reflector lists. A server that sends no bookmark may
	// never confirm the version. The first three watches take about that long.
	maxQuiet = 20 * time.Second
	// maxMissed is the number of consecutive watches that fail without progress after which the reflector lists.
	maxMissed = 6
)

// CatchUp is the state of a warm start until the sink has every change up to the version that the server had then. In
// the zero value, the sink has caught up.
type CatchUp struct {
	until    string    // that version
	watches  int       // watches that ended before that
	missed   int       // consecutive watches that failed without progress
	progress time.Time // when the sink last came closer to that version
}

// Pending reports whether the sink lacks changes.
func (c CatchUp) Pending() bool { return c.until != "" }

// timeout returns the timeout of the next watch, or zero for the usual one.
func (c CatchUp) timeout() time.Duration {
	if !c.Pending() {
		return 0
	}
	return firstCatchUp << min(c.watches, maxDoublings)
}

// Reaches reports whether a change or bookmark with that resource version ends the catch-up.
func (c CatchUp) Reaches(version string) bool {
	if !c.Pending() {
		return false
	}
	n, err := resourceversion.CompareResourceVersion(version, c.until)
	return err == nil && n >= 0
}

// advanced returns the catch-up after a watch has sent a later version.
func (c CatchUp) advanced(now time.Time) CatchUp {
	if c.Pending() {
		c.progress, c.missed = now, 0
	}
	return c
}

// ended returns the catch-up after the server has ended a watch normally. It returns an error if the reflector has to
// list.
func (c CatchUp) ended(now time.Time) (CatchUp, error) {
	switch {
	case !c.Pending():
		return c, nil
	case now.Sub(c.progress) >= maxQuiet:
		return c, fmt.Errorf("watch: %w", ErrNoConfirmation)
	}
	c.watches++
	c.missed = 0
	return c, nil
}

// failed returns the catch-up after a watch has failed.
func (c CatchUp) failed(err error) CatchUp {
	if c.Pending() && !transport.IsUnreachable(err) {
		c.missed++
	}
	return c
}

// stuck reports whether the reflector should list instead of watching again after err. While no connection to the
// server is possible, a list would fail, too.
func (c CatchUp) stuck(err error, now time.Time) bool {
	switch {
	case !c.Pending():
		return false
	case errors.Is(err, ErrNoConfirmation), apierrors.IsForbidden(err):
		return true
	case errors.Is(err, transport.ErrNoProgress):
		return now.Sub(c.progress) >= maxQuiet
	}
	return !transport.IsUnreachable(err) && c.missed+1 >= maxMissed
}
