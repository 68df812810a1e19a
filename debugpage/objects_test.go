package debugpage_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/informertest"
)

// Only callers whom Authorize admits see objects and keys. Without Authorize, nobody does.
func TestObjectsAreForAuthorizedCallers(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pod(secret, secret, secret)
		run(r, r.pods)
		requests := map[string][]string{
			"keys.json":    {"store", "v1 pods", "index", "node"},
			"objects.json": {"store", "v1 pods"},
			"object.json":  {"store", "v1 pods", "namespace", secret, "name", secret},
		}
		for _, authorize := range []func(*http.Request) bool{nil, admit} {
			r.config.Authorize = authorize
			for file, query := range requests {
				for _, token := range []string{"wrong", "right"} {
					w := r.get(target(file, append(query, "token", token)...))
					if authorize == nil || token == "wrong" {
						failed(r.T, w, http.StatusForbidden)
						lacks(r.T, w)
					} else if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), secret) {
						r.Errorf("%s: %d %s", file, w.Code, w.Body)
					}
				}
			}
			lacks(r.T, r.get("/status.json?token=wrong"))
		}
	})
}

// Errors are JSON, and name neither the request nor an object.
func TestErrors(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pod("a", "a", "")
		run(r, r.pods)
		for _, test := range []struct {
			code  int
			file  string
			query []string
		}{
			{404, "object.json", nil},
			{404, "object.json", []string{"store", secret}},
			{404, "object.json", []string{"store", "v1 pods", "namespace", "a", "name", secret}},
			{404, "keys.json", []string{"store", "v1 pods", "index", secret}},
			{400, "keys.json", []string{"store", "v1 pods"}},
			{400, "keys.json", []string{"store", "v1 pods", "index", "node", "limit", secret}},
			{400, "objects.json", []string{"store", "v1 pods", "limit", "0"}},
			{400, "objects.json", []string{"store", "v1 pods", "continue", secret}},
			{400, "objects.json", []string{"store", "v1 pods", "continue", "%/%"}},
			{404, secret, nil},
		} {
			r.refused(test.code, test.file, test.query...)
			lacks(r.T, r.get(target(test.file, append(test.query, "token", "right")...)))
		}
	})
}

// The pages of keys and objects have each of them once, in order, whatever the names are.
func TestPages(t *testing.T) {
	inRig(t, func(r *rig) {
		var wantObjects, wantNodes []string
		for n := range 25 {
			node := fmt.Sprintf("node-%02d", n)
			if n == 0 {
				node = ""
			}
			wantNodes = append(wantNodes, node)
			for _, namespace := range []string{"a", "b"} {
				r.pod(namespace, fmt.Sprintf("pod-%02d", n), node)
				wantObjects = append(wantObjects, fmt.Sprintf("%s/pod-%02d", namespace, n))
			}
		}
		slices.Sort(wantObjects)
		run(r, r.pods)
		for _, limit := range []string{"1", "7", "25", "50", "1000"} {
			var nodes, objects, some []string
			for next, more := "", true; more; {
				page := ask[debugpage.Keys](r, "keys.json", "store", "v1 pods", "index", "node", "limit", limit, "continue", next)
				for _, k := range page.Keys {
					nodes = append(nodes, k.Key)
					if k.Objects != 2 || k.More {
						r.Errorf("%+v, want 2 objects", k)
					}
				}
				next, more = page.Continue, page.Continue != ""
			}
			for next, more := "", true; more; {
				page := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "limit", limit, "continue", next)
				for _, k := range page.Objects {
					objects = append(objects, k.Namespace+"/"+k.Name)
				}
				next, more = page.Continue, page.Continue != ""
			}
			for next, more := "", true; more; {
				page := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "limit", limit, "continue", next, "index", "node", "key", "node-07")
				for _, k := range page.Objects {
					some = append(some, k.Namespace+"/"+k.Name)
				}
				next, more = page.Continue, page.Continue != ""
			}
			if !slices.Equal(nodes, wantNodes) || !slices.Equal(objects, wantObjects) || !slices.Equal(some, []string{"a/pod-07", "b/pod-07"}) {
				r.Errorf("limit %s: %q, %q, %q", limit, nodes, objects, some)
			}
		}
		keys := ask[debugpage.Keys](r, "keys.json", "store", "v1 pods", "index", "node", "match", "-1")
		objects := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "match", "b/pod-1")
		if len(keys.Keys) != 10 || len(objects.Objects) != 10 {
			r.Errorf("%d keys and %d objects match, want 10", len(keys.Keys), len(objects.Objects))
		}
		if got := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "index", "node", "key", "none"); len(got.Objects) != 0 {
			r.Errorf("objects of a key that nobody has: %v", got)
		}
	})
}

