package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/reconcile"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func (r *rig) recorder(config reconcile.RecorderConfig) *reconcile.Recorder {
	r.Helper()
	config.Component, config.Instance = "tester", "replica"
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	recorder, err := reconcile.NewRecorder(r.newClient(), config)
	r.must(err)
	return recorder
}

// runs runs recorder. stop ends it, and returns the result of Run.
func (r *rig) runs(recorder *reconcile.Recorder) (stop func() error) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- recorder.Run(ctx) }()
	r.Cleanup(cancel)
	return func() error { cancel(); return <-ended }
}

// recorded returns the events of the server: text and count.
func (r *rig) recorded() map[string]int32 {
	synctest.Wait()
	all := map[string]int32{}
	for e := range r.events.All() {
		all[e.Reason+": "+e.Message] += e.Count
	}
	return all
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "1", ResourceVersion: "7"}}
}

func TestRecorder(t *testing.T) {
	inRig(t, func(r *rig) {
		recorder := r.recorder(reconcile.RecorderConfig{})
		recorder.Eventf(podKind, pod("a"), corev1.EventTypeWarning, "Early", "before Run: %d", 1)
		stop := r.runs(recorder)
		for range 3 { // equal events are one, with a count
			<-time.After(time.Second)
			recorder.Eventf(podKind, pod("a"), corev1.EventTypeNormal, "Same", "the same")
		}
		recorder.Eventf(podKind, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, corev1.EventTypeNormal, "Node", "no namespace")
		synctest.Wait()
		if got := r.recorded(); len(got) != 3 || got["Early: before Run: 1"] != 1 || got["Same: the same"] != 3 || got["Node: no namespace"] != 1 || r.events.Len() != 3 {
			r.Errorf("%v", got)
		}
		for e := range r.events.All() {
			ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "ns", Name: "a", UID: "1", ResourceVersion: "7"}
			switch {
			case e.Reason == "Node" && (e.Namespace != "default" || e.InvolvedObject.Namespace != ""),
				e.Reason != "Node" && e.InvolvedObject != ref,
				e.Source.Component != "tester" || e.ReportingController != "tester" || e.ReportingInstance != "replica",
				e.Reason == "Same" && e.LastTimestamp.Sub(e.FirstTimestamp.Time) != 2*time.Second,
				(e.Type == corev1.EventTypeWarning) != (e.Reason == "Early"):
				r.Errorf("%+v", e)
			}
		}
		if err := recorder.Run(r.Context()); !errors.Is(err, informer.ErrRunning) {
			r.Errorf("a second Run: %v", err)
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
		if got := recorder.Status(); got.Running || got.Written != 5 || got.Dropped+got.Failed+got.Limited != 0 || got.LastError != nil {
			r.Errorf("%+v", got)
		}
	})
}

// An event that the server has deleted meanwhile is created again.
func TestRecorderAfterExpiry(t *testing.T) {
	inRig(t, func(r *rig) {
		recorder := r.recorder(reconcile.RecorderConfig{})
		defer r.runs(recorder)()
		for range 2 {
			recorder.Eventf(podKind, pod("a"), corev1.EventTypeNormal, "Same", "the same")
			synctest.Wait()
			for e := range r.events.All() {
				if _, err := r.events.Delete(informer.KeyOf(e)); err != nil {
					r.Error(err)
				}
			}
		}
		recorder.Eventf(podKind, pod("a"), corev1.EventTypeNormal, "Same", "the same")
		if got := r.recorded(); got["Same: the same"] != 3 {
			r.Errorf("%v, %+v", got, recorder.Status())
		}
	})
}

// Events that differ only in their text become one, and the number of events of an object is limited.
func TestRecorderAggregatesAndLimits(t *testing.T) {
	inRig(t, func(r *rig) {
		recorder := r.recorder(reconcile.RecorderConfig{})
		defer r.runs(recorder)()
		for i := range 100 {
			recorder.Eventf(podKind, pod("a"), corev1.EventTypeNormal, "Many", "number %d", i)
			<-time.After(time.Millisecond)
		}
		recorder.Eventf(podKind, pod("b"), corev1.EventTypeNormal, "Other", "not limited")
		got := r.recorded()
		if status := recorder.Status(); r.events.Len() > 12 || got["Other: not limited"] != 1 || status.Written != 26 || status.Limited != 75 {
			r.Errorf("%v, %+v", got, status)
		}
	})
}

