package debugpage

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// secrets and configMaps are masked in any case.
var secrets, configMaps = schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "configmaps"}

// shown are the fields of a masked object, and of its metadata, that keep their values. All others are masked.
var (
	shown         = []string{"apiVersion", "immutable", "kind", "type"}
	shownMetadata = []string{
		"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generateName", "generation", "labels",
		"name", "namespace", "ownerReferences", "resourceVersion", "selfLink", "uid",
	}
)

// isKind reports whether the JSON of an object says that it is of a kind of the core API.
func isKind(object []byte, kind string) bool {
	var of struct{ APIVersion, Kind string }
	_ = json.Unmarshal(object, &of) // other JSON is of no kind
	return of.APIVersion == "v1" && of.Kind == kind
}

// encodedField returns the field of an object whose values are bytes in base64. Empty means none.
func encodedField(resource schema.GroupResource, object []byte) string {
	switch {
	case resource == secrets || isKind(object, "Secret"):
		return "data"
	case resource == configMaps || isKind(object, "ConfigMap"):
		return "binaryData"
	}
	return ""
}

// mask replaces the values in the JSON of an object by their lengths. Annotations are masked, too: some tools write whole
// objects into them. The values in the field encoded are measured as bytes in base64.
func mask(object []byte, encoded string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	for name, value := range fields {
		switch metadata, isObject := value.(map[string]any); {
		case name == "metadata" && isObject:
			for name, value := range metadata {
				if !slices.Contains(shownMetadata, name) {
					metadata[name] = masked(value, false)
				}
			}
		case !slices.Contains(shown, name):
			fields[name] = masked(value, name == encoded)
		}
	}
	return json.Marshal(fields)
}

// masked returns value with a text of the length of each value in it. Names of fields stay. With encoded, each text is
// measured as the bytes that it encodes in base64.
func masked(value any, encoded bool) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = masked(v[name], encoded)
		}
		return v
	case []any:
		for i := range v {
			v[i] = masked(v[i], encoded)
		}
		return v
	case string:
		if bytes, err := base64.StdEncoding.DecodeString(v); encoded && err == nil {
			return maskedText(len(bytes))
		}
		return maskedText(len(v))
	case nil:
		return nil
	}
	return "<masked>" // a number or a boolean
}

func maskedText(bytes int) string {
	if bytes == 1 {
		return "<masked: 1 byte>"
	}
	return fmt.Sprintf("<masked: %d bytes>", bytes)
}
