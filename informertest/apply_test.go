package informertest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applyconfigurations "k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// A write that changes nothing keeps the resource version, also if it comes in another second than the last change.
func TestUpdate_ThatChangesNothingIsNoWrite(t *testing.T) {
	options := informertest.Options{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)}
	test := func(t *testing.T, clients *kubernetes.Clientset, later func()) {
		api := clients.CoreV1().Pods("ns")
		want := func(what string, before, after *corev1.Pod, err error) {
			t.Helper()
			must(t, err)
			if before.ResourceVersion != after.ResourceVersion {
				t.Errorf("%s: the resource version was %s and is %s", what, before.ResourceVersion, after.ResourceVersion)
			}
		}
		unchanged := func(after string) {
			t.Helper()
			later()
			before, err := api.Get(t.Context(), "a", metav1.GetOptions{})
			must(t, err)
			got, err := api.Update(t.Context(), before, metav1.UpdateOptions{FieldManager: "one"})
			want("update after "+after, before, got, err)
			got, err = api.UpdateStatus(t.Context(), before, metav1.UpdateOptions{FieldManager: "other"})
			want("update of the status after "+after, before, got, err)
			got, err = api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"a"}}}`), metav1.PatchOptions{FieldManager: "other"})
			want("patch after "+after, before, got, err)
		}
		later()
		created, err := api.Create(t.Context(), newPod("ns", "a"), metav1.CreateOptions{FieldManager: "one"})
		must(t, err)
		got, err := api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		want("patch after the creation", created, got, err)
		unchanged("the creation")
		_, err = api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"two"}}}`), metav1.PatchOptions{FieldManager: "two"})
		must(t, err)
		unchanged("a patch")
		_, err = api.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"reason":"r"}}`), metav1.PatchOptions{FieldManager: "two"}, "status")
		must(t, err)
		unchanged("a patch of the status")
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType+"/bubble", func(t *testing.T) {
			bubble(t, options, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
				test(t, clientset(t, server, contentType), func() {
					time.Sleep(1234567891 * time.Nanosecond)
					synctest.Wait()
				})
			})
		})
		t.Run(contentType+"/real time", func(t *testing.T) {
			server := informertest.NewServer(options)
			t.Cleanup(server.Close)
			informertest.Register[*corev1.Pod](server, podResource)
			test(t, clientset(t, server, contentType), func() {})
		})
	}
}

// managedHooks is a server with webhooks that records the managers of fields.
func managedHooks(t *testing.T) *hooks {
	return newHooksOf(t, informertest.Options{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)})
}

// patching allows a write with a JSON patch.
func patching(patch string) func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	kind := admissionv1.PatchTypeJSONPatch
	return func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	}
}

// A webhook undoes an update long after the last one, so the only difference would be the time of the manager.
func TestUpdate_ThatAWebhookUndoesIsNoWrite(t *testing.T) {
	h := managedHooks(t)
	h.mutating("m", patching(`[{"op":"add","path":"/metadata/labels/app","value":"fixed"}]`))
	api := h.clients.CoreV1().Pods("ns")
	pod := newPod("ns", "a")
	pod.Labels["app"] = "fixed"
	pod, err := api.Create(t.Context(), pod, metav1.CreateOptions{FieldManager: "one"})
	must(t, err)
	pod.ManagedFields[0].Time, pod.Status.Reason = new(metav1.Unix(1, 0)), "so that this is a write"
	pod, err = h.pods.Update(pod)
	must(t, err)
	changed := pod.DeepCopy()
	changed.Labels["app"] = "other"
	got, err := api.Update(t.Context(), changed, metav1.UpdateOptions{FieldManager: "one"})
	must(t, err)
	if got.ResourceVersion != pod.ResourceVersion {
		t.Errorf("the resource version was %s and is %s", pod.ResourceVersion, got.ResourceVersion)
	}
}

// The managers are reset if a webhook makes them invalid, and the client is warned.
func TestWebhooks_CannotMakeManagersInvalid(t *testing.T) {
	h := managedHooks(t)
	h.mutating("m", patching(`[{"op":"add","path":"/metadata/managedFields","value":[{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"nonsense":{}}}]}]`))
	var warnings recorded
	config := h.server.Config()
	config.WarningHandler = &warnings
	pod, err := clientsetFor(t, config).CoreV1().Pods("ns").Create(t.Context(), newPod("ns", "a"), metav1.CreateOptions{FieldManager: "one"})
	must(t, err)
	if len(pod.ManagedFields) != 1 || pod.ManagedFields[0].Manager != "one" {
		t.Errorf("managers %v", pod.ManagedFields)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], ".metadata.managedFields was in an invalid state after admission; ") {
		t.Errorf("warnings %q", warnings)
	}
}

// recorded are the texts of warnings.
type recorded []string

func (r *recorded) HandleWarningHeader(_ int, _, text string) { *r = append(*r, text) }

// The requests of all clients share the managers of managedFields.
func TestManagers_OfConcurrentWriters(t *testing.T) {
	server := informertest.NewServer(informertest.Options{TypeConverter: applyconfigurations.NewTypeConverter(scheme.Scheme)})
	defer server.Close()
	informertest.Register[*corev1.Pod](server, podResource)
	clients := clientset(t, server, runtime.ContentTypeJSON)
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			name := fmt.Sprint("writer-", i)
			api := clients.CoreV1().Pods("ns")
			pod, err := api.Create(t.Context(), newPod("ns", name), metav1.CreateOptions{FieldManager: name})
			if err == nil {
				pod.Status.Reason = "r"
				pod, err = api.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{FieldManager: name})
			}
			if err != nil {
				t.Error(err)
				return
			}
			var managers []string
			for _, entry := range pod.ManagedFields {
				managers = append(managers, entry.Manager+"/"+entry.Subresource)
			}
			if want := []string{name + "/", name + "/status"}; !slices.Equal(managers, want) {
				t.Errorf("managers %q, want %q", managers, want)
			}
		})
	}
	writers.Wait()
}

// A resource that does not support server-side apply takes no managers from a scale either.
func TestScale_WithoutApplyHasNoManagers(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		deployments := informertest.Register[*appsv1.Deployment](server, informertest.Resource{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
		_, err := deployments.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		must(t, err)
		noFields := &metav1.FieldsV1{}
		must(t, noFields.UnmarshalJSON([]byte("{}")))
		scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "x", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1", FieldsType: "FieldsV1", FieldsV1: noFields}}},
			Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
		_, err = clients.AppsV1().Deployments("default").UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{})
		must(t, err)
		stored, _ := deployments.Get(informer.Key{Namespace: "default", Name: "web"})
		if *stored.Spec.Replicas != 3 || stored.ManagedFields != nil {
			t.Errorf("got %d replicas, managed by %v", *stored.Spec.Replicas, stored.ManagedFields)
		}
	})
}
