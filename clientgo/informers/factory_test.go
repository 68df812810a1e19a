package informers_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/informers"
	"github.com/typedinformer/informer/clientgo/internal/world"
)

// replaced reports whether i is an informer of this module.
func replaced(i clientcache.SharedIndexInformer) bool {
	return reflect.TypeOf(inner(i)).String() == "*cache.shared"
}

// inner returns the informer within the typed wrapper that the accessors of client-go return.
func inner(i clientcache.SharedIndexInformer) clientcache.SharedIndexInformer {
	v := reflect.Indirect(reflect.ValueOf(i))
	if wrapped := v.FieldByName("SharedIndexInformer"); wrapped.IsValid() {
		return wrapped.Interface().(clientcache.SharedIndexInformer)
	}
	return i
}

// Every informer of every group of client-go 0.36 is one of this module, with client-go's indexers. The groups that
// 0.37 adds have client-go's own informers.
// Guarantees: P1
func TestEveryInformerIsReplaced(t *testing.T) {
	f := informers.NewSharedInformerFactory(world.New(t).Clientset(), 0)
	count, theirs, want := 0, map[string]bool{}, map[string]bool{}
	factory := reflect.TypeFor[informers.SharedInformerFactory]()
	for i := range factory.NumMethod() {
		group := factory.Method(i)
		if group.Type.NumIn() != 0 || group.Type.NumOut() != 1 || group.Type.Out(0).Name() != "Interface" {
			continue // not a group
		}
		for _, version := range results(reflect.ValueOf(f).MethodByName(group.Name).Call(nil)[0]) {
			for _, kind := range results(version) {
				i := kind.MethodByName("Informer").Call(nil)[0].Interface().(clientcache.SharedIndexInformer)
				if !replaced(i) {
					theirs[group.Name] = true
				}
				if _, ok := i.GetIndexer().GetIndexers()[clientcache.NamespaceIndex]; !ok {
					t.Errorf("%s %v has no index of namespaces", group.Name, kind.Type())
				}
				count++
			}
		}
	}
	if _, newer := factory.MethodByName("Lifecycle"); newer {
		want["Lifecycle"] = true
	}
	if !maps.Equal(theirs, want) {
		t.Errorf("groups with informers of client-go: %v, want %v", theirs, want)
	}
	if count < 60 {
		t.Errorf("%d informers", count)
	}
}

// This package declares each method of client-go's factory that is not a group: none reaches only client-go's factory.
// Guarantees: P1
func TestEveryMethodIsOurs(t *testing.T) {
	var got []string
	factory := reflect.TypeFor[informers.SharedInformerFactory]()
	for i := range factory.NumMethod() {
		if m := factory.Method(i); m.Type.NumOut() != 1 || m.Type.Out(0).Name() != "Interface" {
			got = append(got, m.Name)
		}
	}
	want := []string{"ForResource", "InformerFor", "InformerName", "Shutdown", "Start", "StartWithContext",
		"WaitForCacheSync", "WaitForCacheSyncWithContext"}
	if !slices.Equal(got, want) {
		t.Errorf("client-go's factory has the methods %q, and this package declares %q", got, want)
	}
}

// results returns the results of the methods of v without arguments.
func results(v reflect.Value) (all []reflect.Value) {
	for i := range v.NumMethod() {
		if m := v.Method(i); m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
			all = append(all, m.Call(nil)[0])
		}
	}
	return all
}

// Namespace, selectors and limit of the options apply to the requests.
// Guarantees: P1
func TestTweaks(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "two")
	w.Pod("b", "one")
	f := informers.NewFilteredSharedInformerFactory(w.Clientset(), 0, "a", func(o *metav1.ListOptions) {
		o.LabelSelector, o.FieldSelector = "name=one", "metadata.name!=none"
	})
	lister := f.Core().V1().Pods().Lister()
	start(t, f)
	pods, err := lister.List(labels.Everything())
	if err != nil || len(pods) != 1 || pods[0].Name != "one" || pods[0].Namespace != "a" {
		t.Errorf("pods: %v, %v", pods, err)
	}
	for _, req := range w.Server.Requests() {
		if req.Namespace != "a" || req.Query.Get("labelSelector") != "name=one" ||
			req.Query.Get("fieldSelector") != "metadata.name!=none" {
			t.Errorf("request %s?%s", req.Path, req.Query.Encode())
		}
	}
}

// InformerFor replaces the informer that a hand-written function returns, with its indexers and selectors.
// Guarantees: P1
func TestHandWrittenFunction(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "two")
	f := informers.NewSharedInformerFactory(w.Clientset(), 0)
	i := f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
		byNode := clientcache.Indexers{"node": func(obj any) ([]string, error) {
			return []string{obj.(*corev1.Pod).Spec.NodeName}, nil
		}}
		return coreinformers.NewFilteredPodInformer(client, "a", resync, byNode, func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=one"
		})
	})
	if !replaced(i) {
		t.Errorf("%T", i)
	}
	if i != inner(f.Core().V1().Pods().Informer()) {
		t.Error("the accessor returns another informer")
	}
	start(t, f)
	pods, err := i.GetIndexer().ByIndex("node", "node-one")
	if err != nil || len(pods) != 1 || len(i.GetStore().List()) != 1 {
		t.Errorf("pods on the node: %v, %v; all: %v", pods, err, i.GetStore().ListKeys())
	}
}

