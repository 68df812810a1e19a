// Package world is an API server with pods, nodes and deployments for the tests of this module, and a handler that
// records.
package world

import (
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// Pods, Nodes and Deployments are the resources.
var (
	Pods        = corev1.SchemeGroupVersion.WithResource("pods")
	Nodes       = corev1.SchemeGroupVersion.WithResource("nodes")
	Deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// World is an API server.
type World struct {
	*testing.T
	Server      *informertest.Server
	Pods        *informertest.Collection[*corev1.Pod]
	Nodes       *informertest.Collection[*corev1.Node]
	Deployments *informertest.Collection[*appsv1.Deployment]
}

// New starts a server in memory, which closes when the test ends. In a bubble of testing/synctest, call Close.
func New(t *testing.T) *World {
	server := informertest.NewServer(informertest.Options{InMemory: true})
	t.Cleanup(server.Close)
	return &World{
		T:           t,
		Server:      server,
		Pods:        informertest.Register[*corev1.Pod](server, resource(Pods, false)),
		Nodes:       informertest.Register[*corev1.Node](server, resource(Nodes, true)),
		Deployments: informertest.Register[*appsv1.Deployment](server, resource(Deployments, false)),
	}
}

func resource(r schema.GroupVersionResource, clusterScoped bool) informertest.Resource {
	return informertest.Resource{GroupVersionResource: r, ClusterScoped: clusterScoped}
}

// Clientset returns a clientset of client-go for the server.
func (w *World) Clientset() kubernetes.Interface {
	w.Helper()
	client, err := kubernetes.NewForConfig(w.Server.Config())
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// Client returns a client of the library for the server.
func (w *World) Client() *informer.Client {
	w.Helper()
	client, err := informer.NewClient(w.Server.Config())
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// Pod creates a pod on a node named node-NAME, with the label name=NAME, and with managedFields.
func (w *World) Pod(namespace, name string) *corev1.Pod {
	w.Helper()
	pod, err := w.Pods.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:     namespace,
			Name:          name,
			Labels:        map[string]string{"name": name},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test"}},
		},
		Spec: corev1.PodSpec{
			NodeName:        "node-" + name,
			Containers:      []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(7))},
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

// Relabel sets a label of a pod.
func (w *World) Relabel(namespace, name, label, value string) *corev1.Pod {
	w.Helper()
	pod, ok := w.Pods.Get(informer.Key{Namespace: namespace, Name: name})
	if !ok {
		w.Fatalf("no pod %s/%s", namespace, name)
	}
	pod = pod.DeepCopy()
	pod.Labels[label] = value
	pod, err := w.Pods.Update(pod)
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

// Delete deletes a pod.
func (w *World) Delete(namespace, name string) {
	w.Helper()
	if _, err := w.Pods.Delete(informer.Key{Namespace: namespace, Name: name}); err != nil {
		w.Fatal(err)
	}
}

// Recorder is a handler that records the events as strings, such as "add default/a@3", with resource versions.
type Recorder struct {
	mu     sync.Mutex // protects the fields below
	events []string
	more   chan struct{} // closed at the next event; nil if nobody waits
}

// OnAdd implements cache.ResourceEventHandler.
func (r *Recorder) OnAdd(obj any, initial bool) {
	if initial {
		r.note("initial %s", Describe(obj))
		return
	}
	r.note("add %s", Describe(obj))
}

// OnUpdate implements cache.ResourceEventHandler.
func (r *Recorder) OnUpdate(old, new any) { r.note("update %s to %s", Describe(old), Describe(new)) }

// OnDelete implements cache.ResourceEventHandler.
func (r *Recorder) OnDelete(obj any) {
	if unknown, ok := obj.(clientcache.DeletedFinalStateUnknown); ok {
		r.note("delete unknown %s: %s", unknown.Key, Describe(unknown.Obj))
		return
	}
	r.note("delete %s", Describe(obj))
}

func (r *Recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// Next waits until there are n events, and returns and forgets them.
func (r *Recorder) Next(n int) []string {
	for {
		r.mu.Lock()
		if len(r.events) >= n {
			next := r.events[:n:n]
			r.events = r.events[n:]
			r.mu.Unlock()
			return next
		}
		if r.more == nil {
			r.more = make(chan struct{})
		}
		more := r.more
		r.mu.Unlock()
		<-more
	}
}

// Waiting returns the events that Next has not returned.
func (r *Recorder) Waiting() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.events...)
}

// Describe returns the key and the resource version of an object.
func Describe(obj any) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Sprintf("%T", obj)
	}
	return clientcache.MetaObjectToName(m).String() + "@" + m.GetResourceVersion()
}
