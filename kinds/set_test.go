package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/kinds"
	"github.com/typedinformer/informer/status"
)

// A new kind is listed within seconds, at the cost of one discovery.
// Guarantees: N1, N4, N6
func TestNewKindIsListed(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		w.run()
		w.want(always)
		if n := w.discoveries(); n != 2 {
			w.Errorf("%d requests to discovery at the start, want 2", n)
		}
		w.pass(time.Minute)
		for i, resource := range []string{"gadgets", "widgets"} {
			w.define(resource)
			w.pass(3 * time.Second)
			if got := strings.Count(w.names(), "example.com"); got != i+1 {
				w.Errorf("the set has %s", w.names())
			}
			if got, want := w.events.take(), "add "+resource+".example.com/x"; got != want {
				w.Errorf("the handler received %q, want %q", got, want)
			}
			if n := w.discoveries(); n > 2 {
				w.Errorf("%d requests to discovery for a new kind", n)
			}
			w.pass(time.Minute)
		}
		store, err := w.set.Store(widgets)
		if err != nil || store.Snapshot().Len() != 1 {
			w.Errorf("the store of widgets: %v", err)
		}
		if r, ok := w.set.Kind(widgets); !ok || r.Version != "v1" || r.Kind != "WIDGETS" || !r.Namespaced {
			w.Errorf("Kind returns %+v, %t", r, ok)
		}
		if all := w.log.take(); len(all) > 0 {
			w.Errorf("lines of log: %q", all)
		}
	})
}

// The deletion of a definition removes its kind within seconds, and nothing of it is left.
// Guarantees: N1, N6
func TestDeletedKindIsRemoved(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		c := w.define("widgets")
		w.run()
		w.events.take()
		c.Unregister()
		remove(w, w.definitions, "widgets.example.com")
		w.pass(3 * time.Second)
		w.want(always)
		if got, want := w.events.take(), "delete widgets.example.com/x final=false"; got != want {
			w.Errorf("the handler received %q, want %q", got, want)
		}
		if _, err := w.set.Store(widgets); !errors.Is(err, kinds.ErrNotMember) || !strings.Contains(err.Error(), "does not serve") {
			w.Errorf("Store returns %v", err)
		}
		w.log.take()
		w.server.ResetRequests()
		w.pass(time.Hour)
		for _, r := range w.server.Requests() {
			if r.Resource.Resource == "widgets" {
				w.Fatalf("a request for the kind that is gone: %+v", r)
			}
		}
		if all := w.log.take(); len(all) > 0 {
			w.Errorf("lines of log: %q", all)
		}
	})
}

// A kind that discovery lacks for a moment, because an API server lags, stays. It goes if nothing else is known for long.
// Guarantees: N6
func TestKindIsGoneOnlyIfDiscoverySaysSoForLong(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		before := w.groups()
		w.define("widgets")
		w.run()
		w.events.take()
		w.freeze(before)
		create(w, w.definitions, "unrelated.example.com")
		w.pass(5 * time.Second)
		if memberOf(w, widgets).Missing.IsZero() {
			w.Error("discovery lacks the kind, and the status does not say so")
		}
		w.freeze(nil)
		w.pass(20 * time.Second)
		if got := w.events.take(); got != "" || !memberOf(w, widgets).Missing.IsZero() {
			w.Errorf("the handler received %q", got)
		}
		w.freeze(before)
		touch(w, w.definitions, "unrelated.example.com")
		w.pass(20 * time.Second)
		w.want(always)
		if got, want := w.events.take(), "delete widgets.example.com/x final=false"; got != want {
			w.Errorf("the handler received %q, want %q", got, want)
		}
		w.freeze(nil)
		w.pass(6 * time.Minute)
		if got, want := w.events.take(), "add widgets.example.com/x"; got != want {
			w.Errorf("the handler received %q, want %q", got, want)
		}
	})
}

// The kinds of a group whose API server is away stay, and the status says what is not known.
// kube-apiserver has the resources from before, or, after its own restart, none.
// Guarantees: N2, N6
func TestAwayGroupKeepsItsKinds(t *testing.T) {
	for name, forgets := range map[string]bool{"with resources": false, "without resources": true} {
		t.Run(name, func(t *testing.T) { testAwayGroup(t, forgets) })
	}
}

