// Package spoil lets package informertest change the objects that package watchcache writes into a response.
package spoil

import (
	"context"

	"github.com/typedinformer/informer/internal/object"
)

// Func returns the bytes to send instead of an encoded object. It must not write to body, which other clients get
// too.
type Func func(key object.Key, body []byte) []byte

type contextKey struct{}

// NewContext returns a context for requests whose responses f changes, after any Func that ctx already has.
func NewContext(ctx context.Context, f Func) context.Context {
	if before := FromContext(ctx); before != nil {
		after := f
		f = func(key object.Key, body []byte) []byte { return after(key, before(key, body)) }
	}
	return context.WithValue(ctx, contextKey{}, f)
}

// FromContext returns the Func of ctx, or nil if it has none.
func FromContext(ctx context.Context) Func {
	f, _ := ctx.Value(contextKey{}).(Func)
	return f
}
