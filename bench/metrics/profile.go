package main

import (
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// ofScrapes are parts of the names of functions in whose calls a scrape is served: those of the HTTP server, and of the goroutines
// that a registry starts to collect metrics.
var ofScrapes = []string{"net/http.(*conn).serve", "prometheus.(*Registry).Gather", "informerprom."}

// shareOfScrapes returns the share of the processor time in a profile that scrapes have taken. It misses what they cost the garbage
// collector.
func shareOfScrapes(encoded io.Reader) (share float64, err error) {
	p, err := profile.Parse(encoded)
	if err != nil {
		return 0, err
	}
	var all, scrapes int64
	for _, sample := range p.Sample {
		value := sample.Value[len(sample.Value)-1]
		all += value
		if slices.ContainsFunc(sample.Location, func(l *profile.Location) bool { return slices.ContainsFunc(l.Line, isOfScrape) }) {
			scrapes += value
		}
	}
	if all == 0 {
		return 0, nil
	}
	return float64(scrapes) / float64(all), nil
}

func isOfScrape(l profile.Line) bool {
	return l.Function != nil && slices.ContainsFunc(ofScrapes, func(part string) bool { return strings.Contains(l.Function.Name, part) })
}