func testAwayGroup(t *testing.T, forgets bool) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		create(w, w.services, "v1.example.com")
		create(w, w.serve("example.com/v1", "widgets", "Widget", false), "x")
		w.run()
		w.events.take()
		w.log.take()
		gv := schema.GroupVersion{Group: "example.com", Version: "v1"}
		w.server.SetAway(gv, true)
		if forgets {
			w.freeze(without(w, gv))
		}
		touch(w, w.services, "v1.example.com")
		w.pass(3 * time.Second)
		unknown := w.set.Status().Discovery.Unknown
		if len(unknown) != 1 || unknown[0].GroupVersion != gv || !errors.Is(unknown[0].Err, kinds.ErrStale) {
			w.Errorf("not known: %+v", unknown)
		}
		w.pass(time.Hour)
		if got := w.events.take(); got != "" {
			w.Errorf("the handler received %q", got)
		}
		var e *kinds.UnknownError
		if err := w.set.WaitSynced(w.Context()); !errors.As(err, &e) || !errors.Is(err, kinds.ErrStale) || !strings.Contains(err.Error(), "example.com/v1") {
			w.Errorf("WaitSynced returns %v", err)
		}
		ctx, stop := context.WithTimeout(w.Context(), time.Minute)
		defer stop()
		if err := w.set.WaitSynced(ctx, widgets); err != nil {
			w.Errorf("WaitSynced returns %v for a kind that was synced", err)
		}
		other := schema.GroupResource{Group: "example.com", Resource: "others"}
		if err := w.set.WaitSynced(ctx, other); !errors.Is(err, kinds.ErrStale) || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitSynced returns %v for a kind that may be there", err)
		}
		if n := len(w.log.take()); n == 0 || n > 12 {
			w.Errorf("%d lines of log in an hour", n)
		}
		w.server.SetAway(gv, false)
		w.freeze(nil)
		touch(w, w.services, "v1.example.com")
		w.pass(time.Minute)
		limited, end := context.WithTimeout(w.Context(), time.Minute)
		defer end()
		if unknown := w.set.Status().Discovery.Unknown; len(unknown) > 0 || w.set.WaitSynced(limited) != nil {
			w.Errorf("not known: %+v", unknown)
		}
		if got := w.events.take(); got != "" {
			w.Errorf("the handler received %q", got)
		}
	})
}

// If discovery fails, the kinds stay, and the status has the error. A failure that lasts is one line of log.
// Guarantees: N6
func TestFailedDiscoveryKeepsKinds(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		failing := informertest.Fault{Match: func(r informertest.Request) bool { return r.Path == "/apis" }, Error: errors.New("broken")}
		repair := w.server.Inject(failing)
		w.start()
		ctx, stop := context.WithTimeout(w.Context(), time.Minute)
		defer stop()
		if err := w.set.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "broken") {
			w.Errorf("WaitSynced returns %v", err)
		}
		repair()
		if err := w.set.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		c := w.define("widgets")
		w.pass(time.Minute)
		w.events.take()
		w.log.take()
		defer w.server.Inject(failing)()
		c.Unregister()
		remove(w, w.definitions, "widgets.example.com")
		w.discoveries()
		w.pass(time.Hour)
		if n := w.discoveries(); n < 60 || n > 300 {
			w.Errorf("%d requests to discovery in an hour", n)
		}
		if d := w.set.Status().Discovery; d.Failures == 0 || d.LastError == nil || d.Count == 0 || time.Since(d.LastSuccess) < time.Hour {
			w.Errorf("the status is %+v", d)
		}
		if _, ok := w.set.Kind(widgets); !ok {
			w.Error("the kind is gone")
		}
		n := 0
		for _, line := range w.log.take() {
			if strings.Contains(line, "discovery fails") {
				n++
			}
		}
		if n != 1 {
			w.Errorf("%d lines of log for a failure that lasts", n)
		}
	})
}

