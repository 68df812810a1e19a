package typedclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
)

// Each call sends one request, whose method, path, parameters, headers and body follow from its arguments. Zero options
// add no parameters.
func TestRequestsOfCalls(t *testing.T) {
	yes, seconds, grace := true, int64(7), int64(0)
	all := []string{metav1.DryRunAll}
	list := metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "c=d", ResourceVersion: "5", ResourceVersionMatch: "Exact", Limit: 2,
		Continue: "next", TimeoutSeconds: &seconds,
	}
	const (
		bothMedia = mediaProtobuf + "," + mediaJSON
		written   = "dryRun=All&fieldManager=me&fieldValidation=Strict"
		listed    = "continue=next&fieldSelector=c%3Dd&labelSelector=a%3Db&limit=2&resourceVersion=5&resourceVersionMatch=Exact&timeoutSeconds=7"
		aPod      = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns"},"spec":{"containers":null},"status":{}}`
	)
	unnamed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "a-"}}
	for _, c := range []struct {
		name string
		call func(ctx context.Context, c *Client) error
		want sent
	}{
		{"get", func(ctx context.Context, c *Client) error {
			return errorOf(c.Get(ctx, keyA, metav1.GetOptions{}))
		}, sent{"GET", "/pods/ns/a", "", "", bothMedia, ""}},
		{"get of no namespace", func(ctx context.Context, c *Client) error {
			return errorOf(c.Get(ctx, object.Key{Name: "a"}, metav1.GetOptions{}))
		}, sent{"GET", "/pods/a", "", "", bothMedia, ""}},
		{"get at a version", func(ctx context.Context, c *Client) error {
			return errorOf(c.Get(ctx, keyA, metav1.GetOptions{ResourceVersion: "5"}))
		}, sent{"GET", "/pods/ns/a", "resourceVersion=5", "", bothMedia, ""}},
		{"a name that needs escapes", func(ctx context.Context, c *Client) error {
			return errorOf(c.Get(ctx, object.Key{Namespace: "ns", Name: "a?b c"}, metav1.GetOptions{}))
		}, sent{"GET", "/pods/ns/a%3Fb%20c", "", "", bothMedia, ""}},
		{"create", func(ctx context.Context, c *Client) error {
			return errorOf(c.Create(ctx, podA(), metav1.CreateOptions{}))
		}, sent{"POST", "/pods/ns", "", mediaJSON, bothMedia, aPod}},
		{"create with options", func(ctx context.Context, c *Client) error {
			return errorOf(c.Create(ctx, podA(), metav1.CreateOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict"}))
		}, sent{"POST", "/pods/ns", written, mediaJSON, bothMedia, aPod}},
		{"create without a name", func(ctx context.Context, c *Client) error {
			return errorOf(c.Create(ctx, unnamed, metav1.CreateOptions{}))
		}, sent{"POST", "/pods/ns", "", mediaJSON, bothMedia,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"generateName":"a-","namespace":"ns"},"spec":{"containers":null},"status":{}}`}},
		{"update", func(ctx context.Context, c *Client) error {
			return errorOf(c.Update(ctx, podA(), metav1.UpdateOptions{}))
		}, sent{"PUT", "/pods/ns/a", "", mediaJSON, bothMedia, aPod}},
		{"update of the status with options", func(ctx context.Context, c *Client) error {
			return errorOf(c.Update(ctx, podA(), metav1.UpdateOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict"}, "status"))
		}, sent{"PUT", "/pods/ns/a/status", written, mediaJSON, bothMedia, aPod}},
		{"JSON patch", patches(types.JSONPatchType, metav1.PatchOptions{}),
			sent{"PATCH", "/pods/ns/a", "", "application/json-patch+json", bothMedia, "as it is"}},
		{"merge patch", patches(types.MergePatchType, metav1.PatchOptions{}),
			sent{"PATCH", "/pods/ns/a", "", "application/merge-patch+json", bothMedia, "as it is"}},
		{"strategic merge patch", patches(types.StrategicMergePatchType, metav1.PatchOptions{}),
			sent{"PATCH", "/pods/ns/a", "", "application/strategic-merge-patch+json", bothMedia, "as it is"}},
		{"apply patch in YAML", patches(types.ApplyYAMLPatchType, metav1.PatchOptions{FieldManager: "me"}),
			sent{"PATCH", "/pods/ns/a", "fieldManager=me", "application/apply-patch+yaml", bothMedia, "as it is"}},
		{"patch of the status with options", patches(types.MergePatchType,
			metav1.PatchOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict", Force: &yes}, "status"),
			sent{"PATCH", "/pods/ns/a/status", "dryRun=All&fieldManager=me&fieldValidation=Strict&force=true",
				"application/merge-patch+json", bothMedia, "as it is"}},
		{"patch of a nested subresource", patches(types.MergePatchType, metav1.PatchOptions{Force: new(bool)}, "proxy", "x"),
			sent{"PATCH", "/pods/ns/a/proxy/x", "force=false", "application/merge-patch+json", bothMedia, "as it is"}},
		{"apply", func(ctx context.Context, c *Client) error {
			return errorOf(c.Apply(ctx, keyA, map[string]any{"kind": "Pod"}, metav1.ApplyOptions{FieldManager: "me"}))
		}, sent{"PATCH", "/pods/ns/a", "fieldManager=me&force=false", "application/apply-patch+yaml", bothMedia, `{"kind":"Pod"}`}},
		{"apply of a scale with options", func(ctx context.Context, c *Client) error {
			return errorOf(c.Apply(ctx, keyA, map[string]any{}, metav1.ApplyOptions{DryRun: all, FieldManager: "me", Force: true}, "scale"))
		}, sent{"PATCH", "/pods/ns/a/scale", "dryRun=All&fieldManager=me&force=true", "application/apply-patch+yaml", bothMedia, `{}`}},
		{"delete", func(ctx context.Context, c *Client) error {
			return c.Delete(ctx, keyA, metav1.DeleteOptions{})
		}, sent{"DELETE", "/pods/ns/a", "", mediaJSON, bothMedia, `{}`}},
		{"delete with options", func(ctx context.Context, c *Client) error {
			return c.Delete(ctx, keyA, metav1.DeleteOptions{DryRun: all, GracePeriodSeconds: &grace})
		}, sent{"DELETE", "/pods/ns/a", "", mediaJSON, bothMedia, `{"gracePeriodSeconds":0,"dryRun":["All"]}`}},
		{"list", lists("", metav1.ListOptions{}), sent{"GET", "/pods", "", "", bothMedia, ""}},
		{"list of a namespace with options", lists("ns", list), sent{"GET", "/pods/ns", listed, "", bothMedia, ""}},
		{"delete of a collection", func(ctx context.Context, c *Client) error {
			return c.DeleteCollection(ctx, "ns", metav1.DeleteOptions{GracePeriodSeconds: &grace}, list)
		}, sent{"DELETE", "/pods/ns", listed, mediaJSON, bothMedia, `{"gracePeriodSeconds":0}`}},
		{"delete of all namespaces", func(ctx context.Context, c *Client) error {
			return c.DeleteCollection(ctx, "", metav1.DeleteOptions{}, metav1.ListOptions{})
		}, sent{"DELETE", "/pods", "", mediaJSON, bothMedia, `{}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{answer: fails(errors.New("down"))}
			if err := c.call(t.Context(), newClient[*corev1.Pod](t, s)); err == nil || !strings.Contains(err.Error(), "down") || isTerminal(err) {
				t.Errorf("error %v", err)
			}
			if len(s.requests) != 1 {
				t.Fatalf("%d requests", len(s.requests))
			}
			if diff := cmp.Diff(c.want, s.requests[0], cmp.AllowUnexported(sent{})); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func errorOf(_ any, err error) error { return err }

func patches(pt types.PatchType, o metav1.PatchOptions, subresource ...string) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		return errorOf(c.Patch(ctx, keyA, pt, []byte("as it is"), o, subresource...))
	}
}

func lists(namespace string, o metav1.ListOptions) func(context.Context, *Client) error {
	return func(ctx context.Context, c *Client) error {
		return errorOf(c.List(ctx, namespace, o, func(any, error) {}))
	}
}

// A request accepts the media types that the type can be decoded from. For metadata, it asks the server to leave out the
// rest: of an object for one, of a list for a list.
func TestAcceptFitsTheTypeAndTheCall(t *testing.T) {
	slim := newClient[*slimPod]
	for _, c := range []struct {
		name         string
		client       func(*testing.T, *server, ...func(*rest.Config)) *Client
		change       func(*rest.Config)
		single, list string
	}{
		{"pods", newClient[*corev1.Pod], func(*rest.Config) {}, mediaProtobuf + "," + mediaJSON, mediaProtobuf + "," + mediaJSON},
		{"pods in JSON", newClient[*corev1.Pod], func(c *rest.Config) { c.ContentType = mediaJSON }, mediaJSON, mediaJSON},
		{"no protobuf", slim, func(*rest.Config) {}, mediaJSON, mediaJSON},
		{"no protobuf, but wanted", slim, func(c *rest.Config) { c.ContentType = mediaProtobuf }, mediaJSON, mediaJSON},
		{
			"metadata", newClient[*metav1.PartialObjectMetadata], func(c *rest.Config) { c.ContentType = mediaJSON },
			mediaJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", mediaJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &server{answer: fails(errors.New("down"))}
			client := c.client(t, s, c.change)
			_, _ = client.Get(t.Context(), keyA, metav1.GetOptions{})
			_ = lists("ns", metav1.ListOptions{})(t.Context(), client)
			if len(s.requests) != 2 || s.requests[0].accept != c.single || s.requests[1].accept != c.list {
				t.Errorf("requests %+v", s.requests)
			}
		})
	}
}

