package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// The text between these lines of the file of results is replaced.
const (
	beginMark = "<!-- processes:begin -->"
	endMark   = "<!-- processes:end -->"
)

// write writes the charts into chartDir, and the report into its part of the file, or at the end if it has none.
func (r *results) write(file, chartDir string) error {
	charts := r.over(r.Options.Wires[0]).charts()
	if err := os.MkdirAll(chartDir, 0o755); err != nil {
		return err
	}
	for _, c := range charts {
		svg, err := c.svg()
		if err != nil {
			return fmt.Errorf("chart %s: %w", c.name, err)
		}
		if err := os.WriteFile(filepath.Join(chartDir, c.name+".svg"), svg, 0o644); err != nil {
			return err
		}
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// The report is a section of a page; there it is the page itself.
	page := strings.NewReplacer("\n##", "\n#", "bench/charts/", "../charts/").Replace("\n" + r.markdown(charts))
	return os.WriteFile(file, replacePart(old, page[1:]), 0o644)
}

// replacePart returns text with the part between the marks replaced.
func replacePart(text []byte, part string) []byte {
	part = beginMark + "\n" + part + endMark
	from, to := bytes.Index(text, []byte(beginMark)), bytes.Index(text, []byte(endMark))
	if from < 0 || to < from {
		return fmt.Appendf(text, "\n%s\n", part)
	}
	return slices.Concat(text[:from], []byte(part), text[to+len(endMark):])
}

// column is a figure in a table.
type column struct {
	title  string
	figure string
	text   func(float64) string
}

// markdown returns the report, with links to the charts.
func (r *results) markdown(charts []chart) string {
	var b strings.Builder
	say := func(format string, args ...any) { b.WriteString(wrap(fmt.Sprintf(format+"\n", args...))) }
	show := func(series string) {
		for _, c := range charts {
			if c.series == series {
				say("![%s](bench/charts/%s.svg)", c.title, c.name)
			}
		}
	}
	o, m := r.Options, r.Machine
	var wires []string
	for _, wire := range o.Wires {
		wires = append(wires, string(wire))
	}
	say("## Whole processes over %s\n", strings.Join(wires, " and over "))
	say("    cd bench && go run ./processes%s\n", strings.TrimRight(" "+o.Command, " "))
	say("Each client is a process of its own. It follows %s pods of `internal/test/fleet` over loopback, with %s. The server is"+
		" another process, and has all its answers encoded before ([bench/processes](bench/processes)); both share the processors."+
		" %s; each process"+
		" checks the number of pods, events and versions that its handlers received. Medians of %d alternating runs; ± is half of"+
		" the distance between the best and the worst.\n", measure.Number(float64(o.Pods)), o.Wires[0], o.load(), o.Runs)
	say("- **Machine.** Linux %s, %d cores of %s, %s of memory; load at the beginning: %s. %s.", m.Kernel, m.Cores, m.CPU,
		measure.Bytes(float64(m.Memory)), m.Load, m.Date)
	say("- **Versions.** Go %s, client-go %s, controller-runtime %s.", m.Go, m.Peers["k8s.io/client-go"],
		m.Peers["sigs.k8s.io/controller-runtime"])
	say("- **sync** is the time from before the client is made until the handler has received each pod, **peak** the peak resident" +
		" memory of the process until then, **heap** the live heap afterwards, per pod.")
	say("- **events/s** is for %s changes that come as fast as they are read; **p50, p99** are the times from the server's write to the"+
		" handler, for %s changes at %s a second; the last column is the rate at which these arrived. Each change updates a random pod:"+
		" 70%% of them change the status, 20%% the metadata and 10%% the spec, and all of them resourceVersion and managedFields.", measure.Number(float64(o.Changes)), measure.Number(float64(o.Paced)), measure.Number(float64(o.Rate)))
	say("- **relist** follows 410 Expired on the watch, without changes: processor time, allocated memory, retained memory, and" +
		" events to the handler.")
	for _, p := range peers {
		if slices.ContainsFunc(r.Runs, func(run processRun) bool { return run.Peer == p.name }) {
			say("- **%s**: %s.", p.name, p.what)
		}
	}
	say("")
	for i, wire := range o.Wires {
		over := r.over(wire)
		if i == 0 {
			over.goals(say)
		}
		for _, format := range o.Formats {
			over.tables(say, format, wire)
		}
	}
	r = r.over(o.Wires[0])
	r.reads(say, o.Formats[len(o.Formats)-1])
	if len(r.Binaries) > 0 {
		say("\n### Binaries\n")
		say("The smallest possible pod controllers, and programs that follow twenty kinds ([bench/minimal](bench/minimal))," +
			" built with `CGO_ENABLED=0 go build -trimpath -ldflags '-s -w'`.\n")
		say("| | controller-runtime | client-go | informer |")
		say("| --- | ---: | ---: | ---: |")
		size := func(name string) string { return measure.Bytes(float64(r.Binaries[name])) }
		say("| pods | %s | %s | %s |", size("controller-runtime"), size(clientGo), size(own))
		say("| 20 kinds | | %s | %s |", size(clientGo+", 20 kinds"), size(own+", 20 kinds"))
	}
	if len(charts) > 0 {
		say("\n### Charts\n")
		show(tables)
	}
	r.scaling(say, show)
	return b.String()
}

// load says in a sentence what differs from a usual client.
func (o options) load() string {
	load := "There is one handler"
	if o.Handlers > 1 || o.Informers > 1 {
		load = fmt.Sprintf("There are %d informers with %d handlers each", o.Informers, o.Handlers)
	}
	if o.Padding > 0 {
		load += ", and each pod has " + measure.Bytes(float64(o.Padding)) + " more in an environment variable"
	}
	return load
}

// over returns the results over a wire.
func (r *results) over(wire canned.Wire) *results {
	over := *r
	over.Runs = nil
	for _, run := range r.Runs {
		if run.Wire == wire {
			over.Runs = append(over.Runs, run)
		}
	}
	return &over
}

// tables prints what depends on the format and the wire.
func (r *results) tables(say func(string, ...any), format string, wire canned.Wire) {
	say("\n### %s over %s\n", canned.Name(format), wire)
	r.table(say, format, []column{
		{"sync", syncTime, measure.Seconds}, {"CPU", syncCPU, measure.Seconds}, {"of the server", syncServerCPU, measure.Seconds},
		{"peak", peakMemory, measure.Bytes}, {"heap a pod", liveHeap, measure.Bytes}})
	r.table(say, format, []column{
		{"events/s", eventRate, measure.Number}, {"CPU an event", eventCPU, measure.Seconds}, {"of the server", eventServerCPU,
			measure.Seconds}, {"allocated", eventBytes, measure.Bytes}, {"p50", latency50, measure.Seconds},
		{"p99", latency99, measure.Seconds}, {"of " + measure.Number(float64(r.Options.Rate)) + "/s", pacedRate, measure.Number}})
	r.table(say, format, []column{
		{"relist: CPU", relistCPU, measure.Seconds}, {"allocated", relistBytes, measure.Bytes}, {"more live", relistRetained,
			measure.Bytes}, {"events", relistEvents, measure.Number}})
}

// reads prints what depends on neither.
func (r *results) reads(say func(string, ...any), format string) {
	say("\n### Reads\n")
	inNamespace := measure.Median(r.values(tables, own, format, inNamespace))
	say("Reads of one pod by its key, of the %s pods of a namespace, and of all %s; the reader looks at each pod."+
		" controller-runtime copies the objects, client-go makes a new slice for a list, and we make neither.\n",
		measure.Number(inNamespace), measure.Number(float64(r.Options.Pods)))
	nano := func(ns float64) string { return measure.Seconds(ns / 1e9) }
	r.table(say, format, []column{
		{"Get", getTime, nano}, {"allocated", getBytes, measure.Bytes},
		{"namespace", namespaceTime, nano}, {"allocated", namespaceBytes, measure.Bytes},
		{"all", allTime, nano}, {"allocated", allBytes, measure.Bytes}})
}

// table prints the figures of the peers in a format.
func (r *results) table(say func(string, ...any), format string, columns []column) {
	r.tableOf(peers, say, format, columns)
}

func (r *results) tableOf(peers []peer, say func(string, ...any), format string, columns []column) {
	header, line := "| |", "| --- |"
	for _, c := range columns {
		header += " " + c.title + " |"
		line += " ---: |"
	}
	say("%s\n%s", header, line)
	for _, p := range peers {
		row := ""
		for _, c := range columns {
			row += " " + cell(r.values(tables, p.name, format, c.figure), c.text) + " |"
		}
		switch failure := r.failure(tables, p.name, format); {
		case failure != "":
			say("| %s | %s |%s", p.name, failure, strings.Repeat(" |", len(columns)-1))
		case strings.Trim(row, " |") != "":
			say("| %s |%s", p.name, row)
		}
	}
	say("")
}

// scaling prints how the cost grows, for each measured series.
func (r *results) scaling(say func(string, ...any), show func(series string)) {
	for _, s := range []struct {
		series, title, what string
		n                   func(processRun) int
	}{
		{sizes, "pods", "", func(p processRun) int { return p.Pods }},
		{handlersN, "handlers", fmt.Sprintf(" One informer of %s pods; events/s is until every handler has received the changes.", measure.Number(float64(min(handlerPods, r.Options.Pods)))), func(p processRun) int { return p.Handlers }},
		{informerN, "informers", fmt.Sprintf(" They follow the same %s pods, through one client.",
			measure.Number(float64(min(informerPods, r.Options.Pods)))), func(p processRun) int { return p.Informers }},
	} {
		var rows []processRun
		for _, run := range r.Runs {
			if run.Series == s.series && !slices.ContainsFunc(rows, run.same) {
				rows = append(rows, run)
			}
		}
		if len(rows) == 0 {
			continue
		}
		say("\n### By number of %s\n", s.title)
		say("Medians of %d runs, %s changes.%s\n", min(r.Options.Runs, maxScaleRuns), measure.Number(scaleChanges), s.what)
		say("| %s | | | sync | CPU | peak | heap | events/s |", s.title)
		say("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |")
		for _, row := range rows {
			text := fmt.Sprintf("| %s | %s | %s |", measure.Number(float64(s.n(row))), canned.Name(row.Format), row.Peer)
			if row.Failure != "" {
				say("%s %s | | | | |", text, row.Failure)
				continue
			}
			for _, c := range []column{{figure: syncTime, text: measure.Seconds}, {figure: syncCPU, text: measure.Seconds},
				{figure: peakMemory, text: measure.Bytes},
				{figure: liveHeap, text: func(b float64) string { return measure.Bytes(b * float64(row.Pods)) }}, {figure: eventRate, text: measure.Number}} {
				text += " " + cell(r.valuesLike(row, c.figure), c.text) + " |"
			}
			say("%s", text)
		}
		say("")
		show(s.series)
	}
}

// values returns one figure from all runs of a series with one of everything.
func (r *results) values(series, peer, format, figure string) []float64 {
	for _, run := range r.Runs {
		if run.Series == series && run.Peer == peer && run.Format == format {
			return r.valuesLike(run, figure)
		}
	}
	return nil
}

func (r *results) valuesLike(like processRun, figure string) (values []float64) {
	for _, run := range r.Runs {
		if value, ok := run.Figures[figure]; ok && run.same(like) {
			values = append(values, value)
		}
	}
	return values
}

func (r *results) failure(series, peer, format string) string {
	for _, run := range r.Runs {
		if run.Series == series && run.Peer == peer && run.Format == format && run.Failure != "" {
			return run.Failure
		}
	}
	return ""
}

// cell is a median, with its spread if that is at least 1%.
func cell(values []float64, text func(float64) string) string {
	if len(values) == 0 {
		return ""
	}
	median := text(measure.Median(values))
	if spread := math.Abs(math.Round(100 * measure.Spread(values))); spread >= 1 {
		return fmt.Sprintf("%s ±%.0f%%", median, spread)
	}
	return median
}

// wrap wraps lines of prose, which begin with a letter or a dash, at 120 characters.
func wrap(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		indent := ""
		if strings.HasPrefix(line, "- ") {
			indent = "  "
		} else if strings.Trim(line[:1], "| #!") == "" {
			b.WriteString(line)
			continue
		}
		for len(line) > 120 {
			space := strings.LastIndexByte(line[:120], ' ')
			if space <= len(indent) {
				break
			}
			b.WriteString(line[:space] + "\n")
			line = indent + line[space+1:]
		}
		b.WriteString(line)
	}
	return b.String()
}
