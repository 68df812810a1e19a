package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

func (u usage) String() string {
	return fmt.Sprintf(
		"synced in %.1f s with %.1f s of processor time, then %.1f s; resident %.0f MiB, peak %.0f MiB, heap %.0f MiB",
		u.synced.Seconds(), u.processor.Seconds(), u.later.Seconds(), mib(u.resident), mib(u.peak), mib(u.heap))
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// goals are the parts of client-go's memory for caches that our informers should need.
var goals = map[string]string{"shared": "0.50", "Compact": "0.20"}

// measured returns a table of results. The caches are what a program needs more with objects than with an empty
// cluster. The ratios are those to the first kind of each program, if that is client-go's.
func measured(all []result) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder returns no error.
	_, _ = fmt.Fprintln(columns, "program\tinformers\tsynced (s)\tprocessor (s)\tidle processor (s)\tempty (MiB)\t"+
		"resident (MiB)\tpeak (MiB)\tcaches (MiB)\tratio\theap of caches (MiB)\tratio\tgoal")
	theirs := map[string]result{}
	for _, r := range all {
		if r.kind == kinds[0].name {
			theirs[r.program] = r
		}
		t := theirs[r.program]
		goal := goals[r.kind]
		if goal == "" {
			goal = "-"
		}
		_, _ = fmt.Fprintf(columns, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%.1f\t%s\t%s\n", r.program, r.kind,
			r.full.synced.Seconds(), r.full.processor.Seconds(), r.full.later.Seconds(), mib(r.empty.resident),
			mib(r.full.resident), mib(r.full.peak), mib(r.caches()), ratio(r.caches(), t.caches()), mib(r.cacheHeap()),
			ratio(r.cacheHeap(), t.cacheHeap()), goal)
	}
	_ = columns.Flush()
	return text.String()
}

// caches returns the resident memory that objects take.
func (r result) caches() int64 { return r.full.resident - r.empty.resident }

// cacheHeap returns the live heap that objects take.
func (r result) cacheHeap() int64 { return r.full.heap - r.empty.heap }

func ratio(a, b int64) string {
	if b <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}

// outcome is that of a step of the script with one kind of informers.
type outcome struct {
	step string
	took time.Duration
	err  error
}

// scripted returns a table of outcomes with a column of seconds for each kind, and the failures below it.
func scripted(with []kind, outcomes [][]outcome) string {
	var text, failures strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	line := func(first string, cell func(all []outcome) string) {
		_, _ = fmt.Fprint(columns, first) // a strings.Builder returns no error
		for _, all := range outcomes {
			_, _ = fmt.Fprint(columns, "\t", cell(all))
		}
		_, _ = fmt.Fprintln(columns)
	}
	_, _ = fmt.Fprint(columns, "step")
	for _, k := range with {
		_, _ = fmt.Fprint(columns, "\t", k.name)
	}
	_, _ = fmt.Fprintln(columns)
	for i, o := range outcomes[0] {
		line(o.step, func(all []outcome) string {
			if all[i].err != nil {
				return "failed"
			}
			return fmt.Sprintf("%.1f", all[i].took.Seconds())
		})
	}
	line("passed", func(all []outcome) string { return fmt.Sprint(len(all) - failed(all)) })
	line("failed", func(all []outcome) string { return fmt.Sprint(failed(all)) })
	line("seconds", func(all []outcome) string {
		var sum time.Duration
		for _, o := range all {
			sum += o.took
		}
		return fmt.Sprintf("%.1f", sum.Seconds())
	})
	for i, all := range outcomes {
		for _, o := range all {
			if o.err != nil {
				fmt.Fprintf(&failures, "\n%s fails with %s: %v\n", o.step, with[i], o.err)
			}
		}
	}
	_ = columns.Flush()
	return text.String() + failures.String()
}

func failed(all []outcome) (n int) {
	for _, o := range all {
		if o.err != nil {
			n++
		}
	}
	return n
}
