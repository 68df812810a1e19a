// Command scale prints the tables of docs/scale.md, which follow from the figures below.
//
//	cd bench && go run ./scale                        # prints them
//	cd bench && go run ./scale -write ../docs/scale.md  # replaces those of the page
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
)

// The figures that BENCHMARKS.md has for pods in protobuf. Times are in seconds, on 2 cores of an AMD EPYC.
const (
	podBytes = 4300 // a pod in protobuf, in a list or an event: "Parts: how they are measured"

	relistCPU = 93.2e-3 / 30_000 // an object of a relist that has not changed: "protobuf"
	eventCPU  = 21.3e-6          // an event with Share: "protobuf"
	listTime  = 5.84 / 300_000   // an object of the first list with Share: "By number of pods"

	serveCPU    = 0.60e-6 // an event to a watcher, without a socket: "Serving"
	serveTCP    = 3.14e-6 // over TCP, with the clients: "Serving"
	serveMemory = 8.1e3   // an idle watch, without a socket: "Serving"
)

// modes are what an informer can hold. peak and sync are for one object of 300,000, and sync of Compact for one of
// 30,000: "By number of pods" and "Holding less".
var modes = []struct {
	name             string
	peak             float64 // bytes
	sync             float64 // seconds for an object of the first list
	events, eventCPU float64 // events/s, and seconds of processor time for one
}{
	{"default", 2.61e9 / 300_000, 10.8 / 300_000, 62_800, 18.0e-6},
	{"`Share`", 1.55e9 / 300_000, listTime, 52_500, eventCPU},
	{"`Compact`", 875e6 / 300_000, 1.25 / 30_000, 21_200, 64.3e-6},
}

// The figures of shard: TestBalance, TestSimulation and the constants of Config.
const (
	imbalance   = 1.2 // the largest shard, of the mean, by UID
	retryPeriod = 3   // seconds
	leaseBytes  = 390 // an event of a Lease: TestSimulation with 100 replicas, 1,270 kB/s for 3,305 events/s
)

// Figures of others: see the page.
const (
	etcdBytes  = 8 * 1 << 30
	etcdWrites = 30_000
)

const begin, end = "<!-- scale:begin -->", "<!-- scale:end -->"

