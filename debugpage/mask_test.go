package debugpage_test

import (
	"encoding/base64"
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

// secretIn is a Secret or a ConfigMap with a password in its data, as JSON has it.
func secretIn(apiVersion, kind, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"namespace": "default", "name": name},
		"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(secret))},
	}}
}

// password is the function of an index that computes keys from content.
func password[T informer.Object](obj T) []string {
	switch o := any(obj).(type) {
	case *corev1.Secret:
		return []string{string(o.Data["password"])}
	case *corev1.ConfigMap:
		return []string{o.Data["password"]}
	case *namedSecret:
		return []string{string(o.Data["password"])}
	case *pointedSecret:
		return []string{string(o.Data["password"])}
	case *writtenSecret:
		return []string{o.Data["password"]}
	case *rewrittenSecret:
		return []string{o.Data["password"]}
	case *untaggedSecret:
		return []string{o.Data["password"]}
	case *ownSecret:
		return []string{o.Data["password"]}
	case *kindSecret:
		return []string{o.Data["password"]}
	case *unstructured.Unstructured:
		encoded, _, _ := unstructured.NestedString(o.Object, "data", "password")
		plain, _ := base64.StdEncoding.DecodeString(encoded)
		return []string{string(plain), encoded}
	}
	return nil
}

// namedSecret is a Secret with methods of its own.
type namedSecret struct{ corev1.Secret }

// kindSecret has a kind, and no methods for it.
type kindSecret struct {
	metav1.ObjectMeta `json:"metadata"`
	Kind              string            `json:"kind"`
	Data              map[string]string `json:"data"`
}

// pointedSecret embeds a pointer to a Secret.
type pointedSecret struct{ *corev1.Secret }

// writtenSecret has no field for its kind: its method writes one.
type writtenSecret struct {
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func (s *writtenSecret) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"kind": "Secret", "metadata": s.ObjectMeta, "data": s.Data})
}

// rewrittenSecret has a kind, and its method writes another one.
type rewrittenSecret struct {
	metav1.TypeMeta
	writtenSecret
}

// untaggedSecret has a kind without the name that it has on the server.
type untaggedSecret struct {
	metav1.ObjectMeta `json:"metadata"`
	Kind              string
	Data              map[string]string `json:"data"`
}

// masks fails the test unless the only object of the store is masked, and nothing that an authorized caller can request has its
// content: not the object, no key of an index, no search for such a key. Where Config.Unmask admits the caller, the same requests
// have it.
func (r *rig) masks(store string, unmask func(schema.GroupResource) bool) {
	r.Helper()
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	requests := [][]string{
		{"object.json", "store", store, "namespace", "default", "name", "login"},
		{"keys.json", "store", store, "index", "password"},
		{"keys.json", "store", store, "index", "password", "match", secret[:3]},
		{"keys.json", "store", store, "index", "password", "limit", "1"},
		{"objects.json", "store", store, "index", "password", "key", secret},
		{"objects.json", "store", store, "index", "password", "key", encoded},
		{"objects.json", "store", store, "index", "password", "key", secret, "match", "login"},
		{"status.json"},
	}
	for _, query := range requests {
		w := r.get(target(query[0], append(query[1:], "token", "right")...))
		if body := w.Body.String(); strings.Contains(body, secret) || strings.Contains(body, encoded) || query[0] == "objects.json" && strings.Contains(body, "login") {
			r.Errorf("%s: %q: %d %s", store, query, w.Code, body)
		}
	}
	fields, masked := shownObject(r, store, "login")
	if !masked || fields["data"].(map[string]any)["password"] == "" {
		r.Errorf("%s is not masked: %v", store, fields)
	}
	names := ask[debugpage.ObjectKeys](r, "objects.json", "store", store)
	if !slices.Equal(names.Objects, []debugpage.ObjectKey{{Namespace: "default", Name: "login"}}) {
		r.Errorf("%s: the names are hidden, too: %v", store, names.Objects)
	}
	r.config.Unmask = func(_ *http.Request, resource schema.GroupResource) bool { return unmask(resource) }
	defer func() { r.config.Unmask = nil }()
	if _, masked := shownObject(r, store, "login"); masked {
		r.Errorf("%s: Unmask does not show the object", store)
	}
	keys := ask[debugpage.Keys](r, "keys.json", "store", store, "index", "password")
	objects := ask[debugpage.ObjectKeys](r, "objects.json", "store", store, "index", "password", "key", keys.Keys[0].Key)
	if len(objects.Objects) != 1 {
		r.Errorf("%s: Unmask shows the keys %v, and objects %v", store, keys.Keys, objects.Objects)
	}
}

// show makes an informer of type T for a collection, with an index of the passwords, and its objects the first store of the page.
func show[T informer.Object](r *rig, resource schema.GroupVersionResource) (store string) {
	return showChanged(r, resource, func(T) {})
}

