package warmstart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
	"github.com/typedinformer/informer/status"
)

// Content is what a store has of a collection.
type Content struct {
	Objects        iter.Seq[object.Object]
	Version, Shard string
	Listed         time.Time // when the list began from which the objects come, with later changes
	Stale          bool      // the newest version of an object could not be decoded
}

// Objects returns what objects yields.
func Objects[T object.Object](objects iter.Seq[T]) iter.Seq[object.Object] {
	return func(yield func(object.Object) bool) {
		objects(func(obj T) bool { return yield(obj) })
	}
}

// errStale is why nothing is saved.
var errStale = errors.New("the newest version of an object could not be decoded: a warm start would miss it")

// Save saves c, unless nothing has changed. It notes a failure in the status, and logs it unless the save before
// failed, too. last means that the program ends: Save then sends no request. If ctx ends, Save does nothing.
func (s *State) Save(ctx context.Context, c Content, last bool) {
	if err := run.Apart(func() error { // a method of an object may call runtime.Goexit
		s.save(ctx, c, last)
		return nil
	}); err != nil {
		s.failed(err)
	}
}

func (s *State) save(ctx context.Context, c Content, last bool) {
	began := time.Now()
	s.mu.Lock()
	have, failing := s.stored, s.status.SaveError != nil
	s.mu.Unlock()
	if c.Version == have.version && c.Listed.Equal(have.listed) && c.Shard == have.shard &&
		time.Since(have.time) < s.config.MaxAge/2 {
		return
	}
	objects, bytes, err := 0, int64(0), errStale
	if !c.Stale {
		objects, bytes, err = s.write(ctx, c, last)
	}
	if ctx.Err() != nil {
		return // the last save follows
	}
	if err != nil {
		s.failed(err)
		return
	}
	s.update(func(st *status.WarmStart) {
		st.SaveError = nil
		st.Saves++
		s.stored = stored{version: c.Version, shard: c.Shard, listed: c.Listed, time: began}
		st.SavedAt, st.SaveTime = began, time.Since(began)
		st.SavedObjects, st.SavedVersion, st.SavedBytes = objects, c.Version, bytes
	})
	if failing {
		s.config.Log.Info("saving the state succeeds again", "objects", objects, "resourceVersion", c.Version)
	}
}

// failed notes a failure in the status, and logs it unless the save before failed, too.
func (s *State) failed(err error) {
	var before error
	s.update(func(st *status.WarmStart) { before, st.SaveError = st.SaveError, err })
	if before == nil {
		s.config.Log.Warn("the state cannot be saved", "why", err)
	}
}

// write writes c into the storage.
func (s *State) write(ctx context.Context, c Content, last bool) (objects int, bytes int64, err error) {
	h := Header{
		Identity:        s.config.Cluster.identify(s.config.Identity),
		ResourceVersion: c.Version,
		Time:            time.Now(),
		Listed:          c.Listed,
	}
	h.Shard = c.Shard
	var known bool
	if h.Cluster, known = s.config.Cluster.knownUID(); !known {
		if last {
			return 0, 0, errors.New("the server has not been identified yet")
		}
		if h.Cluster, err = s.config.Cluster.UID(ctx, s.config.Client, false); err != nil {
			return 0, 0, err
		}
	}
	header, err := json.Marshal(h)
	if err != nil {
		return 0, 0, err
	}
	err = s.config.Storage.Save(ctx, s.name, func(to io.Writer) error {
		objects = 0
		w, err := snapshotfile.NewWriter(to, header)
		if err != nil {
			return err
		}
		s.encoder.begin()
		for obj := range c.Objects {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r, err := s.encoder.record(obj)
			if err == nil {
				err = w.Append(r)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", object.KeyOf(obj), err)
			}
			objects++
		}
		s.encoder.end()
		if err := w.Close(); err != nil {
			return err
		}
		bytes = w.Written()
		return nil
	})
	return objects, bytes, err
}
