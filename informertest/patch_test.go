package informertest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/applyconfigurations"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
)

// outcome describes a pod, or the error of a request for one.
func outcome(pod *corev1.Pod, err error) string {
	if err != nil {
		return fmt.Sprint(apierrors.ReasonForError(err), " ", err.(apierrors.APIStatus).Status().Code)
	}
	var containers []string
	for _, c := range pod.Spec.Containers {
		containers = append(containers, c.Name+"="+c.Image)
	}
	return fmt.Sprintf("rv=%s gen=%d labels=%v node=%s %v phase=%s", pod.ResourceVersion, pod.Generation, pod.Labels, pod.Spec.NodeName, containers, pod.Status.Phase)
}

func TestPatch(t *testing.T) {
	const (
		jsonPatch = types.JSONPatchType
		merge     = types.MergePatchType
		strategic = types.StrategicMergePatchType
	)
	for _, test := range []struct {
		name        string
		patchType   types.PatchType
		patch       string
		subresource string
		want        string
	}{
		{"merge", merge, `{"metadata":{"labels":{"app":null,"b":"c"}}}`, "", "rv=3 gen=1 labels=map[b:c] node=n1 [c=<i&>] phase=Running"},
		{"merge of a list", merge, `{"spec":{"containers":[{"name":"d","image":"j"}]}}`, "", "rv=3 gen=2 labels=map[app:a] node=n1 [d=j] phase=Running"},
		{"merge of no change", merge, `{"metadata":{"labels":{"app":"a"}}}`, "", "rv=2 gen=1 labels=map[app:a] node=n1 [c=<i&>] phase=Running"},
		{"merge of the status, in vain", merge, `{"status":{"phase":"Failed"}}`, "", "rv=2 gen=1 labels=map[app:a] node=n1 [c=<i&>] phase=Running"},
		{"merge of the status", merge, `{"status":{"phase":"Failed"},"spec":{"nodeName":"x"}}`, "status", "rv=3 gen=1 labels=map[app:a] node=n1 [c=<i&>] phase=Failed"},
		{"merge at the right version", merge, `{"metadata":{"resourceVersion":"2","labels":{"app":"z"}}}`, "", "rv=3 gen=1 labels=map[app:z] node=n1 [c=<i&>] phase=Running"},
		{"merge at another version", merge, `{"metadata":{"resourceVersion":"1","labels":{"app":"z"}}}`, "", "Conflict 409"},
		{"merge of another uid", merge, `{"metadata":{"uid":"x"}}`, "", "Conflict 409"},
		{"merge of another name", merge, `{"metadata":{"name":"x"}}`, "", "BadRequest 400"},
		{"merge of another namespace", merge, `{"metadata":{"namespace":"x"}}`, "", "BadRequest 400"},
		{"merge of a wrong type", merge, `{"spec":{"containers":3}}`, "", "Invalid 422"},
		{"merge of no JSON", merge, `{`, "", "BadRequest 400"},
		{"JSON patch", jsonPatch, `[{"op":"test","path":"/spec/nodeName","value":"n1"},{"op":"replace","path":"/spec/nodeName","value":"n2"},{"op":"add","path":"/metadata/labels/x","value":"y"}]`, "",
			"rv=3 gen=2 labels=map[app:a x:y] node=n2 [c=<i&>] phase=Running"},
		{"JSON patch whose test fails", jsonPatch, `[{"op":"test","path":"/spec/nodeName","value":"n9"}]`, "", "Invalid 422"},
		{"JSON patch of nothing", jsonPatch, `[{"op":"remove","path":"/metadata/labels/none"}]`, "", "Invalid 422"},
		{"JSON patch of no JSON", jsonPatch, `{}`, "", "BadRequest 400"},
		{"JSON patch of many operations", jsonPatch, "[" + strings.Repeat(`{"op":"test","path":"/spec/nodeName","value":"n1"},`, 9_999) + `{"op":"remove","path":"/metadata/labels/app"}]`, "",
			"rv=3 gen=1 labels=map[] node=n1 [c=<i&>] phase=Running"},
		{"JSON patch of too many operations", jsonPatch, "[" + strings.Repeat(`{"op":"test","path":"/spec/nodeName","value":"n1"},`, 10_000) + `{"op":"remove","path":"/metadata/labels/app"}]`, "",
			"RequestEntityTooLarge 413"},
		{"JSON patch that copies too much", jsonPatch, `[{"op":"add","path":"/metadata/labels/x","value":"` + strings.Repeat("x", 1<<18) + `"},` +
			strings.Repeat(`{"op":"copy","from":"/metadata/labels/x","path":"/metadata/labels/y"},`, 12) + `{"op":"remove","path":"/metadata/labels"}]`, "", "Invalid 422"},
		{"strategic merge", strategic, `{"spec":{"containers":[{"name":"d","image":"j"}]}}`, "", "rv=3 gen=2 labels=map[app:a] node=n1 [d=j c=<i&>] phase=Running"},
		{"strategic merge, deleting", strategic, `{"spec":{"containers":[{"name":"c","$patch":"delete"}]}}`, "", "rv=3 gen=2 labels=map[app:a] node=n1 [] phase=Running"},
		{"strategic merge of no JSON", strategic, `[`, "", "BadRequest 400"},
		{"apply without its schema", types.ApplyYAMLPatchType, `{"apiVersion":"v1","kind":"Pod"}`, "", "UnsupportedMediaType 415"},
		{"unknown", "application/x-patch", `{}`, "", "UnsupportedMediaType 415"},
		{"unknown subresource", merge, `{}`, "scale", "NotFound 404"},
	} {
		t.Run(test.name, func(t *testing.T) {
			forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
				_, err := pods.Create(newPod("ns", "a"))
				must(t, err)
				options := metav1.PatchOptions{}
				if test.patchType == types.ApplyYAMLPatchType {
					options.FieldManager = "test"
				}
				var subresources []string
				if test.subresource != "" {
					subresources = []string{test.subresource}
				}
				got := outcome(clients.CoreV1().Pods("ns").Patch(t.Context(), "a", test.patchType, []byte(test.patch), options, subresources...))
				if got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				options.DryRun = []string{metav1.DryRunAll}
				rv := server.ResourceVersion()
				clients.CoreV1().Pods("ns").Patch(t.Context(), "a", merge, []byte(`{"metadata":{"labels":{"dry":"run"}}}`), metav1.PatchOptions{DryRun: options.DryRun})
				if server.ResourceVersion() != rv {
					t.Error("a dry run wrote")
				}
				_, err = clients.CoreV1().Pods("ns").Patch(t.Context(), "none", merge, []byte(`{}`), metav1.PatchOptions{})
				if !apierrors.IsNotFound(err) {
					t.Errorf("patch of nothing: %v", err)
				}
			})
		})
	}
}

