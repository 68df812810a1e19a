package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// unit is how a value is printed: its name, and how many of it are in a second or a byte.
type unit struct {
	name  string
	scale float64
}

var (
	microseconds = unit{"us", 1e6}
	milliseconds = unit{"ms", 1e3}
	kilobytes    = unit{"kB", 1e-3}
)

// row is one line of the table. Less is better in all of them.
type row struct {
	what, measure string
	unit          unit
	goal          float64 // how many times better watchcache should be
}

// table collects the results.
type table struct {
	rows   []row
	values map[row]map[string][]float64 // by implementation
	failed map[row]map[string]string    // why there is no value, by implementation
	sizes  map[string]map[string]int64  // of responses that should be equal
	log    io.Writer                    // gets each value as it comes
}

func newTable(log io.Writer) *table {
	return &table{values: map[row]map[string][]float64{}, failed: map[row]map[string]string{},
		sizes: map[string]map[string]int64{}, log: log}
}

// has adds a row, unless the table has it.
func (t *table) has(r row) {
	if t.values[r] == nil {
		t.rows = append(t.rows, r)
		t.values[r], t.failed[r] = map[string][]float64{}, map[string]string{}
	}
}

func (t *table) add(r row, implementation string, value float64) {
	t.has(r)
	t.values[r][implementation] = append(t.values[r][implementation], value)
	fmt.Fprintf(t.log, "%s: %s, %s: %s\n", implementation, r.what, r.measure, r.format(value))
}

// fail records that a run has no value.
func (t *table) fail(r row, implementation string, err error) {
	t.has(r)
	t.failed[r][implementation] = err.Error()
	fmt.Fprintf(t.log, "%s: %s, %s: %v\n", implementation, r.what, r.measure, err)
}

// same records the size of a response.
func (t *table) same(what, implementation string, bytes int64) {
	if t.sizes[what] == nil {
		t.sizes[what] = map[string]int64{}
	}
	t.sizes[what][implementation] = bytes
}

func (r row) format(value float64) string {
	return measure.Number(value*r.unit.scale) + " " + r.unit.name
}

// best returns the least value of a row, to exclude what other programs cost. It returns infinity if every run failed.
func (t *table) best(r row, implementation string) (value float64, text string) {
	values := t.values[r][implementation]
	if len(values) == 0 {
		return math.Inf(1), t.failed[r][implementation]
	}
	value = slices.Min(values)
	return value, r.format(value)
}

// write writes the table in Markdown. It returns the number of rows that miss their goal.
func (t *table) write(w io.Writer) (missed int) {
	fmt.Fprintln(w, "| what | measure | Cacher | watchcache | times better | goal |")
	fmt.Fprintln(w, "| --- | --- | ---: | ---: | ---: | ---: |")
	for _, r := range t.rows {
		theirs, theirText := t.best(r, names[0])
		ours, ourText := t.best(r, names[1])
		ratio := "only watchcache"
		if !math.IsInf(theirs, 1) {
			ratio = measure.Number(theirs / ours)
		}
		if math.IsInf(ours, 1) || theirs/ours < r.goal {
			missed++
			ratio = "**" + ratio + "**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.what, r.measure, theirText, ourText, ratio,
			measure.Number(r.goal))
	}
	return missed
}

// different describes the responses whose sizes differ by more than a hundredth.
func (t *table) different() string {
	var text strings.Builder
	for what, sizes := range t.sizes {
		a, b := sizes[names[0]], sizes[names[1]]
		if a-b > a/100 || b-a > b/100 {
			fmt.Fprintf(&text, "%s: %d and %d bytes\n", what, a, b)
		}
	}
	return text.String()
}
