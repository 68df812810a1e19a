package transport

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Gate hands out passes for writes, as informer.Gate does. It returns the context of a write, which ends when the gate
// closes, and a function that is called when the write has ended. The error is that of a gate that is closed.
type Gate func(context.Context) (context.Context, func(), error)

// WithGate returns a client that is like c, and sends a write only with a pass of gate. Both share the connections, the
// rate limit and the counters. A nil gate means none.
func (c *Client) WithGate(gate Gate) *Client {
	gated := *c
	gated.gate = gate
	return &gated
}

// enter takes a pass of the gate for r, if r is a write: whatever is not a GET.
func (c *Client) enter(ctx context.Context, r Request) (context.Context, func(), error) {
	if c.gate == nil || r.Method == http.MethodGet {
		return ctx, func() {}, nil
	}
	ctx, leave, err := c.gate(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s /%s: %w", r.Method, strings.TrimPrefix(r.Path, "/"), err)
	}
	return ctx, leave, nil
}
