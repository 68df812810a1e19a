package informer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/status"
)

// newAuditor returns an auditor of store. each returns the sources of store. union compares store with their union; nil
// if they do not overlap. stopped is closed when nothing writes to the store any more.
func newAuditor[T Object](client *Client, resource Resource, config Config[T], store *Store[T], stopped <-chan struct{},
	each func() []audit.Source, union func(context.Context) (audit.Found, error)) *audit.Auditor {
	c := audit.Config{
		Resource:   resource.GroupVersionResource,
		Collection: resource.String(),
		Every:      config.AuditEvery,
		Sources:    each,
		Union:      union,
		Published:  store.published,
		Stopped:    stopped,
		Different: func(r status.AuditResult) error {
			config.logger().Error("the store differs from the server", "resource", r.Collection, "differ", r.Differ,
				"objects", r.Objects, "resourceVersion", r.ResourceVersion, "first", audit.Text(r.Differences, r.Differ))
			return &AuditError{r}
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
	store    *Store[T]
	loop     *reflector.Loop[T]
	source   *fetch.Source // of metadata
	pageSize int
}

// newAudited returns the source of loop, which reflects resource that feeds store.
func newAudited[T Object](client *Client, resource Resource, loop *reflector.Loop[T], store *Store[T]) audited[T] {
	return audited[T]{
		store:    store,
		loop:     loop,
		source:   newMetadataSource(client, resource, loop, Key{}),
		pageSize: loop.PageSize,
	}
}

// newMetadataSource returns the source of the metadata of the objects of loop, which reflects resource, or of one of
// them if key has a name.
func newMetadataSource[T Object](client *Client, resource Resource, loop *reflector.Loop[T], key Key) *fetch.Source {
	metadata, of, namespace := loop.Decoder.Metadata, resource.FieldSelector, loop.Decoder.Namespace
	if key.Name != "" {
		of, namespace = strings.TrimPrefix(of+",metadata.name="+key.Name, ","), key.Namespace
	}
	return fetch.NewSource(fetch.Config{
		Client:        client.http,
		Path:          resource.path(namespace),
		Resource:      resource.GroupVersionResource,
		Kind:          decode.NewKind(loop.Decoder.Pool.Type(), resource.Resource).WithMetadata(),
		LabelSelector: resource.LabelSelector,
		FieldSelector: of,
		AcceptList:    metadata.AcceptList() + "," + loop.Decoder.Pool.AcceptList(), // not every server has metadata alone
		Background:    true,
		Check:         metadata.Check,
	})
}

// View implements audit.Source.
func (a audited[T]) View() (audit.View, bool) {
	snap := a.store.Snapshot()
	src, _ := snap.sources.Of(a.loop.Decoder.Namespace)
	v := audit.TableView[T]{
		Objects:   snap.version,
		Namespace: src.Namespace,
		Part:      src.Data.shard(),
		At:        src.Version,
		Failed:    src.Data.undecoded.Set,
	}
	return v, v.At != "" || v.Any() // the server may send no resource versions
}

// List implements audit.Source.
func (a audited[T]) List(ctx context.Context, view audit.View, yield func(Key, object.ID)) (bytes int64, err error) {
	if view.Version() == "" {
		return 0, errors.New("the server sends no resource versions, which an audit needs to compare the same state")
	}
	before, shard := a.source.Traffic().Bytes, view.Shard()
	ids := a.loop.Decoder.Identities(intake.Asked{Shard: shard}, func(key Key, uid, version string) {
		yield(key, object.ID{UID: uid, Version: version})
	})
	err = a.source.ListAt(ctx, view.Version(), a.pageSize, ids, shard.String())
	return a.source.Traffic().Bytes - before, err
}

// Behind implements audit.Source.
func (a audited[T]) Behind(ctx context.Context, view audit.View) error {
	err := a.source.Reaches(ctx, view.Version(), view.Shard().String())
	if !fetch.IsTooLarge(err) {
		return nil
	}
	return fmt.Errorf("%w: %w", fetch.ErrBehind, err)
}

// Relist implements audit.Source.
func (a audited[T]) Relist(why error) { a.loop.Relist(why) }
