package informer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/snapshotfile"
	"github.com/typedinformer/informer/internal/transport"
)

const (
	// maxFromFuture is the age that a saved state may lack: clocks differ.
	maxFromFuture = time.Minute
	// maxSinceList is the age of the last list after which a start lists. A server that was restored from a backup, and
	// has passed the version of the saved state since, may have other objects at the same versions. Only a list shows
	// that.
	maxSinceList = 24 * time.Hour
	// maxLoads is the number of failed loads after which the reflector lists, if the server is not down.
	maxLoads = 3
)

// coldStart is why a reflector lists, although there is a storage of saved states.
type coldStart struct{ error }

func (c coldStart) Unwrap() error { return c.error }

// coldBecause returns a coldStart with a text.
func coldBecause(format string, args ...any) error { return coldStart{fmt.Errorf(format, args...)} }

// savedStates loads and saves the states of one reflector.
type savedStates[T Object] struct {
	config   WarmStartConfig
	client   *Client
	decoders *decode.Pool
	packing  packing[T]
	share    bool
	identity savedIdentity // without Shard and Cluster
	name     string        // in the storage

	failures int   // failed loads that count; only the goroutine of the reflector uses it
	saver    saver // only the goroutine that saves uses it

	mu     sync.Mutex // protects the fields below
	status WarmStartStatus
	stored stored
}

// stored describes the saved state in the storage, as far as it is known.
type stored struct {
	version, shard string
	listed, time   time.Time
}

// saver is what save keeps from one save to the next.
type saver struct {
	seed    maphash.Seed
	checked map[uint64]bool // the versions whose encoding loses nothing: true for protobuf
	buf     []byte          // scratch memory
}

// savedIdentity is what a saved state and the informer that loads it must have in common.
type savedIdentity struct {
	Server, CA, Cluster          string
	Resource                     schema.GroupVersionResource
	Namespace                    string
	LabelSelector, FieldSelector string
	Shard                        string
	Type, Fields                 string // the name of the Go type, and a checksum of its fields
	ManagedFields                bool
	Transform, Filter            bool
	Revision                     string
}

// savedHeader is the header of a saved state, in JSON.
type savedHeader struct {
	savedIdentity
	ResourceVersion string
	Time            time.Time
	Listed          time.Time // when the list began from which the objects come, with later changes
}

// newSavedStates returns the saved states of a reflector that decodes with d. It returns nil if there is no storage.
func newSavedStates[T Object](client *Client, d *decoder[T]) *savedStates[T] {
	config := d.config
	if config.WarmStart.Storage == nil {
		return nil
	}
	server := *client.http.Base
	server.User = nil // saved states and logs have no credentials
	s := &savedStates[T]{config: config.WarmStart, client: client, decoders: d.Pool, packing: d.packing,
		share: config.Share, saver: saver{seed: maphash.MakeSeed()}}
	s.identity = savedIdentity{
		Server:        server.String(),
		CA:            client.server.ca,
		Resource:      d.resource.GroupVersionResource,
		Namespace:     d.namespace,
		LabelSelector: d.resource.LabelSelector,
		FieldSelector: d.resource.FieldSelector,
		Type:          nameOfType(d.Type()),
		Fields:        sumOfFields(d.Type()),
		ManagedFields: config.KeepManagedFields,
		Transform:     config.Transform != nil,
		Filter:        config.Filter != nil,
		Revision:      config.WarmStart.Revision,
	}
	i := &s.identity
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{i.Resource.Group, i.Resource.Version, i.Resource.Resource,
		i.Namespace, i.LabelSelector, i.FieldSelector, i.Type}))
	s.name = i.Resource.Resource + "-" + hex.EncodeToString(sum[:8]) + ".snapshot"
	return s
}

