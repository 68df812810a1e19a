package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test run as the processes that it starts, as the program does.
func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-as=") }) {
		main()
		return
	}
	os.Exit(m.Run())
}

// Each process receives all changes and, with metrics, is scraped, or it would fail.
func TestCompare(t *testing.T) {
	o := options{pods: 200, rate: 100, runs: 1, length: 2 * time.Second, every: time.Second}
	r, err := compare(o)
	if err != nil {
		t.Fatal(err)
	}
	without, with := r.without[0], r.with[0]
	if without.Scrapes != 0 || without.Scraping != 0 || without.CPU <= 0 {
		t.Errorf("without metrics: %+v", without)
	}
	if with.Scrapes == 0 || with.Page < 1000 || with.Allocated <= 0 {
		t.Errorf("with metrics: %+v", with)
	}
	var text bytes.Buffer
	if r.print(&text, o); strings.Count(text.String(), "\n") != 9 {
		t.Errorf("%s", text.String())
	}
}
