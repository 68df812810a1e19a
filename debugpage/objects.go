package debugpage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/typedinformer/informer"
)

// Keys is the JSON of keys.json: a page of the keys of an index, sorted. The query has store and index, and may have
// match, a text that the keys contain, limit, which is 100 by default and 500 at most, and continue. Objects that the
// sender of the request may see only masked have no keys there: index functions compute keys from the content.
type Keys struct {
	Keys []IndexKey `json:"keys"`
	// Continue is the query's continue of the next page. Empty means that there is none.
	Continue string `json:"continue,omitempty"`
}

// IndexKey is a key of an index.
type IndexKey struct {
	Key string `json:"key"`
	// Objects is the number of objects that have the key, 1,000 at most. More says that there are more.
	Objects int  `json:"objects"`
	More    bool `json:"more,omitempty"`
}

// ObjectKeys is the JSON of objects.json: a page of the keys of objects, ordered by namespace, then name. The query has
// store. It may have index and key, for the objects with that key of the index, and match, limit and continue as for
// [Keys]. An answer compares at most 10,000 objects with match. So it may have fewer keys than limit, or none, and
// still a next page.
type ObjectKeys struct {
	Objects []ObjectKey `json:"objects"`
	// Compared is the number of objects that were compared with match for this answer. Total is the number of objects in
	// the store.
	Compared int `json:"compared"`
	Total    int `json:"total"`
	// Continue is the query's continue of the next page. Empty means that there is none.
	Continue string `json:"continue,omitempty"`
}

// ObjectKey is the key of an object.
type ObjectKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Object is the JSON of object.json: one object, as the store has it. The query has store, namespace and name.
type Object struct {
	// Masked says that values are replaced by texts like "<masked: 12 bytes>".
	Masked bool `json:"masked"`
	// Object has the JSON of the object.
	Object json.RawMessage `json:"object"`
}

const (
	defaultLimit = 100
	maxLimit     = 500
)

// store is a source with a name of its own.
type store struct {
	name string
	source
}

// storesOf names sources by their resources.
func storesOf(sources []Source) (stores []store) {
	used := map[string]int{}
	for _, s := range sources {
		if s.source == nil {
			continue
		}
		name := s.source.resource().String()
		if used[name]++; used[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, used[name])
		}
		stores = append(stores, store{name, s.source})
	}
	return stores
}

// storeOf returns the store that a request names, if its sender may see objects.
func (h *handler) storeOf(r *request) (store, error) {
	if !h.authorized(r.Request) {
		return store{}, failure(http.StatusForbidden, "objects are shown only to callers whom Config.Authorize admits")
	}
	index := slices.IndexFunc(h.stores, func(s store) bool { return s.name == r.URL.Query().Get("store") })
	if index < 0 {
		return store{}, failure(http.StatusNotFound, "no such store: status.json has the names of the stores")
	}
	return h.stores[index], nil
}

// indexOf returns the position of the index that a request names, or -1 if it names none.
func (h *handler) indexOf(s store, r *request) (int, error) {
	if !r.URL.Query().Has("index") {
		return -1, nil
	}
	index := slices.Index(s.indexes(), r.URL.Query().Get("index"))
	if index < 0 {
		return -1, failure(http.StatusNotFound, "no such index: status.json has the names of the indexes")
	}
	if h.veilOf(r, s).hidesAll() {
		return -1, failure(http.StatusForbidden,
			"the objects of this store are masked, and so are the keys of its indexes: they are shown only to callers whom Config.Unmask admits")
	}
	return index, nil
}

func limitOf(r *request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return defaultLimit, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return 0, failure(http.StatusBadRequest, "limit must be a number from 1 to %d", maxLimit)
	}
	return min(limit, maxLimit), nil
}

// pageOf returns the store, the index and the limit of a page that r requests.
func (h *handler) pageOf(r *request) (s store, index, limit int, err error) {
	if s, err = h.storeOf(r); err != nil {
		return s, 0, 0, err
	}
	if index, err = h.indexOf(s, r); err != nil {
		return s, 0, 0, err
	}
	limit, err = limitOf(r)
	return s, index, limit, err
}

// keys answers keys.json.
func (h *handler) keys(r *request) (any, error) {
	s, index, limit, err := h.pageOf(r)
	if err != nil {
		return nil, err
	}
	if index < 0 {
		return nil, failure(http.StatusBadRequest, "index is missing")
	}
	query := r.URL.Query()
	keys, next, more := s.keys(r.Context(), index, query.Get("continue"), query.Get("match"), limit, h.veilOf(r, s).hides)
	page := Keys{Keys: append([]IndexKey{}, keys...)}
	if more {
		page.Continue = next
	}
	return page, nil
}

// objects answers objects.json.
func (h *handler) objects(r *request) (any, error) {
	s, index, limit, err := h.pageOf(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	from, err := parseContinue(query.Get("continue"))
	if err != nil {
		return nil, err
	}
	page := ObjectKeys{Objects: []ObjectKey{}, Total: s.size()}
	match := query.Get("match")
	size := 0
	for key := range s.objects(index, query.Get("key"), from, h.veilOf(r, s).hides) {
		if page.Compared == maxScan || len(page.Objects) == limit || size > maxKeys || r.Context().Err() != nil {
			page.Continue = continueAt(key)
			break
		}
		page.Compared++
		if !strings.Contains(key.Namespace+"/"+key.Name, match) {
			continue
		}
		page.Objects = append(page.Objects, ObjectKey{key.Namespace, key.Name})
		size += len(key.Namespace) + len(key.Name)
	}
	return page, nil
}

// continueAt returns the continue of a page that begins at key.
func continueAt(key informer.Key) string {
	return url.QueryEscape(key.Namespace) + "/" + url.QueryEscape(key.Name)
}

func parseContinue(text string) (informer.Key, error) {
	if text == "" {
		return informer.Key{}, nil
	}
	namespace, name, ok := strings.Cut(text, "/")
	namespace, err := url.QueryUnescape(namespace)
	name, err2 := url.QueryUnescape(name)
	if !ok || err != nil || err2 != nil {
		return informer.Key{}, failure(http.StatusBadRequest, "continue is invalid")
	}
	return informer.Key{Namespace: namespace, Name: name}, nil
}

// object answers object.json.
func (h *handler) object(r *request) (any, error) {
	s, err := h.storeOf(r)
	if err != nil {
		return nil, err
	}
	query := r.URL.Query()
	obj, ok := s.get(informer.Key{Namespace: query.Get("namespace"), Name: query.Get("name")})
	if !ok {
		return nil, failure(http.StatusNotFound, "the store has no such object")
	}
	content, err := json.Marshal(obj)
	if err != nil {
		return nil, failure(http.StatusInternalServerError, "the object cannot be encoded as JSON")
	}
	v := h.veilOf(r, s)
	masked := v.hides(obj)
	if masked {
		if content, err = mask(content, encodedField(v.resource, v.kindOf(obj))); err != nil {
			return nil, failure(http.StatusInternalServerError, "the object cannot be masked")
		}
	}
	if limit := h.config.MaxObjectBytes; limit > 0 && len(content) > limit {
		return nil, failure(http.StatusRequestEntityTooLarge, "the object has %d bytes, the limit is %d", len(content), limit)
	}
	return Object{Masked: masked, Object: content}, nil
}
