package crcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
)

// New rejects unsupported options, and names the field.
func TestWrongOptionsAreNamed(t *testing.T) {
	no := ptr(false)
	for _, test := range []struct {
		want    string
		opts    cache.Options
		options crcache.Options
	}{
		{want: "cache.Options.DefaultEnableWatchBookmarks", opts: cache.Options{DefaultEnableWatchBookmarks: no}},
		{want: `cache.Options.DefaultNamespaces["a"].EnableWatchBookmarks`, opts: cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {EnableWatchBookmarks: no}}}},
		{want: "cache.Options.ByObject[*v1.Pod].EnableWatchBookmarks", opts: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {EnableWatchBookmarks: no}}}},
		{want: `cache.Options.ByObject[*v1.Pod].Namespaces["a"].EnableWatchBookmarks`, opts: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {EnableWatchBookmarks: no}}}}}},
		{want: "cache.Options.ByObject[*v1.Node].Namespaces", opts: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Namespaces: map[string]cache.Config{}}}}},
		{want: "cache.Options.ByObject[*v1.Service]", opts: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Service{}: {}}}},
		{want: "crcache.Options.Layout is Layout(3)", options: crcache.Options{Layout: informer.LayoutCompact + 1}},
		{want: "crcache.Options.AuditEvery", options: crcache.Options{AuditEvery: -1}},
		{want: "crcache.Options.ByObject[*v1.Pod].AuditEvery", options: crcache.Options{ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {AuditEvery: ptr(-time.Hour)}}}},
		{want: "crcache.Options.ByObject[*v1.Pod].Layout is Layout(255)", options: crcache.Options{ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {Layout: new(informer.Layout(255))}}}},
		{want: "crcache.Options.ByObject[*crcache_test.unknown]", options: crcache.Options{ByObject: map[client.Object]crcache.ByObject{&unknown{}: {}}}},
	} {
		test.opts.Mapper = mapper()
		_, err := crcache.New(test.options)(&rest.Config{Host: "localhost"}, test.opts)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want an error that names %s", err, test.want)
		}
	}
}

// unknown is in no scheme.
type unknown struct{ corev1.Pod }

// Each option that selects objects has the effect of controller-runtime's cache, and more specific options prevail.
func TestOptionsSelectObjects(t *testing.T) {
	label := func(name string) labels.Selector { return labels.SelectorFromSet(labels.Set{"name": name}) }
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	for _, test := range []struct {
		name string
		opts cache.Options
		want []string
	}{
		{"none", cache.Options{}, []string{"a/x", "a/y", "b/x", "c/z"}},
		{"DefaultLabelSelector", cache.Options{DefaultLabelSelector: label("x")}, []string{"a/x", "b/x"}},
		{"DefaultFieldSelector", cache.Options{DefaultFieldSelector: named("y")}, []string{"a/y"}},
		{"DefaultFieldSelector on a namespace", cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", "b")}, []string{"b/x"}},
		{"DefaultNamespaces", cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "c": {LabelSelector: label("none")}}}, []string{"a/x", "a/y"}},
		{"all other namespaces", cache.Options{DefaultNamespaces: map[string]cache.Config{cache.AllNamespaces: {}, "a": {FieldSelector: named("y")}}}, []string{"b/x", "c/z", "a/y"}},
		{"ByObject.Label", cache.Options{
			DefaultLabelSelector: label("x"),
			ByObject:             map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.Everything(), Field: named("z")}},
		}, []string{"c/z"}},
		{"ByObject.Namespaces", cache.Options{
			DefaultNamespaces: map[string]cache.Config{"c": {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: label("x"), Namespaces: map[string]cache.Config{"a": {}, "b": {}}}},
		}, []string{"a/x", "b/x"}},
		{"ByObject.Namespaces with a default of the namespace", cache.Options{
			DefaultLabelSelector: label("x"),
			DefaultNamespaces:    map[string]cache.Config{"a": {LabelSelector: label("y")}},
			ByObject:             map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{"a": {}, "b": {}}}},
		}, []string{"a/y", "b/x"}},
		{"all other namespaces with a selector", cache.Options{DefaultNamespaces: map[string]cache.Config{cache.AllNamespaces: {FieldSelector: named("x")}, "a": {}}}, []string{"b/x", "a/x", "a/y"}},
		{"ByObject without namespaces", cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {FieldSelector: named("y")}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {}},
		}, []string{"a/y"}},
		{"ByObject with all namespaces", cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {}},
			ByObject:          map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{}}},
		}, []string{"a/x", "a/y", "b/x", "c/z"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			for _, key := range []string{"a/x", "a/y", "b/x", "c/z"} {
				namespace, name, _ := strings.Cut(key, "/")
				w.pod(namespace, name)
			}
			c := w.started(test.opts, crcache.Options{})
			var all []string
			for i, name := range w.names(c) {
				if all = append(all, name); i >= len(test.want) {
					break
				}
			}
			// The order of configured namespaces is theirs; all others, "", come first.
			if strings.Join(all, " ") != strings.Join(test.want, " ") {
				t.Errorf("%v, want %v", all, test.want)
			}
		})
	}
}

