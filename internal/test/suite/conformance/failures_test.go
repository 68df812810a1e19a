package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// An incomplete list has no effect.
func (r *rig[T]) initialSyncBroken() {
	for _, name := range []string{"1", "2", "3"} {
		r.put("a", name, "1")
		r.put("b", name, "1")
	}
	broken := informertest.Fault{Verb: "watch", AfterEvents: 2, Drop: true}
	if r.paged {
		broken = informertest.Fault{Verb: "list", AfterBytes: 200, Drop: true}
	}
	remove := r.Server.Inject(broken)
	r.begin()
	<-time.After(5 * time.Minute)
	r.main.want()
	for _, s := range r.inf.Status().Reflectors {
		if s.ResourceVersion != "" || s.LastError == nil || s.Failures < 5 || s.State != status.ReflectorBackoff {
			r.Errorf("status %+v", s)
		}
	}
	if n := r.inf.Store().Len(); n != 0 {
		r.Errorf("%d objects", n)
	}
	short, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := r.sub.WaitSynced(short); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("WaitSynced: %v", err)
	}
	remove()
	<-time.After(time.Minute)
	r.main.want("add a/1 1 initial=true", "add a/2 1 initial=true", "add a/3 1 initial=true", "add b/1 1 initial=true", "add b/2 1 initial=true", "add b/3 1 initial=true")
	r.mu.Lock()
	clear(r.calls) // discarded lists were transformed too
	r.mu.Unlock()
	r.end()
}

// A watch that ends normally is reopened at the resource version of the last bookmark.
func (r *rig[T]) watchEnds() {
	others := informertest.Register[*corev1.ConfigMap](r.Server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
	r.startWith()
	before := r.lists()
	for i := range 3 {
		if _, err := others.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}}); err != nil {
			r.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		for _, s := range r.inf.Status().Reflectors {
			if s.ResourceVersion != r.Server.ResourceVersion() || s.Failures != 0 { // R15
				r.Errorf("at %s, the server is at %s: %+v", s.ResourceVersion, r.Server.ResourceVersion(), s)
			}
		}
		r.main.want()
		r.Server.ResetRequests()
		r.Server.EndWatches()
		synctest.Wait()
		var want []string
		for range r.inf.Status().Reflectors {
			want = append(want, fmt.Sprintf(world.Watches, r.Server.ResourceVersion()))
		}
		r.WantRequests(want...)
		r.Relabel("a", "one", fmt.Sprint(i+2))
		r.main.want(fmt.Sprintf("update a/one %d->%d", i+1, i+2))
	}
	if r.lists() != before {
		r.Error("listed again")
	}
	r.end()
}

// After any failure of the connection, the watch resumes where it was.
func (r *rig[T]) connectionLost() {
	r.startWith()
	before := r.lists()
	r.Server.CloseConnections()
	r.Relabel("a", "one", "2")
	<-time.After(time.Minute)
	r.main.want("update a/one 1->2")
	r.missing(func() {
		r.Relabel("a", "one", "3")
		r.put("b", "new", "1")
		r.Delete("b", "two")
	})
	r.main.want("update a/one 2->3", "add b/new 1 initial=false", "delete b/two 1 final=true")
	for i, fault := range []informertest.Fault{
		{Error: world.Unavailable},
		{AfterHeaders: true, Drop: true},
		{AfterBytes: 20, Drop: true},
		{AfterBytes: 20, End: true},
		{AfterHeaders: true, Error: world.TimedOut},
		{AfterHeaders: true, Error: world.Internal},
	} {
		fault.Namespace, fault.Verb, fault.Times = r.inf.Status().Reflectors[0].Namespace, "watch", 1
		remove := r.Server.Inject(fault)
		r.Server.CloseConnections()
		<-time.After(10 * time.Second)
		r.Relabel("b", "new", fmt.Sprint(i+2))
		<-time.After(3 * time.Minute)
		r.main.want(fmt.Sprintf("update b/new %d->%d", i+1, i+2))
		remove()
	}
	if r.lists() != before {
		r.Error("listed again")
	}
	r.end()
}

