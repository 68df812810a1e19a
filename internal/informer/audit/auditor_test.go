package audit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/status"
)

// rig is a store of one source, and a server.
type rig struct {
	*Auditor
	view      objects
	serves    map[string]object.ID
	err       error // of each list
	behind    error
	lists     int
	relists   []error
	published chan struct{}
	stopped   chan struct{}
	identity  string
}

func newRig(every time.Duration) *rig {
	r := &rig{view: objects{version: "1"}, published: make(chan struct{}), stopped: make(chan struct{}), identity: "one"}
	r.Auditor = New(Config{
		Every:     every,
		Sources:   func() []Source { return []Source{r} },
		Published: func() <-chan struct{} { return r.published },
		Alone:     func(context.Context) (func(), error) { return func() {}, nil },
		Identity:  func(context.Context, bool) (string, error) { return r.identity, nil },
		Different: func(status.AuditResult) error { return errors.New("different") },
		Stopped:   r.stopped,
	})
	return r
}

func (r *rig) View() (View, bool) { return r.view, true }

func (r *rig) List(_ context.Context, _ View, yield func(object.Key, object.ID)) (int64, error) {
	r.lists++
	for name, id := range r.serves {
		yield(keyOf(name), id)
	}
	return 10, r.err
}

func (r *rig) Behind(context.Context, View) error { return r.behind }

// Relist repairs the store.
func (r *rig) Relist(why error) {
	r.relists = append(r.relists, why)
	r.view.ids = r.serves
}

// publish publishes a view of version.
func (r *rig) publish(version string) {
	r.view.version = version
	published := r.published
	r.published = make(chan struct{})
	close(published)
}

// bubble runs test between Start and Stop.
func bubble(t *testing.T, every time.Duration, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(every)
		ctx, cancel := context.WithCancel(t.Context())
		r.Start(ctx)
		synctest.Wait()
		test(r)
		cancel()
		r.Stop()
		if next := r.Status().Next; !next.IsZero() {
			t.Errorf("planned after the end: %v", next)
		}
	})
}

// pass lets time pass, and waits for what it has caused.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A difference makes the source list, and is checked again within a minute. A store that stays wrong is not listed
// without end.
// Guarantees: R23
func TestDifferenceIsRepairedAndChecked(t *testing.T) {
	bubble(t, 0, func(r *rig) {
		r.serves = map[string]object.ID{"a": {UID: "u", Version: "1"}}
		r.Due()
		pass(3 * time.Minute)
		s := r.Status()
		if len(r.relists) != 1 || s.Different != 1 || s.Equal != 1 || s.Differ != 1 || s.Last.Differ != 0 || s.Last.Bytes != 10 {
			t.Errorf("%d relists, %+v", len(r.relists), s)
		}
		if s.LastError == nil || s.LastError.Error() != "different" {
			t.Errorf("last error %v", s.LastError)
		}
	})
	bubble(t, 0, func(r *rig) {
		r.err = errors.New("down")
		r.Due()
		pass(time.Hour)
		if s := r.Status(); r.lists != 1+maxAgain || s.Failed != r.lists || s.LastError != r.err {
			t.Errorf("%d lists, %+v", r.lists, s)
		}
	})
}

// No audit runs by itself without a reason. One that is due begins within half a minute, once, however often it is due.
// Guarantees: R23
func TestAuditIsDueOnce(t *testing.T) {
	bubble(t, 0, func(r *rig) {
		r.Resumed(maxAway, false)
		pass(time.Hour)
		if r.lists != 0 {
			t.Errorf("%d lists without a reason", r.lists)
		}
		r.Resumed(maxAway+1, false)
		r.Due()
		synctest.Wait()
		if next := time.Until(r.Status().Next); next < 0 || next > within {
			t.Errorf("next in %v", next)
		}
		r.Due()
		pass(time.Hour)
		if r.lists != 1 {
			t.Errorf("%d lists", r.lists)
		}
	})
}

// Another server at the same address is a reason for an audit, even after a short outage.
// Guarantees: R23
func TestAnotherServerIsAudited(t *testing.T) {
	bubble(t, 0, func(r *rig) {
		r.Resumed(time.Second, false)
		pass(time.Minute)
		if r.lists != 0 {
			t.Error("audited the same server")
		}
		r.identity = "two"
		r.Resumed(time.Second, false)
		pass(time.Minute)
		if r.lists != 1 {
			t.Errorf("%d lists", r.lists)
		}
		r.Resumed(0, true)
		pass(time.Minute)
		if r.lists != 2 {
			t.Errorf("%d lists after the client got another address", r.lists)
		}
	})
}

// Periodic audits keep their period, with a jitter of a tenth, and begin at different times in different processes.
// Guarantees: R23
func TestPeriodicAudits(t *testing.T) {
	first := map[time.Duration]bool{}
	for range 10 {
		bubble(t, time.Hour, func(r *rig) {
			first[time.Until(r.Status().Next).Truncate(time.Second)] = true
			pass(100 * time.Hour)
			if r.lists < 90 || r.lists > 112 {
				t.Errorf("%d audits in 100 hours", r.lists)
			}
		})
	}
	if len(first) < 5 {
		t.Errorf("ten processes audit first after %v", first)
	}
}

