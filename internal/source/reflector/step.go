package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/status"
)

// step lists, watches or moves once.
func (l *Loop[T]) step(ctx context.Context) error {
	if l.state.Phase == fetch.Watching {
		if l.moves() {
			return l.move(ctx)
		}
		l.enter(status.ReflectorWatching, nil, "objects", l.objects(), "resourceVersion", l.state.Version)
		return l.watch(ctx)
	}
	if l.state.Phase == fetch.Polling {
		return l.poll(ctx)
	}
	return l.fill(ctx)
}

// fill lists the collection, or loads a saved state.
func (l *Loop[T]) fill(ctx context.Context) error {
	if l.state.Why != status.ReasonPolled { // otherwise, the state is Polled
		l.enter(status.ReflectorListing, nil)
	}
	if l.warm.pending() {
		if err := l.startWarm(ctx); err != nil || l.state.Phase == fetch.Watching {
			return err
		}
	}
	l.count(l.listsBy)
	l.outside = l.Decoder.Outside()
	from := l.origin(WholeShard, time.Now().Round(0))
	return l.progresses(ctx, l.empty, from.Shard, func() error {
		if l.PagedList || !l.state.Streams(time.Now()) {
			return l.list(ctx, from)
		}
		return l.stream(ctx, from)
	})
}

// progresses calls list, which reads a list of shard. first says that it fills an empty sink.
func (l *Loop[T]) progresses(ctx context.Context, first bool, shard shardset.Shard, list func() error) (err error) {
	end, done := l.Progress.Begin(ctx, first, shard.String()), false
	defer func() { end(done) }() // even if a callback calls runtime.Goexit
	err = list()
	done = err == nil || first && !l.empty // the watch after it may fail
	return err
}

// objects returns the number of objects of the last list.
func (l *Loop[T]) objects() int { return l.Progress.List.Status(0).Objects }

// origin returns the origin of a delta of that kind.
func (l *Loop[T]) origin(kind OriginKind, listed time.Time) *Origin {
	return &Origin{Kind: kind, Shard: l.Shard.Target, Change: l.Shard.Change, Listed: listed}
}

// startWarm enters the state Watching with the objects of a saved state. Without a usable one, it
// changes nothing.
func (l *Loop[T]) startWarm(ctx context.Context) error {
	d, until, err := l.warm.load(ctx, l.origin(WholeShard, time.Time{}))
	if err != nil || d == nil {
		return err
	}
	if err := l.put(ctx, *d); err != nil {
		return err
	}
	l.warm.loaded()
	l.Shard.Settle()
	l.listed, l.empty = true, false
	l.Progress.List.Loaded(len(d.Items))
	l.state = l.state.Loaded(until, time.Now())
	return nil
}

// absent empties the sink once when discovery shows that the server has stopped serving the resource.
func (l *Loop[T]) absent(ctx context.Context) error {
	if l.state.List.Told {
		return nil
	}
	l.state = l.state.Gone()
	l.update(func(r *record) { r.resourceVersion, r.resourceVersionTime = "", time.Time{} })
	none := &Origin{Change: l.Shard.Change}
	err := l.Sink.Put(ctx, Delta[T]{Type: Replaced, Namespace: l.Decoder.Namespace, From: none})
	if err == nil {
		l.state.List.Told, l.listed, l.empty = true, true, true
		l.noteStale()
	}
	return err
}

// asked returns how to treat the objects in the response to a list of shard.
func (l *Loop[T]) asked(shard shardset.Shard) intake.Asked {
	return intake.Asked{Shard: shard, Doubtful: l.state.Doubtful()}
}

// list lists the collection.
func (l *Loop[T]) list(ctx context.Context, from *Origin) error {
	into, size := l.Decoder.Collector(l.asked(from.Shard), false, l.Progress), l.PageSize
	if l.state.List.Whole {
		size = fetch.Whole
	}
	listed, err := l.Source.List(ctx, l.state.List.Least, size, into, from.Shard.String())
	if err != nil {
		return err
	}
	w, failed, err := l.ahead(ctx, listed, from)
	if err != nil {
		return err
	}
	if err := l.during(w, func() error { return l.replaced(ctx, from, listed, into) }); err != nil {
		return err
	}
	return failed // the watch's; the sink has the list all the same
}

// ahead opens the watch of a list before the sink has the list, if there is a reason: a program's function may have no
// history, and if PollEvery is negative, the sink gets no list that cannot be watched. failed is why the former is not
// open.
func (l *Loop[T]) ahead(ctx context.Context, listed fetch.Listed, from *Origin) (w fetch.Watch, failed, err error) {
	switch {
	case l.state.Polls(time.Now()):
		return nil, nil, nil
	case l.Source.HasValues():
		w, failed = l.opened(l.Source.Ahead(ctx, listed.Version))
		return w, failed, nil
	case l.PollEvery >= 0:
		return nil, nil, nil
	case listed.Version == "" && l.state.Version == "":
		return nil, nil, fmt.Errorf("list: %w: the list has no resource version", fetch.ErrNoWatch)
	}
	l.count(l.watchesBy)
	w, err = l.opened(l.Source.Watch(ctx, fetch.State{Version: listed.Version}, from.Shard.String()))
	return w, nil, err
}

