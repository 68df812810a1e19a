package crcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// difference is an item of the list of differences in the documentation of the package, with a scenario that shows it.
type difference struct {
	item         string // the first words of the item
	show         func(w *world, impl namedCache) string
	theirs, ours string // what show returns for each cache; more may follow an ellipsis
}

var differences = []difference{
	{"Order", showOrder, "any order", "ordered"},
	{"First list", showFirstList, "a timeout", "a timeout that says why"},
	{"Refused reads", showRefusedRead, "a timeout", "Forbidden"},
	{"Recreated objects", showRecreated, "update", "delete missed, add"},
	{"Relists", showRelist, "update", ""},
	{"Undecodable objects", showUndecodable, "0 pods: a timeout, get: a timeout", "1 pods: a DecodeError, get: a DecodeError"},
	{"Removed resources", showRemovedResource, "1 pods, events: ", "0 pods, events: delete missed"},
	{"Failing transforms", showFailingTransform, "1 pods: success, get: NotFound", "1 pods: a DecodeError, get: a DecodeError"},
	{"Renaming transforms", showRenamingTransform, "get of the new name: success, of the old name: NotFound", "get of the new name: NotFound, of the old name: success"},
	{"Transforms that drop the resource version", showLateUpdate, "", "update"},
	{"Timeouts", showTimeout, "they end watches", "they end no watch"},
	{"Redirects", showRedirect, "success", "a timeout"},
	{"Bookmarks", showBookmarks, "<nil>", "cache.Options.DefaultEnableWatchBookmarks is false…"},
	{"Several namespaces", showNamespaces, "another type", "a SharedIndexInformer"},
	{"Writes", showWrite, "<nil>", "only the informer writes to its store while it runs"},
	{"Fields", showFieldIndex, "[field:node namespace]", "[namespace]"},
	{"Watch errors", showWatchError, "a reflector with its state", "a reflector that has a name only"},
}

// Each difference from controller-runtime's cache that the documentation lists exists, and the documentation lists all
// known differences.
// Guarantees: P1, P2, P3
func TestDifferences(t *testing.T) {
	for _, d := range differences {
		for _, impl := range caches {
			t.Run(d.item+"/"+impl.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, true)
					want := d.ours
					if impl.name == controllerRuntime {
						want = d.theirs
					}
					got := d.show(w, impl)
					start, open := strings.CutSuffix(want, "…")
					if got != want && !(open && strings.HasPrefix(got, start)) {
						t.Errorf("%q, want %q", got, want)
					}
					w.server.Close()
				})
			})
		}
	}
}

func TestDocumentationListsTheDifferences(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "# Differences from controller-runtime's cache\n")
	section, _, _ = strings.Cut(section, "\n// # ")
	var listed, tested []string
	for _, item := range regexp.MustCompile(`(?m)^//   - ([^.]*)\.`).FindAllStringSubmatch(section, -1) {
		listed = append(listed, item[1])
	}
	for _, d := range differences {
		tested = append(tested, d.item)
	}
	if !slices.Equal(listed, tested) {
		t.Errorf("doc.go lists %q\nwith a test: %q", listed, tested)
	}
}

// with runs do with a cache that has started, and stops it.
func (w *world) with(impl namedCache, opts cache.Options, do func(c cache.Cache) string) string {
	w.Helper()
	c := impl.create(w, opts)
	stop := w.start(c)
	defer stop()
	return do(c)
}

// soon is long enough for everything that does not wait for a period of minutes.
func (w *world) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.Context(), 2*time.Minute)
}

// kindsOf returns the kinds of the events that r has.
func (r recorder) kindsOf() string {
	synctest.Wait()
	var kinds []string
	for {
		select {
		case e := <-r.events:
			kind, rest, _ := strings.Cut(e, " ")
			if strings.HasPrefix(rest, "missed") {
				kind += " missed"
			}
			kinds = append(kinds, kind)
		default:
			return strings.Join(kinds, ", ")
		}
	}
}

// outcome names an error.
func outcome(err error) string {
	switch {
	case err == nil:
		return "success"
	case errors.As(err, new(*informer.DecodeError)):
		return "a DecodeError"
	case apierrors.IsTimeout(err) && strings.Contains(err.Error(), "no rights"):
		return "a timeout that says why"
	case apierrors.IsTimeout(err):
		return "a timeout"
	case apierrors.IsForbidden(err):
		return "Forbidden"
	case apierrors.IsNotFound(err):
		return "NotFound"
	}
	return err.Error()
}

