package world

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Answers has answers for requests of several kinds. Its Answer is that of a [World]. The zero value leaves all
// requests to the server. It is safe for concurrent use.
type Answers struct {
	mu  sync.Mutex // protects all
	all []answerTo
}

// answerTo is an answer to requests of a kind.
type answerTo struct {
	kind string
	once bool
	do   Answer
}

func (a answerTo) meets(r *http.Request) bool {
	return a.kind == AnyKind || a.kind == KindOf(r.URL.Path, r.URL.Query())
}

// Add makes do answer the requests of a kind, or only the next one. It runs after the answers for the same request that
// were added before, unless one of them returns true.
func (a *Answers) Add(kind string, once bool, do Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, answerTo{kind, once, do})
}

// Clear removes all answers.
func (a *Answers) Clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = nil
}

// Answer answers a request.
func (a *Answers) Answer(w http.ResponseWriter, r *http.Request) bool {
	a.mu.Lock()
	all := slices.Clone(a.all)
	a.all = slices.DeleteFunc(a.all, func(to answerTo) bool { return to.once && to.meets(r) })
	a.mu.Unlock()
	return slices.ContainsFunc(all, func(to answerTo) bool { return to.meets(r) && to.do(w, r) })
}

// AnyKind stands for all kinds of requests.
const AnyKind = "any"

// KindOf returns the kind of a request for pods: watch, stream (a streaming list), list, page (of a list, after the
// first one) or audit. Other requests, such as those for discovery, are of the kind get.
func KindOf(path string, query url.Values) string {
	switch {
	case !strings.HasSuffix(path, "/pods"):
		return "get"
	case query.Has("sendInitialEvents"):
		return "stream"
	case query.Has("watch"):
		return "watch"
	case query.Has("continue"):
		return "page"
	case query.Get("resourceVersionMatch") == "Exact":
		return "audit"
	}
	return "list"
}
