package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

// auditPage is the size of the pages of an audit.
const auditPage = 4

// An audit finds no difference, before and after changes of all kinds. It lists metadata at exactly the resource version of the
// store, page by page, once for each namespace.
//
// Guarantees: R23
func TestAuditEqualsTheServer(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run("pods,"+formatName(contentType), func(t *testing.T) {
			testAudit[*corev1.Pod](t, contentType, podsResource, func(namespace, name string) *unstructured.Unstructured {
				content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster.NewPod(namespace, name))
				if err != nil {
					t.Fatal(err)
				}
				return &unstructured.Unstructured{Object: content}
			})
		})
		t.Run("widgets,"+formatName(contentType), func(t *testing.T) {
			resource := schema.GroupVersionResource{Group: newNamespace(t) + ".example.com", Version: "v1", Resource: "widgets"}
			if err := cluster.InstallCRD(within(t, patience), server.Config(), cluster.NewCRD(resource, "Widget")); err != nil {
				t.Fatal(err)
			}
			testAudit[*unstructured.Unstructured](t, contentType, resource, func(namespace, name string) *unstructured.Unstructured {
				obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
				obj.SetAPIVersion(resource.GroupVersion().String())
				obj.SetKind("Widget")
				obj.SetNamespace(namespace)
				obj.SetName(name)
				return obj
			})
		})
	}
}