// A kind with options of its own has the default of each option that it does not set.
func TestByObjectKeepsOtherDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("a", "x")
		c := w.cache(cache.Options{
			DefaultUnsafeDisableDeepCopy: ptr(true),
			SyncPeriod:                   ptr(time.Minute),
			ByObject:                     map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: labels.Everything()}},
		}, crcache.Options{})
		stop := w.start(c)
		updates := 0
		if _, err := w.informerOf(c).AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { updates++ }}); err != nil {
			t.Fatal(err)
		}
		var a, b corev1.Pod
		for _, pod := range []*corev1.Pod{&a, &b} {
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, pod); err != nil {
				t.Fatal(err)
			}
		}
		if &a.Spec.Containers[0] != &b.Spec.Containers[0] {
			t.Error("DefaultUnsafeDisableDeepCopy does not apply")
		}
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		if updates < 3 {
			t.Errorf("%d updates in five periods", updates)
		}
		stop()
		w.server.Close()
	})
}

// Reads return copies, unless the configuration or the call disables that.
func TestUnsafeDisableDeepCopy(t *testing.T) {
	yes, no := ptr(true), ptr(false)
	byObject := func(settings cache.ByObject) cache.Options {
		return cache.Options{DefaultUnsafeDisableDeepCopy: yes, ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: settings}}
	}
	for _, test := range []struct {
		name   string
		opts   cache.Options
		call   *bool
		shared bool
	}{
		{"default", cache.Options{}, nil, false},
		{"by call", cache.Options{}, yes, true},
		{"DefaultUnsafeDisableDeepCopy", cache.Options{DefaultUnsafeDisableDeepCopy: yes}, nil, true},
		{"ByObject", byObject(cache.ByObject{UnsafeDisableDeepCopy: no}), nil, false},
		{"namespace", byObject(cache.ByObject{Namespaces: map[string]cache.Config{"a": {UnsafeDisableDeepCopy: no}}}), nil, false},
		{"not by call", cache.Options{DefaultUnsafeDisableDeepCopy: yes}, no, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.pod("a", "x")
			c := w.started(test.opts, crcache.Options{})
			held, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "x"})
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(held), &got, &client.GetOptions{UnsafeDisableDeepCopy: test.call}); err != nil {
				t.Fatal(err)
			}
			var list corev1.PodList
			if err := c.List(t.Context(), &list, &client.ListOptions{UnsafeDisableDeepCopy: test.call}); err != nil || len(list.Items) != 1 {
				t.Fatal(err, len(list.Items))
			}
			for _, pod := range []corev1.Pod{got, list.Items[0]} {
				if shared := &pod.Spec.Containers[0] == &held.Spec.Containers[0]; shared != test.shared {
					t.Errorf("shared: %v, want %v", shared, test.shared)
				}
				if hasKind := pod.Kind == "Pod"; hasKind == test.shared {
					t.Errorf("kind %q", pod.Kind)
				}
			}
		})
	}
}

// Caches of two clusters with the same Parts share equal parts of objects; others do not.
func TestPartsOfTwoClusters(t *testing.T) {
	for _, common := range []bool{false, true} {
		var parts *informer.Parts
		if common {
			parts = new(informer.Parts)
		}
		var first [2]*corev1.Container
		for i := range first {
			w := newWorld(t, false)
			w.pod("a", "x")
			held, err := crcache.Get[*corev1.Pod](t.Context(), w.started(cache.Options{}, crcache.Options{Parts: parts}),
				client.ObjectKey{Namespace: "a", Name: "x"})
			if err != nil {
				t.Fatal(err)
			}
			first[i] = &held.Spec.Containers[0]
		}
		if shared := first[0] == first[1]; shared != common {
			t.Errorf("with the same Parts %v, containers are shared: %v", common, shared)
		}
	}
}

