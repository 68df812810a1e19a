package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
)

// output is a buffer for several goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// last returns the last table, with single spaces.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := o.text.String()
	lines := strings.Split(text[strings.LastIndex(text, "CLUSTER"):], "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// The table follows all clusters. One that hangs keeps its last state, and says since when; one that is replaced shows the
// new one.
func TestTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		sim, out := newSimulation(informer.Key{Namespace: "shop", Name: "web"}), &output{}
		ended := make(chan error, 1)
		go func() { ended <- show(ctx, sim.clusters, sim.key, out) }()
		want := func(table string) {
			t.Helper()
			time.Sleep(1500 * time.Millisecond)
			if got := out.last(); got != table {
				t.Errorf("the table is\n%s\nwant\n%s", got, table)
			}
		}
		want(`CLUSTER READY IMAGE STATE
frankfurt 3/3 shop/web:1.4 ok
oregon 4/4 shop/web:1.4 ok
tokyo 5/5 shop/web:1.4 ok
all 12/12`)
		sim.ready("oregon", 1)
		sim.hang("tokyo")
		want(`CLUSTER READY IMAGE STATE
frankfurt 3/3 shop/web:1.4 ok
oregon 1/4 shop/web:1.4 ok
tokyo 5/5 shop/web:1.4 as of 00:00:01: no watch since then
all 9/12`)
		sim.serve("frankfurt", "shop/web:1.5", 6)
		sim.clusters.Delete("oregon")
		time.Sleep(5 * time.Minute)
		want(`CLUSTER READY IMAGE STATE
frankfurt 6/6 shop/web:1.5 ok
tokyo 5/5 shop/web:1.4 as of 00:00:01: no watch since then
all 11/11`)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		sim.close()
	})
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-deployment", "web"}, &out); err == nil || !strings.Contains(err.Error(), "namespace/name") {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"-h"}, &out); err != nil || !strings.Contains(out.String(), "-folder") {
		t.Error(err, out.String())
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		var out output
		if err := run(ctx, nil, &out); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(out.last(), "6/6 shop/web:1.5") {
			t.Error(err, out.last())
		}
	})
}