// A function whose informer cannot be replaced gets client-go's own informer, with the settings that it made.
// Guarantees: P1
func TestFunctionsThatCannotBeReplaced(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	other, pod := w.Clientset(), w.Pod("a", "two")
	for name, newFunc := range map[string]func(kubernetes.Interface, time.Duration) clientcache.SharedIndexInformer{
		"Transform": func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			i := coreinformers.NewPodInformer(client, "", resync, clientcache.Indexers{})
			if err := i.SetTransform(rename); err != nil {
				t.Error(err)
			}
			return i
		},
		"WatchErrorHandler": func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			i := coreinformers.NewPodInformer(client, "", resync, clientcache.Indexers{})
			if err := i.SetWatchErrorHandler(clientcache.WatchErrorHandler(func(*clientcache.Reflector, error) {})); err != nil {
				t.Error(err)
			}
			return i
		},
		"Handler": func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			i := coreinformers.NewPodInformer(client, "", resync, clientcache.Indexers{})
			if _, err := i.AddEventHandler(&world.Recorder{}); err != nil {
				t.Error(err)
			}
			return i
		},
		"Wrapper": func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			return wrapper{coreinformers.NewPodInformer(client, "", resync, clientcache.Indexers{})}
		},
		"OtherClient": func(_ kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			i := coreinformers.NewPodInformer(other, "", resync, clientcache.Indexers{})
			_ = i.SetTransform(nil)
			return i
		},
		"NoRequests": func(_ kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			return clientcache.NewSharedIndexInformer(fixed{pod}, &corev1.Pod{}, resync,
				clientcache.Indexers{})
		},
		"Failing": func(_ kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
			return clientcache.NewSharedIndexInformer(&failingOnce{fixed: fixed{pod}}, &corev1.Pod{},
				resync, clientcache.Indexers{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := informers.NewSharedInformerFactory(w.Clientset(), 0)
			i := f.InformerFor(&corev1.Pod{}, newFunc)
			if replaced(i) {
				t.Errorf("%T", i)
			}
			start(t, f)
			for _, obj := range i.GetStore().List() {
				if pod := obj.(*corev1.Pod); name == "Transform" && pod.Labels["transformed"] != "yes" {
					t.Errorf("the transform was not called: %v", pod)
				}
			}
			if len(i.GetStore().List()) == 0 {
				t.Error("the store is empty")
			}
		})
	}
}

// A transform that a function sets is left out if it only drops managedFields, and DropManagedFields does the same.
// Guarantees: P1
func TestFunctionThatDropsManagedFields(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	for name, c := range map[string]struct {
		transform clientcache.TransformFunc
		options   informers.Options
		replaced  bool
	}{
		"Allowed":    {drop, informers.Options{DropManagedFields: true, Layout: new(informer.LayoutShared)}, true},
		"NotAllowed": {drop, informers.Options{}, false},
		"Other": {func(obj any) (any, error) {
			obj.(*corev1.Pod).Spec.Containers[0].Env = nil
			return drop(obj)
		}, informers.Options{DropManagedFields: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := informers.NewSharedInformerFactoryWithOptions(w.Clientset(), 0, informers.WithStorage(c.options))
			i := f.InformerFor(&corev1.Pod{}, func(client kubernetes.Interface, resync time.Duration) clientcache.SharedIndexInformer {
				i := coreinformers.NewPodInformer(client, "", resync, clientcache.Indexers{})
				if err := i.SetTransform(c.transform); err != nil {
					t.Error(err)
				}
				return i
			})
			if replaced(i) != c.replaced {
				t.Errorf("%T", i)
			}
			start(t, f)
			for _, obj := range i.GetStore().List() {
				pod := obj.(*corev1.Pod)
				if env := pod.Spec.Containers[0].Env; len(pod.ManagedFields) > 0 || (env == nil) != (name == "Other") {
					t.Errorf("managedFields %v, env %v", pod.ManagedFields, env)
				}
			}
		})
	}
}

func drop(obj any) (any, error) {
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj, nil
}

func rename(obj any) (any, error) {
	obj.(*corev1.Pod).Labels = map[string]string{"transformed": "yes"}
	return obj, nil
}

// wrapper is an informer of a program around one of client-go.
type wrapper struct {
	clientcache.SharedIndexInformer
}

// fixed is a ListerWatcher with one pod.
type fixed struct{ pod *corev1.Pod }

func (f fixed) List(metav1.ListOptions) (runtime.Object, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{*f.pod}}, nil
}

