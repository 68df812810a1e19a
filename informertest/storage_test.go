package informertest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// Hooks.Removed is called for each write that removes an object, whatever happens to the object right after the write.
func TestHooks_RemovedIsCalledOncePerRemoval(t *testing.T) {
	type writes struct {
		dynamic.ResourceInterface
		widgets *informertest.Collection[*unstructured.Unstructured]
	}
	key := informer.Key{Namespace: "ns", Name: "w"}
	remove := func(w writes) error { _, err := w.widgets.Delete(key); return err }
	create := func(w writes) error { _, err := w.widgets.Create(widget("w")); return err }
	hold := func(w writes) error {
		held := widget("w")
		held.SetFinalizers([]string{"example.com/f"})
		_, err := w.widgets.Create(held)
		return err
	}
	label := func(t *testing.T, w writes) error {
		_, err := w.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
		return err
	}
	release := func(t *testing.T, w writes) error {
		_, err := w.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		return err
	}
	for _, c := range []struct {
		name   string
		before func(writes) error
		write  func(*testing.T, writes) error
		after  func(writes) error // directly after the write, before the client gets the answer
		want   int
	}{
		{"an update", create, label, nil, 0},
		{"an update, then a deletion by others", create, label, remove, 1},
		{"a creation, then a deletion by others", nil, func(t *testing.T, w writes) error {
			_, err := w.Create(t.Context(), widget("w"), metav1.CreateOptions{})
			return err
		}, remove, 1},
		{"a deletion", create, func(t *testing.T, w writes) error { return w.Delete(t.Context(), "w", metav1.DeleteOptions{}) }, nil, 1},
		{"a deletion, then a creation by others", create, func(t *testing.T, w writes) error {
			return w.Delete(t.Context(), "w", metav1.DeleteOptions{})
		}, create, 1},
		{"a dry run of a deletion", create, func(t *testing.T, w writes) error {
			return w.Delete(t.Context(), "w", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}, nil, 0},
		{"a deletion with a finalizer", hold, func(t *testing.T, w writes) error { return w.Delete(t.Context(), "w", metav1.DeleteOptions{}) }, nil, 0},
		{"the last finalizer", func(w writes) error {
			if err := hold(w); err != nil {
				return err
			}
			return remove(w)
		}, release, nil, 1},
		{"the last finalizer, then a creation by others", func(w writes) error {
			if err := hold(w); err != nil {
				return err
			}
			return remove(w)
		}, release, create, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
				var w writes
				removed := 0
				resource := widgetResource
				resource.Hooks.Removed = func(got informer.Key) {
					if removed++; got != key {
						t.Errorf("removed %v", got)
					}
				}
				resource.Hooks.Changed = func(informer.Key) {
					if c.after != nil {
						must(t, c.after(w))
					}
				}
				client, err := dynamic.NewForConfig(server.Config())
				must(t, err)
				w = writes{client.Resource(resource.GroupVersionResource).Namespace("ns"),
					informertest.Register[*unstructured.Unstructured](server, resource)}
				if c.before != nil {
					must(t, c.before(w))
				}
				must(t, c.write(t, w))
				if removed != c.want {
					t.Errorf("called %d times, want %d", removed, c.want)
				}
			})
		})
	}
}