// Keys of an index that are long, not text, or not UTF-8 are shown, and lead to their objects.
func TestIndexKeysOfAnyKind(t *testing.T) {
	type node struct {
		Zone string
		Rack int
	}
	inRig(t, func(r *rig) {
		long := strings.Repeat("x", 100_000)
		indexes := []debugpage.NamedIndex[*corev1.Pod]{
			debugpage.Index("struct", informer.NewIndex(r.pods, func(p *corev1.Pod) []node { return []node{{"a", 1}, {"b", 2}} })),
			debugpage.Index("key", informer.NewIndex(r.pods, func(p *corev1.Pod) []informer.Key { return []informer.Key{informer.KeyOf(p)} })),
			debugpage.Index("long", informer.NewIndex(r.pods, func(p *corev1.Pod) []string { return []string{long + "1", long + "2"} })),
			debugpage.Index("bytes", informer.NewIndex(r.pods, func(p *corev1.Pod) []string { return []string{"\xff", "<b>"} })),
		}
		r.config.Objects = []debugpage.Source{debugpage.Objects(r.pods, indexes...)}
		r.pod("a", "pod", "")
		run(r, r.pods)
		for name, want := range map[string][]string{"struct": {"{a 1}", "{b 2}"}, "key": {"a/pod"}, "bytes": {"<b>", "\uFFFD"}, "long": nil} {
			page := ask[debugpage.Keys](r, "keys.json", "store", "v1 pods", "index", name)
			var keys []string
			for _, k := range page.Keys {
				keys = append(keys, k.Key)
				found := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "index", name, "key", k.Key)
				if len(found.Objects) != 1 || len(k.Key) > 400 {
					r.Errorf("%s: key of %d bytes has %d objects", name, len(k.Key), len(found.Objects))
				}
			}
			if name == "long" && len(keys) != 2 || name != "long" && !slices.Equal(keys, want) {
				r.Errorf("%s: %q, want %q", name, keys, want)
			}
		}
	})
}

// An answer compares a bounded number of objects with a search, says how many, and where to go on.
func TestSearchIsBounded(t *testing.T) {
	inRig(t, func(r *rig) {
		for n := range 10_002 {
			r.pod("a", fmt.Sprintf("pod-%05d", n), "")
		}
		run(r, r.pods)
		first := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "match", "10001")
		second := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "match", "10001", "continue", first.Continue)
		if len(first.Objects) != 0 || first.Continue == "" || first.Compared != 10_000 || first.Total != 10_002 ||
			len(second.Objects) != 1 || second.Continue != "" || second.Compared != 2 || second.Total != 10_002 {
			r.Errorf("%+v, then %+v", first, second)
		}
		keys := ask[debugpage.Keys](r, "keys.json", "store", "v1 pods", "index", "node")
		if len(keys.Keys) != 1 || keys.Keys[0].Objects != 1000 || !keys.Keys[0].More {
			r.Errorf("%+v, want 1000 objects and more", keys)
		}
	})
}

// Objects that are larger than the limit are refused.
func TestObjectSizeLimit(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pod("a", "pod", strings.Repeat("n", 5000))
		run(r, r.pods)
		query := []string{"store", "v1 pods", "namespace", "a", "name", "pod"}
		ask[debugpage.Object](r, "object.json", query...)
		r.config.MaxObjectBytes = 5000
		r.refused(http.StatusRequestEntityTooLarge, "object.json", query...)
		r.config.MaxObjectBytes = -1
		ask[debugpage.Object](r, "object.json", query...)
	})
}

// shownObject returns the object that an authorized caller sees.
func shownObject(r *rig, store, name string) (fields map[string]any, masked bool) {
	r.Helper()
	answer := ask[debugpage.Object](r, "object.json", "store", store, "namespace", "default", "name", name)
	if err := json.Unmarshal(answer.Object, &fields); err != nil {
		r.Fatal(err)
	}
	return fields, answer.Masked
}

// Secrets and ConfigMaps show names and lengths, and no values, whatever the type of the objects is.
func TestSecretsAreMasked(t *testing.T) {
	t.Run("typed", func(t *testing.T) { testMasking[*corev1.Secret, *corev1.ConfigMap](t) })
	t.Run("unstructured", func(t *testing.T) { testMasking[*unstructured.Unstructured, *unstructured.Unstructured](t) })
	t.Run("metadata", func(t *testing.T) {
		testMasking[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadata](t)
	})
	t.Run("own", func(t *testing.T) { testMasking[*ownSecret, *ownSecret](t) })
}

