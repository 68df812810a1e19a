package kinds_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/kinds"
	"github.com/typedinformer/informer/status"
)

// takeEvents returns what handlers received about kinds named events, and forgets everything.
func takeEvents(w *world) (out []string) {
	w.events.mu.Lock()
	defer w.events.mu.Unlock()
	for _, e := range w.events.all {
		if strings.Contains(e, " events") {
			out = append(out, e)
		}
	}
	w.events.all = nil
	return out
}

// fails makes requests for a path fail until repair is called.
func fails(w *world, path string) (repair func()) {
	return w.server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Path == path }, Error: errors.New("429")})
}

// If the core group cannot be read, events of events.k8s.io stay those of the core group: none is delivered a second
// time, and a held one is not deleted.
//
// Guarantees: N3, N6
func TestTwinsStayMergedWhileACoreGroupIsUnknown(t *testing.T) {
	for name, config := range map[string]kinds.Config[object]{
		"selected": {},
		"held":     {Select: func(status.APIResource) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, config, func(w *world) {
				events := w.serve("v1", "events", "Event", false)
				create(w, events, "e")
				create(w, w.serve("events.k8s.io/v1", "events", "Event", false), "e")
				w.run()
				defer w.set.Hold(schema.GroupResource{Group: "events.k8s.io", Resource: "events"})()
				w.pass(time.Second)
				if got := takeEvents(w); len(got) != 1 {
					t.Fatalf("at first: %q, want one addition", got)
				}
				repair := fails(w, "/api")
				create(w, w.definitions, "unrelated.example.com")
				w.pass(5 * time.Second)
				repair()
				w.pass(time.Minute)
				if got := takeEvents(w); len(got) > 0 {
					t.Errorf("after a failed request of /api: %q; members %s", got, w.names())
				}
			})
		})
	}
}

// A kind that one discovery lacked is not gone because somebody holds or releases another one while discovery fails.
//
// Guarantees: N6
func TestHoldMakesNoOtherKindGone(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		before := w.groups()
		w.define("widgets")
		w.run()
		w.events.take()
		w.freeze(before) // one answer of a server that lags
		create(w, w.definitions, "unrelated.example.com")
		w.pass(3 * time.Second)
		w.freeze(nil)
		defer fails(w, "/apis")()
		w.pass(20 * time.Second)
		w.set.Hold(schema.GroupResource{Resource: "pods"})()
		w.pass(time.Second)
		if got := w.events.take(); got != "" {
			t.Errorf("a Hold of another kind: %q", got)
		}
	})
}

// A definition that was deleted and created again is no reason to believe one answer of a server that lags.
//
// Guarantees: N6
func TestRecreatedKindIsNotGoneAtOnce(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		before := w.groups()
		w.define("widgets")
		w.run()
		remove(w, w.definitions, "widgets.example.com")
		create(w, w.definitions, "widgets.example.com")
		w.pass(20 * time.Second)
		w.events.take()
		w.freeze(before)
		create(w, w.definitions, "unrelated.example.com")
		w.pass(3 * time.Second)
		w.freeze(nil)
		w.pass(time.Minute)
		if got := w.events.take(); got != "" {
			t.Errorf("one answer without the kind: %q", got)
		}
	})
}

// A kind that the server serves late is found soon, also if the same discovery shows another new kind.
//
// Guarantees: N6
func TestLateKindIsFoundBesideAnother(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		w.run()
		w.pass(time.Minute)
		w.events.take()
		w.define("gadgets")
		w.freeze(w.groups()) // this server lags
		w.define("widgets")
		w.pass(4 * time.Second)
		w.freeze(nil)
		w.pass(10 * time.Second)
		if got := w.events.take(); !strings.Contains(got, "widgets") {
			t.Errorf("after 14 s: %q", got)
		}
	})
}

// A kind whose scope has changed gets another informer, which follows the namespaces of the configuration.
//
// Guarantees: N6
func TestKindOfAnotherScopeIsFollowedAnew(t *testing.T) {
	bubble(t, kinds.Config[object]{Namespaces: []string{"default"}}, func(w *world) {
		c := w.serve("example.com/v1", "widgets", "Widget", true)
		create(w, c, "x")
		create(w, w.definitions, "widgets.example.com")
		w.run()
		w.events.take()
		c.Unregister()
		remove(w, w.definitions, "widgets.example.com")
		create(w, w.definitions, "widgets.example.com")
		w.serve("example.com/v1", "widgets", "Widget", false)
		w.pass(time.Minute)
		if m := memberOf(w, widgets); !m.Kind.Namespaced {
			t.Errorf("the member is %+v", m.Kind)
		}
		last := ""
		for _, r := range w.server.Requests() {
			if r.Resource.Resource == "widgets" {
				last = r.Path
			}
		}
		if !strings.Contains(last, "/namespaces/default/") {
			t.Errorf("the last request was of %s", last)
		}
	})
}

// A discovery that lacks a group because of a failure is repeated soon.
//
// Guarantees: N6
func TestPartlyFailedDiscoveryIsRepeatedSoon(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		create(w, w.serve("v1", "events", "Event", false), "e")
		repair := fails(w, "/api")
		go w.set.Run(w.Context())
		w.pass(20 * time.Second)
		repair()
		w.pass(time.Minute)
		if got := takeEvents(w); len(got) != 1 {
			t.Errorf("a minute after the failure: %q, want an addition", got)
		}
	})
}

// WaitSynced of a held kind waits while its member is replaced by one of another version.
//
// Guarantees: N3
func TestWaitSyncedOutlastsAReplacement(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		old := w.serve("example.com/v1beta1", "widgets", "Widget", false)
		create(w, old, "x")
		w.run()
		defer w.set.Hold(widgets)()
		create(w, w.definitions, "widgets.example.com")
		informertest.Register[*unstructured.Unstructured](w.server, informertest.Resource{Kind: "Widget", ObjectsOf: old.Collection,
			GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}})
		w.pass(20 * time.Second)
		old.Unregister()
		touch(w, w.definitions, "widgets.example.com")
		for range 600 {
			w.pass(100 * time.Millisecond)
			if err := w.set.WaitSynced(w.Context(), widgets); err != nil {
				t.Fatal(err)
			}
		}
	})
}