// SyncPeriod and the resync period of a handler repeat all objects. As in client-go, a handler that is added to a
// running informer cannot shorten the period.
func TestSyncPeriod(t *testing.T) {
	for _, test := range []struct {
		name string
		opts cache.Options
		own  *time.Duration
		late bool          // the handler is added after the start
		want time.Duration // zero for never
	}{
		{"default", cache.Options{}, nil, false, 10 * time.Hour},
		{"SyncPeriod", cache.Options{SyncPeriod: ptr(time.Minute)}, nil, true, time.Minute},
		{"ByObject", cache.Options{SyncPeriod: ptr(time.Hour), ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {SyncPeriod: ptr(time.Minute)}}}, nil, true, time.Minute},
		{"namespace", cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {SyncPeriod: ptr(time.Minute)}}}, nil, true, time.Minute},
		{"of the handler", cache.Options{}, ptr(2 * time.Minute), false, 2 * time.Minute},
		{"of a late handler", cache.Options{}, ptr(2 * time.Minute), true, 10 * time.Hour},
		{"longer, of a late handler", cache.Options{}, ptr(12 * time.Hour), true, 12 * time.Hour},
		{"too short", cache.Options{}, ptr(time.Millisecond), false, time.Second},
		{"never", cache.Options{}, ptr(time.Duration(0)), false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, true)
				w.pod("a", "x")
				c := w.cache(test.opts, crcache.Options{})
				i := w.informerOf(c)
				stop := func() {}
				if test.late {
					stop = w.start(c)
				}
				start := time.Now()
				repeated := make(chan time.Duration, 1000)
				_, err := i.AddEventHandlerWithOptions(toolscache.ResourceEventHandlerFuncs{
					UpdateFunc: func(old, new any) {
						if old != new {
							t.Error("a resync changes an object")
						}
						select {
						case repeated <- time.Since(start):
						default:
						}
					},
				}, toolscache.HandlerOptions{ResyncPeriod: test.own})
				if err != nil {
					t.Fatal(err)
				}
				if !test.late {
					stop = w.start(c)
				}
				select {
				case after := <-repeated:
					if test.want == 0 || after < test.want || after > test.want*12/10 {
						t.Errorf("repeated after %v, want %v", after, test.want)
					}
				case <-time.After(24 * time.Hour):
					if test.want != 0 {
						t.Errorf("not repeated, want %v", test.want)
					}
				}
				stop()
				w.server.Close()
			})
		})
	}
}

func TestReaderFailOnMissingInformer(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c := w.started(cache.Options{ReaderFailOnMissingInformer: true}, crcache.Options{})
	key := client.ObjectKey{Namespace: "a", Name: "x"}
	_, typed := crcache.Get[*corev1.Pod](t.Context(), c, key)
	for _, err := range []error{c.Get(t.Context(), key, &corev1.Pod{}), c.List(t.Context(), &corev1.PodList{}), typed} {
		if missing := (*cache.ErrResourceNotCached)(nil); !errors.As(err, &missing) || missing.GVK.Kind != "Pod" {
			t.Errorf("%v", err)
		}
	}
	w.informerOf(c)
	w.wantNames(c, []string{"a/x"})
}

// Without a mapper and a scheme, the cache uses the server's discovery and client-go's scheme.
func TestDefaultMapperAndScheme(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c, err := crcache.New(crcache.Options{})(w.config(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.start(c)
	w.wantNames(c, []string{"a/x"})
}

// A scheme that lacks a type is an error of each call with it.
func TestScheme(t *testing.T) {
	w := newWorld(t, false)
	c := w.started(cache.Options{Scheme: runtime.NewScheme()}, crcache.Options{})
	if err := c.List(t.Context(), &corev1.PodList{}); !runtime.IsNotRegisteredError(err) {
		t.Error(err)
	}
	if _, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{}); !runtime.IsNotRegisteredError(err) {
		t.Error(err)
	}
}

func TestDefaultWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		remove := w.server.Inject(informertest.Fault{Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no"))})
		failures := make(chan error, 100)
		c := w.cache(cache.Options{DefaultWatchErrorHandler: func(ctx context.Context, r *toolscache.Reflector, err error) {
			toolscache.DefaultWatchErrorHandler(ctx, r, err) // needs a reflector
			failures <- err
		}}, crcache.Options{})
		stop := w.start(c)
		if _, err := c.GetInformer(t.Context(), &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		if err := <-failures; !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		remove()
		w.wantNames(c, nil)
		stop()
		w.server.Close()
	})
}

// AuditEvery audits each informer in each period, and repairs what a watch has lost.
func TestAuditEvery(t *testing.T) {
	for _, every := range []time.Duration{0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, true)
			w.pod("a", "x")
			failures := make(chan error, 100)
			c := w.cache(cache.Options{
				DefaultNamespaces:        map[string]cache.Config{"a": {}, "b": {}},
				DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) { failures <- err },
			}, crcache.Options{AuditEvery: every, ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {Layout: new(informer.LayoutCompact)}}})
			stop := w.start(c)
			pods := w.informerOf(c)
			<-time.After(10 * time.Hour)
			for _, s := range crcache.Audits(pods) {
				if every == 0 && s.Equal != 0 || every != 0 && (s.Equal < 9 || s.Equal > 11) || s.Different+s.Failed > 0 {
					t.Errorf("AuditEvery %v: %+v", every, s)
				}
			}
			end := w.server.Inject(informertest.Fault{Verb: "watch", Namespace: "a", LoseEvents: 1,
				Match: func(r informertest.Request) bool { return r.Query.Get("sendInitialEvents") == "" }})
			w.server.EndWatches()
			<-time.After(time.Minute)
			w.pod("a", "y")
			synctest.Wait()
			end()
			<-time.After(2 * time.Hour)
			want := []string{"a/x", "a/y"}
			if every == 0 {
				want = want[:1]
			}
			w.wantNames(c, want)
			var found *informer.AuditError
			for every != 0 && found == nil {
				select {
				case err := <-failures:
					errors.As(err, &found)
				default:
					t.Fatal("no difference was reported")
				}
			}
			stop()
			w.server.Close()
		})
	}
}

