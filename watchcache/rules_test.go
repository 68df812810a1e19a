package watchcache_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// rig is a server of pods on in-memory connections.
type rig struct {
	*testing.T
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
}

// bubble runs test in a synctest bubble. It fails if a goroutine is left.
func bubble(t *testing.T, window int, test func(r rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true, Window: window})
		defer server.Close()
		test(rig{t, server, informertest.Register[*corev1.Pod](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		})})
	})
}

func (r rig) client(contentType string) corev1client.CoreV1Interface {
	config := r.server.Config()
	config.ContentType, config.AcceptContentTypes = contentType, contentType
	clients, err := kubernetes.NewForConfig(config)
	r.must(err)
	return clients.CoreV1()
}

// set creates or updates a pod with a label and a node.
func (r rig) set(namespace, name, app, node string) *corev1.Pod {
	r.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: node},
	}
	var err error
	if _, exists := r.pods.Get(informer.KeyOf(pod)); exists {
		pod, err = r.pods.Update(pod)
	} else {
		pod, err = r.pods.Create(pod)
	}
	r.must(err)
	return pod
}

func (r rig) delete(namespace, name string) {
	r.Helper()
	_, err := r.pods.Delete(informer.Key{Namespace: namespace, Name: name})
	r.must(err)
}

func (r rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// watch opens a watch that the test closes.
func (r rig) watch(contentType, namespace string, opts metav1.ListOptions) watch.Interface {
	r.Helper()
	w, err := r.client(contentType).Pods(namespace).Watch(r.Context(), opts)
	r.must(err)
	r.Cleanup(w.Stop)
	return w
}

// told returns the events of w so far, each as "TYPE NAME RESOURCEVERSION", and "END" if it has ended.
func told(w watch.Interface) (events []string) {
	for {
		synctest.Wait()
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return append(events, "END")
			}
			events = append(events, describe(e))
		default:
			return events
		}
	}
}

func describe(e watch.Event) string {
	if status, ok := e.Object.(*metav1.Status); ok {
		return fmt.Sprint(e.Type, " ", status.Code, " ", status.Reason)
	}
	obj := e.Object.(metav1.Object)
	s := fmt.Sprint(e.Type, " ", obj.GetName(), " ", obj.GetResourceVersion())
	if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
		s += " initial-events-end"
	}
	return s
}

func (r rig) want(got []string, want ...string) {
	r.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		r.Error(diff)
	}
}

var encodings = []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

// logged is one change in a plain log of events.
type logged struct {
	old, new *corev1.Pod // new is nil after a deletion
	rv       uint64
}

// TestWatchFromEveryResourceVersion compares watches from each version, with and without selectors, with a plain log of
// the changes before and during the watch.
// Guarantees: W1
func TestWatchFromEveryResourceVersion(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const before, after, window = 60, 30, 64
	selections := []struct {
		namespace, labels, fields string
	}{
		{},
		{namespace: "ns-1"},
		{labels: "app=a"},
		{fields: "spec.nodeName=n1"},
		{namespace: "ns-0", labels: "app!=b", fields: "spec.nodeName!=n2,metadata.name!=p3"},
	}
	bubble(t, window, func(r rig) {
		var history []logged
		change := func() {
			namespace, name := fmt.Sprint("ns-", random.IntN(3)), fmt.Sprint("p", random.IntN(4))
			old, exists := r.pods.Get(informer.Key{Namespace: namespace, Name: name})
			e := logged{rv: uint64(len(history) + 2)} // a new server is at version 1
			if exists {
				e.old = old
			}
			if exists && random.IntN(3) == 0 {
				r.delete(namespace, name)
			} else {
				for e.new == nil || e.new == old { // an update without a change does not count
					e.new = r.set(namespace, name, string(rune('a'+random.IntN(3))), fmt.Sprint("n", random.IntN(3)))
				}
			}
			history = append(history, e)
		}
		for range before {
			change()
		}
		type open struct {
			name string
			want func() []string
			w    watch.Interface
		}
		var watches []open
		for from := 1; from <= before+1; from++ {
			s := selections[random.IntN(len(selections))]
			contentType := encodings[random.IntN(len(encodings))]
			labelSelector, err := labels.Parse(s.labels)
			r.must(err)
			fieldSelector, err := fields.ParseSelector(s.fields)
			r.must(err)
			matches := func(pod *corev1.Pod) bool {
				return pod != nil && (s.namespace == "" || pod.Namespace == s.namespace) && labelSelector.Matches(labels.Set(pod.Labels)) &&
					fieldSelector.Matches(fields.Set{"metadata.name": pod.Name, "spec.nodeName": pod.Spec.NodeName})
			}
			watches = append(watches, open{
				name: fmt.Sprintf("%+v from %d", s, from),
				want: func() (events []string) {
					for _, e := range history[from-1:] {
						switch was, has := matches(e.old), matches(e.new); {
						case was && has:
							events = append(events, fmt.Sprint("MODIFIED ", e.new.Name, " ", e.rv))
						case has:
							events = append(events, fmt.Sprint("ADDED ", e.new.Name, " ", e.rv))
						case was:
							events = append(events, fmt.Sprint("DELETED ", e.old.Name, " ", e.rv))
						}
					}
					return events
				},
				w: r.watch(contentType, s.namespace, metav1.ListOptions{
					ResourceVersion: fmt.Sprint(from), LabelSelector: s.labels, FieldSelector: s.fields,
				}),
			})
		}
		synctest.Wait() // no watch may be more than the window behind
		for range after {
			change()
		}
		for _, open := range watches {
			if diff := cmp.Diff(open.want(), told(open.w)); diff != "" {
				t.Errorf("%s: %s", open.name, diff)
			}
		}
	})
}

