package readthrough_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/readthrough"
)

// A read does not wait for a list that the server refuses, be it that of the metadata or that of the objects to keep. It
// returns a 403 after the first retry, and another failure after ReadTimeout, which both lists share. The informer goes on.
// Guarantees: P6, P3
func TestReadDoesNotWaitForARefusal(t *testing.T) {
	const timeout = 20 * time.Second
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no rights"))
	broken := apierrors.NewInternalError(errors.New("broken"))
	lists := func(kept bool) func(informertest.Request) bool {
		return func(r informertest.Request) bool { return (r.Query.Get("labelSelector") != "") == kept }
	}
	slowly := informertest.Fault{Match: lists(false), BytesPerSecond: 30}
	for name, c := range map[string]struct {
		faults      []informertest.Fault
		least, most time.Duration
		class       func(error) bool
	}{
		"metadata, 403":               {[]informertest.Fault{{Match: lists(false), Error: forbidden}}, 1, 2 * time.Second, apierrors.IsForbidden},
		"metadata, 500":               {[]informertest.Fault{{Match: lists(false), Error: broken}}, timeout, timeout + time.Second, apierrors.IsInternalError},
		"kept, 403":                   {[]informertest.Fault{{Match: lists(true), Error: forbidden}}, 1, 2 * time.Second, apierrors.IsForbidden},
		"kept, 500":                   {[]informertest.Fault{{Match: lists(true), Error: broken}}, timeout, timeout + time.Second, apierrors.IsInternalError},
		"slow metadata, and kept 500": {[]informertest.Fault{slowly, {Match: lists(true), Error: broken}}, timeout, timeout + time.Second, apierrors.IsInternalError},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.secret("a", "1", map[string]string{"keep": "true"})
				var repairs []func()
				for _, fault := range c.faults {
					repairs = append(repairs, w.server.Inject(fault))
				}
				i := readthrough.New(w.client, resource, readthrough.Config[*corev1.Secret]{ReadTimeout: timeout, KeepLabelSelector: "keep",
					Metadata: informer.Config[*metav1.PartialObjectMetadata]{Logger: slog.New(slog.DiscardHandler)}})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- i.Run(ctx) }()
				reading, end := context.WithTimeout(t.Context(), time.Hour)
				defer end()
				began := time.Now()
				_, err := i.Get(reading, key("a"))
				if took := time.Since(began); !c.class(err) || apierrors.IsNotFound(err) || took < c.least || took > c.most {
					t.Errorf("%v after %v", err, took)
				}
				for _, repair := range repairs {
					repair()
				}
				<-time.After(time.Minute)
				w.want(i, "a", "1")
				cancel()
				<-ended
			})
		})
	}
}
