package transport

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/status"
)

// A server that sends any number as its code makes few kinds.
func TestKindsOfAnyCode(t *testing.T) {
	var traffic traffic
	for code := -5000; code < 5000; code++ {
		traffic.answered(t.Context(), "GET", code, nil, 0)
	}
	s := traffic.status()
	if n := len(s.Requests); n > 80 || s.Requests[status.RequestKind{Method: "GET"}] != 1 || s.Latencies["GET"].Count != 10_000 {
		t.Errorf("%d kinds, %d requests without a response", n, s.Requests[status.RequestKind{Method: "GET"}])
	}
}

// A client says how many of the requests of the last five minutes failed, what the last failure was, and when a request last succeeded.
// Guarantees: O5
func TestRecentFailuresOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var traffic traffic
		refused, cancelled := errors.New("refused"), errors.New("cancelled")
		want := func(requests, failures uint64) {
			t.Helper()
			if s := traffic.status(); s.RecentRequests != requests || s.RecentFailures != failures {
				t.Errorf("%d of %d requests failed, want %d of %d", s.RecentFailures, s.RecentRequests, failures, requests)
			}
		}
		want(0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		<-late.Done()
		for _, r := range []struct {
			ctx    context.Context
			code   int
			err    error
			failed bool
		}{
			{ctx, 200, nil, false}, {ctx, 201, nil, false}, {ctx, 404, refused, false}, {ctx, 409, refused, false}, {ctx, 422, refused, false},
			{ctx, 0, refused, true}, {ctx, 200, refused, true}, {ctx, 401, refused, true}, {ctx, 403, refused, true}, {ctx, 429, refused, true},
			{ctx, 500, refused, true}, {ctx, 503, refused, true}, {late, 0, refused, true},
		} {
			before := traffic.status()
			traffic.answered(r.ctx, "GET", r.code, r.err, 0)
			after := traffic.status()
			if failed := after.RecentFailures > before.RecentFailures; failed != r.failed || after.RecentRequests != before.RecentRequests+1 {
				t.Errorf("%d, %v: failed %t", r.code, r.err, failed)
			}
		}
		succeeded := time.Now()
		traffic.answered(ctx, "GET", 200, nil, 0)
		<-time.After(time.Minute)
		traffic.answered(ctx, "GET", 503, refused, 0)
		failed := time.Now()
		<-time.After(time.Second)
		cancel()
		traffic.answered(ctx, "GET", 0, cancelled, 0) // by its caller
		traffic.answered(ctx, "GET", 0, fmt.Errorf("list: %w", ErrNoProgress), 0)
		if s := traffic.status(); s.LastSuccess != succeeded || !errors.Is(s.LastError, ErrNoProgress) || s.LastErrorTime != failed.Add(time.Second) {
			t.Errorf("last success %v, last error %v at %v", s.LastSuccess, s.LastError, s.LastErrorTime)
		}
		want(16, 10)
		<-time.After(4*time.Minute - time.Second)
		want(2, 2) // those of the first minute are forgotten
		<-time.After(time.Minute)
		want(0, 0)
		traffic.answered(t.Context(), "GET", 200, nil, 0)
		want(1, 0)
		<-time.After(24 * time.Hour)
		want(0, 0)
		if s := traffic.status(); s.LastError == nil {
			t.Error("the last error is forgotten")
		}
	})
}
