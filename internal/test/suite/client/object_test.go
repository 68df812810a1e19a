//lint:file-ignore SA5008 these types test odd tags

package client

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

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

func TestCustomResourceDecodesAsInClientGo(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, mode informer.Config[*corev1.Pod]) {
		gadgets := informertest.Register[*unstructured.Unstructured](w.Server, informertest.Resource{GroupVersionResource: world.GadgetGVR, Kind: "Gadget"})
		content := map[string]any{
			"apiVersion": "example.com/v1", "kind": "Gadget",
			"metadata": map[string]any{"namespace": "ns", "name": "g", "uid": "u", "labels": map[string]any{"é\"\\": "<&>\u2028"}},
			"spec": map[string]any{
				"size": "1500m", "port": "http", "interval": "1h2m", "since": "2026-01-02T03:04:05Z",
				"parts":    map[string]any{"a": []any{map[string]any{"name": "x", "Deep": map[string]any{"name": "y"}}}, "b": nil, "c": []any{}},
				"limits":   map[string]any{"cpu": int64(2), "memory": "1Gi"},
				"free":     map[string]any{"any": []any{int64(1), 2.5, nil, true, map[string]any{}}},
				"any":      []any{int64(9007199254740993), 1.5}, // the first one is no float64
				"settings": map[string]any{"n": int64(1), "f": 0.5, "null": nil, "t": true, "s": "é", "deep": map[string]any{"m": []any{int64(-2)}}},
				"numbers":  []any{int64(1), int64(-9223372036854775808)},
				"ratio":    0.25, "plain": int64(3), "secret": "c2VjcmV0",
				"unknown": "dropped",
			},
		}
		if _, err := gadgets.Create(&unstructured.Unstructured{Object: content}); err != nil {
			w.Fatal(err)
		}
		dynamicConfig := world.Quiet[*unstructured.Unstructured]()
		dynamicConfig.PagedList = mode.PagedList
		typedConfig := world.Quiet[*gadget]()
		typedConfig.PagedList = mode.PagedList
		dynamic := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.GadgetGVR}, dynamicConfig)
		typed := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.GadgetGVR}, typedConfig)
		defer world.Start(w.T, dynamic)()
		defer world.Start(w.T, typed)()
		key := informer.Key{Namespace: "ns", Name: "g"}
		check := func() {
			w.Helper()
			stored, _ := gadgets.Get(key)
			got, _ := dynamic.Store().Get(key)
			if !reflect.DeepEqual(got, stored) {
				w.Errorf("unstructured (-want +got):\n%s", cmp.Diff(stored, got))
			}
			// Like client-go's typed clients, decode the same object with encoding/json.
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

func TestTypeMustBeAPointerToAStruct(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[stringObject]())
		err := inf.Run(w.Context())
		if err == nil || err.Error() != "client.stringObject is not a pointer to a struct" {
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

// oddGadget is a gadget with unusual tags, which client-go supports.
type oddGadget struct {
	metav1.TypeMeta
	*metav1.ObjectMeta `json:"metadata,omitEmpty"`

	Dash   string      `json:"-,"`
	Quoted string      `json:"it's"`
	Size   json.Number `json:"size"`
	Port   int         `json:"port,string"`
	Untold chan int
}

// Guarantees: L4
//
// A type with unusual tags decodes as in client-go, from any kind of list.
func TestTypeWithOddTagsIsSynced(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, mode informer.Config[*corev1.Pod]) {
		gadgets := informertest.Register[*unstructured.Unstructured](w.Server, informertest.Resource{GroupVersionResource: world.GadgetGVR, Kind: "Gadget"})
		stored, err := gadgets.Create(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": map[string]any{"namespace": "ns", "name": "g"},
			"-": "dash", "Quoted": "quoted", "size": 1.5, "port": "8080", "it's": "no field",
		}})
		if err != nil {
			w.Fatal(err)
		}
		config := world.Quiet[*oddGadget]()
		config.PagedList = mode.PagedList
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.GadgetGVR}, config)
		defer world.Start(w.T, inf)()
		raw, err := stored.MarshalJSON()
		if err != nil {
			w.Fatal(err)
		}
		want := &oddGadget{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, want); err != nil || want.Size != "1.5" || want.Quoted == "" {
			w.Fatalf("%+v, %v", want, err)
		}
		want.TypeMeta = metav1.TypeMeta{}
		got, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "g"})
		if !reflect.DeepEqual(got, want) {
			w.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
		}
	})
}

