package informer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/sources"
)

// step lists, watches or moves once.
func (r *Reflector[T]) step(ctx context.Context) error {
	if r.state.Phase == fetch.Watching {
		if r.moves() {
			return r.move(ctx)
		}
		r.enter(ReflectorWatching, nil, "objects", r.read.Load(), "resourceVersion", r.state.Version)
		return r.watch(ctx)
	}
	r.enter(ReflectorListing, nil)
	if r.warm.pending() {
		if err := r.startWarm(ctx); err != nil || r.state.Phase == fetch.Watching {
			return err
		}
	}
	r.count(&r.listsBy)
	r.outside = r.decoder.Outside()
	from := r.origin(wholeShard, time.Now().Round(0))
	if r.config.PagedList || !r.state.Streams(time.Now()) {
		return r.list(ctx, from)
	}
	return r.stream(ctx, from)
}

// origin returns the origin of a delta of that kind.
func (r *Reflector[T]) origin(kind originKind, listed time.Time) *origin {
	return &origin{kind, r.reshard.Value, r.reshard.Change, listed}
}

// startWarm enters the state ReflectorWatching with the objects of a saved state. Without a usable one, it changes
// nothing.
func (r *Reflector[T]) startWarm(ctx context.Context) error {
	d, until, err := r.warm.load(ctx, r.origin(wholeShard, time.Time{}))
	if err != nil || d == nil {
		return err
	}
	if err := r.put(ctx, *d); err != nil {
		return err
	}
	r.warm.loaded()
	r.reshard.Settle()
	r.out.listed = true
	r.read.Store(int64(len(d.Items)))
	r.state = r.state.Loaded(until, time.Now())
	return nil
}

// absent empties the sink once when discovery shows that the server has stopped serving the resource.
func (r *Reflector[T]) absent(ctx context.Context) error {
	if r.state.List.Told {
		return nil
	}
	r.state = r.state.Gone()
	r.update(func(s *ReflectorStatus) { s.ResourceVersion, s.ResourceVersionTime = "", time.Time{} })
	none := &origin{change: r.reshard.Change}
	d := Delta[T]{Type: Replaced, Namespace: r.decoder.Namespace, from: none}
	err := r.out.sink.Put(ctx, d)
	if err == nil {
		r.state.List.Told, r.out.listed = true, true
		r.note(&d)
	}
	return err
}

// asked returns how to treat the objects in the response to a request for shard. If doubtful is true, an equal version
// does not mean equal content.
func asked(shard Shard, doubtful bool) intake.Asked {
	a := intake.Asked{ByNamespace: shard.Field == ShardByNamespace, Doubtful: doubtful}
	if len(shard.Ranges) > 0 {
		a.Shard = shard.hasHash
	}
	return a
}

// list lists the collection.
func (r *Reflector[T]) list(ctx context.Context, from *origin) error {
	l := r.decoder.Collector(asked(from.shard, r.state.Doubtful()), false, &r.read)
	version, err := r.source.List(ctx, r.state.List.Least, r.config.PageSize, l, from.shard.String())
	if err != nil {
		return err
	}
	return r.replaced(ctx, l, version, from)
}

// moves reports whether the next step is a move.
func (r *Reflector[T]) moves() bool { return r.state.Phase == fetch.Watching && r.reshard.HasPart() }

// move completes a sink that has a part of the shard: it adds the rest, and removes the objects outside the shard. It
// lists the rest at the version of the sink, so that the watch can resume there.
func (r *Reflector[T]) move(ctx context.Context) error {
	d := Delta[T]{Type: Replaced, from: r.origin(restOfShard, time.Time{})}
	if rest, ok := r.reshard.Rest(); ok {
		r.enter(ReflectorListing, nil)
		r.count(&r.listsBy)
		l := r.decoder.Collector(asked(rest, false), false, &r.read)
		err := r.source.ListAt(ctx, r.state.Version, r.config.PageSize, l, rest.String())
		if err != nil {
			if ctx.Err() == nil { // otherwise the shard has changed again, and the sink still has a part
				r.state = r.state.Relist(r.state.Version, fetch.ReasonShard)
			}
			if !errors.Is(err, fetch.ErrNoListAt) {
				return err
			}
			r.log.Info("listing the whole shard", "why", err)
			return nil
		}
		d.Items = l.Items()
	}
	if err := r.put(ctx, d); err != nil {
		return err
	}
	r.reshard.Settle()
	return nil
}

