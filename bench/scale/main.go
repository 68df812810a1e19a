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

// The figures that BENCHMARKS.md has for pods in protobuf. Times are in seconds, on 2 cores of an AMD EPYC that the
// server shares.
const (
	podBytes = 4300 // a pod in protobuf, in a list or an event: "Parts: how they are measured"

	relistCPU = 138e-3 / 30_000 // an object of a relist that has not changed, by default: "protobuf over plain HTTP/1.1"
	eventCPU  = 32.1e-6         // an event by default: the same
	listTime  = 7.91 / 300_000  // an object of the first list by default: "By number of pods"

	serveCPU    = 1.25e-6 // an event to a watcher, without a socket: "Serving"
	serveTCP    = 6.89e-6 // over TCP, with the clients: "Serving"
	serveMemory = 6.2e3   // an idle watch, without a socket: "Serving"
	// over TCP, with the client: "Serving"
	serveTCPMemory = 89e3

	fanOutBase   = 160e6 // of a process of examples/fanout, with its window of changes: "Fan-out: memory"
	fanOutObject = 11e3  // of a pod in it: "Fan-out: memory"
)

// modes are what an informer can hold. peak and sync are for one object of 300,000: "By number of pods", and for
// Compact "Holding less". sync of Compact, for one of 30,000, and events are from "protobuf over plain HTTP/1.1". What
// those tables call Share is the default now, and their default is LayoutSeparate.
var modes = []struct {
	name             string
	peak             float64 // bytes
	sync, relist     float64 // seconds for an object of the first list, and of processor time for one of a relist
	events, eventCPU float64 // events/s, and seconds of processor time for one
}{
	{"`LayoutSeparate`", 2.63e9 / 300_000, 10.8 / 300_000, 160e-3 / 30_000, 33_500, 31.7e-6},
	{"shared, the default", 1.57e9 / 300_000, listTime, relistCPU, 32_900, eventCPU},
	{"`LayoutCompact`", 863e6 / 300_000, 1.59 / 30_000, 129e-3 / 30_000, 15_400, 91.6e-6},
}

// The figures of shard: TestBalance and the constants of Config. leaseBytes is in groups.
const (
	imbalance   = 1.2 // the largest shard, of the mean, by UID
	retryPeriod = 3   // seconds
)

// Figures of others: see the page.
const (
	etcdBytes  = 8 * 1 << 30
	etcdWrites = 30_000
	link       = 10e9 / 8 // bytes/s of 10 Gbit/s
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
	apiServer(&b)
	leases(&b)
	fanOut(&b)
	first(&b)
	return b.String()
}

func one(b *strings.Builder) {
	fmt.Fprintf(b, "### One process\n\n"+
		"objects = memory / peak for an object; first list = objects x time for an object. Bytes are %s for each object.\n\n",
		bytes(podBytes))
	b.WriteString("| mode | peak for an object | objects in 4 GB | in 16 GB | in 64 GB | first list of 1,000,000 | " +
		"its bytes " +
		"| relist without changes, CPU | events/s on 2 cores | CPU for 1,000 events/s |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, m := range modes {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", m.name, bytes(m.peak), count(4e9/m.peak),
			count(16e9/m.peak), count(64e9/m.peak),
			seconds(1e6*m.sync), bytes(1e6*podBytes), seconds(1e6*m.relist), count(m.events), cores(1000*m.eventCPU))
	}
	b.WriteString("\n")
}

