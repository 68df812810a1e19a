package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/typedinformer/informer/bench/internal/measure"
)

// unit is how a value is printed: its name, and how many of it are in a second or a byte.
type unit struct {
	name string
	of   float64
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
	sizes  map[string]map[string]int64  // of responses that should be equal
	log    io.Writer                    // gets each value as it comes
}

func newTable(log io.Writer) *table {
	return &table{values: map[row]map[string][]float64{}, sizes: map[string]map[string]int64{}, log: log}
}

func (t *table) add(r row, implementation string, value float64) {
	if t.values[r] == nil {
		t.rows = append(t.rows, r)
		t.values[r] = map[string][]float64{}
	}
	t.values[r][implementation] = append(t.values[r][implementation], value)
	fmt.Fprintf(t.log, "%s: %s, %s: %s\n", implementation, r.what, r.measure, r.format(value))
}

// same records the size of a response.
func (t *table) same(what, implementation string, bytes int64) {
	if t.sizes[what] == nil {
		t.sizes[what] = map[string]int64{}
	}
	t.sizes[what][implementation] = bytes
}

func (r row) format(value float64) string { return measure.Number(value*r.unit.of) + " " + r.unit.name }

// best returns the least value of a row, to exclude what other programs cost.
func (t *table) best(r row, implementation string) float64 {
	return slices.Min(t.values[r][implementation])
}

// write writes the table in Markdown. It returns the rows that miss their goal.
func (t *table) write(w io.Writer) (missed int) {
	fmt.Fprintln(w, "| what | measure | Cacher | watchcache | times better | goal |")
	fmt.Fprintln(w, "| --- | --- | ---: | ---: | ---: | ---: |")
	for _, r := range t.rows {
		theirs, ours := t.best(r, names[0]), t.best(r, names[1])
		ratio := measure.Number(theirs / ours)
		if theirs/ours < r.goal {
			missed++
			ratio = "**" + ratio + "**"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.what, r.measure, r.format(theirs), r.format(ours), ratio,
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
