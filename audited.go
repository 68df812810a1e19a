package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/typedinformer/informer/internal/audit"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/sources"
	"github.com/typedinformer/informer/internal/undecoded"
)

// newAuditor returns an auditor of store. each returns the sources of store. stopped is closed when nothing writes to
// the store any more.
func newAuditor[T Object](client *Client, resource Resource, config Config[T], store *Store[T], stopped <-chan struct{},
	each func() []audit.Source) *audit.Auditor {
	c := audit.Config{
		Every:     config.AuditEvery,
		Sources:   each,
		Published: store.published,
		Older:     sources.Older,
		Stopped:   stopped,
		Different: func(r audit.Result) error {
			config.logger().Error("the store differs from the server", "resource", resource.String(), "differ", r.Differ,
				"objects", r.Objects, "resourceVersion", r.Version, "first", audit.Text(r.Named, r.Differ))
			return &AuditError{auditResult(resource, r)}
		},
	}
	if client == nil { // the informer is invalid
		return audit.New(c)
	}
	c.Alone = client.http.Precedence.Alone
	if c.Every > 0 || config.WarmStart.Storage != nil {
		c.Identity = func(ctx context.Context, again bool) (string, error) {
			if !again && c.Every == 0 { // the warm start asks
				return client.cluster.Known(), nil
			}
			return client.cluster.UID(ctx, client.http, again)
		}
	}
	return audit.New(c)
}

// audited is one source of a store. It implements [audit.Source].
type audited[T Object] struct {
	store     *Store[T]
	reflector *Reflector[T]
	source    *fetch.Source // of metadata
	pageSize  int
}

// newAudited returns the source of r, a reflector of resource that feeds store.
func newAudited[T Object](client *Client, resource Resource, r *Reflector[T], store *Store[T]) audited[T] {
	return audited[T]{store, r, newMetadataSource(client, resource, r, Key{}), r.loop.PageSize}
}

// newMetadataSource returns the source of the metadata of the objects of r, a reflector of resource, or of one of them
// if key has a name.
func newMetadataSource[T Object](client *Client, resource Resource, r *Reflector[T], key Key) *fetch.Source {
	metadata, of, namespace := r.loop.Decoder.Metadata, resource.FieldSelector, r.loop.Decoder.Namespace
	if key.Name != "" {
		of, namespace = strings.TrimPrefix(of+",metadata.name="+key.Name, ","), key.Namespace
	}
	return fetch.NewSource(fetch.Config{
		Client:        client.http,
		Path:          resource.path(namespace),
		Resource:      resource.GroupResource(),
		LabelSelector: resource.LabelSelector,
		FieldSelector: of,
		AcceptList:    metadata.AcceptList() + "," + r.loop.Decoder.Pool.AcceptList(), // not every server has metadata alone
		Background:    true,
		Check:         metadata.Check,
	})
}

// View implements audit.Source.
func (a audited[T]) View() (audit.View, bool) {
	v := sourceView[T]{snap: a.store.Snapshot()}
	v.source, _ = v.snap.sources.Of(a.reflector.loop.Decoder.Namespace)
	if v.Version() != "" {
		return v, true
	}
	for range v.All() { // the server sends no resource versions
		return v, true
	}
	return v, false
}

// List implements audit.Source.
func (a audited[T]) List(ctx context.Context, of audit.View, each func(Key, audit.ID)) (bytes int64, err error) {
	if of.Version() == "" {
		return 0, errors.New("the server sends no resource versions, which an audit needs to compare the same state")
	}
	before, shard := a.source.Traffic().Bytes, of.(sourceView[T]).shard()
	ids := a.reflector.loop.Decoder.Identities(shard.asked(), func(key Key, uid, version string) {
		each(key, audit.ID{UID: uid, Version: version})
	})
	err = a.source.ListAt(ctx, of.Version(), a.pageSize, ids, shard.String())
	return a.source.Traffic().Bytes - before, err
}

// Behind implements audit.Source.
func (a audited[T]) Behind(ctx context.Context, of audit.View) error {
	err := a.source.Reaches(ctx, of.Version(), of.(sourceView[T]).shard().String())
	if !fetch.IsTooLarge(err) {
		return nil
	}
	return fmt.Errorf("%w: %w", fetch.ErrWentBack, err)
}

// Relist implements audit.Source.
func (a audited[T]) Relist(why error) { a.reflector.loop.Relist(why) }

// sourceView is a store's view of one source. It implements [audit.View].
type sourceView[T Object] struct {
	snap   *Snapshot[T]
	source source
}

// Version implements audit.View.
func (v sourceView[T]) Version() string { return v.source.Version }

// shard returns the shard that the store has.
func (v sourceView[T]) shard() Shard {
	if v.source.Data.list == nil {
		return Shard{}
	}
	return v.source.Data.list.Shard
}

// Get implements audit.View.
func (v sourceView[T]) Get(key Key) (audit.ID, bool) {
	_, obj, ok := v.snap.version.Find(key)
	if !ok {
		return audit.ID{}, false
	}
	return idOf(obj), true
}

func idOf[T Object](obj T) audit.ID {
	return audit.ID{UID: string(obj.GetUID()), Version: obj.GetResourceVersion()}
}

// All implements audit.View.
func (v sourceView[T]) All() iter.Seq2[Key, audit.ID] {
	return func(yield func(Key, audit.ID) bool) {
		for obj := range v.snap.in(v.source.Namespace) {
			if !yield(KeyOf(obj), idOf(obj)) {
				return
			}
		}
	}
}

// Len implements audit.View.
func (v sourceView[T]) Len() int { return v.snap.Len() }

// Undecoded implements audit.View.
func (v sourceView[T]) Undecoded() *undecoded.Set { return v.source.Data.undecoded.Set }
