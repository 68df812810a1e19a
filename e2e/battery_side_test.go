package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// side is one of the servers that get the same requests, with one resource in one namespace.
type side struct {
	*testing.T
	host      string
	http      *http.Client
	writes    dynamic.ResourceInterface
	resource  batteryResource
	namespace string
	compact   func(rv uint64)

	recorder *json.Decoder // of a watch that sees every change
	steps    []version     // the versions of the changes, in order
	history  []string      // the recorder's events, normalised
	tokens   map[string]string
}

// version is the resource version of a step of the script.
type version struct {
	step string
	rv   uint64
}

// batteryResource is a resource with its requests.
type batteryResource struct {
	schema.GroupVersionResource
	kind          string
	before, after []step // changes before and after the compaction
	live          []step // changes while the watches are open
	requests      string // in addition to those for every resource
	prune         func(object map[string]any)
}

// step is one change: a write of an object with that label. A status is a phase of a pod.
type step struct{ name, verb, object, app, node string }

func newSide(t *testing.T, config *rest.Config, resource batteryResource, namespace string, compact func(rv uint64)) *side {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	writes, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &side{
		T: t, host: config.Host, http: client, resource: resource, namespace: namespace, compact: compact,
		writes: writes.Resource(resource.GroupVersionResource).Namespace(namespace),
		tokens: map[string]string{},
	}
}

func (s *side) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", s.host, err)
	}
}

// record opens a watch that finds the versions of later changes, and gives the present version a name.
func (s *side) record(ctx context.Context, name string) {
	s.Helper()
	list, err := s.writes.List(ctx, metav1.ListOptions{})
	s.must(err)
	s.note(name, list.GetResourceVersion())
	response, err := s.do(ctx, "?watch=1&resourceVersion={"+name+"}")
	s.must(err)
	context.AfterFunc(ctx, func() { response.Body.Close() })
	s.recorder = json.NewDecoder(response.Body)
}

func (s *side) note(step, resourceVersion string) {
	s.Helper()
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	s.must(err)
	s.steps = append(s.steps, version{step, rv})
}

// run makes the changes and records their versions.
func (s *side) run(ctx context.Context, steps []step) {
	s.Helper()
	for _, st := range steps {
		want := "MODIFIED"
		var obj *unstructured.Unstructured
		var err error
		if st.verb == "update" || st.verb == "status" {
			obj, err = s.writes.Get(ctx, st.object, metav1.GetOptions{})
			s.must(err)
		}
		switch st.verb {
		case "create":
			want = "ADDED"
			obj = &unstructured.Unstructured{Object: map[string]any{}}
			obj.SetGroupVersionKind(s.resource.GroupVersion().WithKind(s.resource.kind))
			obj.SetName(st.object)
			obj.SetLabels(map[string]string{"app": st.app})
			if st.node != "" {
				obj.Object["spec"] = map[string]any{"nodeName": st.node, "containers": []any{map[string]any{"name": "c", "image": "example.invalid/i"}}}
			}
			_, err = s.writes.Create(ctx, obj, metav1.CreateOptions{})
		case "update":
			obj.SetLabels(map[string]string{"app": st.app})
			_, err = s.writes.Update(ctx, obj, metav1.UpdateOptions{})
		case "status":
			s.must(unstructured.SetNestedField(obj.Object, st.app, "status", "phase"))
			_, err = s.writes.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
		case "delete":
			want = "DELETED"
			now := int64(0)
			err = s.writes.Delete(ctx, st.object, metav1.DeleteOptions{GracePeriodSeconds: &now})
		}
		s.must(err)
		for {
			var e event
			s.must(s.recorder.Decode(&e))
			rv, _, err := unstructured.NestedString(e.Object, "metadata", "resourceVersion")
			s.must(err)
			last := e.Type == want
			if last {
				s.note(st.name, rv)
			}
			s.history = append(s.history, st.name+": "+e.Type+" "+s.object(e.Object))
			if last {
				break
			}
		}
	}
}

