package reconcile_test

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/reconcile"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestFinalizers(t *testing.T) {
	held := []string{"a", "b"}
	shared := slices.Clip(held[:1]) // the caller's room behind the slice
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: shared}}
	for _, step := range []struct {
		do   func(metav1.Object, string) bool
		with string
		want bool
		left string
	}{
		{reconcile.HasFinalizer, "a", true, "a"},
		{reconcile.HasFinalizer, "c", false, "a"},
		{reconcile.AddFinalizer, "a", false, "a"},
		{reconcile.AddFinalizer, "c", true, "a c"},
		{reconcile.RemoveFinalizer, "b", false, "a c"},
		{reconcile.RemoveFinalizer, "a", true, "c"},
		{reconcile.RemoveFinalizer, "c", true, ""},
	} {
		if got := step.do(pod, step.with); got != step.want || strings.Join(pod.Finalizers, " ") != step.left {
			t.Errorf("%s: %t, %v, want %t, %s", step.with, got, pod.Finalizers, step.want, step.left)
		}
	}
	if !slices.Equal(held, []string{"a", "b"}) {
		t.Errorf("the slice of the object from the cache is now %v", held)
	}
}

func TestSetControllerReference(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Node")
	owner := func(namespace, name string, uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
	}
	a, b := owner("ns", "a", "1"), owner("", "b", "2")
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(reconcile.SetOwnerReference(b, kind, obj))
	if metav1.GetControllerOf(obj) != nil {
		t.Errorf("SetOwnerReference: %v", obj.OwnerReferences)
	}
	must(reconcile.SetControllerReference(a, kind, obj))
	must(reconcile.SetControllerReference(a, kind, obj))
	must(reconcile.SetOwnerReference(a, kind, obj)) // keeps control
	if refs := obj.OwnerReferences; len(refs) != 2 || !metav1.IsControlledBy(obj, a) || refs[1].Kind != "Node" || refs[1].APIVersion != "v1" || !*refs[1].BlockOwnerDeletion {
		t.Errorf("SetControllerReference: %v", refs)
	}
	before := slices.Clone(obj.OwnerReferences)
	var owned *reconcile.OwnedError
	if err := reconcile.SetControllerReference(b, kind, obj); !errors.As(err, &owned) || owned.Owner.UID != "1" || err.Error() != "ns/c is controlled by Node a, uid 1" {
		t.Errorf("%v, want an OwnedError", err)
	}
	for want, owner := range map[string]*corev1.Pod{
		"is in namespace other": owner("other", "d", "3"),
		"has no uid":            owner("ns", "d", ""),
	} {
		fresh := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		if err := reconcile.SetControllerReference(owner, kind, fresh); err == nil || !strings.Contains(err.Error(), want) || fresh.OwnerReferences != nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if len(before) != len(obj.OwnerReferences) {
		t.Errorf("an error changed %v", obj.OwnerReferences)
	}
}

// rig is a server with ConfigMaps, and a cache that may be behind.
type rig struct {
	*testing.T
	server *informertest.Server
	maps   *informertest.Collection[*corev1.ConfigMap]
	events *informertest.Collection[*corev1.Event]
	client *informer.TypedClient[*corev1.ConfigMap]
	cache  cache
}

// cache is a Reader.
type cache map[informer.Key]*corev1.ConfigMap

func (c cache) Get(key informer.Key) (*corev1.ConfigMap, bool) { obj, ok := c[key]; return obj, ok }

var key = informer.Key{Namespace: "ns", Name: "a"}

func initial() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
}

func inRig(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		r := &rig{T: t, server: server, cache: cache{}}
		r.maps = informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
		r.events = informertest.Register[*corev1.Event](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("events")})
		r.client = informer.NewTypedClient[*corev1.ConfigMap](r.newClient(), corev1.SchemeGroupVersion.WithResource("configmaps"))
		test(r)
	})
}