func TestPatch_LastFinalizer(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		pod := newPod("ns", "a")
		pod.Finalizers = []string{"example.com/wait"}
		_, err := pods.Create(pod)
		must(t, err)
		api := clients.CoreV1().Pods("ns")
		must(t, api.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		if pods.Len() != 1 {
			t.Fatal("gone before its finalizer")
		}
		_, err = api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(t, err)
		if pods.Len() != 0 {
			t.Error("not gone with its last finalizer")
		}
	})
}

func TestFinalizers_NoneIsAddedToWhatIsBeingDeleted(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		pod := newPod("ns", "a")
		pod.Finalizers = []string{"example.com/wait"}
		_, err := pods.Create(pod)
		must(t, err)
		api := clients.CoreV1().Pods("ns")
		must(t, api.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		_, err = api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/wait","example.com/more"]}}`), metav1.PatchOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("%v", err)
		}
	})
}

func TestPatch_CustomResource(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		_, err := registerWidgets(server).Create(widget("w"))
		must(t, err)
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		api := client.Resource(widgetResource.GroupVersionResource).Namespace("ns")
		patched, err := api.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"color":"blue"},"status":{"ready":false}}`), metav1.PatchOptions{})
		must(t, err)
		if fmt.Sprint(patched.Object["spec"], patched.Object["status"], patched.GetGeneration()) != "map[color:blue size:3] map[ready:true] 2" {
			t.Errorf("%v", patched.Object)
		}
		patched, err = api.Patch(ctx, "w", types.JSONPatchType, []byte(`[{"op":"replace","path":"/status/ready","value":false}]`), metav1.PatchOptions{}, "status")
		must(t, err)
		if fmt.Sprint(patched.Object["spec"], patched.Object["status"], patched.GetGeneration()) != "map[color:blue size:3] map[ready:false] 2" {
			t.Errorf("%v", patched.Object)
		}
		_, err = api.Patch(ctx, "w", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
		if !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("strategic merge patch: %v", err)
		}
	})
}

func TestApply(t *testing.T) {
	options := informertest.Options{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		bubble(t, options, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
			ctx := t.Context()
			api := clientset(t, server, contentType).CoreV1().Pods("ns")
			config := func(container, image string) *applycorev1.PodApplyConfiguration {
				return applycorev1.Pod("a", "ns").WithSpec(applycorev1.PodSpec().WithContainers(applycorev1.Container().WithName(container).WithImage(image)))
			}
			apply := func(manager string, force bool, pod *applycorev1.PodApplyConfiguration, want string) {
				t.Helper()
				if got := outcome(api.Apply(ctx, pod, metav1.ApplyOptions{FieldManager: manager, Force: force})); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
			apply("one", false, config("c", "1"), "rv=2 gen=1 labels=map[] node= [c=1] phase=")
			apply("one", false, config("c", "1"), "rv=2 gen=1 labels=map[] node= [c=1] phase=")
			apply("two", false, config("d", "1").WithLabels(map[string]string{"x": "y"}), "rv=3 gen=2 labels=map[x:y] node= [c=1 d=1] phase=")
			apply("two", false, config("c", "2"), "Conflict 409")
			apply("one", false, config("c", "2"), "rv=4 gen=3 labels=map[x:y] node= [c=2 d=1] phase=")
			apply("two", true, config("c", "3"), "rv=5 gen=4 labels=map[] node= [c=3] phase=")
			pod, err := api.Get(ctx, "a", metav1.GetOptions{})
			must(t, err)
			pod.Labels = map[string]string{"by": "update"}
			_, err = api.Update(ctx, pod, metav1.UpdateOptions{FieldManager: "three"})
			must(t, err)
			apply("one", false, config("c", "3").WithLabels(map[string]string{"by": "one"}), "Conflict 409")
			status := applycorev1.Pod("a", "ns").WithStatus(applycorev1.PodStatus().WithPhase(corev1.PodRunning))
			if got := outcome(api.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "kubelet"})); got != "rv=7 gen=4 labels=map[by:update] node= [c=3] phase=Running" {
				t.Error(got)
			}
			pod, err = api.Get(ctx, "a", metav1.GetOptions{})
			must(t, err)
			var managers []string
			for _, entry := range pod.ManagedFields {
				managers = append(managers, fmt.Sprint(entry.Manager, " ", entry.Operation, " ", entry.Subresource))
			}
			slices.Sort(managers)
			if fmt.Sprintf("%q", managers) != `["kubelet Apply status" "one Apply " "three Update " "two Apply "]` {
				t.Errorf("managers %q", managers)
			}

			if _, err := api.Apply(ctx, config("c", "1"), metav1.ApplyOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("without a field manager: %v", err)
			}
			_, err = api.ApplyStatus(ctx, applycorev1.Pod("none", "ns").WithStatus(applycorev1.PodStatus()), metav1.ApplyOptions{FieldManager: "one"})
			if !apierrors.IsNotFound(err) {
				t.Errorf("status of nothing: %v", err)
			}

			// An apply to the status of a pod writes all metadata except the owners.
			_, err = api.ApplyStatus(ctx, applycorev1.Pod("a", "ns").WithAnnotations(map[string]string{"from": "status"}).
				WithOwnerReferences(applymetav1.OwnerReference().WithAPIVersion("v1").WithKind("Node").WithName("n").WithUID("u")).
				WithStatus(applycorev1.PodStatus().WithPhase(corev1.PodFailed)), metav1.ApplyOptions{FieldManager: "kubelet"})
			must(t, err)
			pod, err = api.Get(ctx, "a", metav1.GetOptions{})
			must(t, err)
			if pod.Annotations["from"] != "status" || pod.OwnerReferences != nil {
				t.Errorf("metadata of an applied status: %v, %v", pod.Annotations, pod.OwnerReferences)
			}
			for _, entry := range pod.ManagedFields {
				if fields := owned(t, entry); entry.Manager == "kubelet" && (!strings.Contains(fields, "f:from") || strings.Contains(fields, "f:ownerReferences")) {
					t.Errorf("the applier of the status owns %s", fields)
				}
			}

			// A created object does not get the uid of the apply.
			_, err = api.Apply(ctx, applycorev1.Pod("new", "ns").WithUID("u"), metav1.ApplyOptions{FieldManager: "one"})
			if !apierrors.IsConflict(err) {
				t.Errorf("apply of a uid to nothing: %v", err)
			}
			_, err = api.Apply(ctx, applycorev1.Pod("new", "ns").WithResourceVersion("7"), metav1.ApplyOptions{FieldManager: "one"})
			must(t, err)

			// The fields of an object have a manager from its creation on, unless the cluster itself creates it.
			pod, err = api.Create(ctx, newPod("ns", "plain"), metav1.CreateOptions{FieldManager: "one"})
			must(t, err)
			if len(pod.ManagedFields) != 1 || pod.ManagedFields[0].Manager != "one" || pod.ManagedFields[0].Operation != metav1.ManagedFieldsOperationUpdate {
				t.Errorf("managed fields of a creation: %v", pod.ManagedFields)
			}
			pod, err = pods.Create(newPod("ns", "own"))
			must(t, err)
			if pod.ManagedFields != nil {
				t.Errorf("managed fields of a creation by the cluster itself: %v", pod.ManagedFields)
			}
		})
	}
}

// owned returns the fields of a manager.
func owned(t *testing.T, entry metav1.ManagedFieldsEntry) string {
	t.Helper()
	raw, err := entry.FieldsV1.MarshalJSON()
	must(t, err)
	return string(raw)
}

func TestApply_OfWhatOthersCreate(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		var widgets *informertest.Collection[*unstructured.Unstructured]
		object := func(color string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
				"metadata": map[string]any{"namespace": "ns", "name": "w"}, "spec": map[string]any{color: true}}}
		}
		resource := widgetResource
		first := true
		resource.Hooks.Create = func(metav1.Object) error {
			if first {
				first = false
				_, err := widgets.Create(object("red"))
				return err
			}
			return nil
		}
		widgets = informertest.Register[*unstructured.Unstructured](server, resource)
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		got, err := client.Resource(resource.GroupVersionResource).Namespace("ns").Apply(t.Context(), "w", object("blue"), metav1.ApplyOptions{FieldManager: "one"})
		must(t, err)
		if spec := fmt.Sprint(got.Object["spec"]); spec != "map[blue:true red:true]" {
			t.Errorf("the spec is %s", spec)
		}
	})
}

func TestApply_CustomResource(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		registerWidgets(server)
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		api := client.Resource(widgetResource.GroupVersionResource).Namespace("ns")
		object := func(spec map[string]any) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": spec}}
		}
		_, err = api.Apply(ctx, "w", object(map[string]any{"color": "red"}), metav1.ApplyOptions{FieldManager: "one"})
		must(t, err)
		got, err := api.Apply(ctx, "w", object(map[string]any{"size": int64(2)}), metav1.ApplyOptions{FieldManager: "two"})
		must(t, err)
		if fmt.Sprint(got.Object["spec"], got.GetGeneration()) != "map[color:red size:2] 2" {
			t.Errorf("%v", got)
		}
		_, err = api.Apply(ctx, "w", object(map[string]any{"size": int64(3)}), metav1.ApplyOptions{FieldManager: "one"})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "two": .spec.size`) {
			t.Errorf("%v", err)
		}
		status := object(nil)
		delete(status.Object, "spec")
		status.SetLabels(map[string]string{"not": "taken"})
		status.Object["status"] = map[string]any{"ready": true}
		got, err = api.ApplyStatus(ctx, "w", status, metav1.ApplyOptions{FieldManager: "three"})
		must(t, err)
		if fmt.Sprint(got.Object["status"], got.GetLabels()) != "map[ready:true] map[]" {
			t.Errorf("applied status: %v", got)
		}
		for _, entry := range got.GetManagedFields() {
			if entry.Manager == "three" && strings.Contains(owned(t, entry), "f:metadata") {
				t.Errorf("the applier of the status owns %s", owned(t, entry))
			}
		}
	})
}