// ownSecret has some fields of a Secret or a ConfigMap.
type ownSecret struct {
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func testMasking[S, C informer.Object](t *testing.T) {
	inRig(t, func(r *rig) {
		meta := metav1.ObjectMeta{Namespace: "default", Name: "login", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"` + secret + `"}}`, "example.com/other-tool": secret,
		}}
		secrets := informertest.Register[*corev1.Secret](r.server, informertest.Resource{GroupVersionResource: core.WithResource("secrets")})
		if _, err := secrets.Create(&corev1.Secret{ObjectMeta: meta, Type: "Opaque", Data: map[string][]byte{"password": []byte(secret)}}); err != nil {
			r.Fatal(err)
		}
		maps := informertest.Register[*corev1.ConfigMap](r.server, informertest.Resource{GroupVersionResource: core.WithResource("configmaps")})
		if _, err := maps.Create(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"password": secret}, BinaryData: map[string][]byte{"key": []byte(secret)}}); err != nil {
			r.Fatal(err)
		}
		s := informer.New(r.client, informer.Resource{GroupVersionResource: core.WithResource("secrets")}, informer.Config[S]{Logger: quiet})
		c := informer.New(r.client, informer.Resource{GroupVersionResource: core.WithResource("configmaps")}, informer.Config[C]{Logger: quiet})
		r.config.Objects = []debugpage.Source{debugpage.Objects(s), debugpage.Objects(c)}
		run(r, s)
		run(r, c)
		for _, store := range []string{"v1 secrets", "v1 configmaps"} {
			w := r.get(target("object.json", "store", store, "namespace", "default", "name", "login", "token", "right"))
			lacks(r.T, w)
			if strings.Contains(w.Body.String(), "aHVudGVyMg") { // the secret in base64
				r.Errorf("%s: %s", store, w.Body)
			}
			fields, masked := shownObject(r, store, "login")
			if !masked {
				r.Errorf("%s is not masked", store)
			}
			metadata := fields["metadata"].(map[string]any)
			if metadata["name"] != "login" || fmt.Sprint(metadata["labels"]) != "map[app:web]" || metadata["annotations"].(map[string]any)["example.com/other-tool"] != "<masked: 7 bytes>" {
				r.Errorf("%s: metadata %v", store, metadata)
			}
			if data, ok := fields["data"].(map[string]any); ok && data["password"] != "<masked: 7 bytes>" {
				r.Errorf("%s: data %v", store, data)
			}
			if data, ok := fields["binaryData"].(map[string]any); ok && data["key"] != "<masked: 7 bytes>" {
				r.Errorf("%s: binaryData %v", store, data)
			}
		}
		r.config.Unmask = func(_ *http.Request, resource schema.GroupResource) bool { return resource.Resource == "configmaps" }
		if _, masked := shownObject(r, "v1 configmaps", "login"); masked {
			r.Error("Unmask does not show the ConfigMap")
		}
		if _, masked := shownObject(r, "v1 secrets", "login"); !masked {
			r.Error("Unmask shows the Secret too")
		}
	})
}

// Config.Mask masks other resources. Numbers and names keep no value either.
func TestMaskedResources(t *testing.T) {
	inRig(t, func(r *rig) {
		r.pod("default", "pod", secret)
		run(r, r.pods)
		if fields, masked := shownObject(r, "v1 pods", "pod"); masked || fields["spec"].(map[string]any)["nodeName"] != secret {
			r.Errorf("%v, masked: %v", fields, masked)
		}
		r.config.Mask = []schema.GroupResource{{Resource: "pods"}}
		fields, masked := shownObject(r, "v1 pods", "pod")
		if !masked || fields["spec"].(map[string]any)["nodeName"] != "<masked: 7 bytes>" {
			r.Errorf("%v, masked: %v", fields, masked)
		}
		if s := ask[debugpage.Status](r, "status.json"); !s.Stores[0].Masked {
			r.Errorf("%+v", s.Stores)
		}
	})
}

// Objects that the store holds compressed are shown like others.
func TestCompactInformer(t *testing.T) {
	inRig(t, func(r *rig) {
		compact := informer.New(r.client, r.pods.Resource(), informer.Config[*corev1.Pod]{Logger: quiet, Layout: informer.LayoutCompact})
		byNode := informer.NewIndex(compact, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		r.config.Objects = []debugpage.Source{debugpage.Objects(compact, debugpage.Index("node", byNode))}
		r.pod("default", "a", "node-1")
		run(r, compact)
		keys := ask[debugpage.Keys](r, "keys.json", "store", "v1 pods", "index", "node")
		objects := ask[debugpage.ObjectKeys](r, "objects.json", "store", "v1 pods", "index", "node", "key", "node-1")
		fields, _ := shownObject(r, "v1 pods", "a")
		if len(keys.Keys) != 1 || keys.Keys[0].Key != "node-1" || len(objects.Objects) != 1 || fields["spec"].(map[string]any)["nodeName"] != "node-1" {
			r.Errorf("%v, %v, %v", keys, objects, fields)
		}
	})
}

// Two sources of the same resource have different names. The zero Source shows nothing.
func TestNamesOfStores(t *testing.T) {
	inRig(t, func(r *rig) {
		r.config.Objects = []debugpage.Source{debugpage.Objects(r.pods), {}, debugpage.Objects(r.pods, debugpage.NamedIndex[*corev1.Pod]{}, debugpage.Index("node", r.byNode))}
		s := ask[debugpage.Status](r, "status.json")
		if len(s.Stores) != 2 || s.Stores[0].Name != "v1 pods" || s.Stores[1].Name != "v1 pods (2)" || !slices.Equal(s.Stores[1].Indexes, []string{"node"}) {
			r.Errorf("%+v", s.Stores)
		}
	})
}