// stream reads the collection by a streaming list. The watch then stays open in the reflector's state.
func (r *Reflector[T]) stream(ctx context.Context, from *origin) error {
	w, err := r.opened(r.source.Stream(ctx, r.state.List.Least, from.shard.String()))
	if err != nil {
		return err
	}
	defer func() { // even if a callback calls runtime.Goexit
		if r.state.Watch.Open != w {
			r.close(w)
		}
	}()
	l := r.decoder.Collector(asked(from.shard, r.state.Doubtful()), true, &r.read)
	version, err := w.InitialEvents(l)
	if err != nil {
		return err
	}
	if err := r.replaced(ctx, l, version, from); err != nil {
		return err
	}
	r.state.Watch.Open = w
	return nil
}

// opened records that the watch w is open, unless err says why it is not.
func (r *Reflector[T]) opened(w *fetch.Watch, err error) (*fetch.Watch, error) {
	if err == nil {
		r.update(func(s *ReflectorStatus) { s.WatchOpen, s.NoWatchSince = true, time.Time{} })
	}
	return w, err
}

func (r *Reflector[T]) close(w *fetch.Watch) {
	w.Close()
	r.update(func(s *ReflectorStatus) { s.WatchOpen, s.NoWatchSince = false, time.Now() })
}

// watch follows the changes until the watch ends. It returns nil if the server ended the watch normally.
func (r *Reflector[T]) watch(ctx context.Context) (err error) {
	shard := r.reshard.Value
	w := r.state.Watch.Open
	if r.state.Watch.Open = nil; w == nil {
		r.count(&r.watchesBy)
		since := r.Status().NoWatchSince
		if w, err = r.opened(r.source.Watch(ctx, r.state, shard.String())); err != nil {
			return err
		}
		if r.resumed != nil && r.state.Why == fetch.ReasonFailed {
			r.resumed(time.Since(since))
		}
	}
	defer r.close(w)
	r.source.Awaits.Set(fetch.AwaitingData)
	into := r.decoder.Watch(asked(shard, false), func(o intake.Result[T]) error { return r.change(ctx, o) }, r.flush)
	err = w.Follow(into, func(version string) error {
		if err := r.tell(ctx, Delta[T]{Type: Bookmarked, ResourceVersion: version}); err != nil {
			return err
		}
		return r.flush()
	})
	if err != nil {
		return err
	}
	caughtUp := !r.state.Watch.CatchUp.Pending()
	if r.state, err = r.state.Ended(time.Now()); err == nil && caughtUp && w.Silent() {
		err = r.probe(ctx)
	}
	return err
}

// probe checks whether the server has reached the version of a watch that had no event and no bookmark. A restored
// server may be behind: it then sends nothing until it reaches that version, and never sends the changes before it.
func (r *Reflector[T]) probe(ctx context.Context) error {
	err := r.source.Reaches(ctx, r.state.Version, r.reshard.Value.String())
	if fetch.IsTooLarge(err) {
		return fmt.Errorf("%w: %w", fetch.ErrWentBack, err)
	}
	return err
}

