package reflector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/sources"
)

// step lists, watches or moves once.
func (l *Loop[T, S]) step(ctx context.Context) error {
	if l.state.Phase == fetch.Watching {
		if l.moves() {
			return l.move(ctx)
		}
		l.enter(Watching, nil, "objects", l.read.Load(), "resourceVersion", l.state.Version)
		return l.watch(ctx)
	}
	l.enter(Listing, nil)
	if l.warm.pending() {
		if err := l.startWarm(ctx); err != nil || l.state.Phase == fetch.Watching {
			return err
		}
	}
	l.count(&l.listsBy)
	l.outside = l.Decoder.Outside()
	from := l.origin(WholeShard, time.Now().Round(0))
	if l.PagedList || !l.state.Streams(time.Now()) {
		return l.list(ctx, from)
	}
	return l.stream(ctx, from)
}

// origin returns the origin of a delta of that kind.
func (l *Loop[T, S]) origin(kind OriginKind, listed time.Time) *Origin[S] {
	return &Origin[S]{kind, l.Shard.Value, l.Shard.Change, listed}
}

// startWarm enters the state Watching with the objects of a saved state. Without a usable one, it
// changes nothing.
func (l *Loop[T, S]) startWarm(ctx context.Context) error {
	d, until, err := l.warm.load(ctx, l.origin(WholeShard, time.Time{}))
	if err != nil || d == nil {
		return err
	}
	if err := l.put(ctx, *d); err != nil {
		return err
	}
	l.warm.loaded()
	l.Shard.Settle()
	l.listed = true
	l.read.Store(int64(len(d.Items)))
	l.state = l.state.Loaded(until, time.Now())
	return nil
}

// absent empties the sink once when discovery shows that the server has stopped serving the resource.
func (l *Loop[T, S]) absent(ctx context.Context) error {
	if l.state.List.Told {
		return nil
	}
	l.state = l.state.Gone()
	l.update(func(s *Status) { s.ResourceVersion, s.ResourceVersionTime = "", time.Time{} })
	none := &Origin[S]{Change: l.Shard.Change}
	d := Delta[T, S]{Type: Replaced, From: none}
	err := l.Sink.Put(ctx, d)
	if err == nil {
		l.state.List.Told, l.listed = true, true
		l.noteStale()
	}
	return err
}

// asked returns how to treat the objects in the response to a list of shard.
func (l *Loop[T, S]) asked(shard S) intake.Asked {
	a := l.Asked(shard)
	a.Doubtful = l.state.Doubtful()
	return a
}

// list lists the collection.
func (l *Loop[T, S]) list(ctx context.Context, from *Origin[S]) error {
	into := l.Decoder.Collector(l.asked(from.Shard), false, &l.read)
	version, err := l.Source.List(ctx, l.state.List.Least, l.PageSize, into, from.Shard.String())
	if err != nil {
		return err
	}
	w, failed := l.opened(l.Source.Ahead(ctx, version))
	defer func() { // even if a callback calls runtime.Goexit
		if w != nil && l.state.Watch.Open != w {
			l.close(w)
		}
	}()
	if err := l.replaced(ctx, from, version, into); err != nil {
		return err
	}
	l.state.Watch.Open = w
	return failed // the watch's; the sink has the list all the same
}

// moves reports whether the next step is a move.
func (l *Loop[T, S]) moves() bool { return l.state.Phase == fetch.Watching && l.Shard.HasPart() }

// move completes a sink that has a part of the shard: it adds the rest, and removes the objects outside the shard. It
// lists the rest at the version of the sink, so that the watch can resume there.
func (l *Loop[T, S]) move(ctx context.Context) error {
	d := Delta[T, S]{Type: Replaced, From: l.origin(RestOfShard, time.Time{})}
	if rest, ok := l.Shard.Rest(); ok {
		l.enter(Listing, nil)
		l.count(&l.listsBy)
		into := l.Decoder.Collector(l.Asked(rest), false, &l.read)
		err := l.Source.ListAt(ctx, l.state.Version, l.PageSize, into, rest.String())
		if err != nil {
			if ctx.Err() == nil { // otherwise the shard has changed again, and the sink still has a part
				l.state = l.state.Relist(l.state.Version, fetch.ReasonShard)
			}
			if !errors.Is(err, fetch.ErrNoListAt) {
				return err
			}
			l.Log.Info("listing the whole shard", "why", err)
			return nil
		}
		d.Items = into.Items()
	}
	if err := l.put(ctx, d); err != nil {
		return err
	}
	l.Shard.Settle()
	return nil
}

// stream reads the collection by a streaming list. The watch then stays open in the reflector's state.
func (l *Loop[T, S]) stream(ctx context.Context, from *Origin[S]) error {
	w, err := l.opened(l.Source.Stream(ctx, l.state.List.Least, from.Shard.String()))
	if err != nil {
		return err
	}
	defer func() { // even if a callback calls runtime.Goexit
		if l.state.Watch.Open != w {
			l.close(w)
		}
	}()
	into := l.Decoder.Collector(l.asked(from.Shard), true, &l.read)
	version, err := w.InitialEvents(into)
	if err != nil {
		return err
	}
	if err := l.replaced(ctx, from, version, into); err != nil {
		return err
	}
	l.state.Watch.Open = w
	return nil
}

// opened records that the watch w is open, unless err says why it is not.
func (l *Loop[T, S]) opened(w fetch.Watch, err error) (fetch.Watch, error) {
	if err == nil && w != nil {
		l.update(func(s *Status) { s.WatchOpen, s.NoWatchSince = true, time.Time{} })
	}
	return w, err
}

