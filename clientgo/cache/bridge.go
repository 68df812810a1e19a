package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// bridge is the transport of an informer over a [cache.ListerWatcher]. It answers lists and watches with the objects of
// the ListerWatcher, in JSON.
type bridge struct {
	to cache.ListerWatcherWithContext
}

// RoundTrip implements http.RoundTripper.
func (b bridge) RoundTrip(req *http.Request) (*http.Response, error) {
	query := req.URL.Query()
	var options metav1.ListOptions
	if err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &options, nil); err != nil {
		return failed(req, apierrors.NewBadRequest(err.Error()))
	}
	switch {
	case strings.Contains(req.Header.Get("Accept"), "as=PartialObjectMetadata"):
		return failed(req, apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "list", schema.GroupResource{}, "",
			"a ListerWatcher cannot list metadata", 0, false))
	case options.Watch:
		return b.watch(req, options)
	}
	return b.list(req, options)
}

func (b bridge) list(req *http.Request, options metav1.ListOptions) (*http.Response, error) {
	list, err := b.to.ListWithContext(req.Context(), options)
	if err != nil {
		return failed(req, err)
	}
	var of metav1.ListMeta
	if m, err := meta.ListAccessor(list); err == nil {
		of = metav1.ListMeta{
			ResourceVersion:    m.GetResourceVersion(),
			Continue:           m.GetContinue(),
			RemainingItemCount: m.GetRemainingItemCount(),
		}
	}
	items := []runtime.Object{}
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		items = append(items, obj)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("the ListerWatcher returned a %T: %w", list, err)
	}
	body, err := json.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []runtime.Object `json:"items"`
	}{metav1.TypeMeta{Kind: "List", APIVersion: "v1"}, of, items})
	if err != nil {
		return nil, err
	}
	return response(req, http.StatusOK, io.NopCloser(bytes.NewReader(body))), nil
}

// failed returns the answer to a request for which the ListerWatcher returned err.
func failed(req *http.Request, err error) (*http.Response, error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		return nil, err
	}
	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	if status.Code < http.StatusBadRequest {
		status.Code = http.StatusInternalServerError
	}
	body, err := json.Marshal(&status)
	if err != nil {
		return nil, err
	}
	return response(req, int(status.Code), io.NopCloser(bytes.NewReader(body))), nil
}

func response(req *http.Request, code int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode:    code,
		Status:        http.StatusText(code),
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          body,
		ContentLength: -1,
		Request:       req,
	}
}

func (b bridge) watch(req *http.Request, options metav1.ListOptions) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	w, err := b.to.WatchWithContext(ctx, options)
	if err != nil {
		cancel()
		return failed(req, err)
	}
	from, to := io.Pipe()
	body := &stream{PipeReader: from, end: cancel}
	body.running.Go(func() {
		defer w.Stop()
		_ = to.CloseWithError(copyEvents(ctx, to, w.ResultChan()))
	})
	return response(req, http.StatusOK, body), nil
}

// stream is the body of a watch.
type stream struct {
	*io.PipeReader
	end     context.CancelFunc
	running sync.WaitGroup
}

// Close ends the watch.
func (s *stream) Close() error {
	s.end()
	err := s.PipeReader.Close()
	s.running.Wait()
	return err
}

// copyEvents writes events to a stream until they or ctx end. It returns nil when the events end.
func copyEvents(ctx context.Context, to io.Writer, events <-chan watch.Event) error {
	encoder := json.NewEncoder(to)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e, ok := <-events:
			if !ok {
				return nil
			}
			if status, failed := e.Object.(*metav1.Status); failed {
				named := *status
				named.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
				e.Object = &named
			}
			frame := struct {
				Type   watch.EventType `json:"type"`
				Object runtime.Object  `json:"object"`
			}{e.Type, e.Object}
			if err := encoder.Encode(frame); err != nil {
				return fmt.Errorf("encode an event of the ListerWatcher: %w", err)
			}
		}
	}
}