// slimPod has only metadata, no kind and no generated methods.
type slimPod struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// methodlessPod has no generated methods.
type methodlessPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// funcPod has a field that cannot be decoded.
type funcPod struct {
	metav1.ObjectMeta `json:"metadata"`
	Hook              func() `json:"hook"`
}

// kindlessPod has DeepCopyObject, but no TypeMeta.
type kindlessPod struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (p *kindlessPod) DeepCopyObject() runtime.Object { return nil }

// Cached objects have no kind. A request sends such an object with the name of its type, and does not change it. An object
// with a kind keeps it.
func TestBodyHasAKind(t *testing.T) {
	own := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "own/v2", "kind": "Own", "metadata": map[string]any{"name": "a"},
	}}
	renamed := podA()
	renamed.TypeMeta = metav1.TypeMeta{APIVersion: "own/v2", Kind: "Own"}
	for name, c := range map[string]struct {
		obj        object.Object
		apiVersion string
		kind       string
	}{
		"struct without a kind": {podA(), "v1", "Pod"},
		"struct with a kind":    {renamed, "own/v2", "Own"},
		"unstructured":          {own, "own/v2", "Own"},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := json.Marshal(c.obj)
			if err != nil {
				t.Fatal(err)
			}
			s := &server{answer: fails(errors.New("down"))}
			client := newClient[*corev1.Pod](t, s)
			_, _ = client.Create(t.Context(), c.obj, metav1.CreateOptions{})
			_, _ = client.Apply(t.Context(), keyA, c.obj, metav1.ApplyOptions{FieldManager: "me"})
			if len(s.requests) != 2 {
				t.Fatalf("%d requests", len(s.requests))
			}
			for _, r := range s.requests {
				var got metav1.TypeMeta
				if err := json.Unmarshal([]byte(r.body), &got); err != nil || got.APIVersion != c.apiVersion || got.Kind != c.kind {
					t.Errorf("%s sent %s, %v", r.method, r.body, err)
				}
			}
			if after, err := json.Marshal(c.obj); err != nil || string(after) != string(before) {
				t.Errorf("the caller's object was %s, and is %s: %v", before, after, err)
			}
		})
	}
}

