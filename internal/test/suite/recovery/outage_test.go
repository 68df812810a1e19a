package recovery

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// restored has the events of a handler after outage.restore.
var restored = []string{"update ns/a 2->other", "update ns/b 2->1"}

// outage runs a recovery.
type outage struct {
	world.World
	recovery
	inf   *informer.Informer[*corev1.Pod]
	rec   *testkit.Recorder[*corev1.Pod]
	since time.Time
}

// endWatches ends the watches, lets the clients reconnect, and then changes b.
func (o *outage) endWatches() {
	o.Server.EndWatches()
	synctest.Wait()
	o.Relabel("ns", "b", "2")
	synctest.Wait()
}

// expireWatch ends the watches. The server then answers the next one with 410 Expired.
func (o *outage) expireWatch() {
	o.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
	o.Server.EndWatches()
	o.Relabel("ns", "b", "2")
}

// restore lets the informer reach version 5, goes back to version 3, and creates a different version 4.
func (o *outage) restore() {
	backup := o.Server.Snapshot()
	o.Relabel("ns", "a", "2")
	o.Relabel("ns", "b", "2")
	o.rec.Want(o.T, "update ns/a 1->2", "update ns/b 1->2")
	o.Server.Restore(backup)
	o.Relabel("ns", "a", "other")
}

func (o *outage) wantStatus(want string) {
	o.Helper()
	s := o.inf.Status().Reflectors[0]
	var got []string
	for _, field := range []struct {
		name  string
		value int
	}{{"restored", s.Restored}, {"failures", s.Failures}, {"stale", s.Stale}, {"errors", s.DecodeErrors}} {
		switch {
		case field.value > 0 && strings.Contains(want, field.name+"=some"):
			got = append(got, field.name+"=some")
		case field.value > 0:
			got = append(got, fmt.Sprintf("%s=%d", field.name, field.value))
		}
	}
	if text := strings.Join(got, " "); text != want {
		o.Errorf("status %q, want %q", text, want)
	}
	if s.State != status.ReflectorWatching || !s.WatchOpen {
		o.Errorf("status %+v", s)
	}
}

// wantRequests checks the requests and their times.
func (o *outage) wantRequests() {
	o.Helper()
	var got, asked []string
	last := o.since
	in := len(o.recovery.requests) == len(o.Server.Requests())
	for i, r := range o.Server.Requests() {
		asked = append(asked, fmt.Sprintf("%v %s", r.Time.Sub(last), o.World.Requests()[i]))
		got = append(got, o.World.Requests()[i])
		if in {
			wait, _, _ := strings.Cut(o.recovery.requests[i], " ")
			least, most, isRange := strings.Cut(wait, "..")
			if !isRange {
				most = least
			}
			in = r.Time.Sub(last) >= duration(least) && r.Time.Sub(last) <= duration(most)
		}
		last = r.Time
	}
	var want []string
	for _, r := range o.recovery.requests {
		_, text, _ := strings.Cut(r, " ")
		want = append(want, text)
	}
	if !in || !slices.Equal(got, want) {
		o.Errorf("requests:\n\t%s\nwant:\n\t%s", strings.Join(asked, "\n\t"), strings.Join(o.recovery.requests, "\n\t"))
	}
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// run makes the failure happen, and checks how the informer handles it.
func (o *outage) run() {
	o.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	remove := func() {}
	inject := func() {
		if !reflect.ValueOf(o.fault).IsZero() {
			remove = o.Server.Inject(o.fault)
		}
	}
	if o.atStart {
		inject()
	}
	o.since = time.Now()
	ctx, cancel := context.WithTimeout(o.Context(), time.Hour)
	defer cancel()
	ended := make(chan error)
	go func() { ended <- o.inf.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	if err := o.inf.WaitSynced(ctx); err != nil {
		o.Fatal(err)
	}
	if !o.atStart {
		o.rec.Want(o.T, world.Added...)
		<-time.After(10 * time.Second)
		o.Server.ResetRequests()
		o.since = time.Now()
		inject()
		if o.does == nil {
			o.endWatches()
		} else {
			o.does(o)
		}
	}
	o.catchUp(ctx)
	o.wantRequests()
	o.rec.Want(o.T, o.recovery.events...)
	o.wantStatus(o.status)

	// After the fault, store and server are equal, and no event repeats.
	remove()
	o.Server.ResetRequests()
	o.Server.EndWatches()
	synctest.Wait()
	for pod := range o.Pods.All() {
		o.Relabel("ns", pod.Name, "end")
	}
	o.catchUp(ctx)
	world.EqualsServer(o.World, o.inf)
	if told := o.rec.Told(); len(told) != o.Pods.Len() {
		o.Errorf("events afterwards: %q", told)
	}
	if requests := o.World.Requests(); len(requests) != 1 {
		o.Errorf("requests afterwards: %q", requests)
	}
	<-time.After(3 * time.Minute)
	unnamed := strings.Contains(o.name, "nameless") && o.events == nil // only another list can show which object that was
	if s := o.inf.Status().Reflectors[0]; s.Failures != 0 || (s.Stale != 0) != unnamed || (s.LastError == nil) != (o.status == "" && o.recovery.requests[0] == watchOn[0]) {
		o.Errorf("status afterwards: %+v", s)
	}
}

// catchUp waits until the informer has reached the server's version.
func (o *outage) catchUp(ctx context.Context) {
	o.Helper()
	for {
		if err := o.inf.WaitForResourceVersion(ctx, o.Server.ResourceVersion()); err != nil {
			o.Fatalf("%v: %+v", err, o.inf.Status())
		}
		synctest.Wait()
		if s := o.inf.Status().Reflectors[0]; s.WatchOpen && s.ResourceVersion == o.Server.ResourceVersion() {
			return
		}
		<-time.After(10 * time.Second) // after a restore, WaitForResourceVersion counts the store's older state
	}
}

// endsWell checks that, ten minutes after the failures, nothing is left of them: the store equals the server, and each change
// calls the handler once.
func endsWell(w world.World, inf *informer.Informer[*corev1.Pod], rec *testkit.Recorder[*corev1.Pod]) {
	w.Helper()
	<-time.After(10 * time.Minute)
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute) // what has not recovered by now never does
	defer cancel()
	w = w.WithContext(ctx)
	world.EqualsServer(w, inf)
	rec.Take()
	w.Server.EndWatches()
	synctest.Wait()
	for pod := range w.Pods.All() {
		w.Relabel(pod.Namespace, pod.Name, "end")
	}
	world.EqualsServer(w, inf)
	synctest.Wait()
	if calls := rec.Take(); len(calls) != w.Pods.Len() {
		w.Errorf("calls for %d changes at the end: %q", w.Pods.Len(), calls)
	}
	world.AuditAgrees(w, inf)
}

// bookmarkAt returns a Fault.Rewrite that turns each bookmark into an ordinary one at version rv.
func bookmarkAt(rv string) func(informer.Key, []byte) []byte { return podAt(informer.Key{}, rv) }

// podAt returns a Fault.Rewrite that turns each object with that key into one at version rv.
func podAt(key informer.Key, rv string) func(informer.Key, []byte) []byte {
	return func(k informer.Key, object []byte) []byte {
		if k != key {
			return object
		}
		return world.Encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: rv}}, object)
	}
}
