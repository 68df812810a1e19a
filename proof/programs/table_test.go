package main

import (
	"errors"
	"testing"
	"time"
)

// The ratios are those of what objects add to an empty cluster, to client-go's of the same program.
func TestMeasured(t *testing.T) {
	newResult := func(program, kind string, empty, full int64) result {
		return result{program, kind, usage{resident: empty << 20, heap: empty << 19}, usage{synced: 1500 * time.Millisecond,
			processor: 3 * time.Second, later: time.Second, resident: full << 20, peak: full << 21, heap: full << 19}}
	}
	got := measured([]result{newResult("a", "client-go", 100, 300), newResult("a", "Compact", 100, 140), newResult("b", "shared", 50, 60)})
	const want = `program  informers  synced (s)  processor (s)  idle processor (s)  empty (MiB)  resident (MiB)  peak (MiB)  caches (MiB)  ratio  heap of caches (MiB)  ratio  goal
a        client-go  1.5         3.0            1.0                 100          300             600         200           1.00   100.0                 1.00   -
a        Compact    1.5         3.0            1.0                 100          140             280         40            0.20   20.0                  0.20   0.20
b        shared     1.5         3.0            1.0                 50           60              120         10            -      5.0                   -      0.50
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// The least of each field counts.
func TestLeast(t *testing.T) {
	a, b := usage{1, 2, 3, 4, 5, 6}, usage{6, 5, 4, 3, 2, 1}
	if got, want := a.least(b), (usage{1, 2, 3, 3, 2, 1}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The table has the seconds of each step, and the failures are listed below.
func TestScripted(t *testing.T) {
	fails := errors.New("not yet: 3 pods")
	got := scripted(kinds[:2], [][]outcome{
		{{"create", 1500 * time.Millisecond, nil}, {"delete", time.Minute, fails}},
		{{"create", time.Second, nil}, {"delete", 2 * time.Second, nil}},
	})
	const want = `step     client-go  clientgo
create   1.5        1.0
delete   failed     2.0
passed   1          2
failed   1          0
seconds  61.5       3.0

delete fails with client-go: not yet: 3 pods
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// A step that fails with our informers counts, unless it fails with client-go's, too.
func TestWorseThanTheirs(t *testing.T) {
	good, bad := []outcome{{step: "s"}}, []outcome{{step: "s", err: errNotYet}}
	for _, test := range []struct {
		with     []kind
		outcomes [][]outcome
		want     bool
	}{
		{kinds[:2], [][]outcome{good, good}, false},
		{kinds[:2], [][]outcome{bad, bad}, false},
		{kinds[:2], [][]outcome{bad, good}, false},
		{kinds[:2], [][]outcome{good, bad}, true},
		{kinds[:1], [][]outcome{bad}, false},
		{kinds[1:2], [][]outcome{bad}, true},
	} {
		if got := worseThanTheirs(test.with, test.outcomes); got != test.want {
			t.Errorf("%v %v: %t", test.with, test.outcomes, got)
		}
	}
}
