package reflector

import (
	"context"
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/status"
)

// opened records that the watch w is open, unless err says why it is not.
func (l *Loop[T]) opened(w fetch.Watch, err error) (fetch.Watch, error) {
	if err == nil && w != nil {
		l.update(func(r *record) { r.watchOpen, r.noWatchSince = true, time.Time{} })
	}
	return w, err
}

func (l *Loop[T]) close(w fetch.Watch) {
	w.Close()
	l.update(func(r *record) { r.watchOpen, r.noWatchSince = false, time.Now() })
}

// watch follows the changes until the watch ends. It returns nil if the server ended the watch normally.
func (l *Loop[T]) watch(ctx context.Context) (err error) {
	w := l.state.Watch.Open
	if l.state.Watch.Open = nil; w == nil {
		if w, err = l.resume(ctx); err != nil {
			return err
		}
	}
	defer l.close(w)
	l.Source.Awaits.Set(status.AwaitingData)
	into := l.Decoder.Watch(intake.Asked{Shard: l.Shard.Target},
		func(o intake.Result[T]) error { return l.change(ctx, o) }, l.flush)
	err = w.Follow(into, func(version string) error {
		if err := l.tell(ctx, object.Key{}, Delta[T]{Type: Bookmarked, Version: version}); err != nil {
			return err
		}
		return l.flush()
	})
	if err != nil {
		return err
	}
	return l.watched(ctx, w)
}

// watched enters the state after the server has ended the watch w normally.
func (l *Loop[T]) watched(ctx context.Context, w fetch.Watch) (err error) {
	caughtUp := !l.state.Watch.CatchUp.Pending()
	if l.state, err = l.state.Ended(time.Now()); err == nil && caughtUp && w.Silent() {
		err = l.probe(ctx)
	}
	return err
}

// resume opens a watch at the version of the sink.
func (l *Loop[T]) resume(ctx context.Context) (fetch.Watch, error) {
	l.count(l.watchesBy)
	since := l.noWatchSince()
	w, err := l.opened(l.Source.Watch(ctx, l.state, l.Shard.Target.String()))
	if err == nil {
		l.resumed(since)
	}
	return w, err
}

// resumed reports that a watch has resumed at the version of the sink. No watch was open since then.
func (l *Loop[T]) resumed(since time.Time) {
	unsure := l.Source.Moved() || l.lateEvents() > 0 && l.state.Why != status.ReasonFirst
	if l.Resumed != nil && (unsure || l.state.Why == status.ReasonFailed) {
		l.Resumed(time.Since(since), unsure)
	}
}

// probe checks whether the server has reached the version of a watch that had no event and no bookmark. A restored
// server may be behind: it then sends nothing until it reaches that version, and never sends the changes before it.
func (l *Loop[T]) probe(ctx context.Context) error {
	err := l.Source.Reaches(ctx, l.state.Version, l.Shard.Target.String())
	if fetch.IsTooLarge(err) {
		return fmt.Errorf("%w: %w", fetch.ErrBehind, err)
	}
	return err
}
