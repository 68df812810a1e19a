package watchcache

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/gzipstream"
	"github.com/typedinformer/informer/internal/test/spoil"
)

// ServeList serves a GET request for the collection, or for one namespace of it if namespace is not empty. The query
// says whether it is a list or a watch. ServeList implements all of
// https://kubernetes.io/docs/reference/using-api/api-concepts/ on resource versions, selectors, pages, bookmarks,
// streaming lists, metadata-only representations and Tables. It also implements shardSelector (KEP-5866), whatever the
// feature gates of kube-apiserver.
//
// The http.ResponseWriter must support flushing and write deadlines, by itself or through Unwrap (see
// http.ResponseController). Without deadlines, a watcher that is stuck in a write ends only when the write returns.
func (c *Cache[T]) ServeList(w http.ResponseWriter, r *http.Request, namespace string) {
	if c.config.WatchListCompression {
		compressed, end := gzipstream.Wrap(w, r)
		defer end()
		w = compressed
	}
	watch, err := c.serveListOrStartWatch(w, r, namespace)
	if err != nil {
		WriteError(w, r, err)
	}
	if watch != nil {
		watch.follow() // from here, for a small stack: the goroutine stays as long as the watch
	}
}

// serveListOrStartWatch serves a list, starts a watch, or returns the error to respond with.
func (c *Cache[T]) serveListOrStartWatch(w http.ResponseWriter, r *http.Request, namespace string) (*stream[T], error) {
	opts, err := listOptions(r)
	if err != nil {
		return nil, err
	}
	sel, err := c.selector(r, opts, namespace)
	if err != nil {
		return nil, err
	}
	if opts.Watch {
		return c.startStream(w, r, opts, sel)
	}
	return nil, c.serveList(w, r, opts, sel)
}

// selector returns the part of the collection that a request selects.
func (c *Cache[T]) selector(r *http.Request, opts *internalversion.ListOptions,
	namespace string) (sel selector[T], err error) {
	sel = selector[T]{namespace: namespace, values: c.fields.values}
	if opts.LabelSelector != nil && !opts.LabelSelector.Empty() {
		sel.labels = opts.LabelSelector
	}
	if opts.FieldSelector != nil && !opts.FieldSelector.Empty() {
		sel.fields = opts.FieldSelector
		if err := c.fields.check(sel.fields); err != nil {
			return sel, err
		}
		if value, ok := sel.fields.RequiresExactMatch(c.fields.index); ok && c.index != nil {
			sel.index, sel.indexed = c.index, value
		}
	}
	if shard := r.URL.Query().Get("shardSelector"); shard != "" { // ListOptions has no such field before Kubernetes 1.36
		selected, err := shardset.Parse(shard)
		if err != nil {
			return sel, unread(fmt.Errorf("invalid shard selector: %w", err))
		}
		sel.shard = informer.Shard(selected)
	}
	return sel, nil
}

// Selected returns the objects that a DELETE of the collection deletes: those that the labelSelector, fieldSelector and
// shardSelector of the request select, in one namespace or, if that is empty, in all. It ignores other options.
func (c *Cache[T]) Selected(r *http.Request, namespace string) ([]T, error) {
	opts, err := listOptions(r)
	if err != nil {
		return nil, err
	}
	sel, err := c.selector(r, opts, namespace)
	if err != nil {
		return nil, err
	}
	var selected []T
	for el := range sel.from(c.objects.Snapshot(), informer.Key{}) {
		if sel.matches(el.obj) {
			selected = append(selected, el.obj)
		}
	}
	return selected, nil
}

func listOptions(r *http.Request) (*internalversion.ListOptions, error) {
	query := r.URL.Query()
	var external metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &external, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	opts := &internalversion.ListOptions{}
	if err := internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&external, opts, nil); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	internalversion.SetListOptionsDefaults(opts, true)
	if errs := validation.ValidateListOptions(opts, true); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return opts, nil
}

// parseRV parses the resource version of a request. Empty is 0. As in kube-apiserver, its error means a bad request
// only for a list; see unread.
func parseRV(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion: Invalid value: %q: %w", s, err)
	}
	return rv, nil
}

// unread returns kube-apiserver's error for an invalid version in a get or a watch, and for an invalid shard selector:
// 500, without a reason.
func unread(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusInternalServerError,
		Message: err.Error(),
	}}
}

