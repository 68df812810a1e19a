package informertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	clientfeaturestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// told is a handler of client-go's informers that sends its events to a channel.
type told struct {
	lines chan string
}

func newTold() *told { return &told{make(chan string, 100)} }

func (r *told) note(format string, args ...any) { r.lines <- fmt.Sprintf(format, args...) }

func (r *told) OnAdd(obj any, initial bool) {
	r.note("add %s %v", obj.(metav1.Object).GetName(), initial)
}

func (r *told) OnUpdate(old, obj any) {
	r.note("update %s %s->%s", obj.(metav1.Object).GetName(), old.(metav1.Object).GetResourceVersion(), obj.(metav1.Object).GetResourceVersion())
}

func (r *told) OnDelete(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		r.note("missed deletion of %s", gone.Key)
		return
	}
	r.note("delete %s", obj.(metav1.Object).GetName())
}

// want waits for exactly these events, in any order.
func (r *told) want(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	tooLong := time.After(time.Hour)
	for range want {
		select {
		case line := <-r.lines:
			got = append(got, line)
		case <-tooLong:
		}
	}
	synctest.Wait()
	for len(r.lines) > 0 {
		got = append(got, <-r.lines)
	}
	slices.Sort(got)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// TestClientGoInformers runs client-go's informers through the life of three objects, with both ways to list.
func TestClientGoInformers(t *testing.T) {
	type factory func(t *testing.T, server *informertest.Server, stop context.Context) (cache.SharedIndexInformer, func())
	for name, build := range map[string]factory{
		"clientset": func(t *testing.T, server *informertest.Server, stop context.Context) (cache.SharedIndexInformer, func()) {
			clients, err := kubernetes.NewForConfig(server.Config())
			must(t, err)
			f := informers.NewSharedInformerFactory(clients, 0)
			inf := f.Core().V1().Pods().Informer()
			f.Start(stop.Done())
			return inf, f.Shutdown
		},
		"dynamic": func(t *testing.T, server *informertest.Server, stop context.Context) (cache.SharedIndexInformer, func()) {
			client, err := dynamic.NewForConfig(server.Config())
			must(t, err)
			f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
			inf := f.ForResource(podResource.GroupVersionResource).Informer()
			f.Start(stop.Done())
			return inf, f.Shutdown
		},
		"metadata": func(t *testing.T, server *informertest.Server, stop context.Context) (cache.SharedIndexInformer, func()) {
			client, err := metadata.NewForConfig(server.Config())
			must(t, err)
			f := metadatainformer.NewSharedInformerFactory(client, 0)
			inf := f.ForResource(podResource.GroupVersionResource).Informer()
			f.Start(stop.Done())
			return inf, f.Shutdown
		},
	} {
		for _, watchList := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/WatchList=%v", name, watchList), func(t *testing.T) {
				clientfeaturestesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, watchList)
				bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
					set := func(name, app string) {
						pod := newPod("ns", name)
						pod.Labels["app"] = app
						_, err := pods.Update(pod)
						if apierrors.IsNotFound(err) {
							_, err = pods.Create(pod)
						}
						must(t, err)
					}
					remove := func(name string) {
						_, err := pods.Delete(informer.Key{Namespace: "ns", Name: name})
						must(t, err)
					}
					set("a", "1") // version 2
					set("b", "1")
					stop, cancel := context.WithCancel(t.Context())
					inf, shutdown := build(t, server, stop)
					defer func() { cancel(); shutdown() }()
					r := newTold()
					_, err := inf.AddEventHandler(r)
					must(t, err)
					if !cache.WaitForCacheSync(stop.Done(), inf.HasSynced) {
						t.Fatal("not synced")
					}
					r.want(t, "add a true", "add b true")
					if first := server.Requests()[0].Verb; (first == "watch") != watchList {
						t.Errorf("the first request is a %s", first)
					}
					set("a", "2")
					remove("b")
					set("c", "1")
					r.want(t, "add c false", "delete b", "update a 2->4")

					// A restart, and changes during it.
					server.Stop()
					set("a", "3")
					remove("c")
					server.Compact()
					server.Start()
					r.want(t, "missed deletion of ns/c", "update a 4->7")
				})
			})
		}
	}
}

func TestClientGoInformers_CustomResource(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		widgets := registerWidgets(server)
		_, err := widgets.Create(widget("w"))
		must(t, err)
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		inf := f.ForResource(widgetResource.GroupVersionResource).Informer()
		stop, cancel := context.WithCancel(t.Context())
		f.Start(stop.Done())
		defer func() { cancel(); f.Shutdown() }()
		r := newTold()
		_, err = inf.AddEventHandler(r)
		must(t, err)
		cache.WaitForCacheSync(stop.Done(), inf.HasSynced)
		r.want(t, "add w true")
		_, err = widgets.Delete(informer.Key{Namespace: "ns", Name: "w"})
		must(t, err)
		r.want(t, "delete w")
	})
}