func showOrder(w *world, impl namedCache) string {
	for i := range 30 {
		w.pod(fmt.Sprintf("n%d", i%3), fmt.Sprint(i))
	}
	return w.with(impl, cache.Options{}, func(c cache.Cache) string {
		for range 10 {
			if names := w.names(c); len(names) != 30 {
				return fmt.Sprintf("%d pods", len(names))
			} else if !slices.IsSorted(names) {
				return "any order"
			}
		}
		return "ordered"
	})
}

func showFirstList(w *world, impl namedCache) string {
	w.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rights"))})
	return w.with(impl, cache.Options{}, func(c cache.Cache) string {
		ctx, cancel := w.soon()
		defer cancel()
		_, err := c.GetInformer(ctx, &corev1.Pod{})
		return outcome(err)
	})
}

func showRefusedRead(w *world, impl namedCache) string {
	w.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rights"))})
	return w.with(impl, cache.Options{}, func(c cache.Cache) string {
		ctx, cancel := w.soon()
		defer cancel()
		return outcome(c.List(ctx, &corev1.PodList{}))
	})
}

// afterOutage returns the events of an outage, after which the watch cannot resume.
func (w *world) afterOutage(impl namedCache, meanwhile func()) string {
	w.pod("a", "x")
	return w.with(impl, cache.Options{}, func(c cache.Cache) string {
		events := w.events(w.informerOf(c))
		<-time.After(time.Minute)
		if first := events.kindsOf(); first != "add" {
			w.Errorf("the first events are %s", first)
		}
		end := w.server.Inject(informertest.Fault{Error: apierrors.NewServiceUnavailable("an outage")})
		w.server.EndWatches()
		<-time.After(time.Second)
		meanwhile()
		w.server.Compact()
		end()
		<-time.After(5 * time.Minute)
		return events.kindsOf()
	})
}

func showRecreated(w *world, impl namedCache) string {
	return w.afterOutage(impl, func() {
		w.delete("a", "x")
		w.pod("a", "x")
	})
}

func showRelist(w *world, impl namedCache) string {
	return w.afterOutage(impl, func() {
		if _, err := w.nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
			w.Fatal(err)
		}
		w.pod("b", "x") // the version of the watch is older than the compaction
		w.delete("b", "x")
	})
}

// readsOfOneBad reads the pods a/x and a/y, and returns the results. The cache can hold a/x, and not a/y.
func (w *world) readsOfOneBad(impl namedCache, opts cache.Options) string {
	return w.with(impl, opts, func(c cache.Cache) string {
		ctx, cancel := w.soon()
		defer cancel()
		var list corev1.PodList
		err := c.List(ctx, &list)
		ctx, cancel = w.soon()
		defer cancel()
		return fmt.Sprintf("%d pods: %s, get: %s", len(list.Items), outcome(err),
			outcome(c.Get(ctx, client.ObjectKey{Namespace: "a", Name: "y"}, &corev1.Pod{})))
	})
}

func showUndecodable(w *world, impl namedCache) string {
	w.pod("a", "x")
	w.pod("a", "y")
	w.server.Inject(informertest.Fault{Corrupt: []informer.Key{{Namespace: "a", Name: "y"}}})
	return w.readsOfOneBad(impl, cache.Options{})
}

func showFailingTransform(w *world, impl namedCache) string {
	w.pod("a", "x")
	w.pod("a", "y")
	return w.readsOfOneBad(impl, cache.Options{DefaultTransform: func(obj any) (any, error) {
		if obj.(client.Object).GetName() == "y" {
			return nil, errors.New("refused")
		}
		return obj, nil
	}})
}

func showRemovedResource(w *world, impl namedCache) string {
	w.pod("a", "x")
	return w.with(impl, cache.Options{}, func(c cache.Cache) string {
		events := w.events(w.informerOf(c))
		<-events.events
		w.pods.Unregister()
		<-time.After(10 * time.Minute)
		return fmt.Sprintf("%d pods, events: %s", len(w.names(c)), events.kindsOf())
	})
}

func showRenamingTransform(w *world, impl namedCache) string {
	w.pod("a", "x")
	opts := cache.Options{DefaultTransform: func(obj any) (any, error) {
		obj.(client.Object).SetName("new")
		return obj, nil
	}}
	return w.with(impl, opts, func(c cache.Cache) string {
		get := func(name string) string {
			return outcome(c.Get(w.Context(), client.ObjectKey{Namespace: "a", Name: name}, &corev1.Pod{}))
		}
		return "get of the new name: " + get("new") + ", of the old name: " + get("x")
	})
}

