package transport

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
)

// roundTrip is an http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a client whose requests do answers.
func answering(t *testing.T, do roundTrip) *Client {
	t.Helper()
	c, err := New(&rest.Config{Host: "http://test", Transport: do, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A watch asks for no compression. A list leaves the choice to package http.
// Guarantees: R27
func TestWatchesAskForIdentity(t *testing.T) {
	var header http.Header
	c := answering(t, func(r *http.Request) (*http.Response, error) {
		header = r.Header
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {decode.MediaJSON}}, Body: http.NoBody}, nil
	})
	for watch, want := range map[bool]string{true: "identity", false: ""} {
		resp, err := c.Send(t.Context(), Request{Method: http.MethodGet, Watch: watch})
		if err != nil {
			t.Fatal(err)
		}
		resp.Close()
		if got := header.Get("Accept-Encoding"); got != want {
			t.Errorf("watch=%v accepts %q, want %q", watch, got, want)
		}
	}
}

// A server that compresses a watch although nobody asked for it is read member by member: each event arrives before the server has written the
// next.
// Guarantees: R27
func TestCompressedWatchIsReadEventByEvent(t *testing.T) {
	in, out := io.Pipe()
	c := answering(t, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {decode.MediaJSON}, "Content-Encoding": {"GZIP"}}, Body: in}, nil
	})
	resp, err := c.Send(t.Context(), Request{Method: http.MethodGet, Watch: true})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Close()
	frames := decode.NewFrames(resp, resp.Format, nil, nil)
	for _, kind := range []string{"ADDED", "MODIFIED"} {
		var member bytes.Buffer
		z := gzip.NewWriter(&member)
		io.WriteString(z, `{"type":"`+kind+`","object":{"kind":"Pod"}}`+"\n")
		z.Close()
		go out.Write(member.Bytes())
		frame, err := frames.Next()
		for err == decode.ErrMore {
			if err = frames.Fill(); err == nil {
				frame, err = frames.Next()
			}
		}
		if err != nil || frame.Event != kind {
			t.Fatalf("%q, %v", frame.Event, err)
		}
	}
}