func TestDeleteCollection(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		fill := func(namespace, name, app, node string, finalizers ...string) {
			pod := newPod(namespace, name)
			pod.Labels["app"], pod.Spec.NodeName, pod.Finalizers = app, node, finalizers
			_, err := pods.Create(pod)
			must(t, err)
		}
		want := func(want string) {
			t.Helper()
			var names []string
			for pod := range pods.All() {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("left are %s, want %s", got, want)
			}
		}
		fill("ns", "a", "x", "n1")
		fill("ns", "b", "y", "n1")
		fill("ns", "c", "y", "n2")
		fill("ns", "d", "y", "n2", "example.com/wait")
		fill("other", "a", "x", "n1")
		api := clients.CoreV1().Pods("ns")
		events, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: server.ResourceVersion()})
		must(t, err)
		defer events.Stop()
		must(t, api.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, metav1.ListOptions{}))
		want("ns/a ns/b ns/c ns/d other/a")
		must(t, api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=y", FieldSelector: "spec.nodeName=n1"}))
		want("ns/a ns/c ns/d other/a")
		if err := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.none=n1"}); !apierrors.IsBadRequest(err) {
			t.Errorf("unknown field: %v", err)
		}
		must(t, api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
		want("ns/d other/a")
		wantEvents(t, events, "DELETED b 7", "DELETED a 8", "DELETED c 9", "MODIFIED d 10")
	})
}

