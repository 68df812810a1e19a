package main

import (
	"io"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// ofScrapes are parts of the names of functions in whose calls a scrape is served: those of the HTTP server, and of the
// goroutines that a registry starts to collect metrics.
var ofScrapes = []string{"net/http.(*conn).serve", "prometheus.(*Registry).Gather", "informerprom."}

// readProfile returns the processor time in a profile, and the part of it that scrapes have taken, in seconds. That
// part lacks what scrapes cost the garbage collector.
func readProfile(encoded io.Reader) (all, scraping float64, err error) {
	p, err := profile.Parse(encoded)
	if err != nil {
		return 0, 0, err
	}
	for _, sample := range p.Sample {
		seconds := float64(sample.Value[len(sample.Value)-1]) / 1e9
		all += seconds
		if slices.ContainsFunc(sample.Location,
			func(l *profile.Location) bool { return slices.ContainsFunc(l.Line, isOfScrape) }) {
			scraping += seconds
		}
	}
	return all, scraping, nil
}

func isOfScrape(l profile.Line) bool {
	return l.Function != nil && slices.ContainsFunc(ofScrapes,
		func(part string) bool { return strings.Contains(l.Function.Name, part) })
}
