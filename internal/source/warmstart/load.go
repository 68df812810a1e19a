package warmstart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

const (
	// maxFromFuture is the age that a saved state may lack: clocks differ.
	maxFromFuture = time.Minute
	// maxSinceList is the age of the last list after which a start lists. A server that was restored from a backup, and
	// has passed the version of the saved state since, may have other objects at the same versions. Only a list shows
	// that.
	maxSinceList = 24 * time.Hour
	// maxLoads is the number of failed loads after which the caller lists, if the server is not down.
	maxLoads = 3
)

// Cold is why to list the collection, although there is a storage of saved states.
type Cold struct{ Why error }

func (c Cold) Error() string { return c.Why.Error() }

// Unwrap returns the reason.
func (c Cold) Unwrap() error { return c.Why }

// coldBecause returns a Cold with a text.
func coldBecause(format string, args ...any) error { return Cold{fmt.Errorf(format, args...)} }

// Loaded describes the objects that [State.Load] has read.
type Loaded struct {
	Version string    // their resource version
	Listed  time.Time // when the list began from which they come
	Current string    // the resource version that the server has now
}

// Load reads the saved state of shard, and calls take for each object. The objects are of use only if Load returns no
// error. It returns a [Cold] if the caller has to list, and another error if it should call Load again, since a request
// has failed.
func (s *State) Load(ctx context.Context, shard string, take func(object.Object)) (Loaded, error) {
	l, err := s.read(ctx, shard, take)
	if err != nil && ctx.Err() == nil && s.givesUp(err) {
		err = coldBecause("the saved state cannot be checked against the server: %w", err)
	}
	if errors.As(err, new(Cold)) && !errors.Is(err, errNotIdentified) {
		// The last save, which may come at any time, needs it. The one before tries again.
		_, _ = s.config.Cluster.UID(ctx, s.config.Client, false)
	}
	return l, err
}

// givesUp reports whether to list instead of another load after err. A list needs less of the server than a load: it
// may succeed although the requests of Load never do. While the server is down, the caller waits for it.
func (s *State) givesUp(err error) bool {
	if errors.As(err, new(Cold)) {
		return false
	}
	identifying := errors.Is(err, errNotIdentified) // the server has answered the request before, so it is not down
	switch code := transport.StatusCode(err); {
	case code == http.StatusNotFound || transport.IsUnreachable(err):
		return false
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		if !identifying {
			return false
		}
	case code == http.StatusBadGateway || code == http.StatusGatewayTimeout: // of a proxy
	case code != 0:
		return true
	}
	s.failures++
	return s.failures >= maxLoads
}

// read is Load without the decision what to do after a failure.
func (s *State) read(ctx context.Context, shard string, take func(object.Object)) (l Loaded, err error) {
	began := time.Now()
	s.config.Source.Loading()
	body, err := s.config.Storage.Load(ctx, s.name)
	switch {
	case ctx.Err() != nil:
		return l, context.Cause(ctx)
	case errors.Is(err, os.ErrNotExist):
		return l, coldBecause("there is no saved state yet: %w", err)
	case err != nil:
		return l, coldBecause("the saved state cannot be read: %w", err)
	}
	defer body.Close()
	file, err := snapshotfile.NewReader(body)
	if err != nil {
		return l, s.unreadable(ctx, err)
	}
	var h Header
	if err := json.Unmarshal(file.Header, &h); err != nil {
		return l, s.unreadable(ctx, err)
	}
	if err := s.usable(&h, shard); err != nil {
		return l, err
	}
	if l.Current, err = s.config.Source.Current(ctx, shard); err != nil {
		return l, err
	}
	cluster, err := s.config.Cluster.UID(ctx, s.config.Client, false)
	if err != nil {
		return l, err
	}
	l.Version, l.Listed = h.ResourceVersion, h.Listed
	if err := sameServer(&h, cluster, l.Current); err != nil {
		return l, err
	}
	s.config.Source.Loading()
	n := 0
	err = s.items(ctx, file, func(obj object.Object) {
		n++
		take(obj)
	})
	if err != nil {
		return l, s.unreadable(ctx, err)
	}
	s.update(func(st *status.WarmStart) {
		st.Loaded, st.LoadedAge, st.LoadTime = true, began.Sub(h.Time), time.Since(began)
		st.LoadedObjects, st.LoadedVersion = n, l.Version
		if l.Current != l.Version {
			st.CatchUpTo = l.Current
		}
		s.stored = stored{version: l.Version, shard: h.Shard, listed: h.Listed, time: h.Time}
	})
	return l, nil
}