// event is one event of a watch.
type event struct {
	Type   string
	Object map[string]any
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

// fill replaces names with their versions and tokens.
func (s *side) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(name string) string {
		name = strings.Trim(name, "{}")
		if token, ok := s.tokens[name]; ok {
			return token
		}
		switch name {
		case "namespace":
			return s.namespace
		case "resource":
			return s.resource.Resource
		case "now":
			return strconv.FormatUint(s.steps[len(s.steps)-1].rv, 10)
		case "future":
			return strconv.FormatUint(s.steps[len(s.steps)-1].rv+1_000_000, 10)
		}
		for _, v := range s.steps {
			if v.step == name {
				return strconv.FormatUint(v.rv, 10)
			}
		}
		s.Fatalf("unknown name %q", name)
		return ""
	})
}

var accepts = map[string]string{
	"json":              runtime.ContentTypeJSON,
	"protobuf":          runtime.ContentTypeProtobuf,
	"any":               "*/*",
	"both":              runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	"preferences":       "application/json;q=0.5, application/vnd.kubernetes.protobuf;q=0.9",
	"metadata":          "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"metadatas":         "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	"protobufmetadata":  "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"protobufmetadatas": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	"table":             "application/json;as=Table;g=meta.k8s.io;v=v1",
	"protobuftable":     "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
	"tableorjson":       "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
	"yaml":              "application/yaml",
	"text":              "text/plain",
	"nonsense":          "a/b/c",
}

// do sends one request, given as [METHOD ][PATH][?QUERY][ as ACCEPT]. Without a path, it is for the collection.
func (s *side) do(ctx context.Context, line string) (*http.Response, error) {
	line, accept, _ := strings.Cut(s.fill(line), " as ")
	method := http.MethodGet
	if m, rest, ok := strings.Cut(line, " "); ok {
		method, line = m, rest
	}
	if !strings.HasPrefix(line, "/api") {
		line = "/api/v1/namespaces/" + s.namespace + "/" + s.resource.Resource + line
	}
	req, err := http.NewRequestWithContext(ctx, method, s.host+line, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		if accepts[accept] == "" {
			return nil, fmt.Errorf("unknown accept %q", accept)
		}
		req.Header.Set("Accept", accepts[accept])
	}
	return s.http.Do(req)
}

// answer reads a response. The returned function describes everything that clients may rely on, one thing a line. Call it
// when all steps have names.
func (s *side) answer(line string, response *http.Response, sent time.Time) func() []string {
	defer response.Body.Close()
	contentType := response.Header.Get("Content-Type")
	head := fmt.Sprint(response.StatusCode, " ", contentType)
	if after := response.Header.Get("Retry-After"); after != "" {
		head += " Retry-After: " + after
	}
	if response.StatusCode == http.StatusOK && watchRequest.MatchString(line) {
		events, err := readEvents(response)
		took := time.Since(sent)
		return func() []string {
			return append(append([]string{head}, s.events(events)...), end(line, events, err, took))
		}
	}
	body, err := io.ReadAll(response.Body)
	return func() []string {
		if err != nil {
			return []string{head, "broken: " + err.Error()}
		}
		obj, err := decodeBody(contentType, body)
		if err != nil {
			return []string{head, strings.TrimSpace(string(body))}
		}
		items, _ := obj["items"].([]any)
		delete(obj, "items")
		lines := []string{head, s.object(obj)}
		for _, item := range items {
			lines = append(lines, "- "+s.object(item.(map[string]any)))
		}
		return lines
	}
}

// end describes how a watch ended: normally, after its time or an error event, or in another way.
func end(line string, events []event, err error, took time.Duration) string {
	if !errors.Is(err, io.EOF) {
		return "broken: " + err.Error()
	}
	if len(events) > 0 && events[len(events)-1].Type == "ERROR" {
		return "end"
	}
	if asked := timeoutSeconds.FindStringSubmatch(line); asked != nil {
		seconds, _ := strconv.Atoi(asked[1])
		if timeout := time.Duration(seconds) * time.Second; took < timeout-time.Second/10 || took > timeout+10*time.Second {
			return fmt.Sprintf("end after %v", took)
		}
	}
	return "end"
}