// replaced puts the whole list, as of rv, into the sink.
func (r *Reflector[T]) replaced(ctx context.Context, l *intake.Collector[T], rv string, from *origin) error {
	restored := r.state.List.Restored
	if err := r.notBack(rv); err != nil && !restored {
		return err // l may contain the sink's copies instead of the objects that the server sent
	}
	d := Delta[T]{Type: Replaced, Items: l.Items(), ResourceVersion: rv, Restored: r.state.Doubtful(), from: from}
	for failed := range l.Undecoded() {
		d.Undecoded = append(d.Undecoded, r.decodeError(failed))
	}
	err := r.put(ctx, d)
	if err == nil {
		r.reshard.Settle()
		r.out.listed = true
		r.state = r.state.Listed()
	}
	return err
}

// change puts the change of one object into the sink. It removes an object that Config.Filter rejects.
func (r *Reflector[T]) change(ctx context.Context, o intake.Result[T]) error {
	d := Delta[T]{ResourceVersion: o.Version}
	gone := o.Deleted || o.Filtered
	switch {
	case o.Err == nil && !o.Filtered:
		if d.Type, d.Object = Upserted, o.Object; gone {
			d.Type = Removed
		}
	case gone && o.Key.Name == "" && o.Err != nil:
		return fmt.Errorf("watch: %w: %w", fetch.ErrUnknownDeleted, o.Err)
	case gone && o.Key.Name == "":
		return fmt.Errorf("watch: %w: Config.Filter rejects it", fetch.ErrUnknownDeleted)
	case gone:
		d.Type, d.Key = Removed, o.Key
	default: // the sink keeps its version of the object
		failed := intake.Failure{Key: o.Key, UID: o.UID, Version: o.Version, Err: o.Err}
		d.Type, d.Undecoded = Bookmarked, []*DecodeError{r.decodeError(failed)}
	}
	return r.tell(ctx, d)
}

// tell puts d into the sink. It returns an error if d is older than the sink.
func (r *Reflector[T]) tell(ctx context.Context, d Delta[T]) error {
	if err := r.notBack(d.ResourceVersion); err != nil {
		return err
	}
	if r.state.Watch.CatchUp.Pending() {
		r.state = r.state.Received(d.ResourceVersion, time.Now())
		if r.state.Watch.CatchUp.Reaches(d.ResourceVersion) {
			d.from = r.origin(caughtUp, time.Time{})
		}
	}
	if err := r.put(ctx, d); err != nil || d.from == nil {
		return err
	}
	r.state.Watch.CatchUp = fetch.CatchUp{}
	r.warm.caughtUp()
	return nil
}

// notBack returns an error if resource version rv precedes that of the sink.
func (r *Reflector[T]) notBack(rv string) error {
	if version := r.state.Version; rv != "" && version != "" && sources.Older(rv, version) {
		return fmt.Errorf("%w: resource version %s after %s", fetch.ErrWentBack, rv, version)
	}
	return nil
}

// note records which objects cannot be decoded as of d.
func (r *Reflector[T]) note(d *Delta[T]) {
	if r.out.note(d) {
		r.update(func(s *ReflectorStatus) { s.Stale = r.out.undecoded.Len() })
	}
}

// put puts d into the sink, which then has every change up to d's resource version. The caller must call flush later.
func (r *Reflector[T]) put(ctx context.Context, d Delta[T]) error {
	d.Namespace = r.decoder.Namespace
	if d.Type == Replaced {
		r.source.Awaits.Set(fetch.AwaitingSink)
	}
	if err := r.out.put(ctx, d); err != nil {
		return err
	}
	r.note(&d)
	if d.ResourceVersion != "" {
		r.state.Version = d.ResourceVersion
		r.update(func(s *ReflectorStatus) { s.ResourceVersion = d.ResourceVersion })
		r.received = true
	}
	return nil
}

// flush records the time of the deltas since the last flush, and flushes the sink if it is a batcher.
func (r *Reflector[T]) flush() error {
	if r.received {
		r.received = false
		r.update(func(s *ReflectorStatus) { s.ResourceVersionTime = time.Now() })
	}
	return r.out.flush()
}
