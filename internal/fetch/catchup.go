package fetch

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/transport"
)

const (
	// firstCatchUp is the timeout of the watch after a warm start. Before the timeout, kube-apiserver sends a bookmark,
	// which shows that no change is missing. Each further watch has twice the timeout of the one before, so that many
	// changes come through.
	firstCatchUp = 3 * time.Second
	maxDoublings = 5
	// maxQuiet is the time without a later version after which the reflector lists. A server that sends no bookmark may
	// never confirm the version. The first three watches take about that long.
	maxQuiet = 20 * time.Second
	// maxMissed is the number of watches after which the reflector lists, if each fails before it has sent a later
	// version.
	maxMissed = 6
)

// CatchUp is what is left of a warm start: the sink does not have every change yet up to the version that the server
// had then. The zero value is a sink that has.
type CatchUp struct {
	until    string    // that version
	watches  int       // those that ended before
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

// Reaches reports whether the sink lacks changes until it has a change or bookmark with that resource version.
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

// stuck reports whether to list instead of another watch, because of err. While no connection to the server is
// possible, a list would fail, too.
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