// usable returns an error if a saved state with this header is of another collection, of another shard or too old.
func (s *State) usable(h *Header, shard string) error {
	want := s.config.Cluster.identify(s.config.Identity)
	want.Shard = shard
	if reason := h.differs(&want); reason != "" {
		return coldBecause("the saved state is not usable: %s", reason)
	}
	age, listed := time.Since(h.Time), time.Since(h.Listed)
	switch {
	case age > s.config.MaxAge:
		return coldBecause("the saved state is too old: it was saved %v ago, and Config.WarmStart.MaxAge is %v",
			age.Round(time.Second), s.config.MaxAge)
	case listed > maxSinceList:
		return coldBecause("the saved state is too old: the last list of the whole collection was %v ago, and the limit is %v",
			listed.Round(time.Second), maxSinceList)
	case age < -maxFromFuture:
		return coldBecause("the saved state is not usable: it was saved %v in the future", -age.Round(time.Second))
	case listed < -maxFromFuture:
		return coldBecause("the saved state is not usable: its list began %v in the future", -listed.Round(time.Second))
	}
	return nil
}

// sameServer returns an error unless a saved state with this header is of the cluster, whose collection has the
// resource version current now.
func sameServer(h *Header, cluster, current string) error {
	switch {
	case h.Cluster != cluster && (h.Cluster == "" || cluster == ""):
		return coldBecause("the saved state is not usable: it may be from another server. The informer compares the UID of " +
			"the namespace kube-system, and cannot get that namespace, or could not when it saved the state")
	case h.Cluster != cluster:
		return coldBecause("the saved state is not usable: it is from another cluster, "+
			"whose namespace kube-system has the UID %.100s, not %s", h.Cluster, cluster)
	}
	switch n, err := resourceversion.CompareResourceVersion(current, h.ResourceVersion); {
	case err != nil:
		return coldBecause("the saved state is not usable: the resource versions %.100q and %.100q are not numbers",
			h.ResourceVersion, current)
	case n < 0:
		return coldBecause("the saved state is not usable: the server was restored to resource version %s, "+
			"before that of the saved state, %s", current, h.ResourceVersion)
	}
	return nil
}

// unreadable returns a Cold for an error of a file, or the cause of ctx.
func (s *State) unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return coldBecause("the saved state cannot be read: %w", err)
}

// GiveUp notes the cause for which the collection is listed, although there may be a saved state.
func (s *State) GiveUp(cause error) {
	s.update(func(st *status.WarmStart) { st.LoadError, st.CatchUpTo = cause, "" })
	level := slog.LevelInfo
	if errors.As(cause, new(*snapshotfile.DamagedError)) {
		level = slog.LevelWarn
	}
	s.config.Log.Log(context.Background(), level, "listing instead of a warm start", "why", cause)
}

// block is a block of a saved state, and its objects.
type block struct {
	raw   *[]byte
	items []object.Object
	err   error
}

// items restores the objects of a file, on several goroutines, and calls take for each object, one at a time.
func (s *State) items(ctx context.Context, file *snapshotfile.Reader, take func(object.Object)) (err error) {
	var buffers sync.Pool
	p := run.Pipeline[block]{
		Open:   func() *block { return &block{} },
		Full:   func(b *block) bool { return b.raw != nil },
		Do:     s.decode,
		Cancel: func(error) {},
		Hand: func(b *block) error {
			buffers.Put(b.raw)
			for _, obj := range b.items {
				take(obj)
			}
			return b.err
		},
		Workers: run.Workers(),
	}
	for err == nil && ctx.Err() == nil && !p.Failed() {
		buf, ok := buffers.Get().(*[]byte)
		if !ok {
			buf = new([]byte)
		}
		if *buf, err = file.Next(*buf); err == nil {
			p.Add(func(b *block) { b.raw = buf })
			p.Flush(func(*block) run.Dispatch { return run.ByWorker })
		}
	}
	switch failed := p.Wait(); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed != nil:
		return failed
	case err != io.EOF:
		return err
	}
	return nil
}

// decode restores the objects of a block.
func (s *State) decode(b *block) {
	decoder := s.config.Decoders.Get()
	var r snapshotfile.Record
	for rest := *b.raw; len(rest) > 0 && b.err == nil; {
		if r, rest, b.err = snapshotfile.Cut(rest); b.err == nil {
			var obj object.Object
			if obj, b.err = s.object(decoder, r); b.err == nil {
				b.items = append(b.items, obj)
			}
		}
	}
	s.config.Decoders.Put(decoder)
}

// object returns the object of a record.
func (s *State) object(decoder *decode.Decoder, r snapshotfile.Record) (obj object.Object, err error) {
	f := formatOf(r)
	if err := s.config.Decoders.Check(f); err != nil {
		return obj, errors.New("damaged: an object is in another format than the type has")
	}
	encoded := decode.Encoded{Format: f, Raw: r.Raw, List: listOf(r)}
	if err := s.config.Kind.Check(encoded); err != nil {
		return obj, fmt.Errorf("damaged: %w", err)
	}
	obj, err = s.config.Packing.Restored(decoder, encoded, s.config.Share)
	if err != nil {
		return obj, fmt.Errorf("an object cannot be decoded: %w", err)
	}
	if ns := s.config.Identity.Namespace; ns != "" && obj.GetNamespace() != ns {
		return obj, errors.New("damaged: an object is of another namespace")
	}
	return obj, nil
}
