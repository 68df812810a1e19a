package ownwrites

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/object"
)

// The removal of the last finalizer deletes an object whose grace period is over. Until then, the server keeps the object, and so does the
// one of a namespace with finalizers in its spec.
// Guarantees: Q12
func TestRemovalOfTheLastFinalizer(t *testing.T) {
	pods, namespaces := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "namespaces"}
	deleted := metav1.ObjectMeta{Name: "x", UID: "u", DeletionTimestamp: &metav1.Time{}}
	with := func(change func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
		o := deleted.DeepCopy()
		change(o)
		return o
	}
	for name, c := range map[string]struct {
		resource schema.GroupResource
		object   any
		removed  bool
	}{
		"deleted":                 {pods, &deleted, true},
		"grace period is over":    {pods, with(func(o *metav1.ObjectMeta) { o.DeletionGracePeriodSeconds = new(int64) }), true},
		"within the grace period": {pods, with(func(o *metav1.ObjectMeta) { o.DeletionGracePeriodSeconds = new(int64(30)) }), false},
		"another finalizer":       {pods, with(func(o *metav1.ObjectMeta) { o.Finalizers = []string{"f"} }), false},
		"not deleted":             {pods, with(func(o *metav1.ObjectMeta) { o.DeletionTimestamp = nil }), false},
		"from no server":          {pods, with(func(o *metav1.ObjectMeta) { o.UID = "" }), false},
		"a namespace":             {namespaces, &deleted, false},
		"without such fields":     {pods, Gone{Name: "x", UID: "u"}, false},
	} {
		if _, removed := Removed(c.resource, c.object); removed != c.removed {
			t.Errorf("%s: removed=%v", name, removed)
		}
	}
	if uid, _ := Removed(pods, &deleted); uid != "u" {
		t.Errorf("UID %q", uid)
	}
}

// A deletion has the object as an earlier write returned it.
// Guarantees: Q12
func TestDeletionsHaveTheObjectBefore(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	gone := Gone{Namespace: "a", Name: "x", UID: "u"}
	ctx, notes := With(t.Context())
	Note(ctx, "s", pods, gone)
	if w := notes.Take(); len(w) != 1 || w[0].Before != nil {
		t.Errorf("got %+v", w)
	}
	before := newObject("x", "1")
	Note(ctx, "s", pods, before)
	Note(ctx, "s", pods, gone)
	Note(ctx, "s", pods, gone)
	if w := notes.Take(); len(w) != 1 || w[0].Before != object.Object(before) || !w[0].Gone || w[0].Version != "1" {
		t.Errorf("got %+v", w)
	}
}

func newObject(name, version string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{Namespace: "a", Name: name, UID: "u", ResourceVersion: version}
}

// The notes have the latest write of each object. A deletion waits for the creation before it, too.
// Guarantees: Q12
func TestNotesHaveTheLatestWriteOfEachObject(t *testing.T) {
	pods, nodes := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "nodes"}
	gone := Gone{Namespace: "a", Name: "x", UID: "u"}
	for name, c := range map[string]struct {
		do   func(ctx context.Context)
		want map[string]Write // by version; "" if there is none
	}{
		"nothing":             {func(ctx context.Context) {}, map[string]Write{}},
		"an object":           {func(ctx context.Context) { Note(ctx, "s", pods, newObject("x", "1")) }, map[string]Write{"1": {}}},
		"without a version":   {func(ctx context.Context) { Note(ctx, "s", pods, newObject("", "")) }, map[string]Write{}},
		"deleted":             {func(ctx context.Context) { Note(ctx, "s", pods, gone) }, map[string]Write{"": {Gone: true}}},
		"created and deleted": {func(ctx context.Context) { Note(ctx, "s", pods, newObject("x", "1")); Note(ctx, "s", pods, gone) }, map[string]Write{"1": {Gone: true}}},
		"deleted and created": {func(ctx context.Context) { Note(ctx, "s", pods, gone); Note(ctx, "s", pods, newObject("x", "2")) }, map[string]Write{"2": {}}},
		"updated twice": {func(ctx context.Context) {
			Note(ctx, "s", pods, newObject("x", "1"))
			Note(ctx, "s", pods, newObject("x", "2"))
		}, map[string]Write{"2": {}}},
		"returned in another order": {func(ctx context.Context) {
			Note(ctx, "s", pods, newObject("x", "11"))
			Note(ctx, "s", pods, newObject("x", "9"))
		}, map[string]Write{"11": {}}},
		"of several names": {func(ctx context.Context) {
			Note(ctx, "s", pods, newObject("x", "1"))
			Note(ctx, "s", pods, newObject("y", "2"))
		}, map[string]Write{"1": {}, "2": {}}},
		"of several resources": {func(ctx context.Context) {
			Note(ctx, "s", pods, newObject("x", "1"))
			Note(ctx, "s", nodes, newObject("x", "2"))
		}, map[string]Write{"1": {}, "2": {}}},
		"of several servers": {func(ctx context.Context) {
			Note(ctx, "s", pods, newObject("x", "1"))
			Note(ctx, "z", pods, newObject("x", "2"))
		}, map[string]Write{"1": {}, "2": {}}},
		"in a context of it": {func(ctx context.Context) {
			ctx, end := context.WithCancel(ctx)
			defer end()
			Note(ctx, "s", pods, newObject("x", "1"))
		}, map[string]Write{"1": {}}},
		"in a context detached": {func(ctx context.Context) { Note(context.Background(), "s", pods, newObject("x", "1")) }, map[string]Write{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, notes := With(t.Context())
			if !Wanted(ctx) || Wanted(t.Context()) {
				t.Error("the context has no notes, or another one has")
			}
			c.do(ctx)
			got := notes.Take()
			if len(got) != len(c.want) {
				t.Errorf("got %+v", got)
			}
			for _, w := range got {
				if want, ok := c.want[w.Version]; !ok || w.Gone != want.Gone {
					t.Errorf("got %+v", w)
				}
			}
			if again := notes.Take(); len(again) > 0 {
				t.Errorf("again: %+v", again)
			}
		})
	}
}