// serveList serves a list, or returns the error to respond with.
func (c *Cache[T]) serveList(w http.ResponseWriter, r *http.Request, opts *internalversion.ListOptions,
	sel selector[T]) error {
	f, err := c.negotiate(r, "PartialObjectMetadataList")
	if err != nil {
		return err
	}
	snapshot, rv, from, err := c.listed(r.Context(), opts)
	if err != nil {
		return err
	}
	limit := int(opts.Limit)
	if opts.ResourceVersion == "0" {
		limit = 0 // kube-apiserver does not page lists from its cache
	}
	if sel.one() {
		limit = 0 // there is no other object to continue with
	}
	items, more, rest := selectPage(snapshot, sel, from, limit)
	list := listMeta{ListMeta: metav1.ListMeta{ResourceVersion: formatRV(rv)}, shard: sel.shard.String()}
	if more {
		last := items[len(items)-1]
		list.Continue = continueToken{Version: continueVersion, RV: int64(rv),
			Start: last.GetNamespace() + "/" + last.GetName() + "\x00"}.String()
		if sel.everything() { // otherwise, the number is unknown
			list.RemainingItemCount = &rest
		}
	}
	return c.writeItems(w, r, f, list, items)
}

// WriteList writes a list of objects of the cache's kind, which need not be in the cache.
func (c *Cache[T]) WriteList(w http.ResponseWriter, r *http.Request, resourceVersion string, objects []T) {
	f, err := c.negotiate(r, "PartialObjectMetadataList")
	if err == nil {
		items := make([]*element[T], len(objects))
		for i, obj := range objects {
			items[i] = &element[T]{obj: obj}
		}
		err = c.writeItems(w, r, f, listMeta{ListMeta: metav1.ListMeta{ResourceVersion: resourceVersion}}, items)
	}
	if err != nil {
		WriteError(w, r, err)
	}
}

// writeItems writes a list, or returns the error to respond with.
func (c *Cache[T]) writeItems(w http.ResponseWriter, r *http.Request, f format, list listMeta,
	items []*element[T]) (err error) {
	if f.table() {
		return c.writeTable(w, f, list, items)
	}
	w.Header().Set("Content-Type", f.contentType())
	out := takeBuffer(w)
	defer returnBuffer(out)
	var size func(el *element[T]) (int, error)
	bytes := func(el *element[T]) ([]byte, error) { return c.bytes(el, f) }
	if spoil.FromContext(r.Context()) != nil {
		spoiled := map[*element[T]][]byte{}
		for _, el := range items {
			if spoiled[el], err = c.bytesFor(r.Context(), el, f); err != nil {
				return err
			}
		}
		bytes = func(el *element[T]) ([]byte, error) { return spoiled[el], nil }
		size = func(el *element[T]) (int, error) { return len(spoiled[el]), nil }
	}
	err = c.codec.writeList(out, f, list, items, size, bytes)
	if err != nil || out.Flush() != nil {
		panic(http.ErrAbortHandler) // it is too late for another response
	}
	return nil
}

// listed returns the snapshot that a list requests, its version, and the key to begin at.
func (c *Cache[T]) listed(ctx context.Context, opts *internalversion.ListOptions) (*informer.Snapshot[*element[T]],
	uint64, informer.Key, error) {
	none := informer.Key{}
	if opts.Continue != "" {
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return nil, 0, none, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		token, key, err := parseContinue(opts.Continue)
		if err != nil {
			return nil, 0, none, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
		}
		if token.RV < 0 { // at the latest version
			snapshot, rv, err := c.snapshotAt(ctx, 0, false)
			return snapshot, rv, key, err
		}
		snapshot, rv, err := c.snapshotAt(ctx, uint64(token.RV), true)
		if apierrors.IsResourceExpired(err) {
			err = continueExpired(token)
		}
		return snapshot, rv, key, err
	}
	rv, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return nil, 0, none, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		opts.ResourceVersionMatch == "" && opts.Limit > 0 && rv > 0 // as before resourceVersionMatch existed
	snapshot, rv, err := c.snapshotAt(ctx, rv, exact)
	return snapshot, rv, none, err
}