// Guarantees: W1
func TestOlderThanTheRingIsExpired(t *testing.T) {
	for _, contentType := range encodings {
		bubble(t, 4, func(r rig) {
			for i := range 10 {
				r.set("ns", "a", fmt.Sprint(i), "")
			}
			r.want(told(r.watch(contentType, "", metav1.ListOptions{ResourceVersion: "6"})), "ERROR 410 Expired", "END")
			r.want(told(r.watch(contentType, "", metav1.ListOptions{ResourceVersion: "7"})),
				"MODIFIED a 8", "MODIFIED a 9", "MODIFIED a 10", "MODIFIED a 11")
			r.server.Compact()
			r.want(told(r.watch(contentType, "", metav1.ListOptions{ResourceVersion: "10"})), "ERROR 410 Expired", "END")
			kept := r.watch(contentType, "", metav1.ListOptions{ResourceVersion: "11"})
			synctest.Wait()
			r.server.Compact()
			r.set("ns", "a", "x", "")
			r.want(told(kept), "MODIFIED a 12")
		})
	}
}

// Guarantees: W1
func TestFutureVersionTellsNothingUpToIt(t *testing.T) {
	bubble(t, 0, func(r rig) {
		w := r.watch(runtime.ContentTypeJSON, "", metav1.ListOptions{ResourceVersion: "3"})
		for i := range 3 {
			r.set("ns", "a", fmt.Sprint(i), "")
		}
		r.want(told(w), "MODIFIED a 4")
	})
}

// Guarantees: W1
func TestOtherResourcesMoveTheVersion(t *testing.T) {
	bubble(t, 0, func(r rig) {
		maps := informertest.Register[*corev1.ConfigMap](r.server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		})
		r.set("ns", "a", "", "")
		_, err := maps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}})
		r.must(err)
		r.set("ns", "b", "", "")
		list, err := r.client(runtime.ContentTypeJSON).ConfigMaps("").List(r.Context(), metav1.ListOptions{})
		r.must(err)
		if list.ResourceVersion != "4" || list.Items[0].ResourceVersion != "3" {
			t.Errorf("list at %s of an object at %s, want 3 and 2", list.ResourceVersion, list.Items[0].ResourceVersion)
		}
		r.want(told(r.watch(runtime.ContentTypeJSON, "", metav1.ListOptions{ResourceVersion: "3"})), "ADDED b 4")
	})
}

// Guarantees: W2
func TestWatchFromNowBeginsWithAllObjects(t *testing.T) {
	for _, contentType := range encodings {
		for _, rv := range []string{"", "0"} {
			bubble(t, 2, func(r rig) {
				for i := range 5 {
					r.set("ns", fmt.Sprint("p", i), "", "")
				}
				w := r.watch(contentType, "", metav1.ListOptions{ResourceVersion: rv})
				r.want(told(w), "ADDED p0 2", "ADDED p1 3", "ADDED p2 4", "ADDED p3 5", "ADDED p4 6")
				r.delete("ns", "p0")
				r.want(told(w), "DELETED p0 7")
			})
		}
	}
}