func (r *rig) newClient() *informer.Client {
	client, err := informer.NewClient(r.server.Config())
	r.must(err)
	return client
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// has creates the ConfigMap on the server with the data k=value.
func (r *rig) has(value string) *corev1.ConfigMap {
	r.Helper()
	obj := initial()
	obj.Data = map[string]string{"k": value}
	created, err := r.maps.Create(obj)
	r.must(err)
	return created
}

// writes changes the ConfigMap on the server, as somebody else.
func (r *rig) writes(field, value string) *corev1.ConfigMap {
	r.Helper()
	obj, _ := r.maps.Get(key)
	obj = obj.DeepCopy()
	obj.Data[field] = value
	updated, err := r.maps.Update(obj)
	r.must(err)
	return updated
}

// requests returns the requests since the last call, and forgets them.
func (r *rig) requests() string {
	var verbs []string
	for _, request := range r.server.Requests() {
		verbs = append(verbs, request.Verb)
	}
	return strings.Join(verbs, " ")
}

// sets returns a function that sets k, and counts its calls.
func sets(value string, calls *int) func(*corev1.ConfigMap) error {
	return func(obj *corev1.ConfigMap) error {
		*calls++
		if obj.Data == nil {
			obj.Data = map[string]string{}
		}
		obj.Data["k"] = value
		return nil
	}
}

func TestCreateOrUpdate(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		given    func(r *rig)
		noCache  bool
		change   func(*corev1.ConfigMap) error // nil sets k=new
		want     reconcile.Operation
		err      string
		requests string
		calls    int
	}{
		"missing":                    {given: func(*rig) {}, want: reconcile.Created, requests: "create", calls: 1},
		"missing, no cache":          {given: func(*rig) {}, noCache: true, want: reconcile.Created, requests: "get create", calls: 1},
		"as desired":                 {given: func(r *rig) { r.cache[key] = r.has("new") }, want: reconcile.Unchanged, calls: 1},
		"as desired, no cache":       {given: func(r *rig) { r.has("new") }, noCache: true, want: reconcile.Unchanged, requests: "get", calls: 1},
		"differs":                    {given: func(r *rig) { r.cache[key] = r.has("old") }, want: reconcile.Updated, requests: "update", calls: 1},
		"the cache lacks it":         {given: func(r *rig) { r.has("old") }, want: reconcile.Updated, requests: "create get update", calls: 2},
		"the cache lacks it, equal":  {given: func(r *rig) { r.has("new") }, want: reconcile.Unchanged, requests: "create get", calls: 2},
		"the cache is behind":        {given: func(r *rig) { r.cache[key] = r.has("old"); r.writes("other", "x") }, want: reconcile.Updated, requests: "update get update", calls: 2},
		"the cache is behind, equal": {given: func(r *rig) { r.cache[key] = r.has("old"); r.writes("k", "new") }, want: reconcile.Unchanged, requests: "update get", calls: 2},
		"deleted":                    {given: func(r *rig) { r.cache[key] = r.has("old"); _, err := r.maps.Delete(key); r.must(err) }, want: reconcile.Created, requests: "update get create", calls: 2},
		"recreated": {given: func(r *rig) {
			r.cache[key] = r.has("old")
			_, err := r.maps.Delete(key)
			r.must(err)
			r.has("old")
		}, want: reconcile.Updated, requests: "update get update", calls: 2},
		"forbidden": {given: func(r *rig) {
			r.server.Inject(informertest.Fault{Verb: "create", Error: apierrors.NewForbidden(corev1.Resource("configmaps"), "a", boom)})
		}, err: "forbidden", requests: "create", calls: 1},
		"always a conflict": {given: func(r *rig) {
			r.cache[key] = r.has("old")
			r.server.Inject(informertest.Fault{Verb: "update", Error: apierrors.NewConflict(corev1.Resource("configmaps"), "a", boom)})
		}, err: "boom", requests: "update get update get update get update get update", calls: 5},
		"change fails":          {given: func(r *rig) { r.cache[key] = r.has("old") }, change: func(*corev1.ConfigMap) error { return boom }, err: "boom"},
		"change fails, missing": {given: func(*rig) {}, change: func(*corev1.ConfigMap) error { return boom }, err: "boom"},
		"change renames":        {given: func(*rig) {}, change: func(obj *corev1.ConfigMap) error { obj.Name = "b"; return nil }, err: "must not rename"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				test.given(r)
				var before *corev1.ConfigMap
				if have, ok := r.cache[key]; ok {
					before = have.DeepCopy()
				}
				calls := 0
				change := test.change
				if change == nil {
					change = sets("new", &calls)
				}
				var reader reconcile.Reader[*corev1.ConfigMap] = r.cache
				if test.noCache {
					reader = nil
				}
				got, operation, err := reconcile.CreateOrUpdate(r.Context(), r.client, reader, initial(), change)
				if test.err != "" {
					if err == nil || !strings.Contains(err.Error(), test.err) || operation != reconcile.Unchanged || got != nil {
						r.Errorf("%v, %v, %v, want an error with %s", got, operation, err, test.err)
					}
				} else {
					r.must(err)
					stored, _ := r.maps.Get(key)
					if operation != test.want || got.Data["k"] != "new" || got.ResourceVersion != stored.ResourceVersion || got.UID != stored.UID {
						r.Errorf("%v of %+v, want %v of %+v", operation, got, test.want, stored)
					}
					if name == "the cache is behind" && got.Data["other"] != "x" {
						r.Errorf("the other write is lost: %v", got.Data)
					}
				}
				if got := r.requests(); got != test.requests || calls != test.calls {
					r.Errorf("requests: %s, %d calls, want %s, %d", got, calls, test.requests, test.calls)
				}
				if before != nil && before.Data["k"] != r.cache[key].Data["k"] {
					r.Error("the object of the cache has changed")
				}
			})
		})
	}
}

