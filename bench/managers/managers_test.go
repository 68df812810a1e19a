package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/typedinformer/informer/bench/internal/canned"
)

// TestMain lets the test run as the processes that it starts, as the program does.
func TestMain(m *testing.M) {
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-as=") }) {
		main()
		return
	}
	os.Exit(m.Run())
}

// Each manager finds the server's state in each format, or it would fail, and reports all figures.
func TestCompare(t *testing.T) {
	o := options{pods: 300, runs: 1, changes: 40, formats: []string{canned.JSON, canned.Protobuf}}
	r, err := compare(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range o.formats {
		for _, p := range peers {
			for _, row := range rows(format) {
				if _, ok := r.median(p.name, format, row.figure); !ok && (p.own || row.against == "") {
					t.Errorf("%s, %s: no %q", p.name, format, row.figure)
				}
			}
			// A cell of the tables promises this.
			want := 0.0
			if !p.own {
				want = 300
			}
			if events, _ := r.median(p.name, format, relistEvents); events != want {
				t.Errorf("%s, %s: an unchanged relist has %v events instead of %v", p.name, format, events, want)
			}
		}
	}
}

func TestCell(t *testing.T) {
	r := results{
		{theirs, canned.JSON, figures{syncTime: 8, liveHeap: 1000, relistEvents: 10, changeRate: 100}},
		{compact, canned.JSON, figures{syncTime: 2, liveHeap: 121, relistEvents: 0, changeRate: 300}},
	}
	for _, test := range []struct{ figure, peer, want string }{
		{syncTime, theirs, "8 s"},
		{syncTime, stripped, ""},
		{syncTime, compact, "**2 s, 4x**"},
		{liveHeap, compact, "**121 B, 0.12**"},
		{relistEvents, theirs, "10"},
		{relistEvents, compact, "0"},
		{changeRate, compact, "300, 3x"},
	} {
		row := rows(canned.JSON)[slices.IndexFunc(rows(canned.JSON), func(r row) bool { return r.figure == test.figure })]
		p := peers[slices.IndexFunc(peers, func(p peer) bool { return p.name == test.peer })]
		if got := r.cell(row, p, canned.JSON); got != test.want {
			t.Errorf("%s of %s: %q instead of %q", test.figure, test.peer, got, test.want)
		}
	}
	for figure, want := range map[string]string{syncTime: "8x", liveHeap: "0.35 if stripped, 0.12 with Compact", relistEvents: "0", getShared: ""} {
		row := rows(canned.JSON)[slices.IndexFunc(rows(canned.JSON), func(r row) bool { return r.figure == figure })]
		if got := row.goal(); got != want {
			t.Errorf("goal of %s: %q instead of %q", figure, got, want)
		}
	}
}
