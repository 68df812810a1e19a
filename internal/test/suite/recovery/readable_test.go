package recovery

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// A wait for a read ends with 401, 403 or the absence of the resource after the first backoff, at once if the resource has no lists, and
// with another failure after its timeout. Later ones of the first kind end at once. The informer goes on: when the server answers, a wait returns nil. No error of a wait
// says that an object does not exist.
// Guarantees: P6, P3, R13, R14
func TestReadDoesNotWaitForARefusal(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	absent := func(err error) bool { return errors.Is(err, informer.ErrAbsent) }
	serverError := func(err error) bool { return apierrors.IsInternalError(err) }
	unlisted := func(err error) bool { return errors.Is(err, informer.ErrNoList) }
	page := func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
	const timeout = 20 * time.Second
	type between struct{ least, most time.Duration }
	nothing, aRetry, theTimeout := between{}, between{1, 2 * time.Second}, between{timeout, timeout + time.Second}
	for name, c := range map[string]struct {
		answer world.Answer
		class  func(error) bool
		takes  between
	}{
		"401": {world.Refuse(apierrors.NewUnauthorized("who?")), apierrors.IsUnauthorized, aRetry},
		"403": {world.Refuse(apierrors.NewForbidden(pods, "", errors.New("no role"))), apierrors.IsForbidden, aRetry},
		"405": {world.Refuse(apierrors.NewMethodNotSupported(pods, "list")), unlisted, nothing},
		"405 without a reason": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return true
		},
			unlisted, nothing},
		"no verb list":   {documents(map[string]string{"/api": coreVersions, "/api/v1": createOnlyPods}), unlisted, nothing},
		"absent":         {documents(map[string]string{"/api": coreVersions, "/api/v1": coreNodes}), absent, aRetry},
		"500":            {world.Refuse(apierrors.NewInternalError(errors.New("broken"))), serverError, theTimeout},
		"a proxy's page": {page, func(error) bool { return true }, theTimeout},
		"a lost connection": {func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
			func(err error) bool { return strings.Contains(err.Error(), "EOF") }, theTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
				w.Create(world.NewPod("ns", "a"))
				w.Answer(c.answer)
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				defer world.Run(w, inf)()
				reading, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
				defer cancel()
				for _, first := range []bool{true, false} {
					began := time.Now()
					err := inf.WaitReadable(reading, timeout)
					took := time.Since(began)
					if err == nil || !c.class(err) || !errors.As(err, new(*informer.NotSyncedError)) || apierrors.IsNotFound(err) {
						w.Errorf("first=%v: %v", first, err)
					}
					takes := c.takes
					if !first && takes == aRetry {
						takes = nothing
					}
					if took < takes.least || took > takes.most {
						w.Errorf("first=%v: the wait took %v", first, took)
					}
				}
				ended, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				if err := inf.WaitSynced(ended); !errors.Is(err, context.DeadlineExceeded) || apierrors.IsNotFound(err) {
					w.Errorf("WaitSynced: %v", err)
				}
				w.Answer(nil)
				<-time.After(time.Minute)
				if err := inf.WaitReadable(reading, timeout); err != nil || inf.Store().Len() != 1 {
					w.Errorf("when the server answers: %v, %d pods", err, inf.Store().Len())
				}
			})
		})
	}
}

// A list that takes longer than the timeout is no failure: a wait for a read returns when the list is complete. One failure is none that
// lasts.
// Guarantees: P6
func TestReadWaitsForASlowList(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		w.Server.Inject(informertest.Fault{Verb: "watch", Error: world.Forbidden, Times: 1})
		w.Server.Inject(informertest.Fault{Verb: "list", Error: world.Forbidden, Times: 1})
		w.Server.Inject(informertest.Fault{BytesPerSecond: 50})
		inf := w.QuietInformer()
		defer world.Run(w, inf)()
		began := time.Now()
		if err := inf.WaitReadable(w.Context(), time.Second); err != nil || time.Since(began) < 5*time.Second {
			w.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A wait for a read ends when its context does, and when the informer stops.
// Guarantees: P6
func TestReadEndsWithItsContext(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Server.Inject(informertest.Fault{Hang: true})
		inf := w.QuietInformer()
		stop := world.Run(w, inf)
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := inf.WaitReadable(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			w.Error(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- inf.WaitReadable(w.Context(), time.Hour) }()
		synctest.Wait()
		stop()
		if err := <-ended; !errors.Is(err, informer.ErrStopped) {
			w.Error(err)
		}
	})
}

// While the server refuses an optional selection, reads do not fail for it.
// Guarantees: P6, U2
func TestReadDoesNotFailForAnOptionalSelection(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		w.Server.Inject(informertest.Fault{Namespace: "private", Error: world.Forbidden})
		w.Server.Inject(informertest.Fault{Namespace: "ns", BytesPerSecond: 50})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Selections: []informer.Selection{
			{Namespace: "private", Optional: true}, {Namespace: "ns"},
		}}, world.Quiet[*corev1.Pod]())
		defer world.Run(w, inf)()
		if err := inf.WaitReadable(w.Context(), time.Second); err != nil || inf.Store().Len() != 1 {
			w.Errorf("%v, %d pods", err, inf.Store().Len())
		}
	})
}

// What becomes of a namespace after its first list is no reason for a read to fail while another one is listed.
// Guarantees: P6
func TestReadDoesNotFailForANamespaceThatHasListed(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"), world.NewPod("slow", "b"))
		w.Server.Inject(informertest.Fault{Namespace: "ns", Verb: "watch", Error: world.Forbidden})
		w.Server.Inject(informertest.Fault{Namespace: "slow", BytesPerSecond: 50})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"ns", "slow"}}, world.Paged[*corev1.Pod]())
		defer world.Run(w, inf)()
		began := time.Now()
		if err := inf.WaitReadable(w.Context(), time.Second); err != nil || inf.Store().Len() != 2 || time.Since(began) < 3*time.Second {
			w.Errorf("%v after %v, %d pods", err, time.Since(began), inf.Store().Len())
		}
	})
}
