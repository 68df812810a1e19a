package written

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	before := object("x", "1")
	Note(ctx, "s", pods, before)
	Note(ctx, "s", pods, gone)
	Note(ctx, "s", pods, gone)
	if w := notes.Take(); len(w) != 1 || w[0].Before != Object(before) || !w[0].Gone || w[0].Version != "1" {
		t.Errorf("got %+v", w)
	}
}

func object(name, version string) *metav1.ObjectMeta {
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
		"an object":           {func(ctx context.Context) { Note(ctx, "s", pods, object("x", "1")) }, map[string]Write{"1": {}}},
		"without a version":   {func(ctx context.Context) { Note(ctx, "s", pods, object("", "")) }, map[string]Write{}},
		"deleted":             {func(ctx context.Context) { Note(ctx, "s", pods, gone) }, map[string]Write{"": {Gone: true}}},
		"created and deleted": {func(ctx context.Context) { Note(ctx, "s", pods, object("x", "1")); Note(ctx, "s", pods, gone) }, map[string]Write{"1": {Gone: true}}},
		"deleted and created": {func(ctx context.Context) { Note(ctx, "s", pods, gone); Note(ctx, "s", pods, object("x", "2")) }, map[string]Write{"2": {}}},
		"updated twice": {func(ctx context.Context) {
			Note(ctx, "s", pods, object("x", "1"))
			Note(ctx, "s", pods, object("x", "2"))
		}, map[string]Write{"2": {}}},
		"returned in another order": {func(ctx context.Context) {
			Note(ctx, "s", pods, object("x", "11"))
			Note(ctx, "s", pods, object("x", "9"))
		}, map[string]Write{"11": {}}},
		"of several names": {func(ctx context.Context) {
			Note(ctx, "s", pods, object("x", "1"))
			Note(ctx, "s", pods, object("y", "2"))
		}, map[string]Write{"1": {}, "2": {}}},
		"of several resources": {func(ctx context.Context) {
			Note(ctx, "s", pods, object("x", "1"))
			Note(ctx, "s", nodes, object("x", "2"))
		}, map[string]Write{"1": {}, "2": {}}},
		"of several servers": {func(ctx context.Context) {
			Note(ctx, "s", pods, object("x", "1"))
			Note(ctx, "z", pods, object("x", "2"))
		}, map[string]Write{"1": {}, "2": {}}},
		"in a context of it": {func(ctx context.Context) {
			ctx, end := context.WithCancel(ctx)
			defer end()
			Note(ctx, "s", pods, object("x", "1"))
		}, map[string]Write{"1": {}}},
		"in a context detached": {func(ctx context.Context) { Note(context.Background(), "s", pods, object("x", "1")) }, map[string]Write{}},
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