func shards(b *strings.Builder) {
	const list, event, other, pod = listTime * 1e6, eventCPU * 1e6, relistCPU * 1e6, podBytes / 1e3
	fmt.Fprintf(b, "### n shards\n\nThe largest shard has s = %.1f / n of N objects and of E events/s, with "+
		"`LayoutShared`. "+
		"Its peak memory is N s x %s.\n\n", imbalance, bytes(modes[1].peak))
	fmt.Fprintf(b, "- If the server filters, it reads N s x %.1f kB in N s x %.1f us, and then E s x %.1f kB/s, "+
		"with E s x %.1f us of CPU.\n",
		pod, list, pod, event)
	fmt.Fprintf(b, "- If not, it reads N x %.1f kB in N s x %.1f us + N (1 - s) x %.1f us, and then E x %.1f kB/s, "+
		"with E s x %.1f us +\n  E (1 - s) x %.1f us of CPU. The server sends n times as "+
		"much.\n\n", pod, list, other, pod, event, other)
	b.WriteString("| objects | events/s | replicas | memory, peak | filtered: first list | time | watch | CPU " +
		"| unfiltered: first list | time | watch | CPU |\n" +
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range []struct{ objects, events float64 }{{1e6, 10e3}, {10e6, 100e3}} {
		for _, n := range []float64{3, 10, 30, 100} {
			s := math.Min(1, imbalance/n)
			fmt.Fprintf(b, "| %s | %s | %.0f | %s | %s | %s | %s/s | %s | %s | %s | %s/s | %s |\n", count(c.objects),
				count(c.events), n, bytes(c.objects*s*modes[1].peak),
				bytes(c.objects*s*podBytes), seconds(c.objects*s*listTime), bytes(c.events*s*podBytes), cores(c.events*s*eventCPU),
				bytes(c.objects*podBytes), seconds(c.objects*(s*listTime+(1-s)*relistCPU)), bytes(c.events*podBytes),
				cores(c.events*(s*eventCPU+(1-s)*relistCPU)))
		}
	}
	b.WriteString("\n")
}

func leases(b *strings.Builder) {
	b.WriteString("### Leases\n\nWrites are n / RetryPeriod. Each goes to the watches of all n replicas, so events " +
		"are n² / RetryPeriod. " +
		"RetryPeriod\nis a fifth of LeaseDuration. An event has the Lease with its claims and its managedFields, in " +
		"protobuf. " +
		"`cd bench &&\ngo test ./scale -run TestLeaseBytes -v` prints the claims. Each replica has one watch of the Leases, " +
		"and one for each informer.\n\n")
	b.WriteString("| replicas | slots | bytes of an event | LeaseDuration | writes/s | events/s | bandwidth |\n| " +
		"---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, g := range groups {
		for _, factor := range []float64{1, 4} {
			if factor > 1 && g.replicas < 100 {
				continue
			}
			period := retryPeriod * factor
			fmt.Fprintf(b, "| %.0f | %s | %s | %.0f s | %.1f | %s | %s/s "+
				"|\n", g.replicas, whole(float64(g.slots)), whole(math.Round(g.leaseBytes/10)*10),
				5*period, g.replicas/period, count(g.replicas*g.replicas/period), bytes(g.replicas*g.replicas/period*g.leaseBytes))
		}
	}
	b.WriteString("\n")
}

func fanOut(b *strings.Builder) {
	fmt.Fprintf(b, "### Fan-out\n\nw clients of one process with [examples/fanout](../examples/fanout). Upstream, "+
		"it is one list and one watch, "+
		"whatever w is, and each\nevent is encoded once. Downstream, it is E w x %.1f kB/s. The CPU is E w x %.2f us "+
		"without sockets, "+
		"which is a lower bound, and\nE w x %.2f us over loopback with the clients, which is an upper bound. "+
		"Each client has one connection and one watch.\n\n", podBytes/1e3, serveCPU*1e6, serveTCP*1e6)
	b.WriteString("| clients | events/s | upstream: watches | bandwidth | downstream: events/s | bandwidth | CPU, " +
		"without sockets " +
		"| CPU, over TCP with the clients | memory of the watches, without sockets | over TCP with the clients |\n" +
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range []struct{ clients, events float64 }{{10, 1000}, {100, 100}, {100, 1000}, {1000, 100}, {1000, 1000}} {
		fmt.Fprintf(b, "| %s | %s | 1 | %s/s | %s | %s/s | %s | %s | %s | %s |\n", count(c.clients), count(c.events),
			bytes(c.events*podBytes), count(c.events*c.clients), bytes(c.events*c.clients*podBytes),
			cores(c.events*c.clients*serveCPU), cores(c.events*c.clients*serveTCP),
			bytes(c.clients*serveMemory), bytes(c.clients*serveTCPMemory))
	}
	b.WriteString("\nA link of 10 Gbit/s carries 1.25 GB/s / 4.3 kB = " + count(link/podBytes) +
		" events/s downstream. Beyond that, a second level helps: one\nprocess with f clients, each of them a fan-out " +
		"with f clients, " +
		"serves f² with the same load on the API server. Each of these processes\nholds the collection. " +
		"A fan-out also filters: clients that are shards receive only their objects, whatever the API server can do.\n\n")
	fmt.Fprintf(b, "It holds objects whole, with managedFields, and the last 8,192 changes. Its peak memory without "+
		"clients is %s + %s for\n"+
		"each pod, by `cd bench && go run ./fanout`:\n\n", bytes(fanOutBase), bytes(fanOutObject))
	b.WriteString("| pods | peak memory | with 1,000 clients over TCP |\n| ---: | ---: | ---: |\n")
	for _, pods := range []float64{10e3, 30e3, 100e3, 300e3, 1e6} {
		memory := fanOutBase + pods*fanOutObject
		fmt.Fprintf(b, "| %s | %s | %s |\n", count(pods), bytes(memory), bytes(memory+1000*serveTCPMemory))
	}
	b.WriteString("\n")
}

func first(b *strings.Builder) {
	const objects, events = 10e6, 100e3
	b.WriteString("### 10 million objects and 100,000 events/s\n\n| part | needs | limit | needs / limit |\n| --- | " +
		"---: | ---: | ---: |\n")
	row := func(part string, needs, limit float64, unit func(float64) string) {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", part, unit(needs), unit(limit), significant(needs/limit))
	}
	row("etcd: size, objects of 4.3 kB", objects*podBytes, etcdBytes, bytes)
	row("etcd: size, objects of 1.5 kB", objects*1500, etcdBytes, bytes)
	row("etcd: writes/s", events, etcdWrites, count)
	rate := func(n float64) string { return bytes(n) + "/s" }
	row("one watch without filtering, 10 Gbit/s", events*podBytes, link, rate)
	row("30 watches without filtering, 3 API servers with 10 Gbit/s each", 30*events*podBytes, 3*link, rate)
	row("30 watches with filtering, the same", events*podBytes, 3*link, rate)
	row("one informer: CPU, 2 cores", events*eventCPU, 2, cores)
	row("one informer: memory, 64 GB", objects*modes[1].peak, 64e9, bytes)
	row("one informer with LayoutCompact: memory, 64 GB", objects*modes[2].peak, 64e9, bytes)
	row("30 shards: CPU, 2 cores each", events*imbalance/30*eventCPU, 2, cores)
	row("30 shards: memory, 4 GB each", objects*imbalance/30*modes[1].peak, 4e9, bytes)
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
	return whole(n)
}

// whole returns a number without rounding it to two digits.
func whole(n float64) string {
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
