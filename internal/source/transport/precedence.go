package transport

import (
	"context"
	"sync"
)

// Precedence makes background requests give way to the lists of a client: nobody waits for the former. It is safe for
// concurrent use. Create one with newPrecedence.
type Precedence struct {
	background chan struct{} // holds a token while background work is under way

	mu    sync.Mutex    // protects the fields below
	lists int           // under way
	idle  chan struct{} // closed when the last list ends; nil if nothing waits
}

func newPrecedence() *Precedence { return &Precedence{background: make(chan struct{}, 1)} }

// Begin notes that a list begins. End must follow.
func (p *Precedence) Begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lists++
}

// End notes that a list has ended.
func (p *Precedence) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lists--; p.lists == 0 && p.idle != nil {
		close(p.idle)
		p.idle = nil
	}
}

// GiveWay waits until no list is under way. It returns the cause of ctx if ctx ends first.
func (p *Precedence) GiveWay(ctx context.Context) error {
	for {
		p.mu.Lock()
		if p.lists == 0 {
			p.mu.Unlock()
			return nil
		}
		if p.idle == nil {
			p.idle = make(chan struct{})
		}
		idle := p.idle
		p.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Alone waits until no other background work is under way. The caller calls leave when its own has ended. Alone returns
// the cause of ctx if ctx ends first.
func (p *Precedence) Alone(ctx context.Context) (leave func(), err error) {
	select {
	case p.background <- struct{}{}:
		return func() { <-p.background }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
