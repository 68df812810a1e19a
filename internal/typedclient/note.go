package typedclient

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/queue/ownwrites"
	"github.com/typedinformer/informer/internal/source/decode"
)

// exclusive sends r, a write that the server accepts only at version base of the object, or, if base is empty, only if
// there is no such object.
func (c *Client) exclusive(ctx context.Context, r request, base string) (any, error) {
	if r.query.Has("dryRun") {
		return c.one(ctx, r)
	}
	answered := ownwrites.Sending(ctx, base)
	var stored object.Object
	defer func() { answered(stored) }()
	obj, err := c.one(ctx, r)
	if err == nil {
		stored, _ = obj.(object.Object)
	}
	return obj, err
}

// noteDeletion notes the deletion that answer reports: a Status has the UID of an object that is gone; otherwise,
// answer is the object, whose deletion has begun. An answer that is neither leaves nothing to wait for.
func (c *Client) noteDeletion(ctx context.Context, key object.Key, format decode.Format, answer []byte) {
	if format == decode.Protobuf {
		var err error
		if answer, err = decode.Unwrap(answer); err != nil {
			return
		}
	}
	if status, err := format.Status(answer); err == nil && status.Status == metav1.StatusSuccess {
		if status.Details != nil && status.Details.UID != "" {
			c.noteGone(ctx, ownwrites.Gone{Namespace: key.Namespace, Name: key.Name, UID: status.Details.UID})
		}
		return
	}
	if obj, err := c.decoders.Decode(format, answer, decode.Origin{}); err == nil {
		c.note(ctx, obj)
		if o, ok := obj.(ownwrites.Deletable); ok && o.GetDeletionTimestamp() == nil { // nothing delayed the deletion
			c.noteGone(ctx, o)
		}
	}
}

// note notes that the server returned obj for a write.
func (c *Client) note(ctx context.Context, obj any) {
	o, ok := obj.(object.Object)
	if !ok || !ownwrites.Wanted(ctx) {
		return
	}
	ownwrites.Note(ctx, c.config.HTTP.Base().String(), c.config.Resource.GroupResource(), o)
	if _, removed := ownwrites.Removed(c.config.Resource.GroupResource(), o); removed {
		c.noteGone(ctx, o)
	}
}

// noteGone notes that the server no longer has o.
func (c *Client) noteGone(ctx context.Context, o object.Object) {
	gone := ownwrites.Gone{Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	ownwrites.Note(ctx, c.config.HTTP.Base().String(), c.config.Resource.GroupResource(), gone)
}
