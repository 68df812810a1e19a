package watchcache

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// negotiate returns the first supported representation that the request accepts. It supports JSON, and protobuf if
// protobuf is set. Unless metadataKind is empty, it also supports both as metadata only, requested as metadataKind of
// meta.k8s.io/v1, and JSON as a Table. No Accept header means JSON.
//
// drop is the parameter drop of the representation: the fields to leave out, separated by +.
func negotiate(r *http.Request, protobuf bool, metadataKind string) (f format, drop string, err error) {
	accept := r.Header.Values("Accept")
	if len(accept) == 0 {
		return formatJSON, "", nil
	}
	type clause struct {
		mediaType string
		params    map[string]string
		q         float64
	}
	var clauses []clause
	for text := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		mediaType, params, err := mime.ParseMediaType(text)
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		if err != nil {
			q = 1
		}
		clauses = append(clauses, clause{mediaType, params, q})
	}
	slices.SortStableFunc(clauses, func(a, b clause) int { return cmp.Compare(b.q, a.q) })
	for _, c := range clauses {
		switch c.mediaType {
		case runtime.ContentTypeJSON, "application/*", "*/*":
			f = formatJSON
		case runtime.ContentTypeProtobuf:
			if !protobuf && c.params["as"] == "" {
				continue
			}
			f = formatProtobuf
		default:
			continue
		}
		switch {
		case c.params["as"] == "":
			return f, c.params["drop"], nil
		case c.params["as"] == metadataKind && c.params["g"] == metav1.GroupName && c.params["v"] == "v1":
			return f + formatMetadataJSON, c.params["drop"], nil
		case c.params["as"] == "Table" && c.params["g"] == metav1.GroupName && c.params["v"] == "v1" && metadataKind != "" &&
			f == formatJSON:
			return formatTable, "", nil
		}
	}
	return 0, "", &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusNotAcceptable,
		Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("only the following media types are accepted: %s, %s", runtime.ContentTypeJSON,
			runtime.ContentTypeProtobuf),
	}}
}

// negotiate returns the representation of objects that the request accepts; see the function negotiate.
func (c *Cache[T]) negotiate(r *http.Request, metadataKind string) (format, error) {
	f, drop, err := negotiate(r, !c.codec.custom, metadataKind)
	if err == nil && c.config.ManagedFieldsOptOut && slices.Contains(strings.Split(drop, "+"), "metadata.managedFields") {
		f = f.bare()
	}
	if f == formatTable {
		return tableFormat(r)
	}
	return f, err
}