// embedding has the method Unmarshal of its embedded metadata, which cannot decode a pod.
type embedding struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// Guarantees: L4
//
// A type whose Unmarshal is promoted from an embedded field is decoded from JSON.
func TestTypeWithUnmarshalOfItsMetadata(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, mode informer.Config[*corev1.Pod]) {
		if _, err := w.Pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}); err != nil {
			w.Fatal(err)
		}
		config := world.Quiet[*embedding]()
		config.PagedList = mode.PagedList
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		if got, ok := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"}); !ok || got.Spec.NodeName != "n" {
			w.Errorf("%+v", slices.Collect(inf.Store().All()))
		}
	})
}

type (
	tagged struct {
		metav1.ObjectMeta `json:"metadata"`
		Done              chan int `json:"done"`
	}
	nested struct {
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			Hooks []struct {
				Run func() `json:"run"`
			}
		}
	}
	locked struct {
		metav1.ObjectMeta `json:"metadata"`
		*phase
	}
	phase struct {
		Phase string `json:"phase"`
	}
	untagged struct {
		metav1.TypeMeta
		metav1.ObjectMeta
	}
	texts struct {
		metav1.ObjectMeta `json:"metadata"`
		textual
	}
	textual    struct{}
	interfaced struct{ metav1.Object }
)

func (*textual) UnmarshalText([]byte) error { return nil }

// Guarantees: L4
//
// A type that can decode no object is an error that says what to do, before any request. Otherwise its informer would be
// synced and empty.
func TestTypeThatCannotBeDecodedFailsBeforeTheFirstRequest(t *testing.T) {
	const (
		holdsNone = ", which holds no JSON: change the type, or leave the field out with the tag `json:\"-\"`"
		tagIt     = "; the field of its metadata must have the tag `json:\"metadata\"`"
	)
	refusesType[*tagged](t, "client.tagged cannot be decoded: field Done is of type chan int"+holdsNone)
	refusesType[*nested](t, "client.nested cannot be decoded: field Spec.Hooks.Run is of type func()"+holdsNone)
	refusesType[*locked](t, "client.locked cannot be decoded: field Phase is behind an embedded pointer to an unexported struct, which cannot be set: embed the struct itself, or export it")
	refusesType[*untagged](t, "client.untagged cannot be decoded: it has no metadata.name"+tagIt)
	refusesType[*texts](t, "client.texts cannot be decoded: JSON object does not fit Go type *client.texts"+tagIt)
	refusesType[*interfaced](t, "client.interfaced cannot be decoded: its method GetName panics: runtime error: invalid memory address or nil pointer dereference"+tagIt)
}

func refusesType[T informer.Object](t *testing.T, want string) {
	world.Bubble(t, func(w world.World) {
		client := w.Client()
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[T]())
		run := inf.Run(w.Context())
		_, reflector := informer.NewReflector(client, informer.Resource{GroupVersionResource: world.PodGVR}, informer.NewFIFO[T](0), world.Quiet[T]())
		_, get := informer.NewTypedClient[T](client, world.PodGVR).Get(w.Context(), informer.Key{Namespace: "ns", Name: "a"}, metav1.GetOptions{})
		for name, err := range map[string]error{"Run": run, "WaitSynced": inf.WaitSynced(w.Context()), "NewReflector": reflector, "Get": get} {
			if err == nil || strings.TrimPrefix(err.Error(), "terminal: ") != want {
				w.Errorf("%s: %v", name, err)
			}
		}
		if n := len(w.Server.Requests()); n != 0 {
			w.Errorf("%d requests", n)
		}
	})
}
