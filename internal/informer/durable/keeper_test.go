package durable

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/test/testkit"
)

type partial = *metav1.PartialObjectMetadata

// undecodable is an empty view of objects that the server has.
type undecodable struct{}

func (undecodable) Len() int                               { return 0 }
func (undecodable) All() iter.Seq[partial]                 { return func(func(partial) bool) {} }
func (undecodable) From(object.Key) iter.Seq[partial]      { return func(func(partial) bool) {} }
func (undecodable) Get(object.Key) (none partial, ok bool) { return nil, false }
func (undecodable) ResourceVersion() string                { return "1" }
func (undecodable) Undecodable(object.Key) error           { return errors.New("bad") }
func (undecodable) Absent(string) bool                     { return false }

// A comparison of unknown keys that takes long is rare: the informer, which waits meanwhile, does so for at most a
// hundredth of the time. Keys that can be compared fast do not wait.
func TestComparisonsTakeAHundredthOfTheTime(t *testing.T) {
	for _, took := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		testkit.Bubble(t, func(t *testing.T) {
			compared := 0
			store := Store[partial]{
				View: func() View[partial] { // with the lock of the hub
					compared++
					time.Sleep(took)
					return undecodable{}
				},
				Lacks:   func() func(string) bool { return func(string) bool { return false } },
				Retired: func() bool { return false },
			}
			k := New(Config{Interval: time.Second}, store, intake.Unpacked[partial]{})
			k.book.compared, k.book.initial = true, false
			k.book.unknown[object.Key{Name: "a"}] = struct{}{}
			l := deliver.NewListener(deliver.NewHub[partial](), k.Handler(nil), nil, deliver.Config{})
			l.Keep(k)
			const whole = 2 * time.Hour
			ctx, cancel := context.WithTimeout(t.Context(), whole)
			defer cancel()
			k.Keep(ctx, l)
			all, few := time.Duration(compared)*took, whole/(time.Second+200*took)
			if all > whole/100+took || compared < int(few) {
				t.Errorf("%d comparisons of %v take %v of %v", compared, took, all, whole)
			}
		})
	}
}