// showLateUpdate shows an update after the first resync period of the informer, for a handler without resync.
func showLateUpdate(w *world, impl namedCache) string {
	w.pod("a", "x")
	return w.with(impl, cache.Options{DefaultTransform: dropIdentity}, func(c cache.Cache) string {
		r := recorder{make(chan string, 100)}
		if _, err := w.informerOf(c).AddEventHandlerWithResyncPeriod(r.handler(), 0); err != nil {
			w.Fatal(err)
		}
		<-r.events
		<-time.After(12 * time.Hour)
		w.relabel("a", "x", "v", "1")
		<-time.After(time.Minute)
		return r.kindsOf()
	})
}

func showTimeout(w *world, impl namedCache) string {
	config := w.config()
	config.Timeout = time.Minute
	c, err := impl.new(config, cache.Options{Mapper: mapper()})
	if err != nil {
		w.Fatal(err)
	}
	stop := w.start(c)
	defer stop()
	w.informerOf(c)
	w.server.ResetRequests()
	<-time.After(20 * time.Minute)
	switch n := len(w.server.Requests()); {
	case n >= 15:
		return "they end watches"
	case n > 5:
		return fmt.Sprintf("%d requests", n)
	}
	return "they end no watch"
}

// showRedirect shows a redirect to another host, which answers as the server does.
func showRedirect(w *world, impl namedCache) string {
	next := w.transportOf()
	elsewhere := transportFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "elsewhere" {
			r = r.Clone(r.Context())
			r.URL.Host, r.Host = "in-memory", ""
			return next.RoundTrip(r)
		}
		return &http.Response{
			StatusCode: http.StatusTemporaryRedirect,
			Header:     http.Header{"Location": {"http://elsewhere" + r.URL.RequestURI()}},
			Body:       http.NoBody,
			Request:    r,
		}, nil
	})
	return w.with(impl, cache.Options{HTTPClient: &http.Client{Transport: elsewhere}}, func(c cache.Cache) string {
		ctx, cancel := w.soon()
		defer cancel()
		return outcome(c.List(ctx, &corev1.PodList{}))
	})
}

func showBookmarks(w *world, impl namedCache) string {
	no := false
	_, err := impl.new(w.config(), cache.Options{Mapper: mapper(), DefaultEnableWatchBookmarks: &no})
	return fmt.Sprint(err)
}

// showNamespaces shows the type of the informer of several namespaces.
func showNamespaces(w *world, impl namedCache) string {
	opts := cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}
	return w.with(impl, opts, func(c cache.Cache) string {
		if _, ok := w.informerOf(c).(toolscache.SharedIndexInformer); ok {
			return "a SharedIndexInformer"
		}
		return "another type"
	})
}

func showWrite(w *world, impl namedCache) string {
	return w.with(impl, cache.Options{}, func(c cache.Cache) string {
		store := indexerOf(w.informerOf(c))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "added"}}
		errs := []string{}
		for _, err := range []error{store.Add(pod), store.Update(pod), store.Delete(pod), store.Replace([]any{pod}, "")} {
			errs = append(errs, fmt.Sprint(err))
		}
		return strings.Join(slices.Compact(errs), ", ") // each says the same
	})
}

func showFieldIndex(w *world, impl namedCache) string {
	c := impl.create(w, cache.Options{})
	if err := c.IndexField(w.Context(), &corev1.Pod{}, "node", func(client.Object) []string { return nil }); err != nil {
		w.Fatal(err)
	}
	return fmt.Sprint(slices.Sorted(maps.Keys(indexerOf(w.informerOf(c)).GetIndexers())))
}

func showWatchError(w *world, impl namedCache) string {
	w.pod("a", "x")
	reflectors := make(chan *toolscache.Reflector, 100)
	opts := cache.Options{DefaultWatchErrorHandler: func(_ context.Context, r *toolscache.Reflector, _ error) { reflectors <- r }}
	return w.with(impl, opts, func(c cache.Cache) string {
		w.informerOf(c)
		<-time.After(time.Minute)
		w.server.Inject(informertest.Fault{Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rights"))})
		w.server.EndWatches()
		r := <-reflectors
		switch {
		case r.LastSyncResourceVersion() != "":
			return "a reflector with its state"
		case r.Name() != "" && r.TypeDescription() != "":
			return "a reflector that has a name only"
		}
		return "a reflector without name"
	})
}
