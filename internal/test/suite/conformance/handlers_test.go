package conformance

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// The informer makes its first list as the mode says, in the format that suits T, and adds every object.
func (r *rig[T]) initialSync() {
	var lines []string
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		r.put("a", name, name)
		r.put("b", name, name)
		lines = append(lines, fmt.Sprintf("add a/%s %[1]s initial=true", name), fmt.Sprintf("add b/%s %[1]s initial=true", name))
	}
	r.start()
	r.main.want(lines...)
	if s := r.inf.Status(); !s.Synced || s.Objects != 10 || !s.Handlers[0].Synced || s.ResourceVersion != r.Server.ResourceVersion() {
		r.Errorf("status %+v", s)
	}
	if err := r.sub.WaitSynced(r.Context()); err != nil { // H8
		r.Error(err)
	}

	requests := map[string][]string{}
	for i, request := range r.Server.Requests() {
		requests[request.Namespace] = append(requests[request.Namespace], r.Requests()[i])
	}
	for _, s := range r.inf.Status().Reflectors {
		want := []string{world.Streams}
		if r.paged {
			want = []string{"list resourceVersion=0 limit=2", fmt.Sprintf(world.Watches, r.Server.ResourceVersion())} // the server's cache does not page
		}
		if diff := gocmp.Diff(want, requests[s.Namespace]); diff != "" {
			r.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	media := func(suffix string) string {
		json := "application/json" + suffix
		if !r.keep {
			json += ";drop=metadata.managedFields"
		}
		if r.protobuf {
			return "application/vnd.kubernetes.protobuf" + suffix + "," + json
		}
		return json
	}
	accept := []string{media("")}
	if r.kind == "PartialObjectMetadata" {
		as := func(kind string) string { return media(";as=" + kind + ";g=meta.k8s.io;v=v1") }
		if accept = []string{as("PartialObjectMetadata")}; r.paged {
			accept = append(accept, as("PartialObjectMetadataList"))
		}
	}
	if diff := gocmp.Diff(accept, r.Accepts()); diff != "" {
		r.Errorf("Accept (-want +got):\n%s", diff)
	}
	r.end()
}

func (r *rig[T]) addUpdateDelete() {
	r.startWith()
	r.put("a", "new", "1")
	r.main.want("add a/new 1 initial=false")
	r.Relabel("b", "two", "2")
	r.main.want("update b/two 1->2")
	r.Relabel("b", "two", "3")
	r.put("b", "newer", "1")
	r.Relabel("a", "new", "2")
	r.main.want("update b/two 2->3", "add b/newer 1 initial=false", "update a/new 1->2")
	r.Delete("a", "one")
	r.main.want("delete a/one 1 final=true")
	r.Delete("b", "two")
	r.main.want("delete b/two 3 final=true")
	r.end()
}

// An object that enters the scope is added, one that leaves it is deleted, and others cause no events.
func (r *rig[T]) scope() {
	r.startWith()
	told := func(selected, all string) { // events with a selector, and without
		r.Helper()
		switch {
		case !r.selector:
			r.main.want(all)
		case selected == "":
			r.main.want()
		default:
			r.main.want(selected)
		}
	}
	r.Create(world.NewPod("a", "new", "app=out", "v=1"))
	told("", "add a/new 1 initial=false")
	r.Label("a", "new", "app", "too")
	told("add a/new 1 initial=false", "update a/new 1->1")
	r.Label("a", "one", "app", "out")
	told("delete a/one 1 final=true", "update a/one 1->1")
	r.Relabel("a", "one", "2")
	told("", "update a/one 1->2")
	r.Label("a", "one", "app", "in")
	told("add a/one 2 initial=false", "update a/one 2->2")
	var elsewhere []string
	if !r.namespaces {
		elsewhere = []string{"add elsewhere/y 1 initial=false", "update elsewhere/y 1->2", "delete elsewhere/y 2 final=true"}
	}
	r.put("elsewhere", "y", "1")
	synctest.Wait()
	r.Relabel("elsewhere", "y", "2")
	synctest.Wait()
	r.Delete("elsewhere", "y")
	r.main.want(elsewhere...)
	r.end()
}

// An object recreated under its name is reported as a deletion and an addition, even if the informer missed the deletion.
func (r *rig[T]) anotherObject() {
	r.startWith()
	replace := func(namespace, name, v string) {
		r.Delete(namespace, name)
		r.put(namespace, name, v)
	}
	replace("a", "one", "2")
	r.main.want("delete a/one 1 final=true", "add a/one 2 initial=false")
	r.missing(func() { replace("a", "one", "3"); replace("b", "two", "2") })
	r.main.want("delete a/one 2 final=true", "add a/one 3 initial=false", "delete b/two 1 final=true", "add b/two 2 initial=false")
	r.relist(func() { replace("a", "one", "4"); replace("b", "two", "3"); replace("b", "two", "4") })
	r.main.want("delete a/one 3 final=false", "add a/one 4 initial=false", "delete b/two 2 final=false", "add b/two 4 initial=false")
	r.end()
}

// A slow handler delays no other. It receives one folded change per key; with DeliverEvery, every change.
func (r *rig[T]) slowHandler() {
	r.startWith()
	blocked := make(chan struct{})
	folded, foldedSub := r.follow(informer.SubscriptionConfig[T]{})
	every, _ := r.follow(informer.SubscriptionConfig[T]{Delivery: informer.DeliverEvery(0)})
	initial := []string{"add a/one 1 initial=true", "add b/two 1 initial=true"}
	folded.want(initial...)
	every.want(initial...)
	folded.before = func(T) { <-blocked }
	every.before = folded.before
	r.Relabel("b", "two", "2")
	r.main.want("update b/two 1->2")
	r.Relabel("a", "one", "2")
	r.main.want("update a/one 1->2")
	r.Relabel("a", "one", "3")
	r.main.want("update a/one 2->3")
	r.put("a", "gone", "1")
	r.main.want("add a/gone 1 initial=false")
	r.Delete("a", "gone")
	r.main.want("delete a/gone 1 final=true")
	r.put("a", "new", "1")
	r.main.want("add a/new 1 initial=false")
	if s := foldedSub.Status(); s.Backlog != 2 {
		r.Errorf("status %+v", s)
	}
	close(blocked)
	folded.want("update b/two 1->2", "update a/one 1->3", "add a/new 1 initial=false")
	every.want("update b/two 1->2", "update a/one 1->2", "update a/one 2->3", "add a/gone 1 initial=false", "delete a/gone 1 final=true", "add a/new 1 initial=false")
	r.end()
}

func (r *rig[T]) lateSubscription() {
	r.startWith()
	blocked := make(chan struct{})
	late := &follower[T]{rig: r, before: func(T) { <-blocked }}
	sub := r.inf.Subscribe(late)
	r.Relabel("b", "two", "2")
	r.put("a", "new", "1")
	short, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := sub.WaitSynced(short); !errors.Is(err, context.DeadlineExceeded) || sub.Status().Synced { // H8
		r.Errorf("WaitSynced while the handler still runs: %v", err)
	}
	close(blocked)
	if err := sub.WaitSynced(r.Context()); err != nil || len(late.Told()) < 2 {
		r.Errorf("WaitSynced: %v, got %q", err, late.Told())
	}
	late.want("add a/one 1 initial=true", "add b/two 2 initial=true", "add a/new 1 initial=false")
	r.main.want("update b/two 1->2", "add a/new 1 initial=false")

	// While changes arrive, subscribers miss none and receive none twice. The followers check that.
	deliveries := []informer.Delivery{{}, informer.DeliverEvery(0)}
	var followers []*follower[T]
	for i := range 20 {
		r.put("ab"[i%2:][:1], fmt.Sprint(i), "1")
		f, _ := r.follow(informer.SubscriptionConfig[T]{Delivery: deliveries[i/2%2]})
		followers = append(followers, f)
		r.Relabel("a", "one", fmt.Sprint(i))
		if i%3 == 0 {
			runtime.Gosched()
		}
	}
	synctest.Wait()
	for i, f := range followers {
		if !sameObjects(f.Has(), r.inf.Store()) {
			r.Errorf("follower %d has other objects than the store", i)
		}
	}
	r.main.Take()
	r.end()
}

func (r *rig[T]) panics() {
	r.put("a", "one", "1")
	r.put("b", "two", "1")
	r.begin()
	var values []any
	f := &follower[T]{rig: r}
	sub := r.inf.Subscribe(informer.HandlerFuncs[T]{
		AddFunc:    func(obj T, initial bool) { f.OnAdd(obj, initial); panic("add") },
		UpdateFunc: func(old, new T) { f.OnUpdate(old, new); panic("update") },
		DeleteFunc: func(last T, final bool) { f.OnDelete(last, final); panic("delete") },
	}, informer.SubscriptionConfig[T]{OnPanic: func(value any) { values = append(values, value) }})
	if err := sub.WaitSynced(r.Context()); err != nil {
		r.Error(err)
	}
	f.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	r.Relabel("a", "one", "2")
	synctest.Wait()
	r.Delete("a", "one")
	f.want("update a/one 1->2", "delete a/one 2 final=true")
	r.main.want("add a/one 1 initial=true", "add b/two 1 initial=true", "update a/one 1->2", "delete a/one 2 final=true")
	if !slices.Equal(values, []any{"add", "add", "update", "delete"}) {
		r.Errorf("panics %v", values)
	}
	r.end()
}

func (r *rig[T]) closes() {
	r.startWith()
	var self *informer.Subscription
	ready := make(chan struct{})
	calls := 0
	self = r.inf.Subscribe(informer.HandlerFuncs[T]{AddFunc: func(T, bool) { <-ready; calls++; self.Close() }})
	other, otherSub := r.follow(informer.SubscriptionConfig[T]{})
	other.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	close(ready)
	<-self.Done()
	r.Relabel("a", "one", "2")
	synctest.Wait()
	otherSub.Close()
	r.Relabel("a", "one", "3")
	other.want("update a/one 1->2")
	r.main.want("update a/one 1->2", "update a/one 2->3")
	if n := len(r.inf.Status().Handlers); calls != 1 || n != 1 || !errors.Is(self.Err(), informer.ErrClosed) {
		r.Errorf("%d calls of a handler that closed itself, %d handlers left, %v", calls, n, self.Err())
	}
	r.end()
}

func (r *rig[T]) filter() {
	r.startWith()
	many := informer.SubscriptionConfig[T]{Filter: func(obj T) bool { return obj.GetLabels()["v"] > "1" }}
	f, sub := r.follow(many)
	if err := sub.WaitSynced(r.Context()); err != nil {
		r.Error(err)
	}
	f.want()
	for _, step := range []struct {
		v    string
		told []string
	}{
		{"2", []string{"add a/one 2 initial=false"}},
		{"3", []string{"update a/one 2->3"}},
		{"1", []string{"delete a/one 3 final=false"}},
		{"0", nil},
		{"4", []string{"add a/one 4 initial=false"}},
	} {
		r.Relabel("a", "one", step.v)
		f.want(step.told...)
	}
	late, _ := r.follow(many)
	late.want("add a/one 4 initial=true")
	r.Delete("b", "two")
	f.want()
	r.Delete("a", "one")
	f.want("delete a/one 4 final=true")
	r.main.Take()
	r.end()
}

func (r *rig[T]) resync() {
	r.startWith()
	again, sub := r.follow(informer.SubscriptionConfig[T]{Resync: 10 * time.Minute})
	again.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	before := r.lists()
	<-time.After(11 * time.Minute)
	again.want("update a/one 1->1", "update b/two 1->1")
	r.Relabel("a", "one", "2")
	again.want("update a/one 1->2")
	<-time.After(11 * time.Minute)
	again.want("update a/one 2->2", "update b/two 1->1")
	r.main.want("update a/one 1->2")
	sub.Close()
	<-time.After(time.Hour)
	again.want()
	if r.lists() != before {
		r.Error("a resync asked the server")
	}
	r.end()
}

// Changes yields the events that a handler receives.
func (r *rig[T]) changes() {
	r.startWith()
	ctx, cancel := context.WithCancel(r.Context())
	f := &follower[T]{rig: r}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range r.inf.Changes(ctx) {
			switch e.Type {
			case informer.Added:
				f.OnAdd(e.Object, e.Initial)
			case informer.Updated:
				f.OnUpdate(e.Old, e.Object)
			case informer.Deleted:
				f.OnDelete(e.Object, e.Final)
			}
		}
	}()
	f.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	r.Relabel("b", "two", "2")
	r.put("b", "new", "1")
	synctest.Wait()
	r.Delete("b", "new")
	r.relist(func() { r.Delete("a", "one") })
	want := []string{"update b/two 1->2", "add b/new 1 initial=false", "delete b/new 1 final=true", "delete a/one 1 final=false"}
	f.want(want...)
	r.main.want(want...)
	cancel()
	<-ended
	r.end()
}