// showChanged is show with a transform.
func showChanged[T informer.Object](r *rig, resource schema.GroupVersionResource, change func(T)) (store string) {
	i := informer.New(r.client, informer.Resource{GroupVersionResource: resource}, informer.Config[T]{Logger: quiet, Transform: func(obj T) (T, error) {
		change(obj)
		return obj, nil
	}})
	r.config.Objects = []debugpage.Source{debugpage.Objects(i, debugpage.Index("password", informer.NewIndex(i, password[T])))}
	run(r, i)
	return ask[debugpage.Status](r, "status.json").Stores[0].Name
}

// The keys of an index are hidden if they come from masked objects: an index function computes them from the content.
func TestIndexKeysOfMaskedObjectsAreHidden(t *testing.T) {
	inRig(t, func(r *rig) {
		all := func(schema.GroupResource) bool { return true }
		secrets := informertest.Register[*unstructured.Unstructured](r.server, informertest.Resource{GroupVersionResource: core.WithResource("secrets"), Kind: "Secret"})
		if _, err := secrets.Create(secretIn("v1", "Secret", "login")); err != nil {
			r.Fatal(err)
		}
		maps := informertest.Register[*corev1.ConfigMap](r.server, informertest.Resource{GroupVersionResource: core.WithResource("configmaps")})
		if _, err := maps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "login"}, Data: map[string]string{"password": secret}}); err != nil {
			r.Fatal(err)
		}
		r.masks(show[*corev1.Secret](r, core.WithResource("secrets")), all)
		r.masks(show[*unstructured.Unstructured](r, core.WithResource("secrets")), all)
		r.masks(show[*corev1.ConfigMap](r, core.WithResource("configmaps")), all)
		store := show[*corev1.Secret](r, core.WithResource("secrets"))
		r.refused(http.StatusForbidden, "keys.json", "store", store, "index", "password")
		if s := ask[debugpage.Status](r, "status.json").Stores[0]; !s.Masked || !s.IndexesHidden {
			r.Errorf("%+v", s)
		}
		r.config.Unmask = func(*http.Request, schema.GroupResource) bool { return true }
		if s := ask[debugpage.Status](r, "status.json").Stores[0]; !s.Masked || s.IndexesHidden {
			r.Errorf("%+v", s)
		}
	})
	inRig(t, func(r *rig) { // a resource of Config.Mask
		r.pod("default", "login", secret)
		run(r, r.pods)
		r.config.Mask = []schema.GroupResource{{Resource: "pods"}}
		for _, query := range [][]string{{"keys.json"}, {"objects.json", "key", secret}, {"objects.json", "key", secret, "match", "login"}} {
			w := r.get(target(query[0], append(query[1:], "store", "v1 pods", "index", "node", "token", "right")...))
			failed(r.T, w, http.StatusForbidden)
			lacks(r.T, w)
		}
	})
}

// A Secret or a ConfigMap is masked in the store of any resource, by its type or its kind, and a resource with one of these names in
// any group.
func TestSecretsUnderAnotherResourceAreMasked(t *testing.T) {
	things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	for name, test := range map[string]struct {
		resource         schema.GroupVersionResource
		apiVersion, kind string
		show             func(*rig, schema.GroupVersionResource) string
	}{
		"type Secret":                {things, "example.com/v1", "Thing", show[*corev1.Secret]},
		"type ConfigMap":             {things, "example.com/v1", "Thing", show[*corev1.ConfigMap]},
		"type that embeds a Secret":  {things, "v1", "Secret", show[*namedSecret]},
		"type that embeds a *Secret": {things, "example.com/v1", "Thing", show[*pointedSecret]},
		"type that writes its kind":  {things, "example.com/v1", "Thing", show[*writtenSecret]},
		"type that writes another kind than it has": {things, "example.com/v1", "Thing", func(r *rig, resource schema.GroupVersionResource) string {
			return showChanged(r, resource, func(s *rewrittenSecret) { s.Kind = "Thing" })
		}},
		"type with an untagged kind": {things, "example.com/v1", "Thing", func(r *rig, resource schema.GroupVersionResource) string {
			return showChanged(r, resource, func(s *untaggedSecret) { s.Kind = "Secret" })
		}},
		"type with a kind":          {things, "v1", "Secret", show[*kindSecret]},
		"unstructured Secret":       {things, "v1", "Secret", show[*unstructured.Unstructured]},
		"unstructured ConfigMap":    {things, "v1", "ConfigMap", show[*unstructured.Unstructured]},
		"Secret of another group":   {things, "example.com/v1", "Secret", show[*unstructured.Unstructured]},
		"Secret as pods":            {core.WithResource("podlike"), "v1", "Secret", show[*unstructured.Unstructured]},
		"secrets of another group":  {things.GroupVersion().WithResource("secrets"), "example.com/v1", "Thing", show[*ownSecret]},
		"configmaps of another one": {things.GroupVersion().WithResource("configmaps"), "example.com/v1", "Thing", show[*unstructured.Unstructured]},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				created := informertest.Register[*unstructured.Unstructured](r.server, informertest.Resource{GroupVersionResource: test.resource, Kind: test.kind})
				if _, err := created.Create(secretIn(test.apiVersion, test.kind, "login")); err != nil {
					r.Fatal(err)
				}
				store := test.show(r, test.resource)
				r.masks(store, func(schema.GroupResource) bool { return true })
				if test.kind == "Thing" && test.resource != things {
					return
				}
				// Who admits the resource has not thought of Secrets, and the other way round.
				for _, only := range []string{test.resource.Resource, "secrets", "configmaps"} {
					r.config.Unmask = func(_ *http.Request, resource schema.GroupResource) bool { return resource.Resource == only }
					if fields, masked := shownObject(r, store, "login"); !masked {
						r.Errorf("Unmask of %s alone shows %v", only, fields)
					}
				}
			})
		})
	}
}

