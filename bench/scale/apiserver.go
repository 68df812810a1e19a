package main

import (
	"fmt"
	"math"
	"strings"
)

// The defaults of kube-apiserver 1.36, from the sources of k8s.io/apiserver that each comment names.
const (
	serverSeats    = 600        // --max-requests-inflight and --max-mutating-requests-inflight: pkg/server/config.go
	levelShares    = 245        // of all priority levels: pkg/apis/flowcontrol/bootstrap/default.go
	lowShares      = 100        // of workload-low
	queueWait      = 15         // seconds: a quarter of RequestTimeout, pkg/server/config.go
	bytesPerSeat   = 100_000    // pkg/util/flowcontrol/request/list_work_estimator.go
	cacheBytes     = 1_000_000  // the most that is counted for a list from the watch cache: the same file
	watchesPerSeat = 10         // pkg/util/flowcontrol/request/config.go
	eventSeconds   = 5e-3       // of each of these seats, for a write: the same file
	cacheEvents    = 100 * 1024 // of a resource in the watch cache: pkg/storage/cacher/watch_cache.go
)

// levelSeats returns the seats of a priority level with some of the shares.
func levelSeats(shares float64) float64 { return math.Ceil(serverSeats * shares / levelShares) }

// listSeats returns the seats of a list from the watch cache, streaming or not, which is not narrowed by the limit of
// the priority level.
func listSeats(bytes float64) float64 {
	return max(1, math.Ceil(math.Min(bytes, cacheBytes)/bytesPerSeat))
}

// writeSeats returns the seats that writes of a resource occupy on average after their responses, because of its watches.
func writeSeats(writes, watches float64) float64 {
	if watches < watchesPerSeat {
		return 0
	}
	return writes * math.Ceil(watches/watchesPerSeat) * eventSeconds
}

func apiServer(b *strings.Builder) {
	fmt.Fprintf(b, "### The API server\n\nOne API server with the defaults of Kubernetes 1.36, one informer in each "+
		"of n replicas, "+
		"and E events/s of N objects. The watches send\nE n x %[1]s without a filter, and E x %[1]s with one. "+
		"For both, the server looks at each event n times, and encodes it once for each\nformat. If all replicas restart, "+
		"their lists are N n x %[1]s without a filter, and N x %[1]s with one; each list encodes its\nobjects anew. "+
		"Seats are those of [API priority and fairness](#api-priority-and-fairness).\n\n", bytes(podBytes))
	b.WriteString("| objects | events/s | replicas | watches, unfiltered | filtered | seats that the writes hold, " +
		"at least " +
		"| lists of a restart, unfiltered | filtered | on 10 Gbit/s, unfiltered | filtered | seats that they ask for | " +
		"lists at once |\n" +
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range []struct{ objects, events float64 }{{300e3, 3e3}, {1e6, 10e3}, {10e6, 100e3}} {
		for _, n := range []float64{3, 10, 30, 100} {
			seats := listSeats(c.objects * podBytes)
			fmt.Fprintf(b, "| %s | %s | %.0f | %s/s | %s/s | %s | %s | %s | %s | %s | %s | %.0f |\n", count(c.objects),
				count(c.events), n,
				bytes(n*c.events*podBytes), bytes(c.events*podBytes), count(writeSeats(c.events, n)),
				bytes(n*c.objects*podBytes), bytes(c.objects*podBytes), seconds(n*c.objects*podBytes/link), seconds(c.objects*podBytes/link),
				whole(n*seats), math.Min(n, math.Floor(levelSeats(lowShares)/seats)))
		}
	}
	fmt.Fprintf(b, "\nThe watch cache keeps at most the last %s events of a resource: %s at 1,000 events/s, %s at "+
		"10,000, and %s at\n"+
		"100,000. If a watch is broken for longer, its informer lists again. Several API servers divide the watches, "+
		"and with them the bytes,\nthe lists and the seats.\n\n",
		whole(cacheEvents), seconds(cacheEvents/1e3), seconds(cacheEvents/10e3), seconds(cacheEvents/100e3))
}