// poll waits until it is time for the next list of a collection that cannot be watched.
func (l *Loop[T]) poll(ctx context.Context) error {
	every := cmp.Or(l.PollEvery, defaultPollEvery)
	l.enter(status.ReflectorPolled, nil, "objects", l.objects(), "every", every)
	l.Source.Awaits.Set(status.AwaitingRetry)
	l.update(func(r *record) { r.retryAt = time.Now().Add(every) })
	err := run.Sleep(ctx, every)
	l.update(func(r *record) { r.retryAt = time.Time{} })
	if err == nil {
		l.state = l.state.Relist(l.state.Version, status.ReasonPolled)
	}
	return err
}

// moves reports whether the next step is a move.
func (l *Loop[T]) moves() bool { return l.state.Phase == fetch.Watching && l.Shard.HasPart() }

// move completes a sink that has a part of the shard: it adds the rest, and removes the objects outside the shard. It
// lists the rest at the version of the sink, so that the watch can resume there.
func (l *Loop[T]) move(ctx context.Context) error {
	d := Delta[T]{Type: Replaced, From: l.origin(RestOfShard, time.Time{})}
	if rest, ok := l.Shard.Rest(); ok {
		l.enter(status.ReflectorListing, nil)
		l.count(l.listsBy)
		into := l.Decoder.Collector(intake.Asked{Shard: rest}, false, l.Progress)
		err := l.progresses(ctx, false, rest, func() error {
			return l.Source.ListAt(ctx, l.state.Version, l.PageSize, into, rest.String())
		})
		if err != nil {
			if ctx.Err() == nil { // otherwise the shard has changed again, and the sink still has a part
				l.state = l.state.Relist(l.state.Version, status.ReasonShard)
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
func (l *Loop[T]) stream(ctx context.Context, from *Origin) error {
	w, err := l.opened(l.Source.Stream(ctx, l.state.List.Least, from.Shard.String()))
	if err != nil {
		return err
	}
	return l.during(w, func() error {
		into := l.Decoder.Collector(l.asked(from.Shard), true, l.Progress)
		version, err := w.InitialEvents(into)
		if err != nil {
			return err
		}
		return l.replaced(ctx, from, fetch.Listed{Version: version}, into)
	})
}

// during calls list while the watch w, which may be nil, is open. If list succeeds, w stays open in the reflector's
// state.
func (l *Loop[T]) during(w fetch.Watch, list func() error) error {
	defer func() { // even if a callback calls runtime.Goexit
		if w != nil && l.state.Watch.Open != w {
			l.close(w)
		}
	}()
	if err := list(); err != nil {
		return err
	}
	l.state.Watch.Open = w
	return nil
}

// replaced puts the whole list at that position into the sink.
func (l *Loop[T]) replaced(ctx context.Context, from *Origin, listed fetch.Listed,
	read *intake.Collector[T]) error {
	rv := listed.Version
	back, err := l.precedes(rv)
	switch {
	case err != nil:
		return fmt.Errorf("list: %w", err)
	case rv == "" && object.Ordered(l.state.Version) && !l.Source.HasValues():
		return fmt.Errorf("list: %w: it is empty after %s", fetch.ErrNoNumber, l.state.Version)
	case back && !l.state.List.Restored: // read may contain the sink's copies instead of the objects that the server sent
		return fmt.Errorf("%w: resource version %s after %s", fetch.ErrWentBack, rv, l.state.Version)
	}
	if err = read.Complete(); err != nil {
		return err
	}
	d := Delta[T]{Type: Replaced, Items: read.Items(), Version: rv, Restored: l.state.Doubtful(), From: from}
	d.Undecoded = slices.Collect(read.Undecoded())
	if err = l.put(ctx, d); err == nil {
		l.Shard.Settle()
		l.listed, l.empty = true, false
		l.state = l.state.Listed(listed.Until, time.Now())
		if l.Source.HasValues() && !l.state.Polls(time.Now()) {
			l.state = l.state.Watches()
		}
	}
	if l.state.Phase == fetch.Polling {
		l.update(func(r *record) { r.noWatchSince = time.Now() })
	}
	return err
}

// change puts the change of one object into the sink. It removes an object that Config.Filter rejects.
func (l *Loop[T]) change(ctx context.Context, o intake.Result[T]) error {
	d := Delta[T]{Version: o.Version}
	if o.Ignored { // versions of different clusters do not compare
		if back, err := l.precedes(o.Version); back || err != nil {
			return nil
		}
	}
	if o.Succeeds {
		d.Version = "" // the sink has had every change up to that of the event before
	}
	gone := o.Deleted || o.Filtered
	switch {
	case o.Ignored:
		d.Type = Bookmarked
	case o.Err == nil && !o.Filtered:
		if d.Type, d.Object = Upserted, o.Object; gone {
			d.Type = Removed
		}
	case o.Key.Name == "" && errors.Is(o.Err, decode.ErrTooLarge):
		return fmt.Errorf("watch: %w: %w", fetch.ErrUnknownLarge, o.Err)
	case gone && o.Key.Name == "" && o.Err != nil:
		return fmt.Errorf("watch: %w: %w", fetch.ErrUnknownDeleted, o.Err)
	case gone && o.Key.Name == "":
		return fmt.Errorf("watch: %w: Config.Filter rejects it", fetch.ErrUnknownDeleted)
	case gone:
		d.Type, d.Key = Removed, o.Key
	default: // the sink keeps its version of the object
		d.Type, d.Undecoded = Bookmarked, []intake.Failure{l.Decoder.Failed(&o)}
	}
	return l.tell(ctx, o.Key, d)
}

// tell puts d into the sink: the change of the object with that key, or a bookmark. It returns an error if the server
// went back in time.
func (l *Loop[T]) tell(ctx context.Context, key object.Key, d Delta[T]) error {
	back, err := l.precedes(d.Version)
	if err != nil {
		return err
	}
	again, err := l.again(ctx, key, d.Version)
	switch {
	case err != nil:
		return err
	case again:
		d = Delta[T]{Type: Bookmarked, Version: d.Version}
	case back:
		if err := l.late(ctx, key, d.Version); err != nil {
			return err
		}
	}
	if back {
		d.Version = l.state.Version
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

// again reports whether an event of the object with that key, at resource version rv, is part of the list already: the
// pages of the list were of different versions, and the sink has a later version of the object.
func (l *Loop[T]) again(ctx context.Context, key object.Key, rv string) (bool, error) {
	switch until := l.state.Watch.Until; {
	case until == "" || rv == "":
		return false, nil
	case object.Older(until, rv):
		l.state.Watch.Until = ""
		return false, nil
	case key.Name == "":
		return false, nil
	}
	held, _, err := l.Sink.Held(ctx, key)
	if err != nil {
		return false, errSink{err}
	}
	return object.Older(rv, held), nil
}

// late returns an error if an event of the object with that key, at resource version rv, shows that the server went
// back in time: the sink has a later version of the object, or may have one. Otherwise the event comes late. Some
// servers send a bookmark before the events that precede it, or an older version with a deletion. Since a watch that
// resumes at such a bookmark would lose these events, each resumed watch is audited from then on.
func (l *Loop[T]) late(ctx context.Context, key object.Key, rv string) error {
	after := l.state.Version
	if key.Name != "" {
		held, ok, err := l.Sink.Held(ctx, key)
		switch {
		case err != nil:
			return errSink{err}
		case ok && !object.Older(rv, held):
			if l.lateEvents() == 0 {
				l.Log.Warn("the server sent an event that is older than the resource version before it: "+
					"auditing whenever a watch resumes", "event", rv, "resourceVersion", after)
			}
			l.update(func(r *record) { r.late++ })
			return nil
		case ok:
			after = held + " of the same object"
		}
	}
	return fmt.Errorf("%w: resource version %s after %s", fetch.ErrWentBack, rv, after)
}

// precedes reports whether resource version rv precedes that of the sink. It returns an error if rv is not a number,
// but that of the sink is. The versions of a program's function mean nothing.
func (l *Loop[T]) precedes(rv string) (bool, error) {
	version := l.state.Version
	if rv == "" || version == "" || l.Source.HasValues() {
		return false, nil
	}
	back, err := resourceversion.CompareResourceVersion(rv, version)
	if err != nil && object.Ordered(version) {
		return false, fmt.Errorf("%w: %.100q after %s", fetch.ErrNoNumber, rv, version)
	}
	return back < 0, nil
}

// errSink wraps an error of the sink, which ends the loop.
type errSink struct{ error }

func (e errSink) Unwrap() error { return e.error }

// put puts d into the sink, which then has every change up to d's version. The caller must call flush later.
func (l *Loop[T]) put(ctx context.Context, d Delta[T]) error {
	if d.Type == Replaced {
		l.Source.Awaits.Set(status.AwaitingSink)
	}
	d.Namespace = l.Decoder.Namespace
	if err := l.Sink.Put(ctx, d); err != nil {
		return errSink{err}
	}
	l.noteStale()
	if d.Version != "" {
		l.state.Version = d.Version
		l.update(func(r *record) { r.resourceVersion = d.Version })
		l.received = true
	}
	return nil
}

// noteStale records how many objects cannot be decoded as of the last delta.
func (l *Loop[T]) noteStale() {
	if stale := l.Sink.Stale(); stale != l.stale {
		l.stale = stale
		l.update(func(r *record) { r.stale = stale })
	}
}

// flush records the time of the deltas since the last flush, and flushes the sink.
func (l *Loop[T]) flush() error {
	if l.received {
		l.received = false
		l.update(func(r *record) { r.resourceVersionTime = time.Now() })
	}
	if err := l.Sink.Flush(); err != nil {
		return errSink{err}
	}
	return nil
}