// update changes the status, with the lock held.
func (s *savedStates[T]) update(change func(*WarmStartStatus)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// present returns the present status. s may be nil.
func (s *savedStates[T]) present() WarmStartStatus {
	if s == nil {
		return WarmStartStatus{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// differs returns how the identity of a saved state differs from want, or "".
func (i *savedIdentity) differs(want *savedIdentity) string {
	switch {
	case i.Server != want.Server:
		return fmt.Sprintf("it is from the server %.200s, not %s", i.Server, want.Server)
	case i.CA != want.CA:
		return "it is from a server with another certificate authority"
	case i.Resource != want.Resource || i.Namespace != want.Namespace || i.LabelSelector != want.LabelSelector ||
		i.FieldSelector != want.FieldSelector:
		return "it is of another resource, namespace or selector"
	case i.Type != want.Type:
		return fmt.Sprintf("it is of the Go type %.200s, not %s", i.Type, want.Type)
	case i.Fields != want.Fields:
		return fmt.Sprintf("the fields of %s have changed", want.Type)
	case i.ManagedFields != want.ManagedFields:
		return "Config.KeepManagedFields has changed"
	case i.Transform != want.Transform:
		return "Config.Transform has changed"
	case i.Filter != want.Filter:
		return "Config.Filter has changed"
	case i.Revision != want.Revision:
		return fmt.Sprintf("it has the revision %.100q, not %q", i.Revision, want.Revision)
	case i.Shard != want.Shard:
		return "it is of another shard"
	}
	return ""
}

// loaded is the content of a saved state.
type loaded[T Object] struct {
	items   []T
	version string    // the resource version of the items
	listed  time.Time // when the list began from which the items come
	current string    // the resource version that the server has now
}

// load reads the saved state of shard. It returns a coldStart if the reflector has to list, and another error if it
// should call load again, since a request has failed.
func (s *savedStates[T]) load(ctx context.Context, source *fetch.Source, shard Shard) (loaded[T], error) {
	l, err := s.read(ctx, source, shard)
	if err != nil && ctx.Err() == nil && s.givesUp(err) {
		err = coldBecause("the saved state cannot be checked against the server: %w", err)
	}
	if cold := (coldStart{}); errors.As(err, &cold) && !errors.Is(err, errNotIdentified) {
		_, _ = s.client.cluster(ctx) // the last save, which may come at any time, needs it; the one before tries again
	}
	return l, err
}

// givesUp reports whether to list instead of another load after err. A list needs less of the server than a load: it
// may succeed although the requests of load never do. While the server is down, load waits for it.
func (s *savedStates[T]) givesUp(err error) bool {
	if errors.As(err, new(coldStart)) {
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

// read is load without the decision what to do after a failure.
func (s *savedStates[T]) read(ctx context.Context, source *fetch.Source,
	shard Shard) (l loaded[T], err error) {
	began := time.Now()
	source.Awaits.Set(fetch.AwaitingWarmStart)
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
	var h savedHeader
	if err := json.Unmarshal(file.Header, &h); err != nil {
		return l, s.unreadable(ctx, err)
	}
	want := s.identity
	want.Shard = shard.String()
	age := time.Since(h.Time)
	if reason := h.differs(&want); reason != "" {
		return l, coldBecause("the saved state is not usable: %s", reason)
	}
	switch {
	case age > s.config.maxAge():
		return l, coldBecause("the saved state is too old: it was saved %v ago, and Config.WarmStart.MaxAge is %v",
			age.Round(time.Second), s.config.maxAge())
	case time.Since(h.Listed) > maxSinceList:
		return l, coldBecause("the saved state is too old: "+
			"the last list of the whole collection was %v ago, and the limit is %v",
			time.Since(h.Listed).Round(time.Second), maxSinceList)
	case age < -maxFromFuture:
		return l, coldBecause("the saved state is not usable: it was saved %v in the future", -age.Round(time.Second))
	case time.Since(h.Listed) < -maxFromFuture:
		return l, coldBecause("the saved state is not usable: its list began %v in the future",
			-time.Since(h.Listed).Round(time.Second))
	}
	var one fetch.ID
	if l.current, one, err = source.Current(ctx, want.Shard); err != nil {
		return l, err
	}
	cluster, err := s.client.cluster(ctx)
	switch {
	case err != nil:
		return l, err
	case h.Cluster != cluster && (h.Cluster == "" || cluster == ""):
		return l, coldBecause("the saved state is not usable: the UID of the namespace kube-system would show whether it " +
			"is from this server, but the informer may not get that namespace, or could not at the save")
	case h.Cluster != cluster:
		return l, coldBecause("the saved state is not usable: it is from another cluster, "+
			"whose namespace kube-system has the UID %.100s, not %s", h.Cluster, cluster)
	}
	switch l.version, l.listed = h.ResourceVersion, h.Listed; {
	case !reached(l.current, l.current) || !reached(l.version, l.version):
		return l, coldBecause("the saved state is not usable: the resource versions %.100q and %.100q are not numbers",
			l.version, l.current)
	case older(l.current, l.version):
		return l, coldBecause("the saved state is not usable: the server was restored to resource version %s, "+
			"before that of the saved state, %s", l.current, l.version)
	}
	source.Awaits.Set(fetch.AwaitingWarmStart)
	if l.items, err = s.items(ctx, file); err != nil {
		return l, s.unreadable(ctx, err)
	}
	if !s.holds(l, one, shard) {
		return l, coldBecause("the saved state is not usable: it does not have %s with resource version %s, "+
			"which the server has had since before the save: the server was restored",
			Key{Namespace: one.Namespace, Name: one.Name}, one.Version)
	}
	s.update(func(st *WarmStartStatus) {
		st.Loaded, st.LoadedAge, st.LoadTime = true, age, time.Since(began)
		st.LoadedObjects, st.LoadedVersion = len(l.items), l.version
		if l.current != l.version {
			st.CatchUpTo = l.current
		}
		s.stored = stored{l.version, h.Shard, h.Listed, h.Time}
	})
	return l, nil
}

// holds reports whether the objects of a saved state include the version one of an object, if they must: the server has
// it now, and had it when the saved state was saved.
func (s *savedStates[T]) holds(l loaded[T], one fetch.ID, shard Shard) bool {
	if one.Version == "" || !reached(l.version, one.Version) || s.identity.Filter || s.identity.Transform ||
		len(shard.Ranges) > 0 {
		return true
	}
	return slices.ContainsFunc(l.items, func(obj T) bool {
		uid := string(obj.GetUID())
		return obj.GetName() == one.Name && obj.GetNamespace() == one.Namespace &&
			obj.GetResourceVersion() == one.Version && (uid == "" || uid == one.UID)
	})
}

// unreadable returns a coldStart for an error of a file, or the cause of ctx.
func (s *savedStates[T]) unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return coldBecause("the saved state cannot be read: %w", err)
}

// block is a block of a saved state, and its objects.
type block[T Object] struct {
	raw   *[]byte
	items []T
	err   error
}

// items decodes the records of a file, on several goroutines.
func (s *savedStates[T]) items(ctx context.Context, file *snapshotfile.Reader) (items []T, err error) {
	var buffers sync.Pool
	p := run.Pipeline[block[T]]{
		Open:   func() *block[T] { return &block[T]{} },
		Full:   func(b *block[T]) bool { return b.raw != nil },
		Do:     s.decode,
		Cancel: func(error) {},
		Hand: func(b *block[T]) error {
			buffers.Put(b.raw)
			items = append(items, b.items...)
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
			p.Add(func(b *block[T]) { b.raw = buf })
			p.Flush(func(*block[T]) run.Dispatch { return run.ByWorker })
		}
	}
	switch failed := p.Wait(); {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case failed != nil:
		return nil, failed
	case err != io.EOF:
		return nil, err
	}
	return items, nil
}

// decode decodes the objects of a block.
func (s *savedStates[T]) decode(b *block[T]) {
	one := s.decoders.Get()
	var r snapshotfile.Record
	for rest := *b.raw; len(rest) > 0 && b.err == nil; {
		if r, rest, b.err = snapshotfile.Cut(rest); b.err == nil {
			var obj T
			if obj, b.err = s.object(one, r); b.err == nil {
				b.items = append(b.items, obj)
			}
		}
	}
	s.decoders.Put(one)
}

// object returns the object of a record.
func (s *savedStates[T]) object(one *decode.Decoder, r snapshotfile.Record) (obj T, err error) {
	f := formatOf(r)
	if err := s.decoders.Check(f); err != nil {
		return obj, errors.New("damaged: an object is in another format than the type has")
	}
	list := listOf(r)
	made, err := one.Decode(f, r.Raw, decode.Origin{List: list, Share: s.share})
	if err != nil {
		return obj, fmt.Errorf("an object cannot be decoded: %w", err)
	}
	if s.packing != nil {
		obj = s.packing.Restored(decode.Encoded{Format: f, Raw: r.Raw, List: list}, made)
	} else {
		obj = made.(T)
	}
	if ns := s.identity.Namespace; ns != "" && obj.GetNamespace() != ns {
		return obj, errors.New("damaged: an object is of another namespace")
	}
	return obj, nil
}

// The formats of records.
const (
	recordJSON     = 0
	recordProtobuf = 1
)

// savedRecord returns a record of an encoded object.
func savedRecord(e decode.Encoded) snapshotfile.Record {
	r := snapshotfile.Record{Format: recordJSON, Raw: e.Raw}
	if e.Format == decode.Protobuf {
		r.Format = recordProtobuf
	}
	if e.List != nil {
		r.Kind, r.APIVersion = e.List.Kind, e.List.APIVersion
	}
	return r
}

func formatOf(r snapshotfile.Record) decode.Format {
	if r.Format == recordProtobuf {
		return decode.Protobuf
	}
	return decode.JSON
}

func listOf(r snapshotfile.Record) *decode.ListInfo {
	if r.Kind == "" && r.APIVersion == "" {
		return nil
	}
	return &decode.ListInfo{Kind: r.Kind, APIVersion: r.APIVersion}
}

// nameOfType returns the name of a type with the path of its package.
func nameOfType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + nameOfType(t.Elem())
	}
	if t.Name() == "" || t.PkgPath() == "" {
		return t.String()
	}
	return t.PkgPath() + "." + t.Name()
}

// sumOfFields returns a checksum of the names, types and tags of the fields of t, at any depth.
func sumOfFields(t reflect.Type) string {
	var text strings.Builder
	seen := map[reflect.Type]int{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if n, ok := seen[t]; ok {
			fmt.Fprintf(&text, "#%d ", n)
			return
		}
		fmt.Fprintf(&text, "%s %v ", nameOfType(t), t.Kind())
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
			seen[t] = len(seen)
		}
		switch t.Kind() {
		case reflect.Array:
			fmt.Fprintf(&text, "%d ", t.Len())
			add(t.Elem())
		case reflect.Pointer, reflect.Slice:
			add(t.Elem())
		case reflect.Map:
			add(t.Key())
			add(t.Elem())
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				fmt.Fprintf(&text, "%s %q %v ", f.Name, f.Tag, f.Anonymous)
				add(f.Type)
			}
		}
	}
	add(t)
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:])
}