func main() {
	write := flag.String("write", "", "the page")
	flag.Parse()
	if *write == "" {
		fmt.Print(tables())
		return
	}
	page, err := os.ReadFile(*write)
	if err == nil {
		var replaced string
		if replaced, err = replace(string(page)); err == nil {
			err = os.WriteFile(*write, []byte(replaced), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// replace returns the page with new tables.
func replace(page string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return "", fmt.Errorf("the page has no %s and %s", begin, end)
	}
	return before + begin + "\n" + tables() + end + after, nil
}

// tables returns all tables.
func tables() string {
	var b strings.Builder
	one(&b)
	shards(&b)
	leases(&b)
	fanOut(&b)
	first(&b)
	return b.String()
}

func one(b *strings.Builder) {
	b.WriteString("### One process\n\nobjects = memory / peak for an object; first list = objects x time for an object. Bytes are 4.3 kB for each object.\n\n")
	b.WriteString("| mode | peak for an object | objects in 4 GB | in 16 GB | in 64 GB | first list of 1,000,000 | its bytes | relist without changes, CPU | events/s on 2 cores | CPU for 1,000 events/s |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, m := range modes {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", m.name, bytes(m.peak), count(4e9/m.peak),
			count(16e9/m.peak), count(64e9/m.peak),
			seconds(1e6*m.sync), bytes(1e6*podBytes), seconds(1e6*relistCPU), count(m.events), cores(1000*m.eventCPU))
	}
	b.WriteString("\n")
}

func shards(b *strings.Builder) {
	b.WriteString("### n shards\n\nThe largest shard has s = 1.2 / n of N objects and of E events/s, with `Config.Share`. Its peak memory is N s x 5.2 kB.\n\n- If the server filters, it reads N s x 4.3 kB in N s x 19.5 us, and then E s x 4.3 kB/s, with E s x 21.3 us of CPU.\n- If not, it reads N x 4.3 kB in N s x 19.5 us + N (1 - s) x 3.1 us, and then E x 4.3 kB/s, with E s x 21.3 us + E (1 - s) x 3.1 us of\n  CPU. The server sends n times as much.\n\n")
	b.WriteString("| objects | events/s | replicas | memory, peak | filtered: first list | time | watch | CPU | unfiltered: first list | time | watch | CPU | watches of all replicas |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range []struct{ objects, events float64 }{{1e6, 10e3}, {10e6, 100e3}} {
		for _, n := range []float64{3, 10, 30, 100} {
			s := math.Min(1, imbalance/n)
			fmt.Fprintf(b, "| %s | %s | %.0f | %s | %s | %s | %s/s | %s | %s | %s | %s/s | %s | %s/s |\n", count(c.objects),
				count(c.events), n,
				bytes(c.objects*s*modes[1].peak),
				bytes(c.objects*s*podBytes), seconds(c.objects*s*listTime), bytes(c.events*s*podBytes), cores(c.events*s*eventCPU),
				bytes(c.objects*podBytes), seconds(c.objects*(s*listTime+(1-s)*relistCPU)), bytes(c.events*podBytes), cores(c.events*(s*eventCPU+(1-s)*relistCPU)),
				bytes(n*c.events*podBytes))
		}
	}
	b.WriteString("\n")
}

func leases(b *strings.Builder) {
	b.WriteString("### Leases\n\nWrites are n / RetryPeriod. Each goes to the watches of all n replicas, so events are n² / RetryPeriod, of 390 bytes. RetryPeriod\nis a fifth of LeaseDuration. Each replica has one watch of the Leases, and one for each informer.\n\n")
	b.WriteString("| replicas | watches of Leases | LeaseDuration | writes/s | events/s | bandwidth |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, n := range []float64{3, 10, 30, 100, 300} {
		for _, factor := range []float64{1, 4} {
			if factor > 1 && n < 100 {
				continue
			}
			period := retryPeriod * factor
			fmt.Fprintf(b, "| %.0f | %.0f | %.0f s | %.1f | %s | %s/s |\n", n, n, 5*period, n/period, count(n*n/period),
				bytes(n*n/period*leaseBytes))
		}
	}
	b.WriteString("\n")
}

func fanOut(b *strings.Builder) {
	b.WriteString("### Fan-out\n\nw clients of one process with [examples/fanout](../examples/fanout). Upstream, it is one list and one watch, whatever w is, and each\nevent is encoded once. Downstream, it is E w x 4.3 kB/s. The CPU is E w x 0.60 us without sockets, which is a lower bound, and\nE w x 3.14 us over loopback with the clients, which is an upper bound. Each client has one connection and one watch.\n\n")
	b.WriteString("| clients | events/s | upstream: watches | bandwidth | downstream: events/s | bandwidth | CPU, without sockets | CPU, over TCP with the clients | memory of the watches |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range []struct{ clients, events float64 }{{10, 1000}, {100, 100}, {100, 1000}, {1000, 100}, {1000, 1000}} {
		fmt.Fprintf(b, "| %s | %s | 1 | %s/s | %s | %s/s | %s | %s | %s |\n", count(c.clients), count(c.events),
			bytes(c.events*podBytes), count(c.events*c.clients),
			bytes(c.events*c.clients*podBytes), cores(c.events*c.clients*serveCPU), cores(c.events*c.clients*serveTCP), bytes(c.clients*serveMemory))
	}
	b.WriteString("\nA link of 10 Gbit/s carries 1.25 GB/s / 4.3 kB = " + count(1.25e9/podBytes) +
		" events/s downstream. Beyond that, a second level helps: one\nprocess with f clients, each of them a fan-out with f clients, serves f² with the same load on the API server. Each of these processes\nholds the collection. A fan-out also filters: clients that are shards receive only their objects, whatever the API server can do.\n\n")
}

func first(b *strings.Builder) {
	const objects, events = 10e6, 100e3
	b.WriteString("### 10 million objects and 100,000 events/s\n\n| part | needs | limit | needs / limit |\n| --- | ---: | ---: | ---: |\n")
	row := func(part string, needs, limit float64, unit func(float64) string) {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", part, unit(needs), unit(limit), significant(needs/limit))
	}
	row("etcd: size, objects of 4.3 kB", objects*podBytes, etcdBytes, bytes)
	row("etcd: size, objects of 1.5 kB", objects*1500, etcdBytes, bytes)
	row("etcd: writes/s", events, etcdWrites, count)
	rate := func(n float64) string { return bytes(n) + "/s" }
	row("one watch without filtering, 10 Gbit/s", events*podBytes, 1.25e9, rate)
	row("30 watches without filtering, 3 API servers with 10 Gbit/s each", 30*events*podBytes, 3*1.25e9, rate)
	row("30 watches with filtering, the same", events*podBytes, 3*1.25e9, rate)
	row("one informer with Share: CPU, 2 cores", events*eventCPU, 2, cores)
	row("one informer with Share: memory, 64 GB", objects*modes[1].peak, 64e9, bytes)
	row("one informer with Compact: memory, 64 GB", objects*modes[2].peak, 64e9, bytes)
	row("30 shards with Share: CPU, 2 cores each", events*imbalance/30*eventCPU, 2, cores)
	row("30 shards with Share: memory, 4 GB each", objects*imbalance/30*modes[1].peak, 4e9, bytes)
	b.WriteString("\n")
}

func bytes(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.size {
			return significant(n/unit.size) + " " + unit.name
		}
	}
	return significant(n) + " B"
}

func seconds(s float64) string {
	if s >= 120 {
		return significant(s/60) + " min"
	}
	return significant(s) + " s"
}

func cores(n float64) string { return significant(n) + " cores" }

// count returns a number with two digits, such as "1,200,000".
func count(n float64) string {
	if n >= 100 {
		unit := math.Pow(10, math.Floor(math.Log10(n))-1)
		n = math.Round(n/unit) * unit
	}
	digits := fmt.Sprintf("%.0f", n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// significant returns a number with two digits.
func significant(n float64) string {
	switch {
	case n >= 10:
		return fmt.Sprintf("%.0f", n)
	case n >= 1:
		return fmt.Sprintf("%.1f", n)
	}
	return fmt.Sprintf("%.2g", n)
}