// A kind whose requests hang, and one that is forbidden, delay no other. Errors and status name them.
// Guarantees: N2
func TestOneKindDelaysNobody(t *testing.T) {
	bubble(t, kinds.Config[object]{Starts: 1}, func(w *world) {
		w.serve("v1", "hanging", "Hanging", false)
		w.serve("v1", "forbidden", "Forbidden", false)
		defer w.server.Inject(informertest.Fault{Resource: "hanging", Hang: true})()
		defer w.server.Inject(informertest.Fault{Resource: "forbidden", Error: apierrors.NewForbidden(schema.GroupResource{Resource: "forbidden"}, "", errors.New("no"))})()
		w.start()
		var all []schema.GroupResource
		for _, resource := range []string{"pods", "nodes"} {
			all = append(all, schema.GroupResource{Resource: resource})
		}
		// the set does not have them before its first discovery
		ctx, stop := context.WithTimeout(w.Context(), 30*time.Second)
		defer stop()
		if err := w.set.WaitSynced(ctx, all...); err != nil {
			w.Error(err)
		}
		var e *kinds.NotSyncedError
		if err := w.set.WaitSynced(ctx); !errors.As(err, &e) || sortedNames(e) != "forbidden hanging" {
			w.Errorf("WaitSynced returns %v", err)
		}
		if m := memberOf(w, schema.GroupResource{Resource: "forbidden"}); m.State != kinds.Unsynced || !apierrors.IsForbidden(m.Informer.Reflectors[0].LastError) || !m.Wanted {
			w.Errorf("the status of the forbidden kind is %+v", m)
		}
		if m := memberOf(w, schema.GroupResource{Resource: "pods"}); m.State != kinds.Synced || m.Informer.Objects != 2 {
			w.Errorf("the status of pods is %+v", m)
		}
	})
}

// Many definitions cause few discoveries and few lines of log.
// Guarantees: N4
func TestManyDefinitionsCauseFewDiscoveries(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		w.run()
		w.discoveries()
		const n = 300
		for i := range n {
			w.define(fmt.Sprintf("kinds%03d", i))
			time.Sleep(150 * time.Millisecond)
		}
		w.pass(5 * time.Second)
		requests := w.discoveries()
		if requests > 50 {
			w.Errorf("%d requests to discovery for %d definitions in a minute", requests, n)
		}
		if err := w.set.WaitSynced(w.Context()); err != nil {
			w.Error(err)
		}
		if got := strings.Count(w.names(), ".example.com"); got != n {
			w.Errorf("the set has %d of %d kinds", got, n)
		}
		if got := strings.Count(w.events.take(), "add "); got != n {
			w.Errorf("the handler received %d additions", got)
		}
		all := w.log.take()
		if len(all) > 5 {
			w.Errorf("%d lines of log: %q", len(all), all[:5])
		}
		w.Logf("%d requests to discovery, %d lines of log", requests, len(all))
	})
}

// Somebody holds a kind that the rule does not want: it is there until the last release, also if the server serves it later.
// Guarantees: N3
func TestHold(t *testing.T) {
	config := kinds.Config[object]{Select: func(r status.APIResource) bool { return r.Group != "example.com" }}
	bubble(t, config, func(w *world) {
		w.run()
		release := w.set.Hold(widgets)
		ctx, stop := context.WithTimeout(w.Context(), time.Minute)
		defer stop()
		if err := w.set.WaitSynced(ctx, widgets); !errors.Is(err, kinds.ErrNotMember) || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitSynced returns %v for a kind that is not served", err)
		}
		w.define("widgets")
		w.define("gadgets")
		if err := w.set.WaitSynced(w.Context(), widgets); err != nil {
			w.Fatal(err)
		}
		w.pass(time.Second)
		again := w.set.Hold(widgets)
		if m := memberOf(w, widgets); m.Holders != 2 || m.Wanted {
			w.Errorf("the status is %+v", m)
		}
		release()
		release()
		w.pass(time.Second)
		if got, want := w.events.take(), "add widgets.example.com/x"; got != want {
			w.Errorf("the handler received %q, want %q", got, want)
		}
		again()
		w.pass(time.Second)
		if got, want := w.events.take(), "delete widgets.example.com/x final=false"; got != want {
			w.Errorf("the handler received %q, want %q", got, want)
		}
		w.want(always)
		err := w.set.WaitSynced(w.Context(), widgets)
		if !errors.Is(err, kinds.ErrNotMember) || !strings.Contains(err.Error(), "Config.Select") {
			w.Errorf("WaitSynced returns %v", err)
		}
		if n := w.discoveries(); n > 8 {
			w.Errorf("%d requests to discovery", n)
		}
	})
}