// A call that cannot succeed sends nothing. Its error is terminal, and says what to do.
func TestCallsThatCannotSucceedSendNothing(t *testing.T) {
	s := &server{answer: fails(errors.New("down"))}
	ctx, update := t.Context(), metav1.UpdateOptions{}
	pods, slim, methodless, kindless := newClient[*corev1.Pod](t, s), newClient[*slimPod](t, s), newClient[*methodlessPod](t, s), newClient[*kindlessPod](t, s)
	partial, undecodableType := newClient[*metav1.PartialObjectMetadata](t, s), newClient[*funcPod](t, s)
	invalid := New(pods.config, errors.New("the resource is wrong"))
	get := func(c *Client, key object.Key) error { return errorOf(c.Get(ctx, key, metav1.GetOptions{})) }
	patch := func(key object.Key, subresource ...string) error {
		return errorOf(pods.Patch(ctx, key, types.MergePatchType, nil, metav1.PatchOptions{}, subresource...))
	}
	watch := metav1.ListOptions{Watch: true}
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"no name":                      {get(pods, object.Key{Namespace: "ns"}), "GET pods ns/: \"\" in its path: it must be a name"},
		"name ..":                      {get(pods, object.Key{Namespace: "ns", Name: ".."}), "may not be '..'"},
		"namespace a/b":                {get(pods, object.Key{Namespace: "a/b", Name: "x"}), "may not contain '/'"},
		"delete without a name":        {pods.Delete(ctx, object.Key{Namespace: "ns"}, metav1.DeleteOptions{}), "must be a name"},
		"update without a name":        {errorOf(pods.Update(ctx, &corev1.Pod{}, update)), "must be a name"},
		"create in a namespace a/b":    {errorOf(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a/b"}}, metav1.CreateOptions{})), "may not contain '/'"},
		"list of a namespace a%":       {lists("a%", metav1.ListOptions{})(ctx, pods), "may not contain '%'"},
		"empty subresource":            {patch(keyA, ""), "must be a name"},
		"subresource a/b":              {patch(object.Key{Name: "a"}, "status", "a/b"), "may not contain '/'"},
		"list with watch":              {lists("ns", watch)(ctx, pods), "list pods ns/: ListOptions with Watch or SendInitialEvents: use an Informer"},
		"list with initial events":     {lists("ns", metav1.ListOptions{SendInitialEvents: new(bool)})(ctx, pods), "use an Informer"},
		"delete of a watch":            {pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, watch), "delete collection pods ns/: ListOptions"},
		"apply without a manager":      {errorOf(pods.Apply(ctx, keyA, map[string]any{}, metav1.ApplyOptions{})), "apply pods ns/a: ApplyOptions.FieldManager is empty"},
		"apply of a channel":           {errorOf(pods.Apply(ctx, keyA, make(chan int), metav1.ApplyOptions{FieldManager: "me"})), "unsupported type"},
		"create of nil":                {errorOf(pods.Create(ctx, nil, metav1.CreateOptions{})), "the object is nil"},
		"update of a nil pointer":      {errorOf(pods.Update(ctx, (*corev1.Pod)(nil), update, "status")), "the object is nil"},
		"slim type":                    {errorOf(slim.Update(ctx, &slimPod{}, update)), "If it has only some fields, the API server would remove the others: use Patch or Apply"},
		"no methods":                   {errorOf(methodless.Create(ctx, &methodlessPod{}, metav1.CreateOptions{})), "have controller-gen or deepcopy-gen generate it"},
		"no TypeMeta":                  {errorOf(kindless.Update(ctx, &kindlessPod{}, update)), "embed metav1.TypeMeta"},
		"metadata":                     {errorOf(partial.Update(ctx, &metav1.PartialObjectMetadata{}, update)), "has only metadata"},
		"unstructured without a kind":  {errorOf(pods.Create(ctx, &unstructured.Unstructured{Object: map[string]any{}}, metav1.CreateOptions{})), "set apiVersion and kind"},
		"type that cannot be decoded":  {get(undecodableType, keyA), "field Hook"},
		"invalid, get":                 {get(invalid, keyA), "the resource is wrong"},
		"invalid, create of nil":       {errorOf(invalid.Create(ctx, nil, metav1.CreateOptions{})), "the resource is wrong"},
		"invalid, delete":              {invalid.Delete(ctx, keyA, metav1.DeleteOptions{}), "the resource is wrong"},
		"invalid, list":                {lists("", metav1.ListOptions{})(ctx, invalid), "the resource is wrong"},
		"invalid, delete a collection": {invalid.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, metav1.ListOptions{}), "the resource is wrong"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) || !isTerminal(c.err) {
			t.Errorf("%s: error %v, terminal %v; want one with %q", name, c.err, isTerminal(c.err), c.says)
		}
	}
	if len(s.requests) > 0 {
		t.Errorf("sent %+v", s.requests)
	}
}