// spoiled returns an encoded object whose identity decodes and whose other content does not decode as any T.
func spoiled(object []byte) []byte {
	if bytes.HasPrefix(object, []byte("{")) { // an array with a number out of range, where a map is expected
		return bytes.Replace(object, []byte(`"metadata":{`), []byte(`"metadata":{"labels":[1e999],`), 1)
	}
	return append(bytes.Clone(object), 2<<3|2, 100) // a field that claims 100 bytes and has none
}

// spoil makes objects undecodable in all responses that begin before remove is called.
func (r *rig[T]) spoil(which func(informer.Key) bool) (remove func()) {
	return r.Server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
		if key.Name == "" || !which(key) {
			return object
		}
		return spoiled(object)
	}})
}

// A relist does not decode unchanged objects, which could not be decoded here.
func (r *rig[T]) relistFindsNothing() {
	r.startWith()
	before := r.inf.Store().List()
	remove := r.spoil(func(informer.Key) bool { return true })
	r.relist(func() {})
	remove()
	r.wantDecodeErrors(0)
	r.main.want()
	if !slices.EqualFunc(r.inf.Store().List(), before, object.Same) {
		r.Error("the store has other objects")
	}
	r.end()
}

// A list applies all the changes it finds in one step.
func (r *rig[T]) relistFindsChanges() {
	for _, name := range []string{"changed", "gone", "replaced", "same"} {
		r.put("a", name, "1")
		r.put("b", name, "1")
	}
	r.start()
	r.main.Take()
	same, _ := r.inf.Store().Get(informer.Key{Namespace: "a", Name: "same"})
	calls := 0
	r.main.before = func(obj T) { // the store has exactly the new objects
		calls++
		count := 0
		for pod := range r.Pods.All() {
			if !r.follows(pod) || r.namespaces && pod.Namespace != obj.GetNamespace() {
				continue
			}
			count++
			if have, ok := r.inf.Store().Get(informer.KeyOf(pod)); !ok || have.GetResourceVersion() != pod.ResourceVersion {
				r.Errorf("%v is not yet in the store", informer.KeyOf(pod))
			}
		}
		if n := len(slices.Collect(r.inf.Store().Namespace(obj.GetNamespace()))); r.namespaces && n != count || !r.namespaces && r.inf.Store().Len() != count {
			r.Errorf("the store has %d objects, the server %d", n, count)
		}
	}
	r.relist(func() {
		for _, ns := range []string{"a", "b"} {
			r.Relabel(ns, "changed", "2")
			r.Relabel(ns, "changed", "3")
			r.Delete(ns, "gone")
			r.Delete(ns, "replaced")
			r.put(ns, "replaced", "2")
			r.put(ns, "new", "1")
			r.put(ns, "unseen", "1")
			r.Delete(ns, "unseen")
		}
	})
	r.main.before = nil
	r.main.want("update a/changed 1->3", "delete a/gone 1 final=false", "delete a/replaced 1 final=false", "add a/replaced 2 initial=false", "add a/new 1 initial=false",
		"update b/changed 1->3", "delete b/gone 1 final=false", "delete b/replaced 1 final=false", "add b/replaced 2 initial=false", "add b/new 1 initial=false")
	if again, _ := r.inf.Store().Get(informer.Key{Namespace: "a", Name: "same"}); !object.Same(again, same) || calls != 10 {
		r.Errorf("the unchanged object was replaced; %d calls", calls)
	}
	r.end()
}

