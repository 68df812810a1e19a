// Package canned answers lists and watches of pods from memory, for benchmarks and for tests that measure.
package canned

import (
	"bytes"
	"context"
	"io"
	"iter"
	"net/http"
	"path"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// Server is a transport that answers every list and every watch of pods from memory.
type Server struct {
	Media  string        // the media type of List and Frames
	List   []byte        // the body of a list
	Pages  [][]byte      // the bodies of its pages, instead of List
	OnPage func(n int)   // called before page n is sent, from 0; nil for none
	Frames []byte        // the frames of a watch, which then stays open
	Hold   chan struct{} // holds up watches until it is closed; nil for none
}

// ListOf returns a server with a list of pods, and no changes.
func ListOf(tb testing.TB, media string, pods iter.Seq[*corev1.Pod]) *Server {
	tb.Helper()
	write := fleet.WriteListJSON
	if media == decode.MediaProtobuf {
		write = fleet.WriteListProtobuf
	}
	var list bytes.Buffer
	if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, pods); err != nil {
		tb.Fatal(err)
	}
	return &Server{Media: media, List: list.Bytes()}
}

// PagesOf returns a server with a list of pods in pages of that size, and no changes.
func PagesOf(tb testing.TB, media string, pods []*corev1.Pod, size int) *Server {
	tb.Helper()
	s := &Server{Media: media}
	for from := 0; from < len(pods); from += size {
		meta, to := metav1.ListMeta{ResourceVersion: "1"}, min(from+size, len(pods))
		if to < len(pods) {
			meta.Continue, meta.RemainingItemCount = strconv.Itoa(len(s.Pages)+1), new(int64(len(pods)-to))
		}
		write := fleet.WriteListJSON
		if media == decode.MediaProtobuf {
			write = fleet.WriteListProtobuf
		}
		var page bytes.Buffer
		if err := write(&page, meta, slices.Values(pods[from:to])); err != nil {
			tb.Fatal(err)
		}
		s.Pages = append(s.Pages, page.Bytes())
	}
	return s
}

// Config returns the configuration of a client of s.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host:          "http://canned.invalid",
		Transport:     s,
		QPS:           -1,
		ContentConfig: rest.ContentConfig{AcceptContentTypes: s.Media, ContentType: s.Media},
	}
}

// RoundTrip answers req.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusOK,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Content-Type": {s.Media}},
		Request:    req,
	}
	if path.Base(req.URL.Path) == metav1.NamespaceSystem { // a save asks for the UID of that namespace
		resp.StatusCode, resp.Body = http.StatusNotFound, http.NoBody
		return resp, nil
	}
	if req.URL.Query().Get("watch") == "" {
		list := s.List
		if len(s.Pages) > 0 {
			n, _ := strconv.Atoi(req.URL.Query().Get("continue"))
			if list = s.Pages[n]; s.OnPage != nil {
				s.OnPage(n)
			}
		}
		resp.ContentLength = int64(len(list))
		resp.Body = io.NopCloser(bytes.NewReader(list))
		return resp, nil
	}
	if s.Media == decode.MediaProtobuf {
		resp.Header.Set("Content-Type", s.Media+";stream=watch")
	}
	if s.Hold != nil {
		<-s.Hold
	}
	ctx, cancel := context.WithCancel(req.Context())
	resp.ContentLength = -1
	resp.Body = &openBody{bytes.NewReader(s.Frames), ctx, cancel}
	return resp, nil
}

// openBody is a body that blocks after its last byte until the request is cancelled or the body closed.
type openBody struct {
	*bytes.Reader
	ctx    context.Context
	cancel context.CancelFunc
}

func (o *openBody) Read(p []byte) (int, error) {
	if o.ctx.Err() == nil && o.Reader.Len() > 0 {
		return o.Reader.Read(p)
	}
	<-o.ctx.Done()
	return 0, o.ctx.Err()
}

func (o *openBody) Close() error {
	o.cancel()
	return nil
}

// WithoutWatchList makes a client-go reflector use LIST, which a Server answers.
type WithoutWatchList struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported returns true.
func (WithoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }
