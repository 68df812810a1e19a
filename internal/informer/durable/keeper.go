package durable

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
	"github.com/typedinformer/informer/status"
)

// Keeper keeps the state of a subscription. It is a [deliver.Keeper].
type Keeper[T object.Object] struct {
	config   Config
	book     *book[T]
	files    *files
	listener *deliver.Listener[T] // nil before Prepare
	compared bool

	cluster, server string    // the present ones
	began           time.Time // of the last save
	rests           time.Time // until then, unknown keys are not compared

	mu     sync.Mutex // protects status
	status status.Durable
}

// New returns the keeper of a subscription to store, whose objects packing has made.
func New[T object.Object](c Config, store Store[T], packing intake.Packing[T]) *Keeper[T] {
	codec := &codec[T]{objects: c.Objects, packing: packing, decoders: c.Decoders, metadata: c.Metadata}
	return &Keeper[T]{config: c, book: newBook(store, codec), files: newFiles(&c)}
}

// Handler returns the handler of the listener, which calls next.
func (k *Keeper[T]) Handler(next deliver.Handler[T]) deliver.Handler[T] {
	return handler[T]{next, k.book, k.config.NewOnly, k.config.Recovers, func() *deliver.Listener[T] { return k.listener }}
}

// Status implements deliver.Keeper.
func (k *Keeper[T]) Status() status.Durable {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	if all, unknown, ok := k.book.len(); ok {
		s.Acknowledged, s.Unknown = all, unknown
	}
	return s
}

func (k *Keeper[T]) update(change func(*status.Durable)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(&k.status)
}

const (
	// askAgainAfter is the wait before another request to identify the server.
	askAgainAfter = 5 * time.Second
	// catchUpTime is how long the comparison waits for a server that is behind what the handler has. A server that is
	// restored from a backup is behind forever.
	catchUpTime = 30 * time.Second
)

// Prepare implements deliver.Keeper. It reads the state.
func (k *Keeper[T]) Prepare(ctx context.Context, l *deliver.Listener[T]) error {
	k.listener = l
	if err := k.identify(ctx); err != nil {
		return err
	}
	k.book.ask()
	return run.Apart(func() error { // the storage is the program's
		s, err := k.files.load(ctx, &k.config)
		if err != nil || s == nil {
			return err
		}
		defer s.close()
		return k.load(ctx, s)
	})
}

// identify asks which cluster the server is of, until it knows.
func (k *Keeper[T]) identify(ctx context.Context) (err error) {
	for failed := false; ; failed = true {
		if k.cluster, k.server, err = k.config.Identify(ctx); err == nil {
			return nil
		}
		if !failed {
			k.config.Log.Warn("a durable subscription waits: the server cannot be identified", "name", k.config.Name, "why", err)
		}
		if err := run.Sleep(ctx, askAgainAfter); err != nil {
			return err
		}
	}
}

// sameServer returns an error if the state is of another cluster.
func (k *Keeper[T]) sameServer(h *header) error {
	switch {
	case h.Cluster != "" && k.cluster != "":
		if h.Cluster != k.cluster {
			return k.files.unusable(k.files.base, fmt.Errorf("it is of another cluster, whose namespace kube-system has the UID "+
				"%.100s, not %s", h.Cluster, k.cluster))
		}
	case h.Server != k.server:
		return k.files.unusable(k.files.base, fmt.Errorf("it may be of another cluster: it is of the server %.200s, not %s, "+
			"and the client may not get the namespace kube-system, whose UID identifies a cluster", h.Server, k.server))
	}
	if k.cluster == "" {
		k.cluster = h.Cluster
	}
	return nil
}

// load reads a state, and compares it with the store.
func (k *Keeper[T]) load(ctx context.Context, s *state) error {
	h := k.files.header
	if err := k.sameServer(&h); err != nil {
		return err
	}
	highest, err := k.catchUp(ctx, h.Highest)
	if err != nil {
		return err
	}
	began, view := time.Now(), k.book.store.View()
	k.book.highest, k.book.initial = highest, h.Initial
	differences := 0
	err = k.files.all(ctx, s, func(r *snapshotfile.Record, changed bool) error {
		differs, err := k.book.load(view, r, changed)
		if differs {
			differences++
		}
		return err
	})
	if err != nil {
		return err
	}
	all, _, _ := k.book.len()
	k.update(func(st *status.Durable) {
		st.Continues, st.LoadedKeys, st.LoadedAge = true, all, began.Sub(h.Time)
		st.LoadTime, st.Differences = time.Since(began), differences
	})
	k.config.Log.Info("a durable subscription continues", "name", k.config.Name, "acknowledged", all, "age", began.Sub(h.Time),
		"took", time.Since(began))
	return nil
}

