// Package shards translates the shard selectors of Kubernetes.
package shards

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/sharding"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/shardset"
)

// Parse returns the shard that a selector in the form of metav1.ListOptions.ShardSelector selects. The empty selector
// selects the whole collection.
func Parse(selector string) (informer.Shard, error) {
	if selector == "" {
		return informer.Shard{}, nil
	}
	shard, err := shardset.Parse(selector)
	if err != nil {
		return informer.Shard{}, fmt.Errorf("shard selector %q: %w", selector, err)
	}
	return informer.Shard(shard), nil
}

// Of returns the shard of a selector. Nil selects the whole collection.
func Of(selector sharding.Selector) (informer.Shard, error) {
	if selector == nil || selector.Empty() {
		return informer.Shard{}, nil
	}
	return Parse(selector.String())
}

// ErrUnsupported indicates an informer of client-go before 0.38, which cannot be restricted to a shard.
var ErrUnsupported = errors.New("client-go's own informers follow all shards: only those of client-go 0.38 can be " +
	"restricted to one")

// Set restricts an informer that does not run to a shard. Nil changes nothing. The informer may be one of client-go,
// whose interface has the method SetShardSelector since 0.38; those of this module always have it.
func Set(i any, selector sharding.Selector) error {
	if selector == nil {
		return nil
	}
	setter, ok := i.(interface {
		SetShardSelector(sharding.Selector) error
	})
	if !ok {
		return ErrUnsupported
	}
	return setter.SetShardSelector(selector)
}
