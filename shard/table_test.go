package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
)

// A key of an owned slot is parked while the lease is too old. The controllers look it up again when the lease was
// renewed at the last moment, and when the slot is lost.
//
// Guarantees: S3, S5
func TestParkedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		term := lease.NewTerm(lease.Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second},
			func() time.Time { return time.Now().Round(0) })
		table := &table{term: term, controllers: controllers{{own: func() { looks++ }}}}
		table.reset(2)
		want := func(first, second informer.Ownership, looked int) {
			t.Helper()
			table.unpark()
			if a, b := table.ownership(0), table.ownership(1<<63); a != first || b != second || looks != looked {
				t.Errorf("the slots are %v and %v, want %v and %v; the controllers looked %d times, want %d", a, b, first, second,
					looks, looked)
			}
		}
		want(informer.KeyAwaited, informer.KeyAwaited, 0)
		term.Renew(term.Stamp())
		table.publish([]phase{owned, absent}, setOf(2, 0))
		table.publish([]phase{owned, absent}, setOf(2, 0))
		want(informer.KeyOwned, informer.KeyForeign, 1)
		<-time.After(10 * time.Second)
		want(informer.KeyAwaited, informer.KeyForeign, 1)
		want(informer.KeyAwaited, informer.KeyForeign, 1)
		term.Lose()
		term.Drained()
		term.Renew(term.Stamp())
		want(informer.KeyOwned, informer.KeyForeign, 2)
		want(informer.KeyOwned, informer.KeyForeign, 2)
		table.publish([]phase{releasing, absent}, setOf(2, 0, 1))
		want(informer.KeyAwaited, informer.KeyAwaited, 3)
	})
}
