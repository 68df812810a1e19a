package ownwrites

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// diary is a Ledger, and the events that it has added.
type diary struct {
	Ledger[string]
	added []string
}

// write sends a write of object x in ctx, which takes the object from one version to another. The answer has come when it
// returns.
func write(ctx context.Context, from, to string) { Sending(ctx, from)(newObject("x", to)) }

// event is an event of object x for key.
func (d *diary) event(key, from, to string) {
	d.Event(key, Change{UID: "u", From: from, To: to}, func() { d.added = append(d.added, fmt.Sprintf("%s %s-%s", key, from, to)) })
}

// An event adds its key unless writes of that key lead from its old version to its new one.
// Guarantees: Q13
func TestOwnWritesExplainEvents(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(d *diary, ctx context.Context)
		want []string
	}{
		"own":                 {func(d *diary, ctx context.Context) { write(ctx, "1", "2"); d.event("a", "1", "2") }, nil},
		"created":             {func(d *diary, ctx context.Context) { write(ctx, "", "2"); d.event("a", "", "2") }, nil},
		"created and updated": {func(d *diary, ctx context.Context) { write(ctx, "", "2"); write(ctx, "2", "3"); d.event("a", "", "3") }, nil},
		"in two events, twice": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			write(ctx, "2", "3")
			for range 2 { // of two informers
				d.event("a", "1", "2")
				d.event("a", "2", "3")
			}
		}, nil},
		"in one event": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			write(ctx, "2", "3")
			d.event("a", "1", "3")
		}, nil},
		"another key":    {func(d *diary, ctx context.Context) { write(ctx, "1", "2"); d.event("b", "1", "2") }, []string{"b 1-2"}},
		"another before": {func(d *diary, ctx context.Context) { write(ctx, "2", "3"); d.event("a", "1", "3") }, []string{"a 1-3"}},
		"another after":  {func(d *diary, ctx context.Context) { write(ctx, "1", "2"); d.event("a", "1", "3") }, []string{"a 1-3"}},
		"another between": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			write(ctx, "3", "4")
			d.event("a", "1", "4")
		}, []string{"a 1-4"}},
		"added to a selection": {func(d *diary, ctx context.Context) { write(ctx, "1", "2"); d.event("a", "", "2") }, []string{"a -2"}},
		"resync":               {func(d *diary, ctx context.Context) { write(ctx, "1", "2"); d.event("a", "2", "2") }, []string{"a 2-2"}},
		"nothing changed":      {func(d *diary, ctx context.Context) { write(ctx, "2", "2"); d.event("a", "1", "2") }, []string{"a 1-2"}},
		"no answer":            {func(d *diary, ctx context.Context) { Sending(ctx, "1")(nil); d.event("a", "1", "2") }, []string{"a 1-2"}},
		"another object": {func(d *diary, ctx context.Context) {
			other := newObject("x", "2")
			other.UID = "other"
			Sending(ctx, "1")(other)
			d.event("a", "1", "2")
		}, []string{"a 1-2"}},
		"deleted": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			d.Event("a", Change{}, func() { d.added = append(d.added, "deleted") })
		}, []string{"deleted"}},
		"a server that was restored": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			d.event("a", "1", "2")
			d.event("a", "2", "1")
			d.event("a", "1", "2") // of another
		}, []string{"a 2-1", "a 1-2"}},
		"within a minute": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			time.Sleep(time.Minute - 1)
			d.event("a", "1", "2")
		}, nil},
		"after a minute": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			time.Sleep(time.Minute)
			d.event("a", "1", "2")
		}, []string{"a 1-2"}},
		"while others write": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			for i := range 59 {
				time.Sleep(time.Second)
				other, call := d.Begin(context.Background(), fmt.Sprint(i))
				write(other, "1", "2")
				call.End()
			}
			d.event("a", "1", "2")
		}, nil},
		"a later call": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			later, call := d.Begin(context.Background(), "a") // it may have read a store without the write
			d.event("a", "1", "2")
			write(later, "2", "3")
			d.event("a", "2", "3")
			call.End()
		}, []string{"a 1-2"}},
		"a later call of another key": {func(d *diary, ctx context.Context) {
			write(ctx, "1", "2")
			_, call := d.Begin(context.Background(), "b")
			d.event("a", "1", "2")
			call.End()
		}, nil},
		"another context": {func(d *diary, _ context.Context) { write(context.Background(), "1", "2"); d.event("a", "1", "2") }, []string{"a 1-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d diary
				ctx, call := d.Begin(t.Context(), "a")
				defer call.End()
				c.do(&d, ctx)
				if !slices.Equal(d.added, c.want) {
					t.Errorf("added %q, want %q", d.added, c.want)
				}
			})
		})
	}
}

