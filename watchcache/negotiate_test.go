package watchcache

import (
	"net/http"
	"testing"
)

// A server with the feature leaves managedFields out of JSON for clients that ask for that, and out of nothing else.
func TestClientsOptOutOfManagedFields(t *testing.T) {
	const as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	for _, c := range []struct {
		accept    string
		feature   bool
		want      format
		forbidden bool
	}{
		{"application/json", true, formatJSON, false},
		{"application/json;drop=metadata.managedFields", true, formatBareJSON, false},
		{"application/json;drop=metadata.managedFields", false, formatJSON, false},
		{"application/json; drop=metadata.annotations+metadata.managedFields", true, formatBareJSON, false},
		{"application/json;drop=metadata.annotations", true, formatJSON, false},
		{`application/json;drop=""`, true, formatJSON, false},
		{"application/json" + as + ";drop=metadata.managedFields", true, formatBareMetadataJSON, false},
		{"application/json" + as + ";drop=metadata.managedFields", false, formatMetadataJSON, false},
		{"application/vnd.kubernetes.protobuf;drop=metadata.managedFields", true, formatProtobuf, false},
		{"application/vnd.kubernetes.protobuf" + as + ";drop=metadata.managedFields", true, formatMetadataProtobuf, false},
		{"application/vnd.kubernetes.protobuf,application/json;drop=metadata.managedFields", true, formatProtobuf, false},
		{"text/html;drop=metadata.managedFields", true, 0, true},
	} {
		cache := podCache()
		cache.config.ManagedFieldsOptOut = c.feature
		f, err := cache.negotiate(&http.Request{Header: http.Header{"Accept": {c.accept}}}, "PartialObjectMetadata")
		if f != c.want || (err != nil) != c.forbidden {
			t.Errorf("%s, feature %v: format %d, %v, want %d", c.accept, c.feature, f, err, c.want)
		}
	}
}