func TestDelete_Options(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		pod, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		api := clients.CoreV1().Pods("ns")
		old, uid := "1", types.UID("other")
		for name, test := range map[string]struct {
			options metav1.DeleteOptions
			class   func(error) bool
		}{
			"uid":         {metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}, apierrors.IsConflict},
			"version":     {metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}}, apierrors.IsConflict},
			"dry run":     {metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, func(err error) bool { return err == nil }},
			"bad dry run": {metav1.DeleteOptions{DryRun: []string{"Some"}}, apierrors.IsInvalid},
		} {
			if err := api.Delete(ctx, "a", test.options); !test.class(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if pods.Len() != 1 {
			t.Error("deleted")
		}
		background := metav1.DeletePropagationBackground
		must(t, api.Delete(ctx, "a", metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}}))
		if pods.Len() != 0 {
			t.Error("not deleted")
		}
	})
}

func TestServer_Refuses(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		_, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		_, err = registerWidgets(server).Create(widget("w"))
		must(t, err)
		for request, want := range map[string]int{
			"POST /api/v1/namespaces/ns/pods/a":                                                                     http.StatusMethodNotAllowed,
			"PUT /api/v1/namespaces/ns/pods":                                                                        http.StatusMethodNotAllowed,
			"PATCH /api/v1/namespaces/ns/pods":                                                                      http.StatusMethodNotAllowed,
			"DELETE /api/v1/namespaces/ns/pods/a/status":                                                            http.StatusMethodNotAllowed,
			"POST /api/v1/namespaces/ns/pods/a/status":                                                              http.StatusMethodNotAllowed,
			"GET /api/v1/namespaces/ns/pods/a/log":                                                                  http.StatusNotFound,
			"PUT /api/v1/namespaces/ns/pods/a text/plain":                                                           http.StatusUnsupportedMediaType,
			"POST /api/v1/namespaces/ns/pods?fieldValidation=Strict {}x":                                            http.StatusBadRequest,
			`POST /api/v1/namespaces/ns/pods?fieldValidation=Strict {"x":1,"metadata":{"name":"b"}}`:                http.StatusBadRequest,
			`POST /api/v1/namespaces/ns/pods {"x":1,"metadata":{"name":"unknown"}}`:                                 http.StatusCreated,
			`POST /api/v1/namespaces/ns/pods {"apiVersion":"v1","kind":"Node"}`:                                     http.StatusBadRequest,
			"GET /api/v1/pods/a":                                                                                    http.StatusNotFound,
			"DELETE /api/v1/pods":                                                                                   http.StatusMethodNotAllowed,
			`POST /api/v1/namespaces/ns/pods?dryRun=Some {"metadata":{"name":"b"}}`:                                 http.StatusUnprocessableEntity,
			`POST /api/v1/namespaces/ns/pods?dryRun=All {"metadata":{"name":"b","resourceVersion":"7"}}`:            http.StatusCreated,
			`POST /api/v1/namespaces/ns/pods?dryRun=All {"metadata":{"name":"a","resourceVersion":"7"}}`:            http.StatusConflict,
			`POST /api/v1/namespaces/ns/pods {"metadata":{"name":"b","resourceVersion":"7"}}`:                       http.StatusInternalServerError, // as in kube-apiserver
			`POST /api/v1/namespaces/ns/pods {"metadata":{"name":".","resourceVersion":"7"}}`:                       http.StatusUnprocessableEntity,
			`PUT /api/v1/namespaces/ns/pods/a?dryRun=Some {"metadata":{"name":"a"}}`:                                http.StatusUnprocessableEntity,
			`PUT /api/v1/namespaces/ns/pods/a?fieldValidation=Some {"metadata":{"name":"a"}}`:                       http.StatusUnprocessableEntity,
			`PUT /api/v1/namespaces/ns/pods/a {"metadata":{"name":"a","finalizers":["x y"]}}`:                       http.StatusUnprocessableEntity,
			`PUT /api/v1/namespaces/ns/pods/a {"metadata":{"name":"a","deletionTimestamp":"2026-01-01T00:00:00Z"}}`: http.StatusUnprocessableEntity,
			"POST /api/v1/pods {}": http.StatusMethodNotAllowed,
		} {
			method, rest, _ := strings.Cut(request, " ")
			path, body, _ := strings.Cut(rest, " ")
			if got := send(t, server, method, path, body); got != want {
				t.Errorf("%s: %d, want %d", request, got, want)
			}
		}
	})
}

