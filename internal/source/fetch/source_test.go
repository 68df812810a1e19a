package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// server answers each request with the next of its answers, and records the query.
type server struct {
	answers []answer
	queries []string
}

type answer struct {
	code int // zero means 200
	body string
	late time.Duration // the body ends that much later
	gone error         // of the body if the client goes away before; nil means the error of the request's context
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.queries = append(s.queries, r.URL.RawQuery)
	if len(s.answers) == 0 {
		return nil, errors.New("no answer left")
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	if a.code == 0 {
		a.code = http.StatusOK
	}
	body := io.MultiReader(strings.NewReader(a.body), lateEnd{r.Context(), a.late, a.gone})
	return &http.Response{StatusCode: a.code, Header: http.Header{"Content-Type": {decode.MediaJSON}},
		Body: io.NopCloser(body), Request: r}, nil
}

// lateEnd is a body that ends after a time.
type lateEnd struct {
	ctx  context.Context // of the request
	time time.Duration
	gone error
}

func (l lateEnd) Read([]byte) (int, error) {
	select {
	case <-testkit.After(l.time):
		return 0, io.EOF
	case <-l.ctx.Done():
		return 0, cmp.Or(l.gone, l.ctx.Err())
	}
}

// records is an intake and a collector that records what it gets.
type records struct {
	lines  []string
	broken bool // an object could not be decoded
	err    error
}

func (r *records) NewIntake(decode.Format, func(error)) Intake { return r }

func (r *records) Intake(decode.Format, func(error)) Intake { return r }

func (r *records) Whole() bool { return !r.broken }

func (r *records) Reset() { r.lines = append(r.lines, "reset") }

func (r *records) EndPage(remaining *int64) error {
	if remaining != nil {
		r.lines = append(r.lines, fmt.Sprintf("%d remain", *remaining))
	}
	return nil
}

func (r *records) AddValue(any, bool) {}

func (r *records) Add(raw []byte, deleted bool, list *decode.ListInfo) {
	line := string(raw)
	if deleted {
		line += " deleted"
	}
	if list != nil {
		line += " " + list.Kind
	}
	r.lines = append(r.lines, line)
}

func (r *records) AddLarge(large *decode.LargeError, deleted bool) {
	r.Add(fmt.Appendf(nil, "large %s", large.ID.Name), deleted, nil)
}

func (r *records) Fill(body interface{ Fill() error }) error { return body.Fill() }

func (r *records) Wait() error {
	if n := len(r.lines); n == 0 || r.lines[n-1] != "." {
		r.lines = append(r.lines, ".")
	}
	return r.err
}

func newTestSource(t *testing.T, answers ...answer) (*Source, *server) {
	s := &server{answers: answers}
	client, err := transport.New(&rest.Config{Host: "http://test", Transport: s, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return NewSource(Config{Client: client, Path: "/api/v1/things", Resource: schema.GroupVersionResource{Resource: "things"},
		LabelSelector: "a=b", Check: func(decode.Format) error { return nil }}), s
}

func listAnswer(version, next, items string) answer {
	const text = `{"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`
	return answer{body: fmt.Sprintf(text, version, next, items)}
}

const expired = `{"kind":"Status","status":"Failure","reason":"Expired","code":410}`

var expiredToken = answer{code: http.StatusGone, body: expired}

// A list adds the objects of each page with the metadata of the list so far. If its continue token has expired, it
// starts again without pages.
// Guarantees: R4
func TestListAddsRawObjects(t *testing.T) {
	source, server := newTestSource(t, listAnswer("7", "t", `{"a":1}`), expiredToken,
		listAnswer("9", "", `{"a":2},{"a":3}`))
	var got records
	listed, err := source.List(t.Context(), "5", 1, &got, "s")
	want := []string{`{"a":1} ThingList`, ".", "reset", `{"a":2} ThingList`, `{"a":3} ThingList`, "."}
	if err != nil || listed != (Listed{Version: "9"}) || !slices.Equal(got.lines, want) {
		t.Errorf("%q, %+v, %v", got.lines, listed, err)
	}
	const with = "labelSelector=a%3Db"
	queries := []string{
		with + "&limit=1&resourceVersion=5&resourceVersionMatch=NotOlderThan&shardSelector=s",
		"continue=t&" + with + "&limit=1&shardSelector=s",
		with + "&resourceVersion=7&resourceVersionMatch=NotOlderThan&shardSelector=s",
	}
	if !slices.Equal(server.queries, queries) {
		t.Errorf("%q", server.queries)
	}
	if n := source.Traffic(); n.Lists != 3 || n.Watches != 0 || n.Bytes == 0 {
		t.Errorf("%+v", n)
	}
}

// otherToken is a 410 with a token for the remaining pages at a later version.
var otherToken = answer{code: http.StatusGone,
	body: `{"kind":"Status","status":"Failure","reason":"Expired","code":410,"metadata":{"continue":"u"}}`}

// If a continue token has expired, and the server offers another one, the list continues with that. Its version is the
// lowest of all pages. A list that must not be torn starts again instead.
// Guarantees: R4
func TestListContinuesAtALaterVersion(t *testing.T) {
	const with = "labelSelector=a%3Db"
	for name, c := range map[string]struct {
		torn    bool
		answers []answer
		listed  Listed
		want    string
		queries string
		failed  bool
	}{
		"torn": {true, []answer{listAnswer("7", "t", `1`), otherToken, listAnswer("9", "v", `2`), listAnswer("9", "", `3`)},
			Listed{"7", "9"}, "1 . 2 . 3 .", "limit t u v", false},
		"torn twice": {true, []answer{listAnswer("7", "t", `1`), otherToken, listAnswer("9", "v", `2`), expiredTo("w"), listAnswer("12", "", `3`)},
			Listed{"7", "12"}, "1 . 2 . 3 .", "limit t u v w", false},
		"the other token has expired, too": {true, []answer{listAnswer("7", "t", `1`), otherToken, otherToken, listAnswer("9", "", `2`)},
			Listed{"9", ""}, "1 . reset 2 .", "limit t u all", false},
		"not torn": {false, []answer{listAnswer("7", "t", `1`), otherToken, listAnswer("9", "", `2`)},
			Listed{"9", ""}, "1 . reset 2 .", "limit t all", false},
		"a page in the past": {false, []answer{listAnswer("7", "t", `1`), listAnswer("5", "u", `2`), listAnswer("6", "", `3`)},
			Listed{"5", "7"}, "1 . 2 . 3 .", "limit t u", false},
		"expired twice": {false, []answer{listAnswer("7", "t", `1`), expiredToken, listAnswer("9", "u", `2`), expiredToken},
			Listed{}, "1 . reset 2 .", "limit t all u", true},
		"expired twice, other tokens": {true, []answer{listAnswer("7", "t", `1`), expiredToken, listAnswer("9", "u", `2`), expiredToken},
			Listed{}, "1 . reset 2 .", "limit t all u", true},
	} {
		source, server := newTestSource(t, c.answers...)
		source.config.Torn = c.torn
		var got records
		listed, err := source.List(t.Context(), "0", 1, &got, "")
		var queries []string
		for _, q := range server.queries {
			values, _ := url.ParseQuery(q)
			switch {
			case values.Has("continue"):
				queries = append(queries, values.Get("continue"))
			case values.Has("limit"):
				queries = append(queries, "limit")
			default:
				queries = append(queries, "all")
			}
		}
		lines := strings.ReplaceAll(strings.Join(got.lines, " "), " ThingList", "")
		if listed != c.listed || lines != c.want || strings.Join(queries, " ") != c.queries || (err != nil) != c.failed {
			t.Errorf("%s: %+v, %q, requests %q, %v", name, listed, lines, queries, err)
		}
		if c.failed && (!errors.Is(err, errTokens) || transport.StatusCode(err) == http.StatusGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	source, server := newTestSource(t, listAnswer("7", "", `1`))
	if _, err := source.List(t.Context(), "0", Whole, &records{}, ""); err != nil || server.queries[0] != with+"&resourceVersion=0" {
		t.Errorf("%q, %v", server.queries, err)
	}
}

// expiredTo is otherToken with that token.
func expiredTo(token string) answer {
	a := otherToken
	a.body = strings.Replace(a.body, `"u"`, `"`+token+`"`, 1)
	return a
}

// An exact list fails with ErrNoListAt if it cannot be at the version, or lacks an object.
// Guarantees: S2
func TestExactListIsExact(t *testing.T) {
	for _, c := range []struct {
		answer answer
		broken bool
		none   bool // ErrNoListAt
	}{
		{listAnswer("7", "", "{}"), false, false},
		{listAnswer("8", "", "{}"), false, true},
		{listAnswer("7", "", "{}"), true, true},
		{expiredToken, false, true},
		{otherToken, false, true},
	} {
		source, server := newTestSource(t, c.answer)
		err := source.ListAt(t.Context(), "7", 0, &records{broken: c.broken}, "")
		if errors.Is(err, ErrNoListAt) != c.none || !c.none && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if want := "labelSelector=a%3Db&limit=500&resourceVersion=7&resourceVersionMatch=Exact"; server.queries[0] != want {
			t.Errorf("%q", server.queries)
		}
	}
}

const (
	added    = `{"type":"ADDED","object":{"a":1}}` + "\n"
	deleted  = `{"type":"DELETED","object":{"a":2}}` + "\n"
	bookmark = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}` + "\n"
	initial  = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{` +
		`"k8s.io/initial-events-end":"true"}}}}` + "\n"
	failed = `{"type":"ERROR","object":` + expired + `}` + "\n"
)

// A watch adds the objects before a bookmark, waits until they have been handed on, and then reports the bookmark.
// Guarantees: R15
func TestBookmarkFollowsTheObjectsBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, server := newTestSource(t, answer{body: added + deleted + bookmark + added, late: time.Minute})
		w, err := source.Watch(t.Context(), State{Version: "7"}, "")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		var got records
		err = w.Follow(got.NewIntake, func(version string) error {
			got.lines = append(got.lines, "bookmark "+version)
			return nil
		})
		want := []string{`{"a":1}`, `{"a":2} deleted`, ".", "bookmark 9", `{"a":1}`, "."}
		if err != nil || !slices.Equal(got.lines, want) {
			t.Errorf("%q, %v", got.lines, err)
		}
		if q := server.queries[0]; !strings.HasPrefix(q, "allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7&") {
			t.Errorf("%q", q)
		}
		if n := source.Traffic(); n.Lists != 0 || n.Watches != 1 || n.Events != 4 {
			t.Errorf("%+v", n)
		}
	})
}

// The end of a watch says what went wrong, if anything did: it was empty, the server sent an error, or the intake
// failed.
// Guarantees: R8, R9
func TestEndOfAWatch(t *testing.T) {
	boom := errors.New("boom")
	gone := func(err error) bool { return transport.StatusCode(err) == http.StatusGone }
	wraps := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for name, c := range map[string]struct {
		answer answer
		intake error
		want   func(error) bool
	}{
		"empty":        {answer{}, nil, wraps(ErrEmptyWatch)},
		"empty, later": {answer{late: time.Second}, nil, wraps(nil)},
		"an event":     {answer{body: added}, nil, wraps(nil)},
		"error":        {answer{body: added + failed}, nil, gone},
		"intake":       {answer{body: added + failed}, boom, wraps(boom)},
		"bookmark":     {answer{body: `{"type":"BOOKMARK","object":{"metadata":{}}}`}, nil, wraps(errNoVersion)},
		"broken":       {answer{body: added + `{"type":`}, nil, wraps(io.ErrUnexpectedEOF)},
	} {
		synctest.Test(t, func(t *testing.T) {
			source, _ := newTestSource(t, c.answer)
			w, err := source.Watch(t.Context(), State{Version: "7"}, "")
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			got := records{err: c.intake}
			if err := w.Follow(got.NewIntake, func(string) error { return nil }); !c.want(err) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A server that cannot watch refuses a watch, or answers it with a list. A streaming list then asks for a paged list.
// Guarantees: R24
func TestCollectionThatCannotBeWatched(t *testing.T) {
	code := func(code int) answer {
		return answer{code: code, body: fmt.Sprintf(`{"kind":"Status","status":"Failure","code":%d}`, code)}
	}
	for name, c := range map[string]struct {
		answer  answer
		noWatch bool
	}{
		"405":                {code(http.StatusMethodNotAllowed), true},
		"501":                {code(http.StatusNotImplemented), true},
		"503":                {code(http.StatusServiceUnavailable), false},
		"400":                {code(http.StatusBadRequest), false},
		"a list":             {listAnswer("7", "", `{"a":1}`), true},
		"an empty list":      {answer{body: ` { "kind" : "ThingList"}`}, true},
		"the items first":    {answer{body: `{"items":[]}`}, true},
		"the version first":  {answer{body: `{"apiVersion":"v1" , "kind":"ThingList"}`}, true},
		"no kind":            {answer{body: `{"apiVersion":"v1","items":[]}`}, true},
		"an object":          {answer{body: `{"apiVersion":"v1","kind":"Thing"}`}, false},
		"the metadata first": {answer{body: `{"metadata":{},"items":[]}`}, false},
		"a Status":           {answer{body: expired}, false},
		"no key":             {answer{body: `{}`}, false},
		"no object":          {answer{body: `[1]`}, false},
		"half a list":        {answer{body: `{"kind":"Thing`}, false},
		"an event":           {answer{body: added}, false},
		"nothing":            {answer{}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			source, _ := newTestSource(t, c.answer, c.answer)
			var got records
			w, err := source.Watch(t.Context(), State{Version: "7"}, "")
			if err == nil {
				err = w.Follow(got.NewIntake, func(string) error { return nil })
				w.Close()
			}
			if errors.Is(err, ErrNoWatch) != c.noWatch {
				t.Errorf("%s: %v", name, err)
			}
			if !c.noWatch {
				return
			}
			w, err = source.Stream(t.Context(), "", "")
			if err == nil {
				_, err = w.InitialEvents(&got)
				w.Close()
			}
			if !errors.Is(err, ErrNoStreaming) || errors.Is(err, ErrNoWatch) {
				t.Errorf("%s as a streaming list: %v", name, err)
			}
		})
	}
	for _, c := range []struct {
		begin           string
		isList, decided bool
	}{
		{"", false, false},
		{"k8s", false, false},
		{"k8s\x00\x0a", true, true},
		{"\x00\x00\x01\x00", false, true},
	} {
		if isList, decided := beginsList(decode.Protobuf, []byte(c.begin)); isList != c.isList || decided != c.decided {
			t.Errorf("%q: list %t, decided %t", c.begin, isList, decided)
		}
	}
}

// Unlike a list, a watch neither waits for the rate limit nor counts toward it, unless it follows another within a
// second. So a server that ends each watch after an event does not receive requests without a pause.
// Guarantees: R8, P1
func TestRateLimitOfWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &server{}
		client, err := transport.New(&rest.Config{Host: "http://test", Transport: server, QPS: 1. / 60, Burst: 1})
		if err != nil {
			t.Fatal(err)
		}
		source := NewSource(Config{Client: client, Path: "/api/v1/things", Check: func(decode.Format) error { return nil }})
		var got records
		for i, c := range []struct {
			pause, want time.Duration // before the request, and until it was sent
			list        bool
		}{
			{want: 0},
			{want: 0},                     // takes all that the limit allows
			{want: time.Minute},           // too soon
			{want: 0, pause: time.Second}, // not too soon
			{want: 59 * time.Second, list: true},
			{want: 0}, // the watch before the list was long ago
		} {
			<-testkit.After(c.pause)
			server.answers = append(server.answers, answer{body: added})
			begun := time.Now()
			if c.list {
				server.answers[len(server.answers)-1] = listAnswer("9", "", "")
				_, err = source.List(t.Context(), "0", 0, &got, "")
			} else {
				var w Watch
				if w, err = source.Watch(t.Context(), State{Version: "7"}, ""); err == nil {
					w.Close()
				}
			}
			// The limit counts in floating point.
			if took := time.Since(begun).Round(time.Second); err != nil || took != c.want {
				t.Errorf("request %d: sent after %v, want %v; %v", i, took, c.want, err)
			}
		}
	})
}

// After the bookmark that ends the initial events, a streaming list continues as a watch. If a server refuses it or
// does not end the initial events properly, the error asks for a paged list.
// Guarantees: R1, R2, R16
func TestStreamingList(t *testing.T) {
	refused := answer{code: http.StatusBadRequest, body: `{"kind":"Status","status":"Failure","code":400}`}
	stream := func(ctx context.Context, source *Source, got *records) (string, error) {
		w, err := source.Stream(ctx, "5", "")
		if err != nil {
			return "", err
		}
		defer w.Close()
		version, err := w.InitialEvents(got)
		if err == nil {
			err = w.Follow(got.NewIntake, func(string) error { return nil })
		}
		return version, err
	}
	synctest.Test(t, func(t *testing.T) {
		source, _ := newTestSource(t, answer{body: added + initial + deleted})
		var got records
		version, err := stream(t.Context(), source, &got)
		want := []string{`{"a":1}`, ".", `{"a":2} deleted`, "."}
		if err != nil || version != "8" || !slices.Equal(got.lines, want) {
			t.Errorf("%q, version %s, %v", got.lines, version, err)
		}
		for _, a := range []answer{refused, {}, {body: bookmark}, {late: time.Hour}} {
			source, _ := newTestSource(t, a)
			_, err := stream(t.Context(), source, &got)
			if !errors.Is(err, ErrNoStreaming) || errors.Is(err, transport.ErrNoProgress) != (a.late > 0) {
				t.Errorf("%+v: %v", a, err)
			}
		}
		unauthorized := answer{code: http.StatusUnauthorized, body: `{"kind":"Status","status":"Failure","code":401}`}
		source, _ = newTestSource(t, unauthorized)
		if _, err := stream(t.Context(), source, &got); errors.Is(err, ErrNoStreaming) || transport.StatusCode(err) != 401 {
			t.Errorf("%v", err)
		}
	})
}