// If the version of a member goes, the member is replaced by one of another version. If only a better version comes, it
// stays.
// Guarantees: N6
func TestVersionOfAMemberGoes(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		old := w.serve("example.com/v1beta1", "widgets", "Widget", false)
		create(w, old, "x")
		w.run()
		w.events.take()
		create(w, w.definitions, "widgets.example.com")
		informertest.Register[*unstructured.Unstructured](w.server, informertest.Resource{Kind: "Widget", ObjectsOf: old.Collection,
			GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}})
		w.pass(20 * time.Second)
		if got := memberOf(w, widgets).Kind.Version; got != "v1beta1" || w.events.take() != "" {
			w.Errorf("the member has moved to %s", got)
		}
		old.Unregister()
		touch(w, w.definitions, "widgets.example.com")
		w.pass(time.Minute)
		if got := memberOf(w, widgets).Kind.Version; got != "v1" {
			w.Errorf("the member has the version %s", got)
		}
		if got, want := w.events.take(), "delete widgets.example.com/x final=false, add widgets.example.com/x"; got != want {
			w.Errorf("the handler received %q, want %q", got, want)
		}
	})
}

// An object that two groups serve is seen once, and found under both names.
// Guarantees: N5, N6
func TestEventsOfTwoGroupsAreOneKind(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		events := w.serve("v1", "events", "Event", false)
		create(w, events, "e")
		create(w, w.serve("events.k8s.io/v1", "events", "Event", false), "e")
		byName := kinds.NewIndex(w.set, func(_ schema.GroupResource, obj object) []string { return []string{obj.Name} })
		w.run()
		twin := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
		if err := w.set.WaitSynced(w.Context(), twin); err != nil {
			w.Error(err)
		}
		var found []string
		for kind, obj := range byName.Lookup("e") {
			found = append(found, kinds.KeyOf(kind, obj).String())
		}
		if !slices.Equal(found, []string{"events default/e"}) {
			w.Errorf("found %q", found)
		}
		if _, err := w.set.Store(twin); err != nil {
			w.Error(err)
		}
		snap := w.set.Snapshot()
		n := 0
		for range snap.All() {
			n++
		}
		if n != snap.Len() || n != 4 {
			w.Errorf("%d objects, Len is %d, want 4", n, snap.Len())
		}
		if member, ok := snap.Member(twin); !ok || member.Len() != 1 {
			w.Errorf("the snapshot of %s: %t", twin, ok)
		}
	})
}

// A controller receives keys of all kinds, also of those that come later.
func TestEnqueue(t *testing.T) {
	bubble(t, kinds.Config[object]{Namespaces: []string{"default"}}, func(w *world) {
		seen := make(chan kinds.Key, 10)
		ctl := &informer.Controller[kinds.Key]{Reconcile: func(_ context.Context, key kinds.Key) (informer.Result, error) {
			seen <- key
			return informer.Result{}, nil
		}}
		ctl.Watch(kinds.Enqueue(w.set, func(kind schema.GroupResource, obj object) []kinds.Key {
			if kind.Group != "" && kind.Group != "example.com" {
				return nil
			}
			return []kinds.Key{kinds.KeyOf(kind, obj)}
		}))
		w.run()
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- ctl.Run(ctx) }()
		defer func() { stop(); <-ended }()
		w.pass(time.Second)
		w.define("widgets")
		w.pass(10 * time.Second)
		var got []string
		for len(seen) > 0 {
			got = append(got, (<-seen).String())
		}
		slices.Sort(got)
		if want := []string{"nodes n", "pods default/a", "pods default/b", "widgets.example.com default/x"}; !slices.Equal(got, want) {
			w.Errorf("reconciled %q, want %q", got, want)
		}
	})
}

// What is wrong is an error that names it.
func TestInvalidSet(t *testing.T) {
	bubble(t, kinds.Config[object]{LabelSelector: "a=b=c"}, func(w *world) {
		if err := w.set.Run(w.Context()); err == nil || !strings.Contains(err.Error(), "LabelSelector") {
			w.Errorf("Run returns %v", err)
		}
		if err := w.set.WaitSynced(w.Context()); err == nil {
			w.Error("WaitSynced returns nil")
		}
	})
	bubble(t, kinds.Config[object]{}, func(w *world) {
		if _, err := w.set.Store(widgets); !errors.Is(err, kinds.ErrNotMember) {
			w.Errorf("Store returns %v before Run", err)
		}
		ctx, stop := context.WithCancel(w.Context())
		stop()
		if err := w.set.Run(ctx); !errors.Is(err, context.Canceled) {
			w.Errorf("Run returns %v", err)
		}
		if err := w.set.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("Run returns %v again", err)
		}
		if err := w.set.WaitSynced(w.Context()); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitSynced returns %v", err)
		}
	})
}
