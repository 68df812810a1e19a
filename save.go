package informer

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/saved"
)

// saver saves the objects of a store for warm starts.
type saver[T Object] struct {
	store    *Store[T]
	parts    []*saved.State // one for each namespace
	interval time.Duration
}

// firstSave is the part of the interval after which the first save follows.
const firstSave = 10

// run saves from time to time, until ctx ends. synced waits until the store has the whole collection.
func (s *saver[T]) run(ctx context.Context, synced func(context.Context) error) {
	wait := s.interval / firstSave
	if synced(ctx) != nil {
		return
	}
	for run.Sleep(ctx, wait) == nil {
		s.save(ctx, false)
		wait = s.interval - rand.N(s.interval/10+1)
	}
}

// save saves the objects of each namespace, unless nothing has changed. last means that the informer ends: save then
// sends no request.
func (s *saver[T]) save(ctx context.Context, last bool) {
	for _, part := range s.parts {
		snap := s.store.Snapshot()
		src, ok := snap.sourceOf(part.Namespace())
		if !ok || src.resourceVersion == "" || src.list == nil {
			continue // no list
		}
		part.Save(ctx, saved.Content{
			Objects: func(yield func(saved.Object) bool) {
				for obj := range snap.in(part.Namespace()) {
					if !yield(obj) {
						return
					}
				}
			},
			Version: src.resourceVersion,
			Shard:   src.list.shard.String(),
			Listed:  src.list.listed,
			Stale:   src.undecoded.Len() > 0,
		}, last)
	}
}
