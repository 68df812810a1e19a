package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// goal is one goal with its results.
type goal struct {
	what, want string
	// reached has the results in the order of goalColumns.
	reached [columns]verdict
}

const columns = 4

var goalColumns = [columns]string{"managedFields kept in both", "dropped in both", "each by default",
	"dropped in both, each by LIST"}

// byDefault is the column of goals that compare no peers, or compare ours with another one of ours.
const byDefault = 2

// verdict is a result, and whether it misses the goal.
type verdict struct {
	text   string
	failed bool
}

func (v verdict) String() string {
	if v.failed && v.text != "" {
		return "**" + v.text + "**"
	}
	return v.text
}

// pairs are the compared peers, ours and client-go's, in goalColumns.
var pairs = [columns][2]string{{ownKept, clientGo}, {own, clientGoDropped}, {own, clientGo},
	{ownLIST, clientGoLISTDropped}}

// faster judges the ratio a/b, which should be at least limit.
func faster(a, b, limit float64) verdict {
	ratio := a / b
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio == 0 {
		return verdict{}
	}
	return verdict{measure.Number(ratio) + "x", ratio < limit}
}

// share judges a as a share of b, which should be at most limit; 0 means no limit.
func share(a, b, limit float64) verdict {
	ratio := a / b
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio == 0 {
		return verdict{}
	}
	return verdict{measure.Number(ratio), limit > 0 && ratio > limit}
}

// median returns the median of a figure in the tables, or NaN if there is none.
func (r *results) median(peer, format, figure string) float64 {
	values := r.values(tables, peer, format, figure)
	if len(values) == 0 {
		return math.NaN()
	}
	return measure.Median(values)
}

// rates compares a figure in each pair. More is better, or less if inverse is set.
func (r *results) rates(what, want, format, figure string, inverse bool, limit float64) goal {
	g := goal{what: what, want: want}
	for i, pair := range pairs {
		a, b := r.median(pair[0], format, figure), r.median(pair[1], format, figure)
		if inverse {
			a, b = b, a
		}
		g.reached[i] = faster(a, b, limit)
	}
	return g
}

// shares compares a figure in each pair. Less is better. A limit of 0 means none.
func (r *results) shares(what, want, format, figure string, limits [columns]float64) goal {
	g := goal{what: what, want: want}
	for i, pair := range pairs {
		g.reached[i] = share(r.median(pair[0], format, figure), r.median(pair[1], format, figure), limits[i])
	}
	return g
}

func all(limit float64) [columns]float64 { return [columns]float64{limit, limit, limit, limit} }

// dropped are the limits of a figure of memory, which managedFields are a large part of.
func dropped(limit float64) [columns]float64 { return [columns]float64{0, limit, limit, limit} }

// micro returns the result of a benchmark in the root package, or NaN if it was not run.
func (r *results) micro(name, impl, unit string) float64 {
	if value, ok := r.Micro[name+"/impl="+impl][unit]; ok {
		return value
	}
	return math.NaN()
}

// microRate compares a benchmark with client-go's.
func (r *results) microRate(what, want, name, unit string, inverse bool, limit float64) goal {
	a, b := r.micro(name, own, unit), r.micro(name, clientGo, unit)
	if inverse {
		a, b = b, a
	}
	return goal{what: what, want: want, reached: [columns]verdict{byDefault: faster(a, b, limit)}}
}

// atMost judges a value without a peer.
func atMost(what, want string, value, limit float64, text func(float64) string) goal {
	g := goal{what: what, want: want}
	if !math.IsNaN(value) {
		g.reached[byDefault] = verdict{text(value), value > limit}
	}
	return g
}

