package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// row is a row of the table.
type row struct {
	title  string
	figure string
	text   func(float64) string
	// against is the figure of controller-runtime to compare with. Empty means the same.
	against string
	// times says how many times better ours is. Otherwise, the row says which share of theirs ours needs.
	times bool
	goals map[string]float64 // by peer: at least so many times, at most that share
}

func nano(ns float64) string { return measure.Seconds(ns / 1e9) }

// all is a goal for each cache of crcache.
func all(goal float64) map[string]float64 {
	return map[string]float64{own: goal, dropped: goal, separate: goal, compact: goal}
}

// rows are the rows of the table of a format.
func rows(format string) []row {
	sync := 8.0
	if format == canned.Protobuf {
		sync = 2.5
	}
	return []row{
		{title: "start to synced", figure: syncTime, text: measure.Seconds, times: true, goals: all(sync)},
		{title: "its processor time", figure: syncCPU, text: measure.Seconds, times: true},
		{title: "start until each pod is reconciled", figure: startTime, text: measure.Seconds, times: true},
		{title: "peak memory of the start", figure: peakMemory, text: measure.Bytes, goals: map[string]float64{compact: 0.2}},
		{title: "live memory a pod", figure: liveHeap, text: measure.Bytes,
			goals: map[string]float64{dropped: 0.35, compact: 0.12}},
		{title: "`Get`", figure: getTime, text: nano, times: true, goals: all(1)},
		{title: "`Get` with `UnsafeDisableDeepCopy`", figure: getShared, text: nano, times: true},
		{title: "`crcache.Get[T]` against `Get`", figure: getTyped, against: getTime, text: nano, times: true,
			goals: all(100)},
		{title: "`List` by index: a node", figure: nodeTime, text: nano, times: true},
		{title: "the same with `UnsafeDisableDeepCopy`", figure: nodeShared, text: nano, times: true},
		{title: "`crcache.Index` against a `List` with copies", figure: nodeTyped, against: nodeTime, text: nano,
			times: true},
		{title: "`List` by label in a namespace", figure: appTime, text: nano, times: true, goals: all(5)},
		{title: "the same with `UnsafeDisableDeepCopy`", figure: appShared, text: nano, times: true},
		{title: "`crcache.List[T]` against a `List` with copies", figure: appTyped, against: appTime, text: nano,
			times: true},
		{title: "`List` by label in all namespaces", figure: appEverywhere, text: nano, times: true},
		{title: "changes/s until reconciled", figure: changeRate, text: measure.Number, times: true},
		{title: "processor time of a change", figure: changeCPU, text: measure.Seconds, times: true},
		{title: "processor time of a relist", figure: relistCPU, text: measure.Seconds, goals: all(0.1)},
		{title: "events of a relist", figure: relistEvents, text: measure.Number, goals: all(0)},
	}
}

// median returns the median of a figure, and whether there is one.
func (r results) median(peer, format, figure string) (float64, bool) {
	var values []float64
	for _, run := range r {
		if value, ok := run.Figures[figure]; ok && run.Peer == peer && run.Format == format {
			values = append(values, value)
		}
	}
	return measure.Median(values), len(values) > 0
}

// markdown returns a table for each format.
func (r results) markdown(o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s pods, %s changes, medians of %d runs.\n\n", measure.Number(float64(o.pods)),
		measure.Number(float64(o.changes)), o.runs)
	for _, p := range peers {
		fmt.Fprintf(&b, "- **%s**: %s.\n", p.name, p.what)
	}
	for _, format := range o.formats {
		count := func(figure string) string {
			n, _ := r.median(r[0].Peer, format, figure)
			return measure.Number(n)
		}
		fmt.Fprintf(&b, "\n%s; a node has %s pods, the namespace %s, an app in it %s:\n\n", canned.Name(format),
			count(nodePods), count(inNamespace), count(appPods))
		head, line := "| what |", "| --- |"
		for _, p := range peers {
			head, line = head+" "+p.name+" |", line+" ---: |"
		}
		fmt.Fprintf(&b, "%s goal |\n%s --- |\n", head, line)
		for _, row := range rows(format) {
			fmt.Fprintf(&b, "| %s |", row.title)
			for _, p := range peers {
				fmt.Fprintf(&b, "%s |", strings.TrimRight(" "+r.cell(row, p, format), " "))
			}
			fmt.Fprintf(&b, "%s |\n", strings.TrimRight(" "+row.goal(), " "))
		}
	}
	return b.String()
}

// cell returns a median. For ours, it compares with theirs; a missed goal is bold.
func (r results) cell(row row, p peer, format string) string {
	value, ok := r.median(p.name, format, row.figure)
	if !ok {
		return ""
	}
	text := row.text(value)
	against := row.against
	if against == "" {
		against = row.figure
	}
	base, ok := r.median(theirs, format, against)
	if !p.own || !ok {
		return text
	}
	goal, wanted := row.goals[p.name]
	missed := false
	switch {
	case row.figure == relistEvents:
		missed = wanted && value > goal
	case row.times:
		times := base / value
		if row.figure == changeRate {
			times = 1 / times
		}
		missed = wanted && times < goal
		text += ", " + measure.Number(times) + "x"
	default:
		missed = wanted && value/base > goal
		text += ", " + measure.Number(value/base)
	}
	if missed {
		return "**" + text + "**"
	}
	return text
}

// goal describes the goals of a row.
func (row row) goal() string {
	var goals []string
	for _, p := range peers {
		goal, ok := row.goals[p.name]
		if !ok {
			continue
		}
		text := fmt.Sprint(goal)
		if row.times {
			text += "x"
		}
		if len(row.goals) < len(all(0)) {
			text += map[string]string{dropped: " if stripped", compact: " with Compact"}[p.name]
		}
		if !slices.Contains(goals, text) {
			goals = append(goals, text)
		}
	}
	return strings.Join(goals, ", ")
}
