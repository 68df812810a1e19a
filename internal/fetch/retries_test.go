package fetch

import (
	"errors"
	"testing"
	"time"
)

// A backoff is never shorter than a tenth of a second, nor longer than its limit, which doubles with each failure.
// Guarantees: R12
func TestBackoffHasLimits(t *testing.T) {
	now, failed := time.Now(), errors.New("failed")
	for range 1000 {
		var r Retries
		for limit := minBackoff; limit < 4*maxBackoff; limit *= 2 {
			if delay := r.Failed(now, failed); delay < leastBackoff || delay >= min(limit, maxBackoff) {
				t.Fatalf("backoff %v, want %v to %v", delay, leastBackoff, min(limit, maxBackoff))
			}
		}
	}
}
