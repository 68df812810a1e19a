package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/typedinformer/informer/internal/audit"
	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/sources"
)

// AuditResult is what an audit has found; see [Informer.Audit].
type AuditResult struct {
	Resource Resource
	// ResourceVersion is the version at which store and server were compared. With several namespaces, it is the lowest
	// one.
	ResourceVersion string
	// Time is when the audit began, and Took how long it took, with all waiting.
	Time time.Time
	Took time.Duration
	// Objects is the number of objects that the server has, within the shard and Config.Filter. Bytes is the number of
	// bytes of the responses, without compression.
	Objects int
	Bytes   int64
	// Unclear is the number of objects that could not be compared, because a name could not be decoded.
	Unclear int
	// Differ is the number of objects that differ, and Differences are the first 100 of them.
	Differ      int
	Differences []AuditDifference
}

// AuditDifference is an object that differs between the store and the server.
type AuditDifference struct {
	Key  Key
	Kind AuditKind
}

// AuditKind is how an object differs.
type AuditKind uint8

const (
	// AuditMissing: the server has the object, and the store does not.
	AuditMissing AuditKind = iota
	// AuditSuperfluous: the store has the object, and the server does not.
	AuditSuperfluous
	// AuditRecreated: they have objects of that name with different UIDs.
	AuditRecreated
	// AuditOutdated: they have different resource versions of the object.
	AuditOutdated
)

// String returns "missing", "superfluous", "recreated" or "outdated".
func (k AuditKind) String() string { return audit.Kind(k).String() }

// AuditError indicates that an audit found a difference.
type AuditError struct{ Result AuditResult }

// Error implements error. It names the first differences.
func (e *AuditError) Error() string {
	r := &e.Result
	return fmt.Sprintf("audit of %s: %d of %d objects differ from the server at resource version %s: %s", r.Resource,
		r.Differ, r.Objects, r.ResourceVersion, r.first(3))
}

