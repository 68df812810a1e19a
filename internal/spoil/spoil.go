// Package spoil lets package informertest change the objects that package watchcache writes into an answer.
package spoil

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Func returns what is sent in place of an encoded object. It does not write to object, which others are sent too.
type Func func(key types.NamespacedName, object []byte) []byte

type contextKey struct{}

// NewContext returns a context for requests whose answers f changes.
func NewContext(ctx context.Context, f Func) context.Context {
	if before := FromContext(ctx); before != nil {
		after := f
		f = func(key types.NamespacedName, object []byte) []byte { return after(key, before(key, object)) }
	}
	return context.WithValue(ctx, contextKey{}, f)
}

// FromContext returns the Func of ctx, nil if it has none.
func FromContext(ctx context.Context) Func {
	f, _ := ctx.Value(contextKey{}).(Func)
	return f
}