func TestFieldValidation_StrictNamesTheField(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		err := clients.CoreV1().RESTClient().Post().Namespace("ns").Resource("pods").Param("fieldValidation", "Strict").
			SetHeader("Content-Type", "application/json").Body([]byte(`{"x":1,"metadata":{"name":"b"}}`)).Do(t.Context()).Error()
		wantAnswer(t, "an unknown field", err,
			`400 Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "x"`)
	})
}

// A DELETE with a body takes its options from there, and ignores those of the query, as in kube-apiserver.
func TestDelete_OptionsOfTheBodyAreAll(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		for _, name := range []string{"a", "b"} {
			_, err := pods.Create(newPod("ns", name))
			must(t, err)
		}
		if code := send(t, server, "DELETE", "/api/v1/namespaces/ns/pods/a?dryRun=All", ""); code != http.StatusOK || pods.Len() != 2 {
			t.Errorf("dry run: %d, %d pods", code, pods.Len())
		}
		if code := send(t, server, "DELETE", "/api/v1/namespaces/ns/pods/a?dryRun=All", "{}"); code != http.StatusOK || pods.Len() != 1 {
			t.Errorf("with a body: %d, %d pods", code, pods.Len())
		}
	})
}

// send sends a request with a body, as JSON if it looks like JSON, and returns the code of the response.
func send(t *testing.T, server *informertest.Server, method, path, body string) int {
	t.Helper()
	client, err := rest.HTTPClientFor(server.Config())
	must(t, err)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	must(t, err)
	request.Header.Set("Content-Type", body)
	if body == "" || strings.HasPrefix(body, "{") {
		request.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	response, err := client.Do(request)
	must(t, err)
	response.Body.Close()
	return response.StatusCode
}

// A write that comes between makes the server apply the patch again. The client gets each warning once.
func TestPatch_WarnsOnceThoughAnotherWriteComesBetween(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		var widgets *informertest.Collection[*unstructured.Unstructured]
		calls := 0
		resource := widgetResource
		resource.Hooks.Decode = func(metav1.Object) ([]string, error) {
			if calls++; calls > 1 {
				return []string{"spec.sise"}, nil
			}
			other := widget("w")
			other.SetLabels(map[string]string{"written": "between"})
			_, err := widgets.Update(other)
			return []string{"spec.sise"}, err
		}
		widgets = informertest.Register[*unstructured.Unstructured](server, resource)
		_, err := widgets.Create(widget("w"))
		must(t, err)
		config := server.Config()
		var warnings warningList
		config.WarningHandler = &warnings
		client, err := dynamic.NewForConfig(config)
		must(t, err)
		patched, err := client.Resource(resource.GroupVersionResource).Namespace("ns").Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"sise":5}}`), metav1.PatchOptions{})
		must(t, err)
		if calls != 2 || patched.GetLabels()["written"] != "between" {
			t.Errorf("decoded %d times to %v, want a second time with the other write", calls, patched)
		}
		if fmt.Sprintf("%q", warnings) != `["unknown field \"spec.sise\""]` {
			t.Errorf("warnings %q", warnings)
		}
	})
}

// warningList collects warnings of the server.
type warningList []string

func (l *warningList) HandleWarningHeader(_ int, _ string, text string) { *l = append(*l, text) }