// first describes the first differences, at most most.
func (r *AuditResult) first(most int) string {
	var texts []string
	for _, d := range r.Differences[:min(len(r.Differences), most)] {
		texts = append(texts, fmt.Sprintf("%.600s is %s", d.Key, d.Kind))
	}
	if r.Differ > most {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// AuditStatus is the status of the audits of an [Informer]: those of [Informer.Audit], and those by itself.
type AuditStatus struct {
	// Equal, Different and Failed count audits by result: without a difference, with one, and those that could not
	// compare.
	Equal, Different, Failed int
	// Differ is the number of objects that differed, in all audits together.
	Differ int
	// Last is the result of the last audit that could compare. Its Time is zero if there was none.
	Last AuditResult
	// LastEqual is when the last audit without a difference began. Zero means that there was none.
	LastEqual time.Time
	// LastError is why the last audit that failed could not compare, or the [*AuditError] of the last difference. Nil
	// means that there was neither. A success does not clear it.
	LastError error
	// Next is when the informer audits next by itself. Zero means that no audit is planned.
	Next time.Time
}

// newAuditor returns the auditor of f, which has no reflectors yet.
func newAuditor[T Object](f *follower[T], client *Client) *audit.Auditor {
	c := audit.Config{
		Every:     f.config.AuditEvery,
		Published: f.store.published,
		Older:     sources.Older,
		Different: f.reportDifference,
		Stopped:   f.hub.Stopped(),
	}
	if client != nil {
		c.Alone = client.http.Precedence.Alone
		if c.Every > 0 || f.config.WarmStart.Storage != nil {
			c.Identity = func(ctx context.Context, again bool) (string, error) {
				return client.cluster.UID(ctx, client.http, again)
			}
		}
	}
	return audit.New(c)
}

// runAudits audits by itself until ctx ends.
func (f *follower[T]) runAudits(ctx context.Context) {
	if f.waitSynced(ctx) != nil {
		return
	}
	for _, r := range f.reflectors {
		if r.Status().WarmStart.Loaded {
			f.audits.Due()
		}
	}
	f.audits.Run(ctx)
}

// audit implements engine.
func (f *follower[T]) audit(ctx context.Context) (AuditResult, error) {
	if err := f.waitSynced(ctx); err != nil {
		return AuditResult{}, fmt.Errorf("audit: %w", err)
	}
	ctx, end := run.Until(ctx, f.hub.Stopped(), ErrStopped)
	defer end()
	r, err := f.audits.Audit(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", f.resource, err)
	}
	return f.auditResult(r), err
}

func (f *follower[T]) auditResult(r audit.Result) AuditResult {
	result := AuditResult{f.resource, r.Version, r.Time, r.Took, r.Objects, r.Bytes, r.Unclear, r.Differ, nil}
	for _, d := range r.Named {
		result.Differences = append(result.Differences, AuditDifference{d.Key, AuditKind(d.Kind)})
	}
	return result
}

// auditStatus returns the present status of the audits.
func (f *follower[T]) auditStatus() AuditStatus {
	s := f.audits.Status()
	return AuditStatus{s.Equal, s.Different, s.Failed, s.Differ, f.auditResult(s.Last), s.LastEqual, s.LastError, s.Next}
}

// reportDifference logs a difference, and returns an error that makes a reflector list.
func (f *follower[T]) reportDifference(r audit.Result) error {
	result := f.auditResult(r)
	f.config.logger().Error("the store differs from the server", "resource", f.resource.String(), "differ", r.Differ,
		"objects", r.Objects, "resourceVersion", r.Version, "first", result.first(10))
	return &AuditError{result}
}

// audited is a source of a follower. It implements [audit.Source].
type audited[T Object] struct {
	store     *Store[T]
	reflector *Reflector[T]
	source    *fetch.Source // of metadata
	pageSize  int
}

// auditOf returns the source of r, a reflector of resource.
func (f *follower[T]) auditOf(client *Client, resource Resource, r *Reflector[T]) audit.Source {
	metadata := r.decoder.Metadata
	return audited[T]{f.store, r, fetch.NewSource(fetch.Config{
		Client:        client.http,
		Path:          resource.path(r.decoder.Namespace),
		Resource:      resource.GroupResource(),
		LabelSelector: resource.LabelSelector,
		FieldSelector: resource.FieldSelector,
		AcceptList:    metadata.AcceptList() + "," + r.decoder.Pool.AcceptList(), // not every server has metadata alone
		Background:    true,
		Check:         metadata.Check,
	}), f.config.PageSize}
}

// View implements audit.Source.
func (a audited[T]) View() (audit.View, bool) {
	v := sourceView[T]{snap: a.store.Snapshot()}
	v.source, _ = v.snap.sources.Of(a.reflector.decoder.Namespace)
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
		return 0, errors.New("the server sends no resource versions, so the store cannot be compared at one")
	}
	before, shard := a.source.Traffic().Bytes, of.(sourceView[T]).shard()
	ids := a.reflector.decoder.Identities(asked(shard, false), func(key Key, uid, version string) {
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
func (a audited[T]) Relist(why error) { a.reflector.relist(why) }

// sourceView is what a store has of one source. It implements [audit.View].
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
	return v.source.Data.list.shard
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
func (v sourceView[T]) Undecoded(key Key) (audit.ID, bool) {
	id, ok := v.source.Data.undecoded.ID(key)
	return audit.ID(id), ok
}

// AllUndecoded implements audit.View.
func (v sourceView[T]) AllUndecoded() iter.Seq2[Key, audit.ID] {
	return func(yield func(Key, audit.ID) bool) {
		for key := range v.source.Data.undecoded.In("") {
			id, _ := v.Undecoded(key)
			if !yield(key, id) {
				return
			}
		}
	}
}

// Unnamed implements audit.View.
func (v sourceView[T]) Unnamed() bool { return v.source.Data.undecoded.Unnamed() > 0 }
