package deliver

import (
	"context"

	"github.com/typedinformer/informer/status"
)

// Ended is a listener without a hub, which has ended before it began. Why must not be nil.
type Ended struct{ Why error }

// HasSynced returns false.
func (Ended) HasSynced() bool { return false }

// WaitSynced returns Why at once.
func (e Ended) WaitSynced(context.Context) error { return e.Why }

// End does nothing.
func (Ended) End(error) {}

// Released returns a closed channel.
func (Ended) Released() <-chan struct{} { return released }

// Err returns Why.
func (e Ended) Err() error { return e.Why }

// Status returns an empty status.
func (Ended) Status() status.Subscription { return status.Subscription{} }

// released is closed.
var released = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
