package typedclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// terminal is an error that Config.Terminal has wrapped.
type terminal struct{ error }

func (t terminal) Unwrap() error { return t.error }

// undecodable is an error that Config.Undecodable has wrapped.
type undecodable struct {
	key object.Key
	error
}

func (u *undecodable) Unwrap() error { return u.error }

// sent is what a server received of a request.
type sent struct {
	method, path, query, contentType, accept, body string
}

// server is a transport that records requests and answers them.
type server struct {
	requests []sent
	answer   func(try int) (*http.Response, error) // try begins with 1
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.requests = append(s.requests, sent{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Content-Type"),
		r.Header.Get("Accept"), string(body)})
	resp, err := s.answer(len(s.requests))
	if resp != nil {
		resp.Request = r
	}
	return resp, err
}

// responds returns the answer that is always body.
func responds(code int, media, body string) func(int) (*http.Response, error) {
	return func(int) (*http.Response, error) { return response(code, media, strings.NewReader(body)), nil }
}

func response(code int, media string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(body)}
}

// fails returns the answer that is always err.
func fails(err error) func(int) (*http.Response, error) {
	return func(int) (*http.Response, error) { return nil, err }
}

// newClient returns a client of pods whose Go type is T, a pointer. The server's collections of pods are at
// /pods/NAMESPACE.
func newClient[T any](t *testing.T, s *server, change ...func(*rest.Config)) *Client {
	t.Helper()
	config := &rest.Config{Host: "http://server", QPS: -1, Transport: s}
	for _, c := range change {
		c(config)
	}
	http, err := transport.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{
		HTTP:        http,
		Resource:    corev1.SchemeGroupVersion.WithResource("pods"),
		Path:        func(namespace string) string { return path.Join("/pods", namespace) },
		Type:        reflect.TypeFor[T](),
		Terminal:    func(err error) error { return terminal{err} },
		Undecodable: func(key object.Key, err error) error { return &undecodable{key, err} },
	}, nil)
}

// isTerminal reports whether Config.Terminal has wrapped err or an error in it, once.
func isTerminal(err error) bool {
	var outer, inner terminal
	return errors.As(err, &outer) && !errors.As(outer.error, &inner)
}

// podA has the key ns/a, and no kind.
func podA() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
}

var keyA = object.Key{Namespace: "ns", Name: "a"}

const jsonA = `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":"a","resourceVersion":"7"}}`

// protobufA is the object in jsonA, in the envelope of protobuf.
func protobufA(t *testing.T) string {
	t.Helper()
	pod := podA()
	pod.ResourceVersion = "7"
	raw, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return inEnvelope(t, "Pod", raw)
}

// inEnvelope returns raw, a message of an object of core/v1, with the envelope that kube-apiserver adds.
func inEnvelope(t *testing.T, kind string, raw []byte) string {
	t.Helper()
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	body, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return "k8s\x00" + string(body)
}

// status is a Status of the server.
func status(code int, reason metav1.StatusReason) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"no"}`, code, reason)
}

// body is a body that notes that it was read to its end, and that it was closed.
type body struct {
	io.Reader
	atEOF, closed bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.atEOF = b.atEOF || err == io.EOF
	return n, err
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// padded returns jsonA with spaces behind it, so that there are size bytes.
func padded(size int) io.Reader {
	return io.MultiReader(strings.NewReader(jsonA), bytes.NewReader(bytes.Repeat([]byte(" "), size-len(jsonA))))
}

const mediaJSON, mediaProtobuf = decode.MediaJSON, decode.MediaProtobuf