// snapshotAt returns the collection: exactly at version rv, or at the current version if that is not older. It waits a
// while for a future version.
func (c *Cache[T]) snapshotAt(ctx context.Context, rv uint64,
	exact bool) (*informer.Snapshot[*element[T]], uint64, error) {
	if err := c.waitFresh(ctx, rv); err != nil {
		return nil, 0, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !exact {
		return c.objects.Snapshot(), c.rv, nil
	}
	snapshot, ok := c.ring.snapshot(rv)
	if !ok {
		return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return snapshot, rv, nil
}

// selectPage returns up to limit elements from a key on (all if limit is 0), whether more follow, and their number. As
// in kube-apiserver, that number ignores all selectors except the namespace.
func selectPage[T Object](snapshot *informer.Snapshot[*element[T]], sel selector[T], from informer.Key,
	limit int) (items []*element[T], more bool, rest int64) {
	for el := range sel.from(snapshot, from) {
		if limit > 0 && len(items) == limit {
			if rest++; !sel.everything() {
				break // one is enough
			}
			continue
		}
		if sel.matches(el.obj) {
			items = append(items, el)
		}
	}
	return items, rest > 0, rest
}

// ServeObject serves a GET request for one object. A resourceVersion in the query requires a response that is not
// older.
func (c *Cache[T]) ServeObject(w http.ResponseWriter, r *http.Request, key informer.Key) {
	if _, err := c.negotiate(r, "PartialObjectMetadata"); err != nil {
		WriteError(w, r, err) // even if there is no such object
		return
	}
	rv, err := parseRV(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		err = unread(err)
	} else {
		err = c.waitFresh(r.Context(), rv)
	}
	if err != nil {
		WriteError(w, r, err)
		return
	}
	objects := c.objects.Snapshot()
	el, ok := objects.Get(key)
	if !ok {
		if err := objects.Undecodable(key); err != nil {
			WriteError(w, r, apierrors.NewInternalError(err))
			return
		}
		WriteError(w, r, apierrors.NewNotFound(c.config.GroupVersionResource.GroupResource(), key.Name))
		return
	}
	c.writeElement(w, r, http.StatusOK, el)
}

// WriteObject writes an object of the cache's kind, such as one that was created or changed, in the representation that
// the request accepts. obj need not be in the cache.
func (c *Cache[T]) WriteObject(w http.ResponseWriter, r *http.Request, code int, obj T) {
	el, ok := c.objects.Get(informer.KeyOf(obj))
	if !ok || !object.Same(el.obj, obj) {
		el = &element[T]{obj: obj}
	}
	c.writeElement(w, r, code, el)
}

func (c *Cache[T]) writeElement(w http.ResponseWriter, r *http.Request, code int, el *element[T]) {
	f, err := c.negotiate(r, "PartialObjectMetadata")
	var b []byte
	if err == nil {
		b, err = c.bytesFor(r.Context(), el, f)
	}
	if err != nil {
		WriteError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", f.contentType())
	w.WriteHeader(code)
	out := takeBuffer(w)
	defer returnBuffer(out)
	c.codec.writeObject(out, f, b)
	if !f.protobuf() {
		out.WriteByte('\n')
	}
	out.Flush() // an error is the client's
}

// WriteError writes err as a metav1.Status, in JSON or protobuf as the request accepts. An err that is not an
// apierrors.APIStatus is an internal error.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	WriteStatus(w, r, statusOf(err))
}

// WriteStatus writes a status as the response to a request. If it has no code, that of the response is 200.
func WriteStatus(w http.ResponseWriter, r *http.Request, status metav1.Status) {
	f, _, err := negotiate(r, true, "")
	if err != nil {
		f = formatJSON
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	w.Header().Set("Content-Type", f.contentType())
	w.WriteHeader(int(cmp.Or(status.Code, http.StatusOK)))
	b := appendStatus(nil, status, f.protobuf())
	if !f.protobuf() {
		b = append(b, '\n')
	}
	w.Write(b)
}

// WriteErrorEvent writes the event that ends a watch with err, encoded for the contentType of the response.
func WriteErrorEvent(w io.Writer, contentType string, err error) error {
	out := bufio.NewWriter(w)
	writeErrorEvent(out, statusOf(err), strings.HasPrefix(contentType, runtime.ContentTypeProtobuf))
	return out.Flush()
}

func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status()
	}
	return apierrors.NewInternalError(err).Status()
}

// continueToken is the continue token of a paged list. It has the format of kube-apiserver's, but clients must not rely
// on that.
type continueToken struct {
	Version string `json:"v"`
	RV      int64  `json:"rv"` // negative means the latest
	Start   string `json:"start"`
}

const continueVersion = "meta.k8s.io/v1"

func (t continueToken) String() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot happen: it has strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseContinue(s string) (continueToken, informer.Key, error) {
	var t continueToken
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return t, informer.Key{}, fmt.Errorf("continue key is not valid: %w", err)
	}
	namespace, name, ok := strings.Cut(t.Start, "/")
	switch {
	case t.Version != continueVersion:
		return t, informer.Key{}, fmt.Errorf("continue key is not valid: server does not recognize this encoded version %s",
			t.Version)
	case t.RV == 0:
		return t, informer.Key{}, errors.New("continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case path.Clean("/"+strings.TrimPrefix(t.Start, "/")) != "/"+strings.TrimPrefix(t.Start, "/"):
		return t, informer.Key{}, fmt.Errorf("continue key is not valid: %s", t.Start)
	case !ok:
		return t, informer.Key{}, errors.New("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")
	}
	return t, informer.Key{Namespace: namespace, Name: name}, nil
}

// continueExpired returns kube-apiserver's error for a token whose version is gone. It contains a token to continue at
// the latest version.
func continueExpired(t continueToken) error {
	err := apierrors.NewResourceExpired("The provided continue parameter is too old " +
		"to display a consistent list result. You can start a new list without " +
		"the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided " +
		"token results in an inconsistent list - objects that were created, " +
		"modified, or deleted between the time the first chunk was returned " +
		"and now may show up in the list.")
	t.RV = -1
	err.ErrStatus.Continue = t.String()
	return err
}
