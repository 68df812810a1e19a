// Package testkit has what tests of many packages need, and imports none of them: a handler that records its calls, a
// log, bubbles with a time limit, and a measure of memory.
package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble is synctest.Test with a time limit. A failing wait would otherwise never end: an informer's retries and
// watches prevent the deadlock that a bubble detects.
func Bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(30*24*time.Hour, func() { panic("a month has passed in the bubble: some wait never ends") }).Stop()
		test(t)
	})
}

// Limit ends the test binary with all stacks if a test takes longer than d before it calls stop. It is for code whose
// failure would block a bubble without an end: a bubble does not see that goroutines wait for a mutex.
func Limit(d time.Duration) (stop func()) {
	timer := time.AfterFunc(d, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("the test has not ended within %v", d))
	})
	return func() { timer.Stop() }
}

// After is time.After, without a timer if d is not above zero. Such a timer is due when it is made, and if two
// goroutines of a bubble receive from timers that are due, the race detector may crash: see golang.org/issue/78156.
func After(d time.Duration) <-chan time.Time {
	if d > 0 {
		return time.After(d)
	}
	due := make(chan time.Time, 1)
	due <- time.Now()
	return due
}

// FreePort returns a port of 127.0.0.1 on which no process listens. It is below those that systems use for outgoing
// connections, so that none of these takes it before the test listens there.
func FreePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port after 1000 tries")
	return 0
}

// Whole reports whether tests run whole, with all rounds of the random ones: if INFORMER_TESTS is "whole" in the
// environment, as in .ci/full. Otherwise go test ./... would take a user half an hour.
func Whole() bool { return os.Getenv("INFORMER_TESTS") == "whole" }

// Rounds returns many if tests run whole, and otherwise few.
func Rounds(few, many int) int {
	if Whole() {
		return many
	}
	return few
}

// LiveMemory returns the bytes of stacks, and of heap after garbage collection.
func LiveMemory() int64 {
	runtime.GC() // a sync.Pool is empty only after the second collection
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// SteadyMemory is LiveMemory, once two more answers differ from one by at most one part in 200, or after 100
// answers. It waits for goroutines that still work: an informer with LayoutCompact packs its first list again.
func SteadyMemory() int64 {
	now := LiveMemory()
	for base, same, tries := now, 0, 1; same < 2 && tries < 100; tries++ {
		now = LiveMemory()
		if same++; max(now-base, base-now)*200 > now {
			base, same = now, 0
		}
	}
	return now
}

// Counted runs body for as long as the benchmark wants. Each run counts as n units. It returns the number of units, the
// time, and the bytes allocated.
func Counted(b *testing.B, n int, body func()) (units, seconds, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runs := 0
	for b.Loop() {
		body()
		runs++
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(0, "ns/op") // has no meaning here
	return float64(runs * n), b.Elapsed().Seconds(), float64(after.TotalAlloc - before.TotalAlloc)
}