func (l *Loop[T, S]) close(w fetch.Watch) {
	w.Close()
	l.update(func(s *Status) { s.WatchOpen, s.NoWatchSince = false, time.Now() })
}

// watch follows the changes until the watch ends. It returns nil if the server ended the watch normally.
func (l *Loop[T, S]) watch(ctx context.Context) (err error) {
	shard := l.Shard.Value
	w := l.state.Watch.Open
	if l.state.Watch.Open = nil; w == nil {
		l.count(&l.watchesBy)
		since := l.Status().NoWatchSince
		if w, err = l.opened(l.Source.Watch(ctx, l.state, shard.String())); err != nil {
			return err
		}
		if l.Resumed != nil && (l.state.Why == fetch.ReasonFailed || l.Source.Moved()) {
			l.Resumed(time.Since(since), l.Source.Moved())
		}
	}
	defer l.close(w)
	l.Source.Awaits.Set(fetch.AwaitingData)
	into := l.Decoder.Watch(l.Asked(shard), func(o intake.Result[T]) error { return l.change(ctx, o) }, l.flush)
	err = w.Follow(into, func(version string) error {
		if err := l.tell(ctx, Delta[T, S]{Type: Bookmarked, Version: version}); err != nil {
			return err
		}
		return l.flush()
	})
	if err != nil {
		return err
	}
	caughtUp := !l.state.Watch.CatchUp.Pending()
	if l.state, err = l.state.Ended(time.Now()); err == nil && caughtUp && w.Silent() {
		err = l.probe(ctx)
	}
	return err
}

// probe checks whether the server has reached the version of a watch that had no event and no bookmark. A restored
// server may be behind: it then sends nothing until it reaches that version, and never sends the changes before it.
func (l *Loop[T, S]) probe(ctx context.Context) error {
	err := l.Source.Reaches(ctx, l.state.Version, l.Shard.Value.String())
	if fetch.IsTooLarge(err) {
		return fmt.Errorf("%w: %w", fetch.ErrWentBack, err)
	}
	return err
}

// replaced puts the whole list, as of rv, into the sink.
func (l *Loop[T, S]) replaced(ctx context.Context, from *Origin[S], rv string, read *intake.Collector[T]) error {
	restored := l.state.List.Restored
	if err := l.notBack(rv); err != nil && !restored {
		return err // read may contain the sink's copies instead of the objects that the server sent
	}
	d := Delta[T, S]{Type: Replaced, Items: read.Items(), Version: rv, Restored: l.state.Doubtful(), From: from}
	d.Undecoded = slices.Collect(read.Undecoded())
	err := l.put(ctx, d)
	if err == nil {
		l.Shard.Settle()
		l.listed = true
		l.state = l.state.Listed()
	}
	return err
}

// change puts the change of one object into the sink. It removes an object that Config.Filter rejects.
func (l *Loop[T, S]) change(ctx context.Context, o intake.Result[T]) error {
	d := Delta[T, S]{Version: o.Version}
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
		d.Type, d.Undecoded = Bookmarked, []intake.Failure{failed}
	}
	return l.tell(ctx, d)
}

// tell puts d into the sink. It returns an error if d is older than the sink.
func (l *Loop[T, S]) tell(ctx context.Context, d Delta[T, S]) error {
	if err := l.notBack(d.Version); err != nil {
		return err
	}
	if l.state.Watch.CatchUp.Pending() {
		l.state = l.state.Received(d.Version, time.Now())
		if l.state.Watch.CatchUp.Reaches(d.Version) {
			d.From = l.origin(CaughtUp, time.Time{})
		}
	}
	if err := l.put(ctx, d); err != nil || d.From == nil {
		return err
	}
	l.state.Watch.CatchUp = fetch.CatchUp{}
	l.warm.caughtUp()
	return nil
}

// notBack returns an error if resource version rv precedes that of the sink, unless versions mean nothing.
func (l *Loop[T, S]) notBack(rv string) error {
	if version := l.state.Version; !l.Source.HasValues() && rv != "" && version != "" && sources.Older(rv, version) {
		return fmt.Errorf("%w: resource version %s after %s", fetch.ErrWentBack, rv, version)
	}
	return nil
}

// errSink wraps an error of the sink, which ends the loop.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// put puts d into the sink, which then has every change up to d's version. The caller must call flush later.
func (l *Loop[T, S]) put(ctx context.Context, d Delta[T, S]) error {
	if d.Type == Replaced {
		l.Source.Awaits.Set(fetch.AwaitingSink)
	}
	if err := l.Sink.Put(ctx, d); err != nil {
		return errSink{err}
	}
	l.noteStale()
	if d.Version != "" {
		l.state.Version = d.Version
		l.update(func(s *Status) { s.ResourceVersion = d.Version })
		l.received = true
	}
	return nil
}

// noteStale records how many objects cannot be decoded as of the last delta.
func (l *Loop[T, S]) noteStale() {
	if stale := l.Sink.Stale(); stale != l.stale {
		l.stale = stale
		l.update(func(s *Status) { s.Stale = stale })
	}
}

// flush records the time of the deltas since the last flush, and flushes the sink.
func (l *Loop[T, S]) flush() error {
	if l.received {
		l.received = false
		l.update(func(s *Status) { s.ResourceVersionTime = time.Now() })
	}
	if err := l.Sink.Flush(); err != nil {
		return errSink{err}
	}
	return nil
}