// An event that comes before the answer to a write waits for it, or for the end of the call.
// Guarantees: Q13
func TestEventsWaitForAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(d *diary, ctx context.Context, end func())
		want []string
	}{
		"own": {func(d *diary, ctx context.Context, end func()) {
			answered := Sending(ctx, "1")
			d.event("a", "1", "2")
			answered(newObject("x", "2"))
		}, nil},
		"of another": {func(d *diary, ctx context.Context, end func()) {
			answered := Sending(ctx, "1")
			d.event("a", "1", "2")
			d.added = append(d.added, "waits")
			answered(nil)
		}, []string{"waits", "a 1-2"}},
		"both": {func(d *diary, ctx context.Context, end func()) {
			answered := Sending(ctx, "1")
			d.event("a", "1", "2")
			d.event("a", "2", "3")
			answered(newObject("x", "2"))
		}, []string{"a 2-3"}},
		"two writes at the same time": {func(d *diary, ctx context.Context, end func()) {
			first, second := Sending(ctx, "1"), Sending(ctx, "5")
			d.event("a", "1", "2")
			second(nil)
			d.added = append(d.added, "waits")
			first(newObject("x", "2"))
		}, []string{"waits"}},
		"another key": {func(d *diary, ctx context.Context, end func()) {
			answered := Sending(ctx, "1")
			d.event("b", "1", "2")
			d.added = append(d.added, "at once")
			answered(newObject("x", "2"))
		}, []string{"b 1-2", "at once"}},
		"the call ends first": {func(d *diary, ctx context.Context, end func()) {
			answered := Sending(ctx, "1")
			d.event("a", "1", "2")
			end()
			d.added = append(d.added, "ended")
			answered(newObject("x", "2"))
			d.event("a", "1", "2")
			defer Sending(ctx, "2")(nil)
			d.event("a", "2", "3")
		}, []string{"a 1-2", "ended", "a 1-2", "a 2-3"}},
		"before the write": {func(d *diary, ctx context.Context, end func()) {
			d.event("a", "0", "1")
			answered := Sending(ctx, "1")
			answered(newObject("x", "2"))
		}, []string{"a 0-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			ctx, call := d.Begin(t.Context(), "a")
			c.do(&d, ctx, call.End)
			call.End()
			if !slices.Equal(d.added, c.want) {
				t.Errorf("added %q, want %q", d.added, c.want)
			}
			if len(d.calls) > 0 {
				t.Errorf("%d calls are left", len(d.calls))
			}
		})
	}
}

// The memory of a ledger is bounded: by the number of keys, and of the writes and waiting events of a call.
func TestLedgerIsBounded(t *testing.T) {
	var d diary
	for i := range 3 * maxKeys {
		ctx, call := d.Begin(t.Context(), fmt.Sprint(i))
		write(ctx, "1", "2")
		call.End()
	}
	if n := len(d.recent) + len(d.earlier); n > 2*maxKeys {
		t.Errorf("%d keys", n)
	}
	ctx, call := d.Begin(t.Context(), "a")
	for i := range 2 * maxWrites {
		obj := newObject("x", "2")
		obj.UID = types.UID(fmt.Sprint(i))
		Sending(ctx, "1")(obj)
	}
	if n := len(d.recent["a"].bases); n > maxWrites {
		t.Errorf("%d writes", n)
	}
	answered := Sending(ctx, "1")
	for range 2 * maxHeld {
		d.event("a", "1", "2")
	}
	if len(call.held) > maxHeld || len(call.held)+len(d.added) != 2*maxHeld {
		t.Errorf("%d events wait, and %d were added", len(call.held), len(d.added))
	}
	answered(nil)
	if len(d.added) != 2*maxHeld {
		t.Errorf("%d events were added", len(d.added))
	}
	if d.Dropped() != 0 {
		t.Errorf("%d events were dropped", d.Dropped())
	}
}

// A patch requires a version if its metadata has one. The names of fields are exact, as for the server.
// Guarantees: Q13
func TestVersionThatAPatchRequires(t *testing.T) {
	for patch, want := range map[string]string{
		`{"metadata":{"resourceVersion":"5"},"status":{}}`:   "5",
		`{"metadata":{"resourceversion":"5"}}`:               "",
		`{"Metadata":{"resourceVersion":"5"}}`:               "",
		`{"metadata":{"resourceVersion":5}}`:                 "",
		`{"metadata":{"resourceVersion":null}}`:              "",
		`{"metadata":null}`:                                  "",
		`{"status":{"metadata":{"resourceVersion":"5"}}}`:    "",
		`[{"op":"test","path":"/metadata/resourceVersion"}]`: "",
		"metadata:\n  resourceVersion: '5'":                  "", // YAML, for an apply
		"":                                                   "",
	} {
		for _, pt := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType} {
			if got := BaseOf(pt, []byte(patch)); got != want {
				t.Errorf("%s, %s: %q, want %q", pt, patch, got, want)
			}
		}
	}
	if got := BaseOf(types.JSONPatchType, []byte(`{"metadata":{"resourceVersion":"5"}}`)); got != "" {
		t.Errorf("JSON patch: %q", got)
	}
}
