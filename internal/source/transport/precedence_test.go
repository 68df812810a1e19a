package transport

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/run"
)

// A request in the background waits until no list is under way, however many there are.
func TestBackgroundGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPrecedence()
		p.Begin()
		p.Begin()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := p.GiveWay(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		p.End()
		synctest.Wait()
		if run.IsClosed(done) {
			t.Fatal("did not wait for the second list")
		}
		p.End()
		<-done
	})
}

// Waits for lists and for other background work end with their context.
func TestBackgroundEndsWithItsContext(t *testing.T) {
	p, why := newPrecedence(), errors.New("enough")
	p.Begin()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := p.GiveWay(ctx); err != why {
		t.Error(err)
	}
	leave, err := p.Alone(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Alone(ctx); err != why {
		t.Error(err)
	}
	leave()
	if leave, err = p.Alone(t.Context()); err != nil {
		t.Fatal(err)
	}
	leave()
}
