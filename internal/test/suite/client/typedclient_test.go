package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// forEachAnswer runs test with a client that gets JSON responses, and one that gets protobuf.
func forEachAnswer(t *testing.T, test func(w world.World, pods *informer.TypedClient[*corev1.Pod])) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				client := w.Client(func(c *rest.Config) { c.ContentType = media; c.QPS = -1 })
				test(w, informer.NewTypedClient[*corev1.Pod](client, world.PodGVR))
			})
		})
	}
}

func TestTypedClient(t *testing.T) {
	forEachAnswer(t, func(w world.World, pods *informer.TypedClient[*corev1.Pod]) {
		ctx := w.Context()
		created, err := pods.Create(ctx, world.NewPod("ns", "a", "v=1"), metav1.CreateOptions{FieldManager: "me"})
		if err != nil {
			w.Fatal(err)
		}
		if created.UID == "" || created.ResourceVersion == "" || created.Labels["v"] != "1" || created.Kind != "" {
			w.Errorf("created %+v", created)
		}
		if _, err := pods.Create(ctx, world.NewPod("ns", "a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			w.Errorf("created twice: %v", err)
		}
		unnamed := world.NewPod("ns", "")
		unnamed.GenerateName = "web-"
		if named, err := pods.Create(ctx, unnamed, metav1.CreateOptions{}); err != nil || !strings.HasPrefix(named.Name, "web-") || len(named.Name) < 6 {
			w.Errorf("generateName: %v, %v", named, err)
		}

		changed := created.DeepCopy()
		changed.Labels["v"] = "2"
		changed.Status.Phase = corev1.PodRunning
		updated, err := pods.Update(ctx, changed, metav1.UpdateOptions{})
		if err != nil || updated.Labels["v"] != "2" {
			w.Fatalf("update: %v, %v", updated, err)
		}
		if _, err := pods.Update(ctx, changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			w.Errorf("update of an old version: %v", err)
		}
		status := updated.DeepCopy()
		status.Status.Phase = corev1.PodFailed
		status.Labels["v"] = "3" // kube-apiserver accepts this for a pod too
		status.Spec.NodeName = "ignored"
		if updated, err = pods.UpdateStatus(ctx, status, metav1.UpdateOptions{}); err != nil || updated.Status.Phase != corev1.PodFailed || updated.Labels["v"] != "3" || updated.Spec.NodeName != changed.Spec.NodeName {
			w.Errorf("update of the status: %v, %v", updated, err)
		}

		key := informer.KeyOf(created)
		for pt, patch := range map[types.PatchType]string{
			types.MergePatchType:          `{"metadata":{"labels":{"merge":"yes"}}}`,
			types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`,
			types.StrategicMergePatchType: `{"metadata":{"labels":{"strategic":"yes"}}}`,
		} {
			if _, err := pods.Patch(ctx, key, pt, []byte(patch), metav1.PatchOptions{}); err != nil {
				w.Errorf("%s: %v", pt, err)
			}
		}
		if _, err := pods.Patch(ctx, key, types.MergePatchType, []byte(`{"status":{"reason":"patched"}}`), metav1.PatchOptions{}, "status"); err != nil {
			w.Error(err)
		}
		got, err := pods.Get(ctx, key, metav1.GetOptions{})
		if err != nil || got.Labels["merge"]+got.Labels["json"]+got.Labels["strategic"] != "yesyesyes" || got.Status.Reason != "patched" {
			w.Errorf("after the patches: %v, %v", got, err)
		}
		if _, err := pods.Patch(ctx, key, types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/name","value":"b"}]`), metav1.PatchOptions{}); err == nil {
			w.Error("a JSON patch with a failing test was accepted")
		}

		uid := types.UID("another")
		if err := pods.Delete(ctx, key, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); !apierrors.IsConflict(err) {
			w.Errorf("delete of another object: %v", err)
		}
		if err := pods.Delete(ctx, key, metav1.DeleteOptions{}); err != nil {
			w.Error(err)
		}
		for what, err := range map[string]error{
			"Get":    errorOf(pods.Get(ctx, key, metav1.GetOptions{})),
			"Update": errorOf(pods.Update(ctx, got, metav1.UpdateOptions{})),
			"Patch":  errorOf(pods.Patch(ctx, key, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})),
			"Delete": pods.Delete(ctx, key, metav1.DeleteOptions{}),
		} {
			if !apierrors.IsNotFound(err) {
				w.Errorf("%s of a deleted object: %v", what, err)
			}
		}
	})
}