// events returns the events of a watch as text. It omits repeated bookmarks of one version, whose number depends on time.
func (s *side) events(events []event) (lines []string) {
	for _, e := range events {
		line := e.Type + " " + s.object(e.Object)
		if e.Type != "BOOKMARK" || len(lines) == 0 || lines[len(lines)-1] != line {
			lines = append(lines, line)
		}
	}
	return lines
}

var timeoutSeconds = regexp.MustCompile(`timeoutSeconds=(\d+)`)

// readEvents reads a watch to its end, and returns the error there.
func readEvents(response *http.Response) (events []event, err error) {
	contentType := response.Header.Get("Content-Type")
	decoder := json.NewDecoder(response.Body)
	next := func() (e event, err error) { return e, decoder.Decode(&e) }
	if strings.HasPrefix(contentType, runtime.ContentTypeProtobuf) {
		next = func() (event, error) {
			var size uint32
			if err := binary.Read(response.Body, binary.BigEndian, &size); err != nil {
				return event{}, err
			}
			frame := make([]byte, size)
			if _, err := io.ReadFull(response.Body, frame); err != nil {
				return event{}, err
			}
			var e metav1.WatchEvent
			if err := e.Unmarshal(frame); err != nil {
				return event{}, err
			}
			obj, err := decodeBody(contentType, e.Object.Raw)
			return event{e.Type, obj}, err
		}
	}
	for {
		e, err := next()
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
}

// batteryCodecs decodes all protobuf responses.
var batteryCodecs = func() serializer.CodecFactory {
	all := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(all), metav1.AddMetaToScheme(all), metav1beta1.AddMetaToScheme(all)); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(all)
}()

func decodeBody(contentType string, body []byte) (map[string]any, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	if mediaType == runtime.ContentTypeJSON {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		var obj map[string]any
		return obj, decoder.Decode(&obj)
	}
	obj, _, err := batteryCodecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
}

var number = regexp.MustCompile(`\b\d+\b`)

// object returns an object, list without items, or Status as text that is equal on both sides for equal content. It replaces
// versions with the last step that they cover, and uids, times and tokens with placeholders, and omits managedFields.
func (s *side) object(obj map[string]any) string {
	if metadata, ok := obj["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "continue"} {
			if value, ok := metadata[field]; ok && value != "" && value != nil {
				metadata[field] = field
			}
		}
		if rv, ok := metadata["resourceVersion"].(string); ok {
			metadata["resourceVersion"] = s.covered(rv)
		}
	}
	if message, ok := obj["message"].(string); ok && obj["kind"] == "Status" {
		obj["message"] = number.ReplaceAllString(message, "N")
		if obj["reason"] == string(metav1.StatusReasonNotAcceptable) {
			delete(obj, "message") // lists the supported formats
		}
		if details, ok := obj["details"].(map[string]any); ok && len(details) == 0 {
			delete(obj, "details")
		}
	}
	if obj["kind"] == "Table" {
		s.table(obj)
	} else if s.resource.prune != nil {
		s.resource.prune(obj)
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// table makes the rows of a Table equal on both sides for equal content: it replaces ages, and the phase that only
// kube-apiserver fills in.
func (s *side) table(obj map[string]any) {
	rows, _ := obj["rows"].([]any)
	for _, row := range rows {
		row := row.(map[string]any)
		for i, cell := range row["cells"].([]any) {
			text, _ := cell.(string)
			switch {
			case ageCell.MatchString(text):
				row["cells"].([]any)[i] = "age"
			case cell == "Pending":
				row["cells"].([]any)[i] = ""
			}
		}
		if included, ok := row["object"].(map[string]any); ok {
			row["object"] = s.object(included)
		}
	}
}

var ageCell = regexp.MustCompile(`^(\d+[smh])+$`)

// covered returns the name of the last step at or before a version.
func (s *side) covered(resourceVersion string) string {
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return resourceVersion
	}
	name := "before all"
	for _, v := range s.steps {
		if v.rv <= rv {
			name = v.step
		}
	}
	return name
}