// Guarantees: W3
func TestSendInitialEvents(t *testing.T) {
	yes, no := true, false
	for _, contentType := range encodings {
		bubble(t, 0, func(r rig) {
			r.set("ns", "a", "x", "")
			r.set("ns", "b", "y", "")
			r.set("ns", "a", "z", "")
			opts := metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
			w := r.watch(contentType, "", opts)
			r.want(told(w), "ADDED a 4", "ADDED b 3", "BOOKMARK  4 initial-events-end")
			r.set("ns", "c", "x", "")
			r.want(told(w), "ADDED c 5")

			opts.LabelSelector = "app=none"
			r.want(told(r.watch(contentType, "", opts)), "BOOKMARK  5 initial-events-end")

			opts = metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, ResourceVersion: "6", AllowWatchBookmarks: true}
			time.AfterFunc(time.Second, func() { r.set("ns", "d", "", "") })
			w = r.watch(contentType, "", opts) // waits for version 5
			r.want(told(w), "ADDED a 4", "ADDED b 3", "ADDED c 5", "ADDED d 6", "BOOKMARK  6 initial-events-end")
			opts.ResourceVersion = "7"
			r.want(told(r.watch(contentType, "", opts)), "ERROR 504 Timeout", "END")

			opts = metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
			w = r.watch(contentType, "", opts)
			r.want(told(w))
			r.delete("ns", "d")
			r.want(told(w), "DELETED d 7")
		})
	}
}

// Guarantees: W4
func TestSelectors(t *testing.T) {
	for _, contentType := range encodings {
		for name, opts := range map[string]metav1.ListOptions{
			"label": {LabelSelector: "app=in"},
			"field": {FieldSelector: "spec.nodeName=in"},
		} {
			bubble(t, 0, func(r rig) {
				opts.ResourceVersion = "2"
				r.set("other", "x", "", "")
				w := r.watch(contentType, "ns", opts)
				set := func(where string) {
					if name == "label" {
						r.set("ns", "a", where, "same")
					} else {
						r.set("ns", "a", "same", where)
					}
				}
				set("out")
				set("in")
				r.want(told(w), "ADDED a 4")
				set("out")
				synctest.Wait()
				left := <-w.ResultChan()
				r.want([]string{describe(left)}, "DELETED a 5")
				if pod := left.Object.(*corev1.Pod); pod.Labels["app"] != "in" && pod.Spec.NodeName != "in" {
					t.Errorf("what left the selection is %+v, want the object as it was in it", pod)
				}
				set("in")
				r.delete("ns", "a")
				r.want(told(w), "ADDED a 6", "DELETED a 7")

				set("in")
				r.set("other", "in", "in", "in")
				list, err := r.client(contentType).Pods("ns").List(r.Context(), opts)
				r.must(err)
				if len(list.Items) != 1 || list.Items[0].Name != "a" {
					t.Errorf("list: %v", list.Items)
				}
			})
		}
	}
	bubble(t, 0, func(r rig) {
		_, err := r.client(runtime.ContentTypeJSON).Pods("").List(r.Context(), metav1.ListOptions{FieldSelector: "spec.none=x"})
		if !apierrors.IsBadRequest(err) || err.Error() != "field label not supported: spec.none" {
			t.Error(err)
		}
	})
}