// A review is answered at once, and not stored: the response has no name. Elsewhere, a name is required.
func TestTypedClientCreatesAReview(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{},"status":{"authenticated":true}}`)
	}))
	defer server.Close()
	client, err := informer.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	reviews := informer.NewTypedClient[*authenticationv1.TokenReview](client, authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"))
	review, err := reviews.Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "t"}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		t.Errorf("%v, %v", review, err)
	}
	if review, err = reviews.Get(t.Context(), informer.Key{Name: "a"}, metav1.GetOptions{}); err == nil {
		t.Errorf("an object without a name: %v", review)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// After WaitForObject of a write's result, a read returns the write.
// Guarantees: C9
func TestReadYourWrites(t *testing.T) {
	forEachAnswer(t, func(w world.World, pods *informer.TypedClient[*corev1.Pod]) {
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		pod, err := pods.Create(w.Context(), world.NewPod("ns", "a", "v=0"), metav1.CreateOptions{})
		for i := range 50 {
			if err != nil {
				w.Fatal(err)
			}
			if err := inf.WaitForObject(w.Context(), pod); err != nil {
				w.Fatal(err)
			}
			have, ok := inf.Store().Get(informer.KeyOf(pod))
			if !ok || have.ResourceVersion != pod.ResourceVersion {
				w.Fatalf("wrote %s, read %v", pod.ResourceVersion, have)
			}
			change := have.DeepCopy()
			change.Labels["v"] = fmt.Sprint(i + 1)
			pod, err = pods.Update(w.Context(), change, metav1.UpdateOptions{})
		}
	})
}

func TestTypedClientApplies(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		t := w.T
		informertest.Register[*unstructured.Unstructured](w.Server, informertest.Resource{GroupVersionResource: world.GadgetGVR, Kind: "Gadget"})
		gadgets := informer.NewTypedClient[*unstructured.Unstructured](w.Client(), world.GadgetGVR)
		key := informer.Key{Namespace: "ns", Name: "a"}
		configuration := func(labels map[string]string) map[string]any {
			return map[string]any{"apiVersion": world.GadgetGVR.GroupVersion().String(), "kind": "Gadget", "metadata": map[string]any{"name": "a", "labels": labels}}
		}
		mine := metav1.ApplyOptions{FieldManager: "mine"}
		if _, err := gadgets.Apply(t.Context(), key, configuration(map[string]string{"a": "1", "b": "1"}), mine); err != nil {
			t.Fatal(err)
		}
		other := metav1.ApplyOptions{FieldManager: "other"}
		if _, err := gadgets.Apply(t.Context(), key, configuration(map[string]string{"a": "2"}), other); !apierrors.IsConflict(err) {
			t.Errorf("apply of another manager's field: %v", err)
		}
		other.Force = true
		if _, err := gadgets.Apply(t.Context(), key, configuration(map[string]string{"a": "2"}), other); err != nil {
			t.Error(err)
		}
		got, err := gadgets.Apply(t.Context(), key, configuration(map[string]string{"c": "1"}), mine)
		if err != nil || fmt.Sprint(got.GetLabels()) != "map[a:2 c:1]" {
			t.Errorf("labels %v, %v", got.GetLabels(), err)
		}
		if _, err := gadgets.Apply(t.Context(), key, configuration(nil), metav1.ApplyOptions{}); err == nil || !strings.Contains(err.Error(), "FieldManager") {
			t.Errorf("apply without a field manager: %v", err)
		}
	})
}

// List reads pages with selectors, and its error names an undecodable object. DeleteCollection deletes by selectors.
func TestTypedClientListsAndDeletesACollection(t *testing.T) {
	forEachAnswer(t, func(w world.World, pods *informer.TypedClient[*corev1.Pod]) {
		ctx := w.Context()
		for i := range 5 {
			w.Create(world.NewPod("ns", fmt.Sprint("a", i), "app=x"))
		}
		w.Create(world.NewPod("other", "b", "app=y"))
		names := func(pods []*corev1.Pod) (list []string) {
			for _, pod := range pods {
				list = append(list, pod.Name)
			}
			return list
		}
		var all []string
		o := metav1.ListOptions{Limit: 2, LabelSelector: "app=x"}
		for pages := 1; ; pages++ {
			items, meta, err := pods.List(ctx, "", o)
			if err != nil || meta.ResourceVersion == "" {
				w.Fatalf("page %d: %+v, %v", pages, meta, err)
			}
			all = append(all, names(items)...)
			if o.Continue = meta.Continue; o.Continue == "" {
				if pages != 3 {
					w.Errorf("%d pages", pages)
				}
				break
			}
		}
		if want := []string{"a0", "a1", "a2", "a3", "a4"}; !slices.Equal(all, want) {
			w.Errorf("listed %q, want %q", all, want)
		}
		if items, _, err := pods.List(ctx, "other", metav1.ListOptions{}); err != nil || !slices.Equal(names(items), []string{"b"}) {
			w.Errorf("listed %q, %v", names(items), err)
		}
		remove := w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{{Namespace: "ns", Name: "a3"}}})
		var failed *informer.DecodeError
		items, meta, err := pods.List(ctx, "ns", metav1.ListOptions{})
		if !errors.As(err, &failed) || failed.Key.Name != "a3" || failed.Raw != nil {
			w.Errorf("List with an undecodable object: %v", err)
		}
		if !slices.Equal(names(items), []string{"a0", "a1", "a2", "a4"}) || meta.ResourceVersion == "" {
			w.Errorf("List with an undecodable object: %q, %+v", names(items), meta)
		}
		if _, err := pods.Get(ctx, informer.Key{Namespace: "ns", Name: "a3"}, metav1.GetOptions{}); !errors.As(err, &failed) || failed.Key.Name != "a3" {
			w.Errorf("Get of an undecodable object: %v", err)
		}
		remove()
		for _, bad := range []metav1.ListOptions{{Watch: true}, {SendInitialEvents: new(bool)}} {
			if _, _, err := pods.List(ctx, "", bad); !isTerminal(w.T, err) {
				w.Errorf("%+v: %v", bad, err)
			}
			if err := pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, bad); !isTerminal(w.T, err) {
				w.Errorf("%+v: %v", bad, err)
			}
		}
		if _, _, err := pods.List(ctx, "a/b", metav1.ListOptions{}); !isTerminal(w.T, err) {
			w.Errorf("namespace a/b: %v", err)
		}
		if err := pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=a1"}); err != nil {
			w.Error(err)
		}
		if items, _, err := pods.List(ctx, "", metav1.ListOptions{}); err != nil || !slices.Equal(names(items), []string{"a0", "a2", "a3", "a4", "b"}) {
			w.Errorf("%q remain, %v", names(items), err)
		}
		if err := pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			w.Error(err)
		}
		if items, _, err := pods.List(ctx, "", metav1.ListOptions{}); err != nil || !slices.Equal(names(items), []string{"b"}) {
			w.Errorf("%q remain, %v", names(items), err)
		}
	})
}

// isTerminal reports whether a Controller gives up on a key after err.
func isTerminal(t *testing.T, err error) bool {
	queue := informer.NewQueue(informer.QueueConfig[string]{})
	queue.Add("a")
	ctl := &informer.Controller[string]{
		Queue:  queue,
		Logger: slog.New(slog.DiscardHandler),
		Reconcile: func(context.Context, string) (informer.Result, error) {
			queue.Close()
			return informer.Result{}, err
		},
	}
	ctl.Run(t.Context())
	return ctl.Status().Terminal == 1
}

// A call that cannot succeed sends nothing. Its error says what to do, and a controller does not retry it. The test of
// internal/typedclient has all such calls.
func TestCallsThatCannotSucceedAreTerminal(t *testing.T) {
	client, err := informer.NewClient(&rest.Config{Host: "http://server", QPS: -1, Transport: world.RoundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("sent %s %s", r.Method, r.URL)
		return nil, errors.New("sent")
	})})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	key := informer.Key{Namespace: "ns", Name: "a"}
	update, create := metav1.UpdateOptions{}, metav1.CreateOptions{}
	pods := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR)
	slim := informer.NewTypedClient[*world.SlimPod](client, world.PodGVR)
	noResource := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR.GroupVersion().WithResource(""))
	noClient := informer.NewTypedClient[*corev1.Pod](nil, world.PodGVR)
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"delete without name":    {pods.Delete(ctx, informer.Key{Namespace: "ns"}, metav1.DeleteOptions{}), "must be a name"},
		"apply without manager":  {errorOf(pods.Apply(ctx, key, map[string]any{}, metav1.ApplyOptions{})), "FieldManager is empty"},
		"create of nil":          {errorOf(pods.Create(ctx, nil, create)), "the object is nil"},
		"update of nil":          {errorOf(pods.Update(ctx, nil, update)), "the object is nil"},
		"update of a nil status": {errorOf(pods.UpdateStatus(ctx, nil, update)), "the object is nil"},
		"slim struct":            {errorOf(slim.Update(ctx, &world.SlimPod{}, update)), "If it has only some fields, the API server would remove the others: use Patch or Apply"},
		"get, no resource":       {errorOf(noResource.Get(ctx, key, metav1.GetOptions{})), "Resource.Resource is empty"},
		"update, no resource":    {errorOf(noResource.Update(ctx, &corev1.Pod{}, update)), "Resource.Resource is empty"},
		"get, no client":         {errorOf(noClient.Get(ctx, key, metav1.GetOptions{})), "NewClient"},
		"delete, no client":      {noClient.Delete(ctx, key, metav1.DeleteOptions{}), "NewClient"},
		"create, no client":      {errorOf(noClient.Create(ctx, world.NewPod("ns", "a"), create)), "NewClient"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: error %v, want one with %q", name, c.err, c.says)
		} else if !isTerminal(t, c.err) {
			t.Errorf("%s: not terminal: %v", name, c.err)
		}
	}
}

// Each option of a call reaches the server, and so does each of its defaults. The test of internal/typedclient has the bodies.
func TestTypedClientSendsItsOptions(t *testing.T) {
	var sent string
	client, err := informer.NewClient(&rest.Config{Host: "http://server", QPS: -1, Transport: world.RoundTripper(func(r *http.Request) (*http.Response, error) {
		query, _ := url.QueryUnescape(r.URL.RawQuery)
		sent = strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, query, r.Header.Get("Content-Type")))
		return nil, errors.New("sent")
	})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, key := t.Context(), informer.Key{Namespace: "ns", Name: "a"}
	pods := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR)
	pod, all, yes, seconds := world.NewPod("ns", "a"), []string{metav1.DryRunAll}, true, int64(7)
	patch := metav1.PatchOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict", Force: &yes}
	list := metav1.ListOptions{
		LabelSelector: "a=b", FieldSelector: "c=d", ResourceVersion: "5", ResourceVersionMatch: "Exact", Limit: 1, Continue: "next", TimeoutSeconds: &seconds,
	}
	const (
		single  = "/api/v1/namespaces/ns/pods/a"
		several = "/api/v1/namespaces/ns/pods"
		written = "dryRun=All&fieldManager=me&fieldValidation=Strict"
		listed  = "continue=next&fieldSelector=c=d&labelSelector=a=b&limit=1&resourceVersion=5&resourceVersionMatch=Exact&timeoutSeconds=7"
	)
	for _, c := range []struct {
		call func() error
		want string
	}{
		{func() error { return errorOf(pods.Get(ctx, key, metav1.GetOptions{})) }, "GET " + single},
		{func() error { return errorOf(pods.Get(ctx, key, metav1.GetOptions{ResourceVersion: "5"})) }, "GET " + single + " resourceVersion=5"},
		{func() error { return errorOf(pods.Create(ctx, pod, metav1.CreateOptions{})) }, "POST " + several + "  application/json"},
		{func() error {
			return errorOf(pods.Create(ctx, pod, metav1.CreateOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict"}))
		}, "POST " + several + " " + written + " application/json"},
		{func() error {
			return errorOf(pods.Update(ctx, pod, metav1.UpdateOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict"}))
		}, "PUT " + single + " " + written + " application/json"},
		{func() error {
			return errorOf(pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{DryRun: all, FieldManager: "me", FieldValidation: "Strict"}))
		}, "PUT " + single + "/status " + written + " application/json"},
		{func() error { return errorOf(pods.Patch(ctx, key, types.MergePatchType, nil, metav1.PatchOptions{})) }, "PATCH " + single + "  application/merge-patch+json"},
		{func() error { return errorOf(pods.Patch(ctx, key, types.MergePatchType, nil, patch, "status")) }, "PATCH " + single + "/status " + written + "&force=true application/merge-patch+json"},
		{func() error {
			return errorOf(pods.Apply(ctx, key, map[string]any{}, metav1.ApplyOptions{FieldManager: "me"}))
		}, "PATCH " + single + " fieldManager=me&force=false application/apply-patch+yaml"},
		{func() error {
			return errorOf(pods.Apply(ctx, key, map[string]any{}, metav1.ApplyOptions{DryRun: all, FieldManager: "me", Force: true}, "scale"))
		}, "PATCH " + single + "/scale dryRun=All&fieldManager=me&force=true application/apply-patch+yaml"},
		{func() error { return pods.Delete(ctx, key, metav1.DeleteOptions{}) }, "DELETE " + single + "  application/json"},
		{func() error { _, _, err := pods.List(ctx, "ns", metav1.ListOptions{}); return err }, "GET " + several},
		{func() error { _, _, err := pods.List(ctx, "ns", list); return err }, "GET " + several + " " + listed},
		{func() error { return pods.DeleteCollection(ctx, "ns", metav1.DeleteOptions{}, list) }, "DELETE " + several + " " + listed + " application/json"},
	} {
		sent = ""
		parts := strings.SplitN(c.want, " ", 4) // the parameters come in the order of their names
		if len(parts) > 2 {
			parameters := strings.Split(parts[2], "&")
			slices.Sort(parameters)
			parts[2] = strings.Join(parameters, "&")
		}
		want := strings.Join(parts, " ")
		if err := c.call(); err == nil || sent != want {
			t.Errorf("sent %q, want %q; error %v", sent, want, err)
		}
	}
}

// An error from the server is not terminal: the same request may succeed later.
func TestServerErrorsAreNotTerminal(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pods := informer.NewTypedClient[*corev1.Pod](w.Client(), world.PodGVR)
		if err := pods.Delete(w.Context(), informer.Key{Namespace: "ns", Name: "a"}, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) || isTerminal(w.T, err) {
			w.Error(err)
		}
	})
}
