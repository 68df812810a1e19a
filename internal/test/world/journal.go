package world

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Journal notes what an informer does, as lines of text in the order of their time:
//
//	> watch /api/v1/pods resourceVersion=3      a request, without parameters that are random, or the same in all
//	< 410                                       the status of a response, unless it is 200; "none" without one
//	WARN "reflector: Backoff" from=Watching     a line of the log, without attributes that are random
//
// It notes the requests of clients with Observed, and the lines of its Logger. A journal is safe for concurrent use.
type Journal struct {
	requested chan struct{} // has an element after a request

	mu    sync.Mutex // protects lines
	lines []string
}

// NewJournal returns an empty journal.
func NewJournal() *Journal { return &Journal{requested: make(chan struct{}, 1)} }

// Note adds a line.
func (j *Journal) Note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// Take returns the lines since the last Take, and removes them.
func (j *Journal) Take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer func() { j.lines = nil }()
	return j.lines
}

// AwaitRequest waits for the next request, but not longer than most. It returns how long that took. Audits, which run
// beside a reflector, do not count. Only one goroutine may call it.
func (j *Journal) AwaitRequest(most time.Duration) (took time.Duration) {
	select {
	case <-j.requested: // before
	default:
	}
	begun := time.Now()
	select {
	case <-j.requested:
	case <-time.After(most):
	}
	return time.Since(begun)
}

// Observed notes the requests that pass next. It is an argument of rest.Config.Wrap.
func (j *Journal) Observed(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		kind := KindOf(r.URL.Path, query)
		text := verbs[kind] + " " + r.URL.Path
		for _, name := range slices.Sorted(maps.Keys(query)) {
			switch name {
			case "watch", "allowWatchBookmarks", "timeoutSeconds": // the same in all, or random
			case "continue":
				text += " continue"
			default:
				text += " " + name + "=" + query.Get(name)
			}
		}
		j.Note("> %s", text)
		if kind != "audit" {
			select {
			case j.requested <- struct{}{}:
			default:
			}
		}
		response, err := next.RoundTrip(r)
		if err != nil {
			j.Note("< none")
		} else if response.StatusCode != http.StatusOK {
			j.Note("< %d", response.StatusCode)
		}
		return response, err
	})
}

// Logger returns a logger that writes to the journal. It leaves out random waits, errors of decoders, whose text
// depends on the format, and the resource.
func (j *Journal) Logger() *slog.Logger {
	leftOut := func(_ []string, a slog.Attr) slog.Attr {
		if slices.Contains([]string{slog.TimeKey, "retryAfter", "err", "resource"}, a.Key) {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(logged{j}, &slog.HandlerOptions{ReplaceAttr: leftOut}))
}

// logged is the writer of a journal's logger.
type logged struct{ *Journal }

func (l logged) Write(line []byte) (int, error) {
	text := strings.TrimPrefix(strings.TrimSpace(string(line)), "level=")
	l.Note("%s", strings.Replace(text, " msg=", " ", 1))
	return len(line), nil
}

// verbs are the verbs of the kinds of requests.
var verbs = map[string]string{
	"get": "get", "watch": "watch", "stream": "watch", "list": "list", "page": "list", "audit": "list",
}