func testAudit[T informer.Object](t *testing.T, contentType string, gvr schema.GroupVersionResource,
	newObject func(namespace, name string) *unstructured.Unstructured) {
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespaces := []string{newNamespace(t), newNamespace(t), newNamespace(t)}
	first := namespaces[0]
	run := "run=" + first // the objects of this test, in all namespaces
	create := func(namespace, name, app string) *unstructured.Unstructured {
		t.Helper()
		obj := newObject(namespace, name)
		obj.SetLabels(map[string]string{"run": first, "app": app})
		obj, err := client.Resource(gvr).Namespace(namespace).Create(within(t, patience), obj, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
	for i, namespace := range namespaces {
		for j := range 12 - 4*i { // 12, 8 and 4: two are full pages only
			create(namespace, fmt.Sprintf("object-%02d", j), []string{"x", "y"}[j%2])
		}
	}
	isX := func(m *metav1.PartialObjectMetadata) bool { return m.Labels["app"] == "x" }
	round := 0
	for _, c := range []struct {
		name     string
		resource informer.Resource
		filter   func(*metav1.PartialObjectMetadata) bool
	}{
		{"all namespaces", informer.Resource{LabelSelector: run}, nil},
		{"one namespace", informer.Resource{Namespaces: namespaces[:1]}, nil},
		{"namespaces", informer.Resource{Namespaces: namespaces[:2]}, nil},
		{"selector", informer.Resource{LabelSelector: run + ",app=x"}, nil},
		{"selector, namespaces", informer.Resource{Namespaces: namespaces, LabelSelector: "app=x"}, nil},
		{"filter", informer.Resource{Namespaces: namespaces}, isX},
		{"filter, selector", informer.Resource{LabelSelector: run + ",app in (x,y)"}, isX},
	} {
		for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
			t.Run(c.name+", "+layout.String(), func(t *testing.T) {
				config := logged[T](t)
				config.Layout, config.Filter, config.PageSize = layout, c.filter, auditPage
				resource := c.resource
				resource.GroupVersionResource = gvr
				record := &requests{keepBodies: true}
				inf := informer.New(newClient(t, contentType, record), resource, config)
				start(t, inf)
				audit := func() {
					t.Helper()
					auditIsEqual(t, inf, record, c.filter)
				}
				audit()
				round++
				objects := client.Resource(gvr).Namespace(first)
				patch := func(name, app string) {
					t.Helper()
					text := fmt.Sprintf(`{"metadata":{"labels":{"app":%q,"round":"%d"}}}`, app, round)
					if _, err := objects.Patch(within(t, patience), name, types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				patch("object-00", "x")
				patch("object-02", []string{"x", "y"}[round%2]) // leaves and enters selectors and filters
				if err := objects.Delete(within(t, patience), "object-04", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				create(first, "object-04", "x") // recreated
				last := create(first, fmt.Sprintf("round-%02d", round), "x")
				if err := inf.WaitForObject(within(t, patience), last); err != nil {
					t.Fatal(err)
				}
				audit()
				if s := inf.Status().Audit; s.Equal != 2 || s.Different+s.Failed > 0 || s.LastError != nil {
					t.Errorf("status %+v", s)
				}
			})
		}
	}
}

// auditIsEqual audits inf, whose store must equal the server, and checks the result and the requests.
func auditIsEqual[T informer.Object](t *testing.T, inf *informer.Informer[T], record *requests,
	filter func(*metav1.PartialObjectMetadata) bool) {
	t.Helper()
	const partial = "PartialObjectMetadataList" // the kind of each response
	resource := inf.Resource()
	parts := resource.Namespaces
	if len(parts) == 0 {
		parts = []string{""}
	}
	objects, pages := 0, 0
	for _, namespace := range parts {
		list, err := metadataClient(t).Resource(resource.GroupVersionResource).Namespace(namespace).
			List(within(t, patience), metav1.ListOptions{LabelSelector: resource.LabelSelector})
		if err != nil {
			t.Fatal(err)
		}
		pages += max(1, (len(list.Items)+auditPage-1)/auditPage)
		for i := range list.Items {
			if filter == nil || filter(&list.Items[i]) {
				objects++
			}
		}
	}
	before, lists, version := len(record.all()), record.count(partial), inf.Store().ResourceVersion()
	r, err := inf.Audit(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	// A bookmark may arrive at any time.
	if now := inf.Store().ResourceVersion(); r.ResourceVersion != version && r.ResourceVersion != now {
		t.Errorf("audited at %s, the store was at %s and is at %s", r.ResourceVersion, version, now)
	}
	if r.Objects != objects || r.Differ != 0 || r.Unclear != 0 || r.Bytes == 0 || r.Took <= 0 {
		t.Errorf("result %+v, want %d objects without a difference", r, objects)
	}
	var made []request
	for _, req := range record.all()[before:] {
		if !req.watch() { // a watch may time out
			made = append(made, req)
		}
	}
	most := pages
	if resource.LabelSelector != "" { // an empty page may follow, if objects are left that do not match
		most += len(parts)
	}
	if n := len(made); n < pages || n > most || record.count(partial)-lists != n {
		t.Errorf("made %d requests, and %d answers were metadata, want %d to %d of each", n, record.count(partial)-lists, pages, most)
	}
	firsts := 0
	for _, req := range made {
		q := req.Query
		if req.Status != http.StatusOK || q.Get("limit") != fmt.Sprint(auditPage) || q.Get("labelSelector") != resource.LabelSelector ||
			!strings.Contains(req.Accept, "as="+partial) {
			t.Errorf("unexpected request %+v", req)
		}
		if q.Has("continue") {
			continue
		}
		firsts++
		if parseVersion(q.Get("resourceVersion")) < parseVersion(version) || q.Get("resourceVersionMatch") != "Exact" {
			t.Errorf("request %v is not for exactly %s", q, version)
		}
	}
	if firsts != len(parts) {
		t.Errorf("made %d lists of %d collections: %v", firsts, len(parts), made)
	}
}

// restorable is a cluster whose servers can be set back to an earlier state.
type restorable struct {
	*cluster.Cluster
	t *testing.T
}

// stopped calls while both servers are stopped, and starts them again.
func (r restorable) stopped(while func()) {
	r.t.Helper()
	for _, step := range []func() error{r.KillAPIServer, r.KillEtcd} {
		if err := step(); err != nil {
			r.t.Fatal(err)
		}
	}
	while()
	for _, step := range []func(context.Context) error{r.StartEtcd, r.StartAPIServer} {
		if err := step(within(r.t, 2*patience)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Both servers are restored from a copy, and other writes move them past the version of the stores before the informers are
// back. The watches resume, and nothing in them shows that the past is another one. An audit finds exactly the objects that
// differ, and one list repairs the store.
//
// Guarantees: R6, R23
func TestAuditFindsARestoredServer(t *testing.T) {
	c, err := startCluster(t.Context(), cluster.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the informers have stopped
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	servers := restorable{c, t}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := cluster.CreateNamespace(t.Context(), c.Config(), "restored")
	if err != nil {
		t.Fatal(err)
	}
	var last *corev1.ConfigMap // the newest write
	create := func(namespace, name string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": "0"}}
		if last, err = client.CoreV1().ConfigMaps(namespace).Create(within(t, patience), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := client.CoreV1().ConfigMaps(namespace).Delete(within(t, patience), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update := func(name, n string) {
		t.Helper()
		cm, err := client.CoreV1().ConfigMaps(namespace).Get(within(t, patience), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cm.Data["n"] = n
		if last, err = client.CoreV1().ConfigMaps(namespace).Update(within(t, patience), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		create(namespace, fmt.Sprintf("same-%02d", i))
	}
	for _, name := range []string{"deleted", "recreated", "updated", "updated-again", "updated-here"} {
		create(namespace, name)
	}

	// The informers.
	l := newLine()
	type follower struct {
		*informer.Informer[*corev1.ConfigMap]
		name   string
		record *testkit.Recorder[*corev1.ConfigMap]
		told   <-chan struct{} // closed when the handler was told of the last object
	}
	var followers []follower
	for _, m := range modes {
		restConfig := c.Config()
		restConfig.ContentType = m.contentType
		restConfig.Wrap(l.wrap)
		client, err := informer.NewClient(restConfig)
		if err != nil {
			t.Fatal(err)
		}
		config := configOf[*corev1.ConfigMap](t, m)
		config.PageSize = 10
		resource := informer.Resource{GroupVersionResource: configMapsResource, Namespaces: []string{namespace}}
		told := make(chan struct{})
		record := &testkit.Recorder[*corev1.ConfigMap]{After: func(cm *corev1.ConfigMap) {
			if cm.Name == lastName {
				close(told)
			}
		}}
		f := follower{informer.New(client, resource, config), m.String(), record, told}
		f.Subscribe(f.record)
		start(t, f.Informer)
		followers = append(followers, f)
	}
	caughtUp := func() {
		t.Helper()
		ctx := within(t, patience)
		for _, f := range followers {
			if err := f.WaitForObject(ctx, last); err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
		}
	}

	// The copy, and changes after it.
	backup := t.TempDir()
	l.cut()
	servers.stopped(func() {
		if err := c.SaveEtcd(backup); err != nil {
			t.Fatal(err)
		}
	})
	l.mend()
	update("updated", "1")
	update("updated-again", "1")
	update("updated-again", "2")
	remove("deleted")
	remove("recreated")
	create(namespace, "recreated")
	create(namespace, "created")
	create(namespace, "created-twice")
	for i := range 30 { // the store is at the last of these versions
		update("same-00", fmt.Sprint(i))
	}
	caughtUp()
	reached := last

	// The restore, and other changes than before.
	l.cut()
	began := time.Now()
	servers.stopped(func() {
		if err := c.RestoreEtcd(backup); err != nil {
			t.Fatal(err)
		}
	})
	create(namespace, "created-twice")
	update("updated-here", "9")
	if !newer(reached, last) {
		t.Fatalf("the restored server is at %s, the stores are at %s: the test is about missed changes", last.ResourceVersion, reached.ResourceVersion)
	}
	for i := 0; !newer(last, reached); i++ {
		create(metav1.NamespaceDefault, fmt.Sprintf("other-%03d", i))
	}
	passed := last
	l.mend()
	create(namespace, "after") // arrives
	caughtUp()
	outage := time.Since(began)
	t.Logf("outage of %v, the stores at %s, the restored server at %s", outage.Round(time.Millisecond), reached.ResourceVersion, passed.ResourceVersion)

	want := map[string]string{
		"created": "superfluous", "created-twice": "recreated", "deleted": "missing", "recreated": "recreated",
		"same-00": "outdated", "updated": "outdated", "updated-again": "outdated", "updated-here": "outdated",
	}
	direct, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	served := sorted(pointers(direct.Items))
	for _, f := range followers {
		t.Run(f.name, func(t *testing.T) {
			if s := f.Status().Audit; s.Equal+s.Different+s.Failed > 0 || !s.Next.IsZero() {
				if _, err := f.Audit(within(t, patience)); err != nil {
					t.Error(err)
				}
				if _, err := f.Await(within(t, patience), informer.Key{Namespace: namespace, Name: "deleted"},
					func(cm *corev1.ConfigMap) bool { return cm != nil }); err != nil {
					t.Error(err)
				}
				t.Skipf("the informer has audited by itself, as it does after a minute; the outage took %v", outage)
			}
			// R6: the store stays wrong, and nothing shows that.
			wrong := map[string]string{}
			there := map[string]*corev1.ConfigMap{}
			for _, cm := range served {
				there[cm.Name] = cm
			}
			for cm := range f.Store().All() {
				switch now := there[cm.Name]; {
				case now == nil:
					wrong[cm.Name] = "superfluous"
				case now.UID != cm.UID:
					wrong[cm.Name] = "recreated"
				case now.ResourceVersion != cm.ResourceVersion:
					wrong[cm.Name] = "outdated"
				}
				delete(there, cm.Name)
			}
			for name := range maps.Keys(there) {
				wrong[name] = "missing"
			}
			if d := gocmp.Diff(want, wrong); d != "" {
				t.Errorf("before the audit, the store differs otherwise (-want +got):\n%s", d)
			}

			r, err := f.Audit(within(t, patience))
			if err != nil {
				t.Fatal(err)
			}
			audited := time.Now()
			found := map[string]string{}
			for _, d := range r.Differences {
				if d.Key.Namespace != namespace {
					t.Errorf("difference in another namespace: %v", d)
				}
				found[d.Key.Name] = d.Kind.String()
			}
			if d := gocmp.Diff(want, found); d != "" || r.Differ != len(want) || len(r.Differences) != len(want) {
				t.Errorf("the audit found %d differences (-want +got):\n%s", r.Differ, d)
			}
			if r.Objects != len(served) || r.Unclear != 0 || r.Collection != f.Resource().String() {
				t.Errorf("result %+v, want %d objects", r, len(served))
			}

			// One list is one change of the store.
			if _, err := f.Await(within(t, patience), informer.Key{Namespace: namespace, Name: "deleted"},
				func(cm *corev1.ConfigMap) bool { return cm != nil }); err != nil {
				t.Fatal(err)
			}
			t.Logf("the audit took %v, %d bytes for %d objects; the store was repaired %v after it", r.Took.Round(time.Microsecond), r.Bytes,
				r.Objects, time.Since(audited).Round(time.Microsecond))
			want := served
			if strings.HasSuffix(f.name, "protobuf") {
				want = protobufOf(t, c, namespace)
			}
			storeEquals(t, f.Informer, want)
			s := f.Status()
			traffic := s.Reflectors[0].Traffic
			if s.Reflectors[0].Restored != 0 || traffic.ListsBy[status.ReasonAudit] != 1 || s.Audit.Different != 1 || s.Audit.Differ != r.Differ {
				t.Errorf("status %+v, lists %v", s.Audit, traffic.ListsBy)
			}
			again, err := f.Audit(within(t, patience))
			if err != nil || again.Differ > 0 || again.Objects != len(served) {
				t.Errorf("after the repair: %+v, %v", again, err)
			}
		})
	}

	// The handlers have been told of the repair before this.
	create(namespace, lastName)
	there := map[types.NamespacedName]string{informer.KeyOf(last): last.ResourceVersion}
	for _, cm := range served {
		there[informer.KeyOf(cm)] = cm.ResourceVersion
	}
	for _, f := range followers {
		select {
		case <-f.told:
		case <-within(t, patience).Done():
			t.Fatalf("%s: the handler was not told of the last object", f.name)
		}
		has := map[types.NamespacedName]string{}
		for key, cm := range f.record.Has() {
			has[key] = cm.ResourceVersion
		}
		if d := gocmp.Diff(there, has); d != "" || f.record.Broken() > 0 {
			t.Errorf("%s: the handler got %d events that do not follow the one before (-server +handler):\n%s", f.name, f.record.Broken(), d)
		}
	}
}

// protobufOf returns the config maps of a namespace, as client-go decodes them from protobuf.
func protobufOf(t *testing.T, c *cluster.Cluster, namespace string) []*corev1.ConfigMap {
	t.Helper()
	config := c.Config()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return sorted(pointers(list.Items))
}