// A type with only some of the fields can be read, patched, applied and deleted.
func TestTypesWithSomeFieldsPatch(t *testing.T) {
	s := &server{answer: responds(200, mediaJSON, jsonA)}
	slim := newClient[*slimPod](t, s)
	for what, call := range map[string]func() (any, error){
		"Get": func() (any, error) { return slim.Get(t.Context(), keyA, metav1.GetOptions{}) },
		"Patch": func() (any, error) {
			return slim.Patch(t.Context(), keyA, types.MergePatchType, nil, metav1.PatchOptions{})
		},
		"Apply": func() (any, error) {
			return slim.Apply(t.Context(), keyA, &slimPod{}, metav1.ApplyOptions{FieldManager: "me"})
		},
	} {
		if obj, err := call(); err != nil || obj.(*slimPod).ResourceVersion != "7" {
			t.Errorf("%s: %v, %v", what, obj, err)
		}
	}
	if err := slim.Delete(t.Context(), keyA, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// Each call that returns an object decodes it from the format of the response. managedFields stay.
func TestObjectsOfResponses(t *testing.T) {
	for name, answer := range map[string]func(int) (*http.Response, error){
		"JSON":     responds(201, mediaJSON, jsonA),
		"protobuf": responds(201, mediaProtobuf, protobufA(t)),
	} {
		client := newClient[*corev1.Pod](t, &server{answer: answer})
		want := podA()
		want.ResourceVersion = "7"
		for what, call := range map[string]func() (any, error){
			"Create": func() (any, error) { return client.Create(t.Context(), podA(), metav1.CreateOptions{}) },
			"Update": func() (any, error) { return client.Update(t.Context(), podA(), metav1.UpdateOptions{}) },
			"Patch": func() (any, error) {
				return client.Patch(t.Context(), keyA, types.MergePatchType, nil, metav1.PatchOptions{})
			},
			"Apply": func() (any, error) {
				return client.Apply(t.Context(), keyA, podA(), metav1.ApplyOptions{FieldManager: "me"})
			},
		} {
			obj, err := call()
			if diff := cmp.Diff(any(want), obj); err != nil || diff != "" {
				t.Errorf("%s, %s: %v (-want +got):\n%s", name, what, err, diff)
			}
		}
	}
	managed := strings.Replace(jsonA, `"name":"a"`, `"name":"a","managedFields":[{"manager":"me"}]`, 1)
	obj, err := newClient[*corev1.Pod](t, &server{answer: responds(200, mediaJSON, managed)}).Get(t.Context(), keyA, metav1.GetOptions{})
	if err != nil || len(obj.(*corev1.Pod).ManagedFields) != 1 {
		t.Errorf("%v, %v", obj, err)
	}
}

// A response without a name is an object only if it answers a create, as that of a review does.
func TestOnlyACreateReturnsAnObjectWithoutAName(t *testing.T) {
	client := newClient[*corev1.Pod](t, &server{answer: responds(200, mediaJSON, `{"kind":"Pod","apiVersion":"v1","metadata":{}}`)})
	if _, err := client.Create(t.Context(), podA(), metav1.CreateOptions{}); err != nil {
		t.Errorf("Create: %v", err)
	}
	if obj, err := client.Get(t.Context(), keyA, metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "GET pods ns/a: ") || isTerminal(err) {
		t.Errorf("Get: %v, %v", obj, err)
	}
}

// List yields the objects of the response in order, and returns the metadata of the list.
func TestListYieldsItsObjects(t *testing.T) {
	left := int64(3)
	want := metav1.ListMeta{ResourceVersion: "9", Continue: "next", RemainingItemCount: &left}
	pods := &corev1.PodList{ListMeta: want, Items: []corev1.Pod{*podA(), {ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}}}
	asJSON, err := json.Marshal(pods)
	if err != nil {
		t.Fatal(err)
	}
	asProtobuf, err := pods.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]func(int) (*http.Response, error){
		"JSON":     responds(200, mediaJSON, string(asJSON)),
		"protobuf": responds(200, mediaProtobuf, inEnvelope(t, "PodList", asProtobuf)),
	} {
		var names []string
		meta, err := newClient[*corev1.Pod](t, &server{answer: answer}).List(t.Context(), "ns", metav1.ListOptions{},
			func(obj any, _ error) { names = append(names, obj.(*corev1.Pod).Name) })
		if err != nil || !reflect.DeepEqual(meta, want) || strings.Join(names, " ") != "a b" {
			t.Errorf("%s: %q, %+v, %v", name, names, meta, err)
		}
	}
}

// podListHead begins a list of pods in JSON.
const podListHead = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[`

// An object that cannot be decoded is an error in its place, which names it. The others come, and the metadata.
func TestListWithObjectsThatCannotBeDecoded(t *testing.T) {
	bad := func(name string) string {
		return `{"metadata":{"namespace":"ns","name":"` + name + `"},"spec":{"nodeName":7}}`
	}
	answer := podListHead + bad("a") + `,{"metadata":{"namespace":"ns","name":"b"}},` + bad("c") + `]}`
	client := newClient[*corev1.Pod](t, &server{answer: responds(200, mediaJSON, answer)})
	var got []string
	meta, err := client.List(t.Context(), "ns", metav1.ListOptions{}, func(obj any, err error) {
		var failed *undecodable
		if err == nil {
			got = append(got, obj.(*corev1.Pod).Name)
		} else if errors.As(err, &failed) && strings.HasPrefix(err.Error(), "list pods ns/: ") {
			got = append(got, "not "+failed.key.String())
		}
	})
	if strings.Join(got, ", ") != "not ns/a, b, not ns/c" || err != nil || meta.ResourceVersion != "9" {
		t.Errorf("%q, %+v, %v", got, meta, err)
	}
}

// A list that breaks off is an error without metadata.
func TestListThatCannotBeDecoded(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"it ends":     {podListHead + `{"metadata":{"namespace":"ns","name":"a"}},`, "unexpected EOF"},
		"it is empty": {"", "list pods ns/: "},
		"no list":     {`{"kind":"Pod"`, "list pods ns/: "},
	} {
		read := &body{Reader: strings.NewReader(c.body)}
		client := newClient[*corev1.Pod](t, &server{answer: func(int) (*http.Response, error) {
			resp := response(200, mediaJSON, nil)
			resp.Body = read
			return resp, nil
		}})
		meta, err := client.List(t.Context(), "ns", metav1.ListOptions{}, func(any, error) {})
		if err == nil || !strings.Contains(err.Error(), c.says) || isTerminal(err) || !read.closed || meta.ResourceVersion != "" {
			t.Errorf("%s: %+v, %v, closed %v", name, meta, err, read.closed)
		}
		if failed := (*undecodable)(nil); errors.As(err, &failed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A response that the client cannot use is an error that names the object, and is closed: one in a format that the type
// has not, one above the size limit, and one that breaks off. One at the limit is none.
func TestResponsesThatCannotBeUsed(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		media string
		body  io.Reader
		want  string // of the error; empty for none
	}{
		"at the limit":    {mediaJSON, padded(decode.MaxObjectBytes), ""},
		"above the limit": {mediaJSON, padded(decode.MaxObjectBytes + 1), decode.ErrTooLarge.Error()},
		"format":          {mediaProtobuf, strings.NewReader("k8s\x00"), "the server sent protobuf"},
		"no envelope":     {"application/yaml", strings.NewReader(""), "yaml"},
		"not JSON":        {mediaJSON, strings.NewReader("<html>"), "GET pods ns/a: "},
		"breaks off":      {mediaJSON, io.MultiReader(strings.NewReader(`{"met`), failing{broken}), broken.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			read := &body{Reader: c.body}
			client := newClient[*slimPod](t, &server{answer: func(int) (*http.Response, error) {
				resp := response(200, c.media, nil)
				resp.Body = read
				return resp, nil
			}})
			obj, err := client.Get(t.Context(), keyA, metav1.GetOptions{})
			var failed *undecodable
			if named := errors.As(err, &failed); named != (name == "not JSON") || named && failed.key != keyA {
				t.Errorf("%v", err)
			}
			if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || isTerminal(err) || obj != nil) || !read.closed {
				t.Errorf("%v, %v, closed %v", obj, err, read.closed)
			}
		})
	}
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A delete reads the response to its end, which keeps the connection, and discards it, whatever it is. If the response
// breaks off, the delete returns that error.
func TestDeleteReadsTheResponseAndDiscardsIt(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		from io.Reader
		want error
	}{
		"the object":  {strings.NewReader(jsonA), nil},
		"a status":    {strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), nil},
		"not JSON":    {strings.NewReader("<html>"), nil},
		"it ends":     {io.MultiReader(strings.NewReader(`{"met`), failing{broken}), broken},
		"it is empty": {strings.NewReader(""), nil},
	} {
		for what, call := range map[string]func(c *Client) error{
			"Delete": func(c *Client) error { return c.Delete(t.Context(), keyA, metav1.DeleteOptions{}) },
			"DeleteCollection": func(c *Client) error {
				return c.DeleteCollection(t.Context(), "ns", metav1.DeleteOptions{}, metav1.ListOptions{})
			},
		} {
			read := &body{Reader: c.from}
			client := newClient[*corev1.Pod](t, &server{answer: func(int) (*http.Response, error) {
				resp := response(202, mediaJSON, nil)
				resp.Body = read
				return resp, nil
			}})
			if err := call(client); !errors.Is(err, c.want) || !read.closed || c.want == nil && !read.atEOF {
				t.Errorf("%s, %s: %v, closed %v, read %v", what, name, err, read.closed, read.atEOF)
			}
			if s, ok := c.from.(io.Seeker); ok {
				_, _ = s.Seek(0, io.SeekStart)
			}
		}
	}
}

