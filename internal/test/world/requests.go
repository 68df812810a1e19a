package world

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
)

// Media types.
const (
	JSONType     = "application/json"
	ProtobufType = "application/vnd.kubernetes.protobuf"
)

// Requests of an informer, as Requests returns them.
const (
	Streams     = "watch sendInitialEvents=true resourceVersionMatch=NotOlderThan"
	StreamsFrom = "watch sendInitialEvents=true resourceVersion=%s resourceVersionMatch=NotOlderThan"
	Lists       = "list resourceVersion=0 limit=1"
	ListsFrom   = "list resourceVersion=%s resourceVersionMatch=NotOlderThan limit=1"
	ListsLatest = "list limit=1"
	NextPage    = "list limit=1 continue"
	Watches     = "watch resourceVersion=%s"
	Versions    = "GET /api"
	Resources   = "GET /api/v1"
)

// Errors of an API server.
var (
	Expired     = apierrors.NewResourceExpired("too old resource version")
	Unavailable = apierrors.NewServiceUnavailable("down")
	Internal    = apierrors.NewInternalError(errors.New("broken"))
	TimedOut    = apierrors.NewTimeoutError("slow", 0)
	Throttled   = apierrors.NewTooManyRequests("later", 100)
	Absent      = apierrors.NewNotFound(PodGVR.GroupResource(), "")
	Forbidden   = apierrors.NewForbidden(PodGVR.GroupResource(), "", errors.New("not you"))
	StoreError  = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonStoreReadError, Message: "corrupt object",
	}}
	TooLarge = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout, Message: "Too large resource version",
		Details: &metav1.StatusDetails{
			RetryAfterSeconds: 1,
			Causes:            []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}},
		},
	}}
)

// Statuses are errors of an API server by their code, or by the reason that the code lacks.
var Statuses = map[string]error{
	"400": apierrors.NewBadRequest("what?"), "401": apierrors.NewUnauthorized("who?"), "403": Forbidden, "404": Absent,
	"405": apierrors.NewMethodNotSupported(PodGVR.GroupResource(), "watch"), "410": Expired, "429": Throttled,
	"500": Internal, "503": Unavailable, "504": TimedOut, "StoreReadError": StoreError, "too-large": TooLarge,
}

// Parts of responses, for tests that answer in place of the server.
const (
	ListHead  = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"2"},"items":[`
	PodHead   = `{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"2"},`
	FrameHead = `{"type":"MODIFIED","object":` + PodHead
	// ProtoHead is the envelope of a PodList in protobuf, up to the length of the list.
	ProtoHead = "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12"
)

// Requests returns the verbs of the requests so far, with the parameters that distinguish them.
func (w World) Requests() []string {
	var list []string
	for _, r := range w.Server.Requests() {
		text := r.Verb
		if text == "" {
			text = "GET " + r.Path
		}
		for _, param := range []string{"sendInitialEvents", "resourceVersion", "resourceVersionMatch", "limit"} {
			if r.Query.Has(param) {
				text += " " + param + "=" + r.Query.Get(param)
			}
		}
		if r.Query.Has("continue") {
			text += " continue"
		}
		list = append(list, text)
	}
	return list
}

// WantRequests checks the requests since its last call, or the last ResetRequests of the server.
func (w World) WantRequests(want ...string) {
	w.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.Requests()); diff != "" {
		w.Errorf("requests (-want +got):\n%s", diff)
	}
	w.Server.ResetRequests()
}

// Accepts returns the Accept headers of the requests so far, each once.
func (w World) Accepts() []string {
	var list []string
	for _, r := range w.Server.Requests() {
		list = append(list, r.Header.Get("Accept"))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Streamed reports whether a request is for a streaming list.
func Streamed(r informertest.Request) bool { return r.Query.Has("sendInitialEvents") }

// NotStreamed is the opposite of Streamed.
func NotStreamed(r informertest.Request) bool { return !Streamed(r) }

// AsksToStream reports whether r is for a streaming list.
func AsksToStream(r *http.Request) bool { return r.URL.Query().Has("sendInitialEvents") }

// AsksToWatch reports whether r is for a watch or a streaming list.
func AsksToWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

// RoundTripper is a function that sends a request.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// IgnoresNamespace requests the pods of all namespaces instead of one while Ignored is set, as if the server ignored
// the namespace.
type IgnoresNamespace struct {
	http.RoundTripper
	Ignored *atomic.Bool
}

// RoundTrip sends r.
func (t IgnoresNamespace) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.Ignored.Load() && strings.Contains(r.URL.Path, "/namespaces/") {
		r = r.Clone(r.Context())
		r.URL.Path = "/api/v1/pods"
	}
	return t.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport that cancels requests.
func (t IgnoresNamespace) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