// Each request asks Unmask once for each resource, also if several stores have it: two answers could differ, and what one of them hides
// would show.
func TestUnmaskIsAskedOnce(t *testing.T) {
	inRig(t, func(r *rig) {
		created := informertest.Register[*corev1.Secret](r.server, informertest.Resource{GroupVersionResource: core.WithResource("secrets")})
		for _, name := range []string{"login", "other"} {
			if _, err := created.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"password": []byte(secret)}}); err != nil {
				r.Fatal(err)
			}
		}
		store := show[*corev1.Secret](r, core.WithResource("secrets"))
		r.config.Objects = append(r.config.Objects, r.config.Objects...)
		asked := map[schema.GroupResource]int{}
		r.config.Unmask = func(_ *http.Request, resource schema.GroupResource) bool {
			asked[resource]++
			return true
		}
		for _, query := range [][]string{
			{"object.json", "namespace", "default", "name", "login"},
			{"keys.json", "index", "password"},
			{"objects.json", "index", "password", "key", secret},
			{"status.json"},
		} {
			clear(asked)
			if w := r.get(target(query[0], append(query[1:], "store", store, "token", "right")...)); w.Code != http.StatusOK {
				r.Errorf("%s: %d %s", query[0], w.Code, w.Body)
			}
			if len(asked) != 1 || asked[schema.GroupResource{Resource: "secrets"}] != 1 {
				r.Errorf("%s asks %v", query[0], asked)
			}
		}
	})
}

// In a store of several kinds, the keys that only masked objects have are hidden, and masked objects do not count for the others.
func TestMixedStoreHidesKeysOfMaskedObjects(t *testing.T) {
	inRig(t, func(r *rig) {
		things := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
		created := informertest.Register[*unstructured.Unstructured](r.server, informertest.Resource{GroupVersionResource: things, Kind: "Thing"})
		for n := range 30 {
			thing := secretIn("example.com/v1", "Thing", fmt.Sprintf("thing-%02d", n))
			thing.Object["data"] = map[string]any{"zone": fmt.Sprintf("zone-%d", n%10)}
			if n%3 == 0 {
				thing = secretIn("example.com/v1", "Thing", fmt.Sprintf("thing-%02d", n))
				thing.Object["data"] = map[string]any{"zone": fmt.Sprintf("zone-%d", n%10), "password": secret}
			}
			if _, err := created.Create(thing); err != nil {
				r.Fatal(err)
			}
		}
		config := informer.Config[*unstructured.Unstructured]{Logger: quiet, Transform: func(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
			if _, ok := o.Object["data"].(map[string]any)["password"]; ok {
				o.SetAPIVersion("v1")
				o.SetKind("Secret")
			}
			return o, nil
		}}
		i := informer.New(r.client, informer.Resource{GroupVersionResource: things}, config)
		index := informer.NewIndex(i, func(o *unstructured.Unstructured) (values []string) {
			for _, v := range o.Object["data"].(map[string]any) {
				values = append(values, v.(string))
			}
			return values
		})
		r.config.Objects = []debugpage.Source{debugpage.Objects(i, debugpage.Index("value", index))}
		run(r, i)
		store := "example.com/v1 things"
		var keys []string
		for next, more := "", true; more; {
			w := r.get(target("keys.json", "store", store, "index", "value", "limit", "1", "continue", next, "token", "right"))
			lacks(r.T, w)
			page := ask[debugpage.Keys](r, "keys.json", "store", store, "index", "value", "limit", "1", "continue", next)
			for _, k := range page.Keys {
				keys = append(keys, k.Key)
				if k.Objects != 2 {
					r.Errorf("%+v, want 2 objects", k)
				}
				if objects := ask[debugpage.ObjectKeys](r, "objects.json", "store", store, "index", "value", "key", k.Key); len(objects.Objects) != 2 {
					r.Errorf("objects of %s: %v", k.Key, objects.Objects)
				}
			}
			next, more = page.Continue, page.Continue != ""
		}
		if len(keys) != 10 || keys[0] != "zone-0" || keys[9] != "zone-9" {
			r.Errorf("keys %q", keys)
		}
		if hidden := ask[debugpage.ObjectKeys](r, "objects.json", "store", store, "index", "value", "key", secret); len(hidden.Objects) != 0 {
			r.Errorf("a guess of the secret finds %v", hidden.Objects)
		}
		if all := ask[debugpage.ObjectKeys](r, "objects.json", "store", store); len(all.Objects) != 30 {
			r.Errorf("%d objects, want 30", len(all.Objects))
		}
	})
}