// Each call returns the error of the server. It is not terminal: the same call may succeed later.
func TestErrorsOfTheServer(t *testing.T) {
	for _, c := range []struct {
		code   int
		reason metav1.StatusReason
		class  func(error) bool
	}{
		{404, metav1.StatusReasonNotFound, apierrors.IsNotFound},
		{409, metav1.StatusReasonConflict, apierrors.IsConflict},
		{409, metav1.StatusReasonAlreadyExists, apierrors.IsAlreadyExists},
		{403, metav1.StatusReasonForbidden, apierrors.IsForbidden},
		{422, metav1.StatusReasonInvalid, apierrors.IsInvalid},
		{500, metav1.StatusReasonInternalError, apierrors.IsInternalError},
	} {
		s := &server{answer: responds(c.code, mediaJSON, status(c.code, c.reason))}
		client := newClient[*corev1.Pod](t, s)
		for what, err := range map[string]error{
			"Get":              errorOf(client.Get(t.Context(), keyA, metav1.GetOptions{})),
			"Create":           errorOf(client.Create(t.Context(), podA(), metav1.CreateOptions{})),
			"Update":           errorOf(client.Update(t.Context(), podA(), metav1.UpdateOptions{})),
			"Patch":            patches(types.MergePatchType, metav1.PatchOptions{})(t.Context(), client),
			"Delete":           client.Delete(t.Context(), keyA, metav1.DeleteOptions{}),
			"List":             lists("ns", metav1.ListOptions{})(t.Context(), client),
			"DeleteCollection": client.DeleteCollection(t.Context(), "ns", metav1.DeleteOptions{}, metav1.ListOptions{}),
		} {
			if !c.class(err) || isTerminal(err) {
				t.Errorf("%s with %s: %v", what, c.reason, err)
			}
		}
		if len(s.requests) != 7 {
			t.Errorf("%s: %d requests for 7 calls", c.reason, len(s.requests))
		}
	}
}