// goals prints the goals of the project and their results.
func (r *results) goals(say func(string, ...any)) {
	var goals []goal
	add := func(g ...goal) { goals = append(goals, g...) }
	for _, f := range []struct {
		format                            string
		sync, syncCPU, watching, watchCPU float64
		latency                           float64
	}{
		{canned.JSON, 7, 0.25, 20, 0.045, 0.33},
		{canned.Protobuf, 2.5, 0.4, 4, 0.22, 0.7},
	} {
		name := canned.Name(f.format)
		add(r.rates("initial sync, "+name, fmt.Sprintf("%gx", f.sync), f.format, syncTime, true, f.sync),
			r.shares("initial sync, "+name+": CPU", fmt.Sprint(f.syncCPU), f.format, syncCPU, all(f.syncCPU)),
			r.rates("watch events to a handler, "+name, fmt.Sprintf("%gx", f.watching), f.format, eventRate, false, f.watching),
			r.shares("watch events to a handler, "+name+": CPU of each", fmt.Sprint(f.watchCPU), f.format, eventCPU,
				all(f.watchCPU)),
			atMost("watch events to a handler, "+name+": allocated for each", "2 kB", r.median(own, f.format, eventBytes), 2000,
				measure.Bytes),
			goal{what: "watch events to a handler, " + name + ": default against separate", want: "1x",
				reached: [columns]verdict{
					byDefault: faster(r.median(own, f.format, eventRate), r.median(ownSeparate, f.format, eventRate), 1)}},
			goal{what: "watch events to a handler, " + name + ": Compact against default", want: "0.65x",
				reached: [columns]verdict{
					byDefault: faster(r.median(ownCompact, f.format, eventRate), r.median(own, f.format, eventRate), 0.65)}},
			r.shares("live heap a pod, "+name, "0.4", f.format, liveHeap, dropped(0.4)),
			r.shares("peak memory of the initial sync, "+name, "0.23", f.format, peakMemory, dropped(0.23)),
			r.shares("time from write to handler, "+name+": p50", fmt.Sprint(f.latency), f.format, latency50, all(f.latency)),
			r.shares("time from write to handler, "+name+": p99", fmt.Sprint(f.latency), f.format, latency99, all(f.latency)),
			r.shares("unchanged relist, "+name+": CPU", "a tenth", f.format, relistCPU, all(0.1)))
		events, live := goal{what: "unchanged relist, " + name + ": events",
			want: "none"}, goal{what: "unchanged relist, " + name + ": retained, a pod", want: "none: less than 1% of the heap"}
		for i, pair := range pairs {
			if n := r.median(pair[0], f.format, relistEvents); !math.IsNaN(n) {
				events.reached[i] = verdict{measure.Number(n), n > 0}
				// The heap varies a little, and includes the client's buffers. Only growth with the number of pods counts.
				retained := max(r.median(pair[0], f.format, relistRetained)/float64(r.Options.Pods), 0)
				live.reached[i] = verdict{measure.Bytes(retained), retained > r.median(pair[0], f.format, liveHeap)/100}
			}
		}
		add(events, live)
	}
	slim := func(figure string) (a, b float64) {
		return r.median(ownSlim, canned.JSON, figure), r.median(clientGo, canned.JSON, figure)
	}
	heap, peerHeap := slim(liveHeap)
	time, peerTime := slim(syncTime)
	add(goal{what: "initial sync, JSON: Compact against default", want: "1.2", reached: [columns]verdict{
		byDefault: share(r.median(ownCompact, canned.JSON, syncTime), r.median(own, canned.JSON, syncTime), 1.2)}},
		goal{what: "slim struct as T: live heap a pod", want: "0.06",
			reached: [columns]verdict{byDefault: share(heap, peerHeap, 0.06)}},
		goal{what: "slim struct as T: initial sync, JSON", want: "10x",
			reached: [columns]verdict{byDefault: faster(peerTime, time, 10)}},
		r.microRate("store writes/s with 40 readers listing 80,000 pods", "500x", "StoreWritesWithReaders/readers=40",
			"writes/s", false, 500),
		r.microRate("Get", "no slower", "Get", "ns/op", true, 1),
		r.microRate("update of one", "0.8x", "Apply/mix=updates/index=none/batch=1", "ns/event", true, 0.8),
		r.microRate("update of one, with an index", "0.8x", "Apply/mix=updates/index=node/batch=1", "ns/event", true, 0.8),
		r.microRate("List of 100,000 into a slice", "5x", "List/form=slice", "ns/op", true, 5),
		r.microRate("List of 100,000, one after the other", "5x", "List/form=each", "ns/op", true, 5),
		r.microRate("index lookup of 2,000 into a slice", "5x", "IndexLookup/by=node/form=slice", "ns/op", true, 5),
		r.microRate("index lookup of 2,000, one after the other", "6x", "IndexLookup/by=node/form=each", "ns/op", true, 6),
		atMost("store overhead an object with a unique-valued index", "150 B",
			r.micro("StoreOverhead/state=changed/index=unique", own, "heap-B/object"), 150, measure.Bytes),
		atMost("one notification to one handler", "300 ns", r.micro("Notify/burst=1", own, "ns/notification"), 300,
			func(ns float64) string { return measure.Seconds(ns / 1e9) }),
		atMost("one notification to one handler: allocations", "1", r.micro("Notify/burst=1", own, "allocs/notification"), 1,
			measure.Number),
		atMost("an idle handler", "1.5 kB", r.micro("IdleHandler", own, "B/handler"), 1500, measure.Bytes),
		atMost("an idle handler: goroutines", "1", r.micro("IdleHandler", own, "goroutines/handler"), 1, measure.Number),
	)
	binary := math.NaN()
	if size, ok := r.Binaries[own]; ok {
		binary = float64(size)
	}
	add(atMost("binary of a minimal pod controller, stripped", "14 MB", binary, 14e6, measure.Bytes))

	say("### Goals\n")
	say("Compared with client-go: with managedFields kept in both, dropped in both, both with default settings, and dropped in both with LIST in place of a streaming list. Missed goals are bold;" +
		" empty cells do not apply or were not measured. Times (x) say how many times faster we are, shares how much of client-go's we need.\n")
	say("| what | goal | %s |", strings.Join(goalColumns[:], " | "))
	say("| --- | --- |%s", strings.Repeat(" ---: |", len(goalColumns)))
	for _, g := range goals {
		row := fmt.Sprintf("| %s | %s |", g.what, g.want)
		for _, v := range g.reached {
			row += fmt.Sprintf(" %v |", v)
		}
		say("%s", row)
	}
}
