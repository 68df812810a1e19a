package informer

import "testing"

// A server that sends any number as its code makes few kinds.
func TestKindsOfAnyCode(t *testing.T) {
	var traffic traffic
	for code := -5000; code < 5000; code++ {
		traffic.answered(t.Context(), "GET", code, nil, 0)
	}
	s := traffic.status()
	if n := len(s.Requests); n > 80 || s.Requests[RequestKind{"GET", 0}] != 1 || s.Latencies["GET"].Count != 10_000 {
		t.Errorf("%d kinds, %d requests without a response", n, s.Requests[RequestKind{"GET", 0}])
	}
}