// A call is sent again, with the same body, if the server says when. That is up to ten times in all, and until the
// context ends. The error then has its cause and the answer of the server.
func TestCallsAreSentAgainWhenTheServerSaysWhen(t *testing.T) {
	for name, c := range map[string]struct {
		code, seconds, refusals int
		want                    int // requests
	}{
		"429":                  {429, 3, 2, 3},
		"503 with Retry-After": {503, 3, 2, 3},
		"503 without":          {503, 0, 2, 1},
		"409 with Retry-After": {409, 3, 1, 1},
		"429 for ever":         {429, 1, 100, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{answer: func(try int) (*http.Response, error) {
					if try > c.refusals {
						return response(201, mediaJSON, strings.NewReader(jsonA)), nil
					}
					resp := response(c.code, mediaJSON, strings.NewReader(status(c.code, "")))
					if c.seconds > 0 {
						resp.Header.Set("Retry-After", fmt.Sprint(c.seconds))
					}
					return resp, nil
				}}
				client := newClient[*corev1.Pod](t, s)
				began := time.Now()
				_, err := client.Create(t.Context(), podA(), metav1.CreateOptions{})
				if (err == nil) != (c.want > c.refusals) || len(s.requests) != c.want {
					t.Errorf("%v after %d requests", err, len(s.requests))
				}
				if waited := time.Since(began); waited != time.Duration(c.seconds*(c.want-1))*time.Second {
					t.Errorf("waited %v", waited)
				}
				for _, r := range s.requests {
					if r != s.requests[0] {
						t.Errorf("sent %+v, then %+v", s.requests[0], r)
					}
				}
				if answer := apierrors.APIStatus(nil); err != nil && (!errors.As(err, &answer) || int(answer.Status().Code) != c.code) {
					t.Errorf("error %v", err)
				}
				s.requests = nil
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				began = time.Now()
				_, err = client.Create(ctx, podA(), metav1.CreateOptions{})
				answer := apierrors.APIStatus(nil)
				if retried := errors.Is(err, context.DeadlineExceeded); retried != (c.want > 1) || !errors.As(err, &answer) || len(s.requests) != 1 || time.Since(began) > time.Millisecond {
					t.Errorf("with a deadline: %v after %d requests in %v", err, len(s.requests), time.Since(began))
				}
			})
		})
	}
}

// A call waits for the client's rate limit. If its context ends first, it sends nothing, and says what it waited for.
func TestCallsWaitForTheRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: responds(200, mediaJSON, jsonA)}
		client := newClient[*corev1.Pod](t, s, func(c *rest.Config) { c.QPS, c.Burst = 0.1, 1 })
		get := func(ctx context.Context) error { return errorOf(client.Get(ctx, keyA, metav1.GetOptions{})) }
		began := time.Now()
		for range 3 {
			if err := get(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began).Round(time.Second); took != 20*time.Second {
			t.Errorf("three calls took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := get(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "GET pods ns/a: wait for the client's own rate limit") || isTerminal(err) || len(s.requests) != 3 {
			t.Errorf("%v after %d requests", err, len(s.requests))
		}
	})
}