func (fixed) Watch(metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

func (fixed) IsWatchListSemanticsUnSupported() bool { return true }

// failingOnce is a fixed whose first list fails.
type failingOnce struct {
	fixed
	failed bool
}

func (f *failingOnce) List(o metav1.ListOptions) (runtime.Object, error) {
	if f.failed {
		return f.fixed.List(o)
	}
	f.failed = true
	return nil, errors.New("no list")
}

// ForResource returns the informer that the accessors return, and an error for a resource that client-go does not have.
// Guarantees: P1
func TestForResource(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	f := informers.NewSharedInformerFactoryWithOptions(w.Clientset(), 0, informers.WithNamespace("a"))
	generic, err := f.ForResource(world.Pods)
	if err != nil {
		t.Fatal(err)
	}
	if generic.Informer() != inner(f.Core().V1().Pods().Informer()) || !replaced(generic.Informer()) {
		t.Errorf("%T", generic.Informer())
	}
	start(t, f)
	if obj, err := generic.Lister().ByNamespace("a").Get("one"); err != nil || world.Describe(obj) != "a/one@2" {
		t.Errorf("Get: %v, %v", obj, err)
	}
	if _, err := f.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "wombats"}); err == nil {
		t.Error("no error for an unknown resource")
	}
}

// The resync period of a type overrides the default one. A handler's own period cannot be shorter than that of an
// informer that runs, and a factory without resyncs does none.
// Guarantees: P1
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		w.Pod("a", "one")
		f := informers.NewSharedInformerFactoryWithOptions(w.Clientset(), 0,
			informers.WithCustomResyncConfig(map[metav1.Object]time.Duration{&corev1.Pod{}: time.Hour}))
		pods, deployments := f.Core().V1().Pods().Informer(), f.Apps().V1().Deployments().Informer()
		if _, err := w.Deployments.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "d"}}); err != nil {
			t.Fatal(err)
		}
		var hourly, late, never world.Recorder
		add := func(i clientcache.SharedIndexInformer, h *world.Recorder, period time.Duration) {
			if _, err := i.AddEventHandlerWithResyncPeriod(h, period); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pods.AddEventHandler(&hourly); err != nil {
			t.Fatal(err)
		}
		add(deployments, &never, time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		defer f.Shutdown()
		defer cancel()
		f.StartWithContext(ctx)
		f.WaitForCacheSyncWithContext(t.Context())
		add(pods, &late, time.Minute)
		hourly.Next(1)
		late.Next(1)
		never.Next(1)
		began := time.Now()
		hourly.Next(1)
		late.Next(1)
		if took := time.Since(began); took < time.Hour || took > 90*time.Minute {
			t.Errorf("resync after %v", took)
		}
		if events := never.Waiting(); len(events) > 0 {
			t.Errorf("events without a resync: %q", events)
		}
	})
}

// A transform of the factory may drop what identifies an object, and return another type. Readers, indexes and handlers
// receive what it returned.
// Guarantees: P1, P2
func TestTransform(t *testing.T) {
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) {
			w := world.New(t)
			w.Pod("a", "one")
			w.Pod("a", "two")
			f := informers.NewSharedInformerFactoryWithOptions(w.Clientset(), 0, informers.WithStorage(storage),
				informers.WithTransform(func(obj any) (any, error) {
					pod := obj.(*corev1.Pod)
					if pod.Name == "one" {
						return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one",
							Labels: map[string]string{"made": "here"}}}, nil
					}
					pod.UID, pod.ResourceVersion, pod.Spec = "", "", corev1.PodSpec{}
					return pod, nil
				}))
			i := f.Core().V1().Pods().Informer()
			var events world.Recorder
			if _, err := i.AddEventHandler(&events); err != nil {
				t.Fatal(err)
			}
			if err := i.AddIndexers(clientcache.Indexers{"made": func(obj any) ([]string, error) {
				if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
					return []string{meta.Labels["made"]}, nil
				}
				return nil, nil
			}}); err != nil {
				t.Fatal(err)
			}
			start(t, f)
			initial := events.Next(2)
			slices.Sort(initial)
			if want := []string{"initial a/one@", "initial a/two@"}; !slices.Equal(initial, want) {
				t.Errorf("events %q", initial)
			}
			w.Relabel("a", "two", "x", "y")
			w.Relabel("a", "one", "x", "y")
			w.Delete("a", "two")
			want := []string{"update a/two@ to a/two@", "update a/one@ to a/one@", "delete a/two@"}
			if got := events.Next(3); !slices.Equal(got, want) {
				t.Errorf("events %q", got)
			}
			obj, exists, err := i.GetStore().GetByKey("a/one")
			if meta, ok := obj.(*metav1.PartialObjectMetadata); !exists || err != nil || !ok || meta.Labels["made"] != "here" {
				t.Errorf("Get: %v %t %v", obj, exists, err)
			}
			if list, err := i.GetIndexer().ByIndex("made", "here"); len(list) != 1 || err != nil {
				t.Errorf("ByIndex: %v %v", list, err)
			}
		})
	}
}
