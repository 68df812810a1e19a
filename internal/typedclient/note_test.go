package typedclient

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/queue/ownwrites"
)

// Notes have what the server says of a write: a version, or that an object is gone. An answer that says neither is no error.
// Guarantees: Q12
func TestWritesAreNoted(t *testing.T) {
	const deletedAt = `"deletionTimestamp":"2026-01-01T00:00:00Z"`
	object := func(more ...string) string {
		return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{%s}}`, strings.Join(append(more, `"namespace":"ns","name":"a","uid":"u","resourceVersion":"7"`), ","))
	}
	const gone, nothing = "gone u", ""
	for name, c := range map[string]struct {
		media, body string
		call        func(ctx context.Context, c *Client) error
		want        string
	}{
		"patch":               {mediaJSON, object(), patch, "7"},
		"update in protobuf":  {mediaProtobuf, protobufA(t), update, "7"},
		"deleted, held back":  {mediaJSON, object(deletedAt, `"finalizers":["f"]`), patch, "7"},
		"deleted, with grace": {mediaJSON, object(deletedAt, `"deletionGracePeriodSeconds":30`), patch, "7"},
		"last finalizer":      {mediaJSON, object(deletedAt), patch, "7 " + gone},
		"last, zero grace":    {mediaJSON, object(deletedAt, `"deletionGracePeriodSeconds":0`), update, "7 " + gone},
		"namespace":           {mediaJSON, object(deletedAt), patchNamespace, "7"}, // kept by spec.finalizers
		"read":                {mediaJSON, object(), get, nothing},
		"delete":              {mediaJSON, `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","uid":"u"}}`, remove, " " + gone},
		"delete begins":       {mediaJSON, object(deletedAt, `"finalizers":["f"]`), remove, "7"},
		"delete at once":      {mediaJSON, object(), remove, "7 " + gone}, // as of pods without a node
		"delete, no UID":      {mediaJSON, `{"kind":"Status","apiVersion":"v1","status":"Success"}`, remove, nothing},
		"delete, not JSON":    {mediaJSON, "<html>", remove, nothing},
		"delete, empty":       {mediaProtobuf, "", remove, nothing},
		"delete, no protobuf": {mediaProtobuf, "k8s\x00\xff", remove, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, notes := ownwrites.With(t.Context())
			client := newClient[*corev1.Pod](t, &server{answer: responds(200, c.media, c.body)})
			if err := c.call(ctx, client); err != nil {
				t.Fatal(err)
			}
			var got string
			for _, w := range notes.Take() {
				if got += w.Version; w.Gone {
					got += " gone " + string(w.Object.GetUID())
				}
			}
			if got != c.want {
				t.Errorf("noted %q, want %q", got, c.want)
			}
		})
	}
}

func patch(ctx context.Context, c *Client) error {
	return errorOf(c.Patch(ctx, keyA, types.MergePatchType, []byte("{}"), metav1.PatchOptions{}))
}

func patchNamespace(ctx context.Context, c *Client) error {
	c.config.Resource = corev1.SchemeGroupVersion.WithResource("namespaces")
	return patch(ctx, c)
}

func update(ctx context.Context, c *Client) error {
	return errorOf(c.Update(ctx, podA(), metav1.UpdateOptions{}))
}

func get(ctx context.Context, c *Client) error { return errorOf(c.Get(ctx, keyA, metav1.GetOptions{})) }

func remove(ctx context.Context, c *Client) error { return c.Delete(ctx, keyA, metav1.DeleteOptions{}) }
