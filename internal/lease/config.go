package lease

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// Margin is how long before the end of the lease all work must have returned. It covers clocks of different speeds, and
// the end of the process.
const Margin = time.Second

// WatchPeriod is the longest time between two looks at the clocks. One timer for a deadline is not enough: it may fire
// late after the system was suspended.
const WatchPeriod = Margin / 4

// Timing has the durations of a lease.
type Timing struct {
	// LeaseDuration is how long other processes wait after the last renewal that they saw, in whole seconds.
	LeaseDuration time.Duration
	// RenewDeadline is the age of the lease at which it is lost.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals.
	RetryPeriod time.Duration
}

// Validate returns an error that names the field of a Config that is wrong.
func (t Timing) Validate() error {
	switch {
	case t.LeaseDuration < 0 || t.LeaseDuration%time.Second != 0 || t.LeaseDuration > 24*time.Hour:
		return fmt.Errorf("Config.LeaseDuration is %v: it must be in whole seconds, and at most a day", t.LeaseDuration)
	case t.RetryPeriod < 0:
		return fmt.Errorf("Config.RetryPeriod is %v: it must not be negative", t.RetryPeriod)
	case t.RenewDeadline < 2*t.RetryPeriod:
		return fmt.Errorf("Config.RenewDeadline is %v: it must be at least twice RetryPeriod, %v", t.RenewDeadline,
			t.RetryPeriod)
	case t.Grace() <= 0:
		return fmt.Errorf("Config.RenewDeadline is %v: it must end more than %v before LeaseDuration, %v", t.RenewDeadline,
			Margin, t.LeaseDuration)
	}
	return nil
}

// Expiry is the age of the lease at which all work must have returned.
func (t Timing) Expiry() time.Duration { return t.LeaseDuration - Margin }

// Grace is how long work may take to return after RenewDeadline.
func (t Timing) Grace() time.Duration { return t.Expiry() - t.RenewDeadline }

// NewIdentity returns a name for this process in its Lease: the host name, "_" and a random UUID.
func NewIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("Config.Identity is empty, and the host has no name: %w", err)
	}
	return host + "_" + string(uuid.NewUUID()), nil
}