// The AuditEvery of a kind overrides that of all kinds, in both directions.
func TestAuditEveryOfAKind(t *testing.T) {
	for _, test := range []struct {
		all, pods time.Duration
	}{{0, time.Hour}, {time.Hour, 0}, {time.Hour, 2 * time.Hour}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, true)
			c := w.cache(cache.Options{}, crcache.Options{
				AuditEvery: test.all,
				ByObject:   map[client.Object]crcache.ByObject{&corev1.Pod{}: {AuditEvery: &test.pods}},
			})
			stop := w.start(c)
			pods := w.informerOf(c)
			nodes, err := c.GetInformer(t.Context(), &corev1.Node{})
			if err != nil {
				t.Fatal(err)
			}
			const long = 6 * time.Hour
			<-time.After(long)
			check := func(what string, i cache.Informer, every time.Duration) {
				t.Helper()
				least, most := 0, 0
				if every != 0 {
					least, most = int(long/every)*8/10, int(long/every)*12/10+1
				}
				for _, s := range crcache.Audits(i) {
					if n := int(s.Equal); n < least || n > most {
						t.Errorf("%v: %d audits of %s, want %d to %d", test, n, what, least, most)
					}
				}
			}
			check("pods", pods, test.pods)
			check("nodes", nodes, test.all)
			stop()
			w.server.Close()
		})
	}
}

// Each way to hold objects returns the same objects.
func TestStorage(t *testing.T) {
	for _, test := range []struct {
		name    string
		options crcache.Options
		managed bool
		shared  bool
	}{
		{"default", crcache.Options{}, true, true},
		{"Separate", crcache.Options{Layout: informer.LayoutSeparate}, true, false},
		{"Compact", crcache.Options{Layout: informer.LayoutCompact}, true, false},
		{"DropManagedFields", crcache.Options{DropManagedFields: true}, false, true},
		{"ByObject", crcache.Options{Layout: informer.LayoutCompact, ByObject: map[client.Object]crcache.ByObject{
			&corev1.Pod{}: {Layout: new(informer.LayoutShared), DropManagedFields: ptr(true)},
		}}, false, true},
		{"ByObject separate", crcache.Options{ByObject: map[client.Object]crcache.ByObject{
			&corev1.Pod{}: {Layout: new(informer.LayoutSeparate)},
		}}, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, false)
			const many = 200
			w.pod("a", "x")
			w.pod("b", "x")
			for i := range many {
				w.pod("many", fmt.Sprint(i))
				w.relabel("many", fmt.Sprint(i), "many", "true")
			}
			c := w.started(cache.Options{}, test.options)
			w.wantNames(c, []string{"a/x", "b/x"}, client.Limit(2))
			w.wantNames(c, []string{"b/x"}, client.InNamespace("b"), client.MatchingLabels{"name": "x"})
			pods, err := crcache.List[*corev1.Pod](t.Context(), c, client.MatchingLabels{"many": "true"})
			if err != nil || len(pods) != many {
				t.Fatal(len(pods), err)
			}
			if managed := len(pods[0].ManagedFields) > 0; managed != test.managed {
				t.Errorf("managedFields: %v, want %v", managed, test.managed)
			}
			different := map[*corev1.PodSecurityContext]bool{}
			for _, pod := range pods {
				different[pod.Spec.SecurityContext] = true
			}
			if shared := len(different) < many/2; shared != test.shared { // the decoder learns what is worth sharing
				t.Errorf("%d equal parts are %d values, want them shared: %v", many, len(different), test.shared)
			}
		})
	}
}