// catchUp waits until the store has what the handler has: a server may answer the first list with an older state. It
// returns the version that the server has reached: highest, or less if the server was restored from a backup.
func (k *Keeper[T]) catchUp(ctx context.Context, highest string) (reached string, err error) {
	if !object.Ordered(highest) {
		return highest, nil
	}
	late := time.NewTimer(catchUpTime)
	defer late.Stop()
	for {
		published := k.book.store.Published()
		view := k.book.store.View()
		version := view.ResourceVersion()
		isSilent := version == "" && view.Len() > 0 // its selections may not agree yet
		if !isSilent && !object.Ordered(version) || object.Reached(version, highest) {
			return highest, nil
		}
		select {
		case <-published:
		case <-late.C:
			k.config.Log.Warn("a durable subscription does not wait longer for the server to reach what its handler has",
				"name", k.config.Name, "resourceVersion", version, "acknowledged", highest)
			return cmp.Or(version, highest), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// Compare implements deliver.Keeper.
func (k *Keeper[T]) Compare(given map[object.Key]T) []deliver.Change[T] {
	k.compared = true
	return k.book.compare(given)
}

// Keep implements deliver.Keeper.
func (k *Keeper[T]) Keep(ctx context.Context, l *deliver.Listener[T]) {
	synced := l.Synced()
	timer := time.NewTimer(k.config.Interval)
	defer timer.Stop()
	var since time.Time // when there was first something to save; zero if there is nothing
	for ctx.Err() == nil {
		timer.Stop()
		if due, ok := k.due(since); ok {
			left := time.Until(due)
			if left <= 0 {
				since = k.saveDue(ctx, l)
				continue
			}
			timer.Reset(left)
		}
		select {
		case <-k.book.wake:
			if since.IsZero() {
				since = time.Now()
			}
		case <-synced:
			synced = nil
			if k.book.synced(); since.IsZero() {
				since = time.Now()
			}
		case <-timer.C:
			since = k.saveDue(ctx, l)
		case <-ctx.Done():
			return
		}
	}
}

// saveDue compares unknown keys again, and saves if there is something to save. It returns since when there is
// something, or zero if there is nothing.
func (k *Keeper[T]) saveDue(ctx context.Context, l *deliver.Listener[T]) (since time.Time) {
	k.compareAgain(l)
	if unsaved, _ := k.book.wants(); unsaved && k.save(ctx) != nil {
		return time.Now()
	}
	return time.Time{}
}

// compareAgain compares the unknown keys again. The informer waits meanwhile, so this takes at most a hundredth of the
// time.
func (k *Keeper[T]) compareAgain(l *deliver.Listener[T]) {
	began := time.Now()
	if _, unknown, _ := k.book.len(); unknown == 0 || began.Before(k.rests) {
		return
	}
	k.book.ask()
	l.Compare()
	k.rests = time.Now().Add(100 * time.Since(began))
}

// due returns when to save next. An addition that waits makes it earlier, so that it waits only after a recent save.
func (k *Keeper[T]) due(since time.Time) (due time.Time, ok bool) {
	if _, waits := k.book.wants(); waits {
		return k.began.Add(k.config.Interval), true
	}
	if _, unknown, _ := k.book.len(); since.IsZero() && unknown > 0 {
		since = time.Now()
	}
	return since.Add(k.config.Interval), !since.IsZero()
}

// Close implements deliver.Keeper.
func (k *Keeper[T]) Close() {
	if k.compared {
		k.book.quiet()
		if run.IsClosed(k.listener.Synced()) {
			k.book.synced()
		}
		if unsaved, _ := k.book.wants(); unsaved {
			_ = k.save(context.Background())
		}
	}
	all, unknown, _ := k.book.len()
	k.update(func(st *status.Durable) {
		if k.compared {
			st.Acknowledged, st.Unknown = all, unknown
		}
		k.book.drop()
	})
}

// save saves once. It notes a failure in the status, and logs it unless the save before failed, too.
func (k *Keeper[T]) save(ctx context.Context) error {
	began := time.Now()
	k.began = began
	p := k.book.plan(k.files.wantsBase())
	h := header{
		Name: k.config.Name, Resource: k.config.Resource.String(), Cluster: k.cluster, Server: k.server,
		Time: began, Highest: p.highest, Initial: p.initial,
	}
	var written int64
	err := run.Apart(func() (err error) {
		written, err = k.files.save(ctx, h, p.base, p.records())
		return err
	})
	k.book.saved(p, err)
	if err != nil && ctx.Err() != nil {
		return err // the last save follows
	}
	var before error
	k.update(func(st *status.Durable) {
		before, st.SaveError = st.SaveError, err
		if err == nil {
			st.Saves++
			st.SavedAt, st.SavedBytes, st.SaveTime = began, written, time.Since(began)
			st.StoredBytes = k.files.baseBytes + k.files.changesBytes
		}
	})
	switch {
	case err != nil && before == nil:
		k.config.Log.Warn("the state of a durable subscription cannot be saved; its additions wait", "name", k.config.Name, "why", err)
	case err == nil && before != nil:
		k.config.Log.Info("saving the state of a durable subscription succeeds again", "name", k.config.Name)
	}
	return err
}
