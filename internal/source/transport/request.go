package transport

import (
	"errors"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/source/decode"
)

// Request is one HTTP request.
type Request struct {
	Method      string
	Path        string // below Client.Base
	Query       url.Values
	Watch       bool // Send sets no time limit
	Accept      string
	ContentType string // of Body
	Body        []byte
	// ETag is that of a response that the caller has; sent as If-None-Match. Empty means that it has none.
	ETag     string
	Resource schema.GroupResource // for errors; empty for discovery
	Name     string               // for errors
}

// Response is the response to a request that succeeded. The caller must close it.
type Response struct {
	io.ReadCloser
	Format  decode.Format
	AuditID string // the header Audit-Id, by which the server's audit log names the request
	ETag    string // the header ETag; empty if it has none, or is too long
	// NotModified means that the response with Request.ETag is still right. There is no body then.
	NotModified bool
	end         func()
}

// maxETag limits the length of an ETag. kube-apiserver's have 130 bytes.
const maxETag = 256

// newResponse returns resp as a Response in format f. The connection of a watch keeps resp while the watch is open, so
// resp loses what nobody needs any more.
func newResponse(resp *http.Response, f decode.Format, end func()) *Response {
	r := &Response{ReadCloser: resp.Body, Format: f, AuditID: auditID(resp.Header), end: end}
	if tag := resp.Header.Get("ETag"); len(tag) <= maxETag {
		r.ETag = tag
	}
	r.NotModified = resp.StatusCode == http.StatusNotModified
	resp.Header, resp.Request = nil, nil
	return r
}

// Close ends the request.
func (r *Response) Close() error {
	defer r.end()
	return r.ReadCloser.Close()
}

// verb returns the verb of the Kubernetes API.
func (r *Request) verb() string {
	switch {
	case r.Watch:
		return "watch"
	case r.Method == http.MethodGet && r.Name == "" && r.Resource.Resource != "":
		return "list"
	case r.Method == http.MethodDelete && r.Name == "":
		return "deletecollection"
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	}
	return strings.ToLower(r.Method)
}

// succeeded reports whether a response with that status code is the one that the request asks for.
func (r *Request) succeeded(code int) bool {
	if r.Method == http.MethodGet {
		return code == http.StatusOK || code == http.StatusNotModified && r.ETag != ""
	}
	return code >= 200 && code <= 299
}

// responseError returns the same error as client-go does for resp.
func responseError(resp *http.Response, method string, resource schema.GroupResource, name string) error {
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	retryAfter = min(retryAfter, math.MaxInt32)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, decode.MaxStatusBytes))
	f, err := decode.FormatOf(resp.Header.Get("Content-Type"))
	if f == decode.Protobuf {
		body, err = decode.Unwrap(body)
	}
	status := &metav1.Status{}
	if err == nil {
		status, err = f.Status(body)
	}
	if err != nil || status.Status != metav1.StatusFailure {
		message := "unknown"
		if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil ||
			strings.HasPrefix(media, "text/") {
			message = strings.TrimSpace(string(body[:min(len(body), 2048)]))
		}
		return apierrors.NewGenericServerResponse(resp.StatusCode, method, resource, name, message, retryAfter, true)
	}
	if retryAfter > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if status.Details.RetryAfterSeconds == 0 {
			status.Details.RetryAfterSeconds = int32(retryAfter)
		}
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// StatusCode returns the status code of the server's answer, or 0 if err is of another kind.
func StatusCode(err error) int {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// IsUnreachable reports whether no connection to the server was possible.
func IsUnreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
