package transport

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/decode"
)

// A failed response of any content type becomes an error with a short text. If the body is a Status, the error has its
// reason and code.
func FuzzErrorBody(f *testing.F) {
	f.Add("text/html; charset=utf-8", uint16(502), []byte("<html>bad gateway"))
	f.Add("", uint16(401), bytes.Repeat([]byte("x"), decode.MaxStatusBytes+1))
	f.Add("application/json;", uint16(500), []byte(`{"status":"Failure"}`))
	f.Add("application/json", uint16(404), []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	f.Add("application/vnd.kubernetes.protobuf", uint16(400), []byte("k8s\x00\x12\x02\x12\x00"))
	f.Add("text/plain; a=b; a=c", uint16(429), []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, contentType string, code uint16, body []byte) {
		err := responseError(&http.Response{
			StatusCode: int(code),
			Header:     http.Header{"Content-Type": {contentType}, "Retry-After": {contentType}},
			Body:       io.NopCloser(bytes.NewReader(body)),
		}, http.MethodGet, corev1.Resource("pods"), "")
		var known apierrors.APIStatus
		if !errors.As(err, &known) || len(err.Error()) > 2*decode.MaxMessage {
			t.Fatalf("%T: %.1000v", err, err)
		}
		format, err := decode.FormatOf(contentType)
		if err == nil && format == decode.Protobuf {
			body, err = decode.Unwrap(body)
		}
		if err != nil {
			return
		}
		status, err := format.Status(body)
		if got := known.Status(); err == nil && status.Status == metav1.StatusFailure && (got.Reason != status.Reason || got.Code != status.Code) {
			t.Fatalf("the error is %+v, the status %+v", got, status)
		}
	})
}
