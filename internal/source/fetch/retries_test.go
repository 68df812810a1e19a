package fetch

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// A Retry-After above ten minutes counts as ten minutes. Up to a tenth more spreads the clients.
// Guarantees: R11
func TestRetryAfterHasALimit(t *testing.T) {
	for seconds, want := range map[int]time.Duration{1: time.Second, 600: maxRetryAfter, 601: maxRetryAfter, 86400: maxRetryAfter} {
		for range 100 {
			var r Retries
			err := fmt.Errorf("asked: %w", apierrors.NewTooManyRequests("later", seconds))
			if delay := r.Failed(time.Now(), err); delay < want || delay > want*11/10 {
				t.Fatalf("a wait of %v after a Retry-After of %d s, want %v", delay, seconds, want)
			}
		}
	}
}

// The failure after a watch that worked counts as the first.
// Guarantees: R12
func TestResetForgetsFailures(t *testing.T) {
	now, failed := time.Now(), errors.New("failed")
	var r Retries
	for range 10 {
		r.Failed(now, failed)
	}
	r.Reset()
	if n, _ := r.Failures(now); n != 0 {
		t.Errorf("%d failures after a reset", n)
	}
	if delay := r.Failed(now, failed); delay >= minBackoff {
		t.Errorf("backoff %v", delay)
	}
	if n, _ := r.Failures(now); n != 1 {
		t.Errorf("%d failures after the first", n)
	}
}