// A custom resource definition is removed and installed again.
func (r *rig[T]) absentAndBack() {
	r.startWith()
	r.Pods.Unregister()
	<-time.After(5 * time.Minute)
	r.main.want("delete a/one 1 final=false", "delete b/two 1 final=false")
	for _, s := range r.inf.Status().Reflectors {
		if s.State != status.ReflectorAbsent || s.ResourceVersion != "" || s.WatchOpen {
			r.Errorf("status %+v", s)
		}
	}
	if n := r.inf.Store().Len(); n != 0 {
		r.Errorf("%d objects of a resource that is not served", n)
	}
	r.Pods = informertest.Register[*corev1.Pod](r.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
	r.put("a", "one", "2")
	<-time.After(time.Minute)
	r.main.want("add a/one 2 initial=false")
	r.Relabel("a", "one", "3")
	r.main.want("update a/one 2->3")
	r.end()
}

// An object that cannot be decoded delays no other, and its last good version stays.
func (r *rig[T]) corruptObject() {
	bad := informer.Key{Namespace: "a", Name: "bad"}
	isBad := func(key informer.Key) bool { return key == bad }
	again := func() { // reopen the watches, so that the fault applies, or no longer applies
		<-time.After(10 * time.Second)
		r.Server.EndWatches()
		synctest.Wait()
	}
	remove := r.spoil(isBad)
	r.put("a", "bad", "1")
	r.put("a", "good", "1")
	r.put("b", "bad", "1")
	r.start()
	r.main.want("add a/good 1 initial=true", "add b/bad 1 initial=true")
	r.wantDecodeErrors(1, "a/bad")
	r.Relabel("a", "bad", "2")
	r.Relabel("a", "good", "2")
	r.main.want("update a/good 1->2")
	r.wantDecodeErrors(1, "a/bad")
	remove()
	again()
	r.Relabel("a", "bad", "3")
	r.main.want("add a/bad 3 initial=false")
	r.wantDecodeErrors(0)

	remove = r.spoil(isBad)
	again()
	r.Relabel("a", "bad", "4")
	r.main.want()
	r.wantDecodeErrors(1, "a/bad")
	r.relist(func() { r.Relabel("a", "bad", "5"); r.put("a", "new", "1") })
	r.main.want("add a/new 1 initial=false")
	r.wantDecodeErrors(1, "a/bad")
	if obj, ok := r.inf.Store().Get(bad); !ok || testkit.VersionOf(obj) != "3" {
		r.Errorf("stored %v", obj)
	}
	r.Delete("a", "bad")
	r.main.want("delete a/bad 3 final=false")
	r.wantDecodeErrors(0, "a/bad")
	remove()
	r.end()
}

// An object that the transform rejects counts as one that cannot be decoded, in a list and in an event.
func (r *rig[T]) transformFails() {
	transform := r.config.Transform
	r.config.Transform = func(obj T) (T, error) {
		switch {
		case obj.GetLabels()["v"] == "bad":
			return *new(T), errors.New("bad")
		case transform == nil:
			return obj, nil
		}
		return transform(obj)
	}
	r.put("a", "one", "1")
	r.put("b", "two", "bad")
	r.start()
	r.main.want("add a/one 1 initial=true")
	r.wantDecodeErrors(1, "b/two")
	r.Relabel("a", "one", "bad")
	r.put("a", "new", "bad")
	r.main.want()
	r.wantDecodeErrors(3, "a/new", "a/one")
	r.relist(func() { r.put("b", "new", "1") })
	r.main.want("add b/new 1 initial=false")
	r.wantDecodeErrors(3, "a/new", "a/one", "b/two")
	r.Relabel("a", "one", "2")
	r.Relabel("b", "two", "2")
	r.Delete("a", "new")
	r.main.want("update a/one 1->2", "add b/two 2 initial=false")
	r.wantDecodeErrors(0, "a/new")
	r.end()
}

// Run can be stopped while the first list hangs.
func (r *rig[T]) endsInTheFirstList() {
	r.put("a", "one", "1")
	r.put("b", "two", "1")
	r.Server.Inject(informertest.Fault{AfterBytes: 40, Hang: true})
	r.begin()
	synctest.Wait()
	if n := len(r.Server.Requests()); n != len(r.inf.Status().Reflectors) {
		r.Errorf("%d requests", n)
	}
	r.stop()
	if err := r.inf.WaitSynced(r.Context()); !errors.Is(err, informer.ErrStopped) {
		r.Errorf("WaitSynced: %v", err)
	}
	if err := r.sub.WaitSynced(r.Context()); !errors.Is(err, informer.ErrStopped) {
		r.Errorf("WaitSynced of the subscription: %v", err)
	}
	synctest.Wait()
	if n := r.Pods.Watchers(); n != 0 {
		r.Errorf("%d watches left", n)
	}
	r.main.want()
}