func TestUpdate(t *testing.T) {
	type update = func(ctx context.Context, client *informer.TypedClient[*corev1.ConfigMap], obj *corev1.ConfigMap, change func(*corev1.ConfigMap) error) (*corev1.ConfigMap, bool, error)
	for name, test := range map[string]struct {
		do       update
		given    func(r *rig, have *corev1.ConfigMap)
		change   string
		changed  bool
		err      func(error) bool
		requests string
	}{
		"equal":                {do: reconcile.Update[*corev1.ConfigMap], change: "old"},
		"differs":              {do: reconcile.Update[*corev1.ConfigMap], change: "new", changed: true, requests: "update"},
		"conflict":             {do: reconcile.Update[*corev1.ConfigMap], given: func(r *rig, _ *corev1.ConfigMap) { r.writes("other", "x") }, change: "new", changed: true, requests: "update get update"},
		"conflict, then equal": {do: reconcile.Update[*corev1.ConfigMap], given: func(r *rig, _ *corev1.ConfigMap) { r.writes("k", "new") }, change: "new", requests: "update get"},
		"deleted":              {do: reconcile.Update[*corev1.ConfigMap], given: func(r *rig, _ *corev1.ConfigMap) { _, err := r.maps.Delete(key); r.must(err) }, change: "new", err: apierrors.IsNotFound, requests: "update"},
		"recreated": {do: reconcile.Update[*corev1.ConfigMap], given: func(r *rig, _ *corev1.ConfigMap) {
			_, err := r.maps.Delete(key)
			r.must(err)
			r.has("old")
		}, change: "new", err: apierrors.IsConflict, requests: "update get"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, func(r *rig) {
				have := r.has("old")
				if test.given != nil {
					test.given(r, have)
				}
				calls := 0
				got, changed, err := test.do(r.Context(), r.client, have, sets(test.change, &calls))
				if (err == nil) != (test.err == nil) || err != nil && !test.err(err) || changed != test.changed {
					r.Errorf("changed %t, %v", changed, err)
				}
				if err == nil && got.Data["k"] != test.change {
					r.Errorf("%v", got.Data)
				}
				if got := r.requests(); got != test.requests {
					r.Errorf("requests: %s, want %s", got, test.requests)
				}
				if have.Data["k"] != "old" {
					r.Error("the object of the caller has changed")
				}
			})
		})
	}
}

// UpdateStatus retries after a conflict, and writes only the status.
func TestUpdateStatus(t *testing.T) {
	inRig(t, func(r *rig) {
		resource := corev1.SchemeGroupVersion.WithResource("pods")
		pods := informertest.Register[*corev1.Pod](r.server, informertest.Resource{GroupVersionResource: resource})
		have, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
		r.must(err)
		other := have.DeepCopy()
		other.Labels = map[string]string{"other": "x"}
		_, err = pods.Update(other)
		r.must(err)
		got, changed, err := reconcile.UpdateStatus(r.Context(), informer.NewTypedClient[*corev1.Pod](r.newClient(), resource), have, func(pod *corev1.Pod) error {
			pod.Spec.NodeName = "ignored"
			pod.Status.Phase = corev1.PodRunning
			return nil
		})
		r.must(err)
		if !changed || got.Status.Phase != corev1.PodRunning || got.Labels["other"] != "x" || got.Spec.NodeName != "" || r.requests() != "update get update" {
			r.Errorf("%t, %+v", changed, got)
		}
		if _, changed, err = reconcile.UpdateStatus(r.Context(), informer.NewTypedClient[*corev1.Pod](r.newClient(), resource), got, func(pod *corev1.Pod) error {
			pod.Status.Phase = corev1.PodRunning
			return nil
		}); changed || err != nil {
			r.Errorf("%t, %v, want no write", changed, err)
		}
	})
}

func TestOperation(t *testing.T) {
	for want, o := range map[string]reconcile.Operation{"Unchanged": reconcile.Unchanged, "Created": reconcile.Created, "Updated": reconcile.Updated, "Operation(9)": 9} {
		if o.String() != want {
			t.Errorf("%v, want %s", o, want)
		}
	}
}

// A program that imports this package does not link client-go's clientset, or its scheme of all types.
func TestNoClientset(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "k8s.io/client-go/kubernetes") {
		t.Error("the package links k8s.io/client-go/kubernetes")
	}
}

// The caller may write to the result, even if nothing was written.
func TestResultIsNotTheCachedObject(t *testing.T) {
	cached := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ResourceVersion: "1"}}
	client := informer.NewTypedClient[*corev1.ConfigMap](nil, corev1.SchemeGroupVersion.WithResource("configmaps"))
	got, changed, err := reconcile.Update(t.Context(), client, cached, func(*corev1.ConfigMap) error { return nil })
	if err != nil || changed || got == cached || got.Name != "a" {
		t.Errorf("%v, changed %v, the same object: %v", err, changed, got == cached)
	}
}