// Guarantees: W5
func TestListAtResourceVersion(t *testing.T) {
	const notOlder, exact = metav1.ResourceVersionMatchNotOlderThan, metav1.ResourceVersionMatchExact
	for _, contentType := range encodings {
		bubble(t, 4, func(r rig) {
			for i := range 8 { // p0 to p7 at versions 2 to 9; those since 5 are in the window
				r.set("ns", fmt.Sprint("p", i), "", "")
			}
			for _, test := range []struct {
				opts metav1.ListOptions
				rv   string
				n    int
				err  func(error) bool
			}{
				{opts: metav1.ListOptions{}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "0"}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "0", Limit: 2}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: notOlder}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "2"}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "8", ResourceVersionMatch: notOlder}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "9", ResourceVersionMatch: exact}, rv: "9", n: 8},
				{opts: metav1.ListOptions{ResourceVersion: "6", ResourceVersionMatch: exact}, rv: "6", n: 5},
				{opts: metav1.ListOptions{ResourceVersion: "5", ResourceVersionMatch: exact}, rv: "5", n: 4},
				{opts: metav1.ListOptions{ResourceVersion: "5", Limit: 3}, rv: "5", n: 3},
				{opts: metav1.ListOptions{ResourceVersion: "4", ResourceVersionMatch: exact}, err: apierrors.IsResourceExpired},
				{opts: metav1.ListOptions{ResourceVersion: "0", ResourceVersionMatch: exact}, err: apierrors.IsInvalid},
				{opts: metav1.ListOptions{ResourceVersionMatch: exact}, err: apierrors.IsInvalid},
				{opts: metav1.ListOptions{ResourceVersion: "x"}, err: apierrors.IsBadRequest},
				{opts: metav1.ListOptions{ResourceVersion: "10"}, err: isTooLarge},
				{opts: metav1.ListOptions{ResourceVersion: "10", ResourceVersionMatch: exact}, err: isTooLarge},
				{opts: metav1.ListOptions{Continue: "x"}, err: apierrors.IsBadRequest},
				{opts: metav1.ListOptions{LabelSelector: "=="}, err: apierrors.IsBadRequest},
			} {
				start := time.Now()
				list, err := listOnce(r, contentType, test.opts)
				switch {
				case test.err != nil:
					if err == nil || !test.err(err) {
						t.Errorf("%+v: %v", test.opts, err)
					}
				case err != nil:
					t.Errorf("%+v: %v", test.opts, err)
				case list.ResourceVersion != test.rv || len(list.Items) != test.n:
					t.Errorf("%+v: %d items at %s, want %d at %s", test.opts, len(list.Items), list.ResourceVersion, test.n, test.rv)
				}
				if isTooLarge(err) && time.Since(start) != 3*time.Second {
					t.Errorf("%+v: waited %v for a version to come", test.opts, time.Since(start))
				}
			}
			time.AfterFunc(time.Second, func() { r.set("ns", "p8", "", "") })
			list, err := listOnce(r, contentType, metav1.ListOptions{ResourceVersion: "10"})
			r.must(err)
			if len(list.Items) != 9 {
				t.Errorf("%d items", len(list.Items))
			}
		})
	}
}

// listOnce lists without client-go's retries, which obey Retry-After.
func listOnce(r rig, contentType string, opts metav1.ListOptions) (*corev1.PodList, error) {
	list := &corev1.PodList{}
	client := r.client(contentType).RESTClient()
	err := client.Get().Resource("pods").VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Do(r.Context()).Into(list)
	return list, err
}

