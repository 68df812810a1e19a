package informertest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"github.com/typedinformer/informer/informertest"
)

func TestDiscovery(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			t.Run(fmt.Sprintf("legacy=%v %s", legacy, contentType), func(t *testing.T) {
				bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
					registerWidgets(server)
					old := widgetResource
					old.Version, old.SelectableFields = "v1beta1", []string{}
					informertest.Register[*corev1.ConfigMap](server, old)
					informertest.Register[*appsv1.Deployment](server, informertest.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
					informertest.Register[*corev1.Node](server, informertest.Resource{
						GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})

					config := server.Config()
					config.ContentType = contentType
					client, err := discovery.NewDiscoveryClientForConfig(config)
					must(t, err)
					client.UseLegacyDiscovery = legacy
					groups, lists, err := client.ServerGroupsAndResources()
					must(t, err)
					var got []string
					for _, group := range groups {
						got = append(got, "group "+group.Name+" "+group.PreferredVersion.GroupVersion)
					}
					for _, list := range lists {
						for _, r := range list.APIResources {
							got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s namespaced=%v %s", list.GroupVersion, r.Name, r.Kind, r.Namespaced, strings.Join(r.ShortNames, ","))))
						}
					}
					slices.Sort(got) // client-go returns them in no order
					want := []string{
						"group  v1",
						"group apps apps/v1",
						"group example.com example.com/v1",
						"v1 nodes Node namespaced=false no",
						"v1 nodes/status Node namespaced=false",
						"v1 pods Pod namespaced=true po",
						"v1 pods/binding Binding namespaced=true",
						"v1 pods/ephemeralcontainers Pod namespaced=true",
						"v1 pods/eviction Eviction namespaced=true",
						"v1 pods/status Pod namespaced=true",
						"apps/v1 deployments Deployment namespaced=true deploy",
						"apps/v1 deployments/scale Scale namespaced=true",
						"apps/v1 deployments/status Deployment namespaced=true",
						"example.com/v1 widgets Widget namespaced=true",
						"example.com/v1 widgets/status Widget namespaced=true",
						"example.com/v1beta1 widgets Widget namespaced=true",
					}
					slices.Sort(want)
					if strings.Join(got, "\n") != strings.Join(want, "\n") {
						t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
					version, err := client.ServerVersion()
					must(t, err)
					if version.Major != "1" {
						t.Errorf("version %+v", version)
					}

					mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
					mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Widget"})
					must(t, err)
					if mapping.Resource != widgetResource.GroupVersionResource {
						t.Errorf("mapped to %v", mapping.Resource)
					}
					resource, err := restmapper.NewShortcutExpander(mapper, client, nil).ResourceFor(schema.GroupVersionResource{Resource: "deploy"})
					must(t, err)
					if resource != appsv1.SchemeGroupVersion.WithResource("deployments") {
						t.Errorf("deploy is %v", resource)
					}
				})
			})
		}
	}
}

func TestDiscovery_Paths(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		registerWidgets(server)
		for path, want := range map[string]string{
			"/healthz":                  "200 ok",
			"/readyz":                   "200 ok",
			"/livez":                    "200 ok",
			"/api":                      `200 {"kind":"APIVersions","versions":["v1"],`,
			"/apis/example.com":         `200 {"kind":"APIGroup","apiVersion":"v1","name":"example.com",`,
			"/api/v2":                   "404 404 page not found",
			"/apis/other.com":           "404 404 page not found",
			"/apis/example.com/v2":      "404 404 page not found",
			"/apis/example.com/v1/none": "404 404 page not found",
			"/none":                     "404 404 page not found",
		} {
			a := ask(t, server, path)
			if got := fmt.Sprint(a.code, " ", a.body); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
		nodes := informertest.Register[*corev1.Node](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})
		pods.Unregister()
		if a := ask(t, server, "/api/v1"); a.code != 200 || strings.Contains(a.body, "pods") || !strings.Contains(a.body, `"nodes"`) {
			t.Errorf("after Unregister: %d %s", a.code, a.body)
		}
		nodes.Unregister()
		if a := ask(t, server, "/api/v1"); a.code != 404 {
			t.Errorf("after Unregister of the last resource: %d %s", a.code, a.body)
		}
		if a := ask(t, server, "/api"); a.code != 200 || !strings.Contains(a.body, `"versions":[]`) {
			t.Errorf("without core resources: %d %s", a.code, a.body)
		}
	})
}