// A version that the server no longer has is followed by the next one of the store. While there is none, the audit waits.
// Guarantees: R23
func TestLaterVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		r.err = apierrors.NewResourceExpired("gone")
		ended := make(chan error, 1)
		go func() {
			result, err := r.Audit(t.Context())
			if result.ResourceVersion != "2" {
				t.Errorf("compared at %q", result.ResourceVersion)
			}
			ended <- err
		}()
		synctest.Wait()
		r.publish("1") // a change of another source
		synctest.Wait()
		if r.lists != 1 {
			t.Errorf("%d lists of one version", r.lists)
		}
		r.err = nil
		r.publish("2")
		if err := <-ended; err != nil {
			t.Error(err)
		}

		r.err = apierrors.NewResourceExpired("gone")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Audit(ctx); !apierrors.IsResourceExpired(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		close(r.stopped)
		before := r.Status().Failed
		if _, err := r.Audit(t.Context()); err == nil || r.Status().Failed != before {
			t.Errorf("%v after the end counts as a failure", err)
		}
	})
}

// A server that has not reached the version of the store was restored: the source lists.
// Guarantees: R6, R23
func TestServerBehindIsListed(t *testing.T) {
	r := newRig(0)
	r.err, r.behind = errors.New("future revision"), errors.New("went back")
	if _, err := r.Audit(t.Context()); err != r.behind || len(r.relists) != 1 || r.relists[0] != r.behind {
		t.Errorf("%v, relists %v", err, r.relists)
	}
	r.behind = nil
	if _, err := r.Audit(t.Context()); err != r.err || len(r.relists) != 1 {
		t.Errorf("%v, relists %v", err, r.relists)
	}
}

// An audit whose caller cancels has neither failed, nor is it the last error, whatever the cause says.
// Guarantees: R23
func TestCanceledAuditHasNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(0)
		r.err = apierrors.NewResourceExpired("gone") // the audit waits
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := r.Audit(ctx)
			ended <- err
		}()
		synctest.Wait()
		why := errors.New("the user has left")
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Error(err)
		}
		if s := r.Status(); s.Failed != 0 || s.LastError != nil {
			t.Errorf("%+v", s)
		}
	})
}

// Tries after failures and differences count in a row: a success ends the row.
// Guarantees: R23
func TestTriesCountInARow(t *testing.T) {
	bubble(t, 0, func(r *rig) {
		for n := range 2 * maxAgain {
			r.err = errors.New("down")
			r.Due()
			for r.Status().Failed == n {
				pass(time.Second)
			}
			r.err = nil
			r.Due()
			pass(time.Hour)
			if s := r.Status(); s.Failed != n+1 || s.Equal != n+1 {
				t.Fatalf("after failure %d: %+v", n+1, s)
			}
		}
		r.err = errors.New("down")
		r.Due()
		pass(time.Hour)
		if s := r.Status(); s.Failed != 2*maxAgain+1+maxAgain {
			t.Errorf("%+v", s)
		}
	})
}

// A server that changes and changes back is audited for both.
// Guarantees: R23
func TestServerThatChangesBackIsAudited(t *testing.T) {
	bubble(t, 0, func(r *rig) {
		for i, identity := range []string{"two", "one", "two"} {
			r.identity = identity
			r.Resumed(time.Second, false)
			pass(time.Minute)
			if r.lists != i+1 {
				t.Errorf("%d lists after change %d", r.lists, i+1)
			}
		}
	})
}

// An audit that waits for a later version lets other audits list.
// Guarantees: U10
func TestWaitingAuditLetsOthersList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alone := make(chan struct{}, 1)
		waits, other := newRig(0), newRig(0)
		for _, r := range []*rig{waits, other} {
			r.config.Alone = func(ctx context.Context) (func(), error) {
				select {
				case alone <- struct{}{}:
					return func() { <-alone }, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
		}
		waits.err = apierrors.NewResourceExpired("gone")
		ended := make(chan error, 1)
		go func() {
			_, err := waits.Audit(t.Context())
			ended <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := other.Audit(ctx); err != nil {
			t.Error(err)
		}
		waits.err = nil
		waits.publish("2")
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// An object that differs in several sources, and in their union, is one difference.
// Guarantees: U9
func TestUnionIsCompared(t *testing.T) {
	r := newRig(0)
	r.view.ids = map[string]object.ID{"a": {UID: "u", Version: "1"}}
	r.serves = map[string]object.ID{"a": {UID: "u", Version: "2"}, "b": {UID: "v", Version: "1"}}
	second := newRig(0)
	second.view.ids, second.serves = r.view.ids, r.serves
	r.config.Sources = func() []Source { return []Source{r, second} }
	var found Found
	found.Objects = 2
	found.Note(keyOf("a"), object.ID{UID: "u", Version: "1"}, true, object.ID{UID: "u", Version: "2"}, true)
	found.Note(keyOf("c"), object.ID{UID: "u", Version: "1"}, true, object.ID{}, false)
	found.Note(keyOf("d"), object.ID{}, false, object.ID{UID: "u", Version: "1"}, true)
	found.Note(keyOf("e"), object.ID{UID: "u", Version: "1"}, true, object.ID{UID: "v", Version: "1"}, true)
	r.config.Union = func(context.Context) (Found, error) { return found, nil }
	result, err := r.Audit(t.Context())
	if err != nil || result.Objects != 2 || result.Differ != 5 || len(result.Differences) != 5 {
		t.Errorf("%+v, %v", result, err)
	}
	for _, d := range result.Differences {
		if want := map[string]string{"a": "outdated", "b": "missing", "c": "superfluous", "d": "missing", "e": "recreated"}; d.Kind.String() != want[d.Key.Name] {
			t.Errorf("%v", d)
		}
	}
	if len(r.relists) != 1 || len(second.relists) != 1 {
		t.Errorf("relists %v, %v", r.relists, second.relists)
	}
	r.config.Union = func(context.Context) (Found, error) { return Found{}, errors.New("no union") }
	if _, err := r.Audit(t.Context()); err == nil || r.Status().Failed != 1 {
		t.Error(err)
	}
}