// While the server is away, events wait, and Eventf never does. Those that find no room are dropped.
func TestRecorderWithoutServer(t *testing.T) {
	inRig(t, func(r *rig) {
		recorder := r.recorder(reconcile.RecorderConfig{Capacity: 3})
		stop := r.runs(recorder)
		r.server.Stop()
		for i := range 6 {
			recorder.Eventf(podKind, pod(fmt.Sprint(i)), corev1.EventTypeNormal, "Early", "away")
			synctest.Wait()
		}
		<-time.After(time.Minute)
		if got := recorder.Status(); got.Dropped != 2 || got.Waiting != 3 || got.Failed != 0 || got.LastError == nil { // one is being written
			r.Errorf("%+v", got)
		}
		r.server.Start()
		<-time.After(time.Minute)
		if got := recorder.Status(); got.Written != 4 || got.Waiting != 0 || r.events.Len() != 4 {
			r.Errorf("%+v", got)
		}
		remove := r.server.Inject(informertest.Fault{Resource: "events", Error: apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no"))})
		recorder.Eventf(podKind, pod("a"), corev1.EventTypeNormal, "Refused", "not retried")
		<-time.After(time.Minute)
		remove()
		if got := recorder.Status(); got.Failed != 1 || !apierrors.IsForbidden(got.LastError) {
			r.Errorf("%+v", got)
		}
		// A webhook that fails for one event does not hold up the others.
		remove = r.server.Inject(informertest.Fault{Resource: "events", Times: 3, Error: apierrors.NewInternalError(errors.New("failed calling webhook"))})
		recorder.Eventf(podKind, pod("b"), corev1.EventTypeNormal, "Rejected", "three times")
		recorder.Eventf(podKind, pod("c"), corev1.EventTypeNormal, "Next", "written")
		<-time.After(time.Minute)
		remove()
		if got := recorder.Status(); got.Failed != 2 || got.Written != 5 || got.Waiting != 0 {
			r.Errorf("%+v", got)
		}
		_ = stop()
	})
}

// Events that wait when the context ends are written, unless that takes too long.
func TestRecorderFlushes(t *testing.T) {
	for _, away := range []bool{false, true} {
		inRig(t, func(r *rig) {
			recorder := r.recorder(reconcile.RecorderConfig{})
			for i := range 5 {
				recorder.Eventf(podKind, pod(fmt.Sprint(i)), corev1.EventTypeNormal, "Last", "words")
			}
			if away {
				r.server.Inject(informertest.Fault{Resource: "events", Hang: true})
			}
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			began := time.Now()
			_ = recorder.Run(ctx)
			got := recorder.Status()
			if !away && (got.Written != 5 || time.Since(began) > 0) || away && (got.Written != 0 || got.Dropped != 4 || got.Failed != 1 || time.Since(began) != 2*time.Second) {
				r.Errorf("away %t: %+v after %v", away, got, time.Since(began))
			}
		})
	}
}

func TestRecorderCutsMessages(t *testing.T) {
	inRig(t, func(r *rig) {
		recorder := r.recorder(reconcile.RecorderConfig{})
		defer r.runs(recorder)()
		recorder.Eventf(podKind, pod("a"), corev1.EventTypeNormal, "Long", "%s", strings.Repeat("ä", 1000))
		synctest.Wait()
		for e := range r.events.All() {
			if len(e.Message) > 1024 || len(e.Message) < 1020 || !utf8.ValidString(e.Message) || !strings.HasSuffix(e.Message, "ä...") {
				r.Errorf("%d bytes: %s", len(e.Message), e.Message)
			}
		}
		if r.events.Len() != 1 {
			r.Errorf("%d events", r.events.Len())
		}
	})
}

func TestRecorderConfig(t *testing.T) {
	inRig(t, func(r *rig) {
		for want, config := range map[string]reconcile.RecorderConfig{
			"Component is empty": {},
			"Capacity is -1":     {Component: "a", Capacity: -1},
		} {
			if _, err := reconcile.NewRecorder(r.newClient(), config); err == nil || !strings.Contains(err.Error(), want) {
				r.Errorf("%v, want %q", err, want)
			}
		}
		if _, err := reconcile.NewRecorder(nil, reconcile.RecorderConfig{Component: "a"}); err == nil || !strings.Contains(err.Error(), "client") {
			r.Errorf("nil client: %v", err)
		}
	})
}