func isTooLarge(err error) bool {
	return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// Guarantees: W5
func TestPagesAreOfOneSnapshot(t *testing.T) {
	for _, contentType := range encodings {
		bubble(t, 0, func(r rig) {
			for i := range 10 {
				r.set("a", fmt.Sprint("p", i), "", "")
				r.set("b", fmt.Sprint("p", i), "", "")
			}
			for _, namespace := range []string{"", "a", "b"} {
				pods := r.client(contentType).Pods(namespace)
				whole, err := pods.List(r.Context(), metav1.ListOptions{})
				r.must(err)
				opts := metav1.ListOptions{Limit: 3}
				var paged []corev1.Pod
				for {
					page, err := pods.List(r.Context(), opts)
					r.must(err)
					paged = append(paged, page.Items...)
					if page.ResourceVersion != whole.ResourceVersion {
						t.Fatalf("page at %s, want %s", page.ResourceVersion, whole.ResourceVersion)
					}
					if opts.Continue = page.Continue; opts.Continue == "" {
						if page.RemainingItemCount != nil {
							t.Errorf("%d remaining after the last page", *page.RemainingItemCount)
						}
						break
					}
					if got, want := *page.RemainingItemCount, int64(len(whole.Items)-len(paged)); got != want {
						t.Errorf("%d remaining, want %d", got, want)
					}
					r.set("a", fmt.Sprint("p", len(paged)), page.ResourceVersion+opts.Continue[:8], "") // after the snapshot
					r.set("b", fmt.Sprint("new", len(paged), namespace), "", "")
				}
				if diff := cmp.Diff(whole.Items, paged); diff != "" {
					t.Errorf("namespace %q: %s", namespace, diff)
				}
			}
		})
	}
}

// Guarantees: W5
func TestPagesWithSelector(t *testing.T) {
	bubble(t, 0, func(r rig) {
		for i := range 9 {
			r.set("ns", fmt.Sprint("p", i), fmt.Sprint(i%2), "")
		}
		opts := metav1.ListOptions{Limit: 2, LabelSelector: "app=0"}
		var pages []string
		for {
			page, err := listOnce(r, runtime.ContentTypeJSON, opts)
			r.must(err)
			var names []string
			for _, pod := range page.Items {
				names = append(names, pod.Name)
			}
			pages = append(pages, strings.Join(names, " "))
			if page.RemainingItemCount != nil {
				t.Error("a count of what remains, which a server does not know with a selector")
			}
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
		r.want(pages, "p0 p2", "p4 p6", "p8")
	})
}

// Guarantees: W5
func TestContinueOfAnOldVersionIsExpired(t *testing.T) {
	bubble(t, 0, func(r rig) {
		for i := range 4 {
			r.set("ns", fmt.Sprint("p", i), "", "")
		}
		page, err := listOnce(r, runtime.ContentTypeJSON, metav1.ListOptions{Limit: 2})
		r.must(err)
		r.set("ns", "p4", "", "")
		r.server.Compact()
		_, err = listOnce(r, runtime.ContentTypeJSON, metav1.ListOptions{Limit: 2, Continue: page.Continue})
		if !apierrors.IsResourceExpired(err) {
			t.Fatal(err)
		}
		again := err.(apierrors.APIStatus).Status().Continue
		page, err = listOnce(r, runtime.ContentTypeJSON, metav1.ListOptions{Continue: again})
		r.must(err)
		if len(page.Items) != 3 || page.Items[0].Name != "p2" || page.ResourceVersion != "6" {
			t.Errorf("continued at the latest version: %d items at %s", len(page.Items), page.ResourceVersion)
		}
	})
}

// Guarantees: W6
func TestBookmarksAndTimeout(t *testing.T) {
	for _, contentType := range encodings {
		bubble(t, 0, func(r rig) {
			start := time.Now()
			seconds := int64(150)
			r.set("ns", "a", "", "")
			w := r.watch(contentType, "", metav1.ListOptions{ResourceVersion: "2", AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
			silent := r.watch(contentType, "", metav1.ListOptions{ResourceVersion: "2", TimeoutSeconds: &seconds})
			r.set("other", "b", "", "")
			r.want(told(w), "ADDED b 3")
			var got []string
			for e := range w.ResultChan() {
				got = append(got, fmt.Sprint(describe(e), " after ", time.Since(start)))
				if len(got) == 1 {
					r.set("ns", "a", "changed", "")
				}
			}
			r.want(got, "BOOKMARK  3 after 1m0s", "MODIFIED a 4 after 1m0s", "BOOKMARK  4 after 2m0s", "BOOKMARK  4 after 2m28s")
			if time.Since(start) != 150*time.Second {
				t.Errorf("ended after %v", time.Since(start))
			}
			r.want(told(silent), "ADDED b 3", "MODIFIED a 4", "END")
		})
	}
}

// Guarantees: W8
func TestAWatcherThatDoesNotReadIsEnded(t *testing.T) {
	const window = 64
	bubble(t, window, func(r rig) {
		client, err := rest.HTTPClientFor(r.server.Config())
		r.must(err)
		r.set("ns", "a", "0", "")
		stuck, err := client.Get(r.server.URL + "/api/v1/pods?watch=1&resourceVersion=2")
		r.must(err)
		defer stuck.Body.Close()
		follower := r.watch(runtime.ContentTypeProtobuf, "", metav1.ListOptions{ResourceVersion: "2"})
		var seen []string
		last := 2
		for r.pods.Watchers() == 2 {
			last++
			if last > 10_000 {
				t.Fatal("the watcher that does not read is not ended")
			}
			// A label of the size of a buffer soon fills the pipe.
			r.set("ns", "a", fmt.Sprint(last, strings.Repeat("x", 1<<14)), "")
			seen = append(seen, told(follower)...)
		}
		var want []string
		for rv := 3; rv <= last; rv++ {
			want = append(want, fmt.Sprint("MODIFIED a ", rv))
		}
		r.want(seen, want...)

		// The stuck request is aborted, and its client can resume.
		body := json.NewDecoder(stuck.Body)
		version := "2"
		for {
			var e struct{ Object corev1.Pod }
			if err := body.Decode(&e); err != nil {
				if err == io.EOF {
					t.Error("the stuck watch ended cleanly, though with part of an event unsent")
				}
				break
			}
			version = e.Object.ResourceVersion
		}
		resumed := told(r.watch(runtime.ContentTypeJSON, "", metav1.ListOptions{ResourceVersion: version}))
		r.want(resumed, want[slices.Index(want, "MODIFIED a "+version)+1:]...)
	})
}
