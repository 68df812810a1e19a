package deliver

import (
	"context"
	"errors"
	"testing"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Ended is like a listener that Hub.Join has ended: it never syncs, no wait blocks, and it keeps its error when it is
// ended again.
//
// Guarantees: L4
func TestEndedIsLikeAListenerThatCannotJoin(t *testing.T) {
	why := errors.New("nothing to listen to")
	l := NewListener(newHub(t, &world{}), Handler[*thing](follow(t)), nil, Config{})
	l.hub.Load().Join(l, why)
	for name, ended := range map[string]interface {
		HasSynced() bool
		WaitSynced(ctx context.Context) error
		End(why error)
		Released() <-chan struct{}
		Err() error
		Status() status.Subscription
	}{"listener": l, "Ended": Ended{why}} {
		ended.End(errLeft)
		if err := ended.Err(); !errors.Is(err, why) {
			t.Errorf("%s: Err returns %v", name, err)
		}
		if err := ended.WaitSynced(t.Context()); ended.HasSynced() || !errors.Is(err, why) {
			t.Errorf("%s: synced %v, WaitSynced returns %v", name, ended.HasSynced(), err)
		}
		if s := ended.Status(); s.Synced || s.Blocking || s.Backlog != 0 || s.Busy != 0 {
			t.Errorf("%s: %+v", name, s)
		}
		if !run.IsClosed(ended.Released()) {
			t.Errorf("%s: not released", name)
		}
	}
}
