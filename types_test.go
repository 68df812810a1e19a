package informer_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// slimPod has just what some controller needs of a pod, and no other type's help.
type slimPod struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

func (p *slimPod) GetNamespace() string       { return p.Metadata.Namespace }
func (p *slimPod) GetName() string            { return p.Metadata.Name }
func (p *slimPod) GetUID() types.UID          { return p.Metadata.UID }
func (p *slimPod) GetResourceVersion() string { return p.Metadata.ResourceVersion }

func (p *slimPod) GetLabels() map[string]string       { return p.Metadata.Labels }
func (p *slimPod) SetLabels(labels map[string]string) { p.Metadata.Labels = labels }

func forBothLists(t *testing.T, test func(w world, paged bool)) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			bubble(t, informertest.Options{}, func(w world) { test(w, paged) })
		})
	}
}

// accepts returns the Accept headers of the requests so far, each once.
func (w world) accepts() []string {
	var list []string
	for _, r := range w.server.Requests() {
		list = append(list, r.Header.Get("Accept"))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// gadget is the Go type of a custom resource.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec gadgetSpec `json:"spec"`
}

type gadgetSpec struct {
	Size     resource.Quantity            `json:"size"`
	Port     intstr.IntOrString           `json:"port"`
	Interval metav1.Duration              `json:"interval"`
	Since    *metav1.Time                 `json:"since"`
	Parts    map[string][]gadgetPart      `json:"parts"`
	Limits   map[string]resource.Quantity `json:"limits"`
	Free     runtime.RawExtension         `json:"free"`
	Any      any                          `json:"any"`
	Settings map[string]any               `json:"settings"`
	Numbers  []int64                      `json:"numbers"`
	Ratio    *float64                     `json:"ratio"`
	Plain    time.Duration                `json:"plain"`
	Secret   []byte                       `json:"secret"`
}

type gadgetPart struct {
	Name string `json:"name"`
	Deep *gadgetPart
}

func (g *gadget) DeepCopyObject() runtime.Object { panic("not needed") }

var gadgetGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}

func TestTypes_CustomResource(t *testing.T) {
	forBothLists(t, func(w world, paged bool) {
		gadgets := informertest.Register[*unstructured.Unstructured](w.server, informertest.Resource{GroupVersionResource: gadgetGVR, Kind: "Gadget"})
		content := map[string]any{
			"apiVersion": "example.com/v1", "kind": "Gadget",
			"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "u", "labels": map[string]any{"é\"\\": "<&>\u2028"}},
			"spec": map[string]any{
				"size": "1500m", "port": "http", "interval": "1h2m", "since": "2026-01-02T03:04:05Z",
				"parts":    map[string]any{"a": []any{map[string]any{"name": "x", "Deep": map[string]any{"name": "y"}}}, "b": nil, "c": []any{}},
				"limits":   map[string]any{"cpu": int64(2), "memory": "1Gi"},
				"free":     map[string]any{"any": []any{int64(1), 2.5, nil, true, map[string]any{}}},
				"any":      []any{int64(9007199254740993), 1.5}, // no float64 is the first one
				"settings": map[string]any{"n": int64(1), "f": 0.5, "null": nil, "t": true, "s": "é", "deep": map[string]any{"m": []any{int64(-2)}}},
				"numbers":  []any{int64(1), int64(-9223372036854775808)},
				"ratio":    0.25, "plain": int64(3), "secret": "c2VjcmV0",
				"unknown": "dropped",
			},
		}
		if _, err := gadgets.Create(&unstructured.Unstructured{Object: content}); err != nil {
			w.Fatal(err)
		}
		dynamicConfig := quiet[*unstructured.Unstructured]()
		dynamicConfig.PagedList = paged
		typedConfig := quiet[*gadget]()
		typedConfig.PagedList = paged
		dynamic := informer.New(w.client(), informer.Resource{GroupVersionResource: gadgetGVR}, dynamicConfig)
		typed := informer.New(w.client(), informer.Resource{GroupVersionResource: gadgetGVR}, typedConfig)
		defer start(w.T, dynamic)()
		defer start(w.T, typed)()
		key := informer.Key{Namespace: "ns", Name: "g"}
		check := func() {
			w.Helper()
			stored, _ := gadgets.Get(key)
			got, _ := dynamic.Store().Get(key)
			if !reflect.DeepEqual(got, stored) {
				w.Errorf("unstructured (-want +got):\n%s", cmp.Diff(stored, got))
			}
			// What encoding/json makes of the same object, which is what client-go's typed clients do.
			raw, err := stored.MarshalJSON()
			if err != nil {
				w.Fatal(err)
			}
			want := &gadget{}
			if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, want); err != nil {
				w.Fatal(err)
			}
			want.TypeMeta = metav1.TypeMeta{}
			if got, _ := typed.Store().Get(key); !reflect.DeepEqual(got, want) {
				w.Errorf("typed (-want +got):\n%s", cmp.Diff(want, got))
			}
		}
		check()
		stored, _ := gadgets.Get(key)
		changed := stored.DeepCopy()
		if err := unstructured.SetNestedField(changed.Object, int64(8080), "spec", "port"); err != nil {
			w.Fatal(err)
		}
		if _, err := gadgets.Update(changed); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		if got, _ := typed.Store().Get(key); got.Spec.Port != intstr.FromInt32(8080) {
			w.Errorf("port %v", got.Spec.Port)
		}
		check()
	})
}

func TestTypes_NotAPointerToAStruct(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[stringObject]())
		err := inf.Run(w.Context())
		if err == nil || err.Error() != "informer_test.stringObject is not a pointer to a struct" {
			w.Errorf("Run: %v", err)
		}
		if waitErr := inf.WaitSynced(w.Context()); waitErr != err {
			w.Errorf("WaitSynced: %v", waitErr)
		}
	})
}

type stringObject string

func (s stringObject) GetNamespace() string       { return "" }
func (s stringObject) GetName() string            { return string(s) }
func (s stringObject) GetUID() types.UID          { return "" }
func (s stringObject) GetResourceVersion() string { return "" }
