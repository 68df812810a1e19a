package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

func testFrame() frame {
	now := time.Date(2026, 1, 15, 9, 0, 12, 0, time.UTC)
	return frame{
		time: now, up: 12 * time.Second, source: "v1 pods at http://127.0.0.1:8001", loaded: 20_000, total: 20_000,
		synced: 495_230 * time.Microsecond,
		status: informer.InformerStatus{Reflectors: []status.Reflector{{State: status.ReflectorWatching, Since: now.Add(-10 * time.Second), WatchOpen: true}}},
		pods:   20_013, rv: "25013",
		phases: []group{{"Running", 19_700}, {"Pending", 313}},
		nodes:  []group{{"ip-172-18-3-4.eu-west-1.compute.internal", 48}, {"ip-172-18-3-5.eu-west-1.compute.internal", 24}},
		counts: counts{500, 4000, 487}, rates: counts{50, 400, 48},
		lag:  lag{known: true, p50: 212_345 * time.Nanosecond, p99: 3_456 * time.Microsecond, max: 42 * time.Millisecond},
		heap: 412 << 20, resident: 1_201 << 20,
	}
}

func TestRender(t *testing.T) {
	for _, test := range []struct {
		name          string
		width, height int
		change        func(*frame)
		want          string
	}{
		{"live", 100, 30, func(f *frame) { f.log = "level=WARN\nmsg=x" }, `
informer     of v1 pods at http://127.0.0.1:8001, for 12s
pods         20,013 at resourceVersion 25013
sync         took 495ms
state        Watching for 10s
events       498 (+50 ~400 -48) per second, 4,987 so far
lag          p50 210µs, p99 3.46ms, max 42ms
memory       heap 412 MiB, resident 1,201 MiB, with the server's
log          level=WARN msg=x
phases       Running                                       19,700 ██████████████████████████████
             Pending                                          313 
2 nodes      ip-172-18-3-4.eu-west-1.compute.internal          48 ██████████████████████████████
             ip-172-18-3-5.eu-west-1.compute.internal          24 ███████████████`},
		{"small terminal", 40, 10, func(*frame) {}, `
informer     of v1 pods at http://127.0…
pods         20,013 at resourceVersion …
sync         took 495ms
state        Watching for 10s
events       498 (+50 ~400 -48) per sec…
lag          p50 210µs, p99 3.46ms, max…
memory       heap 412 MiB, resident 1,2…
phases       Running             19,700 
             Pending                313 
2 nodes      ip-172-18-3-4.eu-…      48 `},
		{"initial sync after a failure", 80, 30, func(f *frame) {
			*f = frame{time: f.time, up: f.up, source: f.source, loaded: f.loaded, total: f.total, heap: f.heap,
				status: informer.InformerStatus{Reflectors: []status.Reflector{{
					State: status.ReflectorBackoff, Since: f.time, LastError: fmt.Errorf("watch: %w", &url.Error{Op: "Get", URL: "http://127.0.0.1:8001/api/v1/pods", Err: errors.New("refused")}), LastErrorTime: f.time.Add(-2 * time.Second),
					List: status.List{Objects: 1_000, Total: 20_000, Bytes: 12e6, Left: 3 * time.Second},
				}}}}
		}, `
informer     of v1 pods at http://127.0.0.1:8001, for 12s
state        Backoff for 0s; 2s ago: refused
list         1,000 of 20,000 objects, about 3s left, 12 MB received
memory       heap 412 MiB, with the server's`},
		{"real cluster", 80, 8, func(f *frame) {
			f.loaded, f.total, f.lag = 0, 0, lag{}
			f.status.Reflectors[0].Namespace = "shop"
			f.status.Reflectors[0].WatchOpen = false
		}, `
informer     of v1 pods at http://127.0.0.1:8001, for 12s
pods         20,013 at resourceVersion 25013
sync         took 495ms
state        shop Watching for 10s, connecting
events       498 (+50 ~400 -48) per second, 4,987 so far
lag          n/a
memory       heap 412 MiB, resident 1,201 MiB
phases       Running                                       19,700 ██████████████`},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := testFrame()
			test.change(&f)
			got := f.render(test.width, test.height, false)
			if diff := cmp.Diff(strings.Split(test.want, "\n")[1:], got); diff != "" {
				t.Errorf("lines differ (-want +got):\n%s\n%s", diff, strings.Join(got, "\n"))
			}
		})
	}
}

func TestRenderFitsEveryTerminal(t *testing.T) {
	f := testFrame()
	for width := range 120 {
		for height := range 20 {
			lines := f.render(width, height, false)
			if len(lines) > height {
				t.Fatalf("%d lines for a terminal of %dx%d", len(lines), width, height)
			}
			for _, line := range lines {
				if n := len([]rune(line)); n > width {
					t.Fatalf("a line of %d characters for a terminal of %dx%d: %s", n, width, height, line)
				}
			}
		}
	}
}

func TestRenderColorsWithoutMovingAnything(t *testing.T) {
	f := testFrame()
	colored := strings.Join(f.render(80, 24, true), "\n")
	plain := strings.NewReplacer("\x1b[1m", "", "\x1b[36m", "", "\x1b[0m", "").Replace(colored)
	if colored == plain {
		t.Error("no color")
	}
	if diff := cmp.Diff(strings.Join(f.render(80, 24, false), "\n"), plain); diff != "" {
		t.Errorf("color changes the text (-without +with):\n%s", diff)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, test := range []struct {
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{nil, 0.5, 0},
		{[]time.Duration{7}, 0.99, 7},
		{[]time.Duration{1, 2}, 0.5, 1},
		{[]time.Duration{1, 2, 3}, 0.5, 2},
		{hundred, 0, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
	} {
		if got := quantile(test.sorted, test.q); got != test.want {
			t.Errorf("quantile of %d at %v is %d, want %d", len(test.sorted), test.q, got, test.want)
		}
	}
}
