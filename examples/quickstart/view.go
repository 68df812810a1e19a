package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// frame is the state to display at one moment.
type frame struct {
	time           time.Time
	up             time.Duration
	source         string        // the resource and the server
	loaded, total  int           // pods in the simulation, now and after loading; zero on a real cluster
	synced         time.Duration // duration of the initial sync; zero before its end
	status         informer.InformerStatus
	pods           int
	rv             string  // the resourceVersion of pods, phases and nodes
	phases, nodes  []group // the largest first
	counts, rates  counts  // of events: in total, and per second
	lag            lag
	heap, resident uint64 // bytes; zero when unknown
	log            string // the last record
}

// group is the number of pods that share a property.
type group struct {
	name string
	pods int
}

// line returns the frame as one line of plain text.
func (f *frame) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%3.0fs", f.up.Seconds())
	for _, r := range f.rows() {
		fmt.Fprintf(&b, "  %s: %s", r.label, r.text)
	}
	for _, g := range f.phases {
		fmt.Fprintf(&b, "  %s: %s", g.name, thousands(g.pods))
	}
	if len(f.nodes) > 0 {
		fmt.Fprintf(&b, "  nodes: %s with up to %s", thousands(len(f.nodes)), thousands(f.nodes[0].pods))
	}
	return b.String()
}

const (
	maxNodes   = 12 // that render shows
	labelWidth = 13
)

// render returns the frame as lines that fit a terminal of this size.
func (f *frame) render(width, height int, color bool) []string {
	var lines []string
	add := func(label, text, bar string) {
		label = cut(fmt.Sprintf("%-*s", labelWidth, label), min(labelWidth, width))
		text = cut(text, width-labelWidth)
		if color {
			label, bar = "\x1b[1m"+label+"\x1b[0m", "\x1b[36m"+bar+"\x1b[0m"
		}
		lines = append(lines, label+text+bar)
	}
	bars := func(label string, groups []group) {
		free := max(width-labelWidth-9, 0) // beside the number
		nameWidth := min(free, 44)
		barWidth := min(free-nameWidth, 30)
		for _, g := range groups {
			bar := strings.Repeat("█", barWidth*g.pods/max(groups[0].pods, 1))
			add(label, fmt.Sprintf("%-*s %7s ", nameWidth, cut(g.name, nameWidth), thousands(g.pods)), bar)
			label = ""
		}
	}
	add("informer", fmt.Sprintf("of %s, for %v", f.source, f.up.Round(time.Second)), "")
	for _, r := range f.rows() {
		add(r.label, r.text, "")
	}
	if f.log != "" {
		add("log", f.log, "")
	}
	bars("phases", f.phases)
	bars(thousands(len(f.nodes))+" nodes", f.nodes[:min(len(f.nodes), maxNodes)])
	return lines[:min(len(lines), height)]
}

// row is a labeled part of a frame.
type row struct{ label, text string }

// rows returns the parts that a line and a screen share.
func (f *frame) rows() []row {
	var rows []row
	switch {
	case f.synced > 0:
		rows = append(rows, row{"pods", fmt.Sprintf("%s at resourceVersion %s", thousands(f.pods), f.rv)})
		rows = append(rows, row{"sync", fmt.Sprintf("took %v", f.synced.Round(time.Millisecond))})
	case f.loaded < f.total:
		rows = append(rows, row{"start", fmt.Sprintf("%s of %s pods simulated", thousands(f.loaded), thousands(f.total))})
	}
	for _, r := range f.status.Reflectors {
		rows = append(rows, row{"state", stateText(r, f.time)})
		if f.synced == 0 && r.List.Objects > 0 {
			rows = append(rows, row{"list", r.List.String()})
		}
	}
	if f.synced > 0 {
		rows = append(rows, row{"events", fmt.Sprintf("%v per second, %s so far", f.rates, thousands(f.counts.total()))})
		rows = append(rows, row{"lag", f.lag.String()})
	}
	memory := fmt.Sprintf("heap %s MiB", thousands(int(f.heap>>20)))
	if f.resident > 0 {
		memory += fmt.Sprintf(", resident %s MiB", thousands(int(f.resident>>20)))
	}
	if f.total > 0 {
		memory += ", with the server's"
	}
	return append(rows, row{"memory", memory})
}

// stateText describes the state of one reflector: of the whole informer, or of one namespace.
func stateText(r status.Reflector, now time.Time) string {
	text := fmt.Sprintf("%s %v for %v", r.Namespace, r.State, now.Sub(r.Since).Round(time.Second))
	if r.State == status.ReflectorWatching && !r.WatchOpen {
		text += ", connecting"
	}
	if ago := now.Sub(r.LastErrorTime); r.LastError != nil && ago < time.Minute {
		err := r.LastError
		if request := (*url.Error)(nil); errors.As(err, &request) {
			err = request.Err // without the URL, which is too long for the line
		}
		text += fmt.Sprintf("; %v ago: %v", ago.Round(time.Second), err)
	}
	return strings.TrimSpace(text)
}

// String returns "1,234 (+200 ~1,000 -34)".
func (c counts) String() string {
	return fmt.Sprintf("%s (+%s ~%s -%s)", thousands(c.total()), thousands(c.added), thousands(c.updated),
		thousands(c.deleted))
}

func (l lag) String() string {
	if !l.known {
		return "n/a"
	}
	const precision = 10 * time.Microsecond
	return fmt.Sprintf("p50 %v, p99 %v, max %v", l.p50.Round(precision), l.p99.Round(precision), l.max.Round(precision))
}

// cut shortens text to width characters.
func cut(text string, width int) string {
	runes := []rune(strings.ReplaceAll(text, "\n", " "))
	if len(runes) <= width {
		return string(runes)
	}
	return string(runes[:max(width-1, 0)]) + strings.Repeat("…", min(max(width, 0), 1))
}

// thousands formats n with a comma between groups of three digits.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
