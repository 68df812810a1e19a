package informer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// recovery is one failure, and exactly how an informer handles it. The server has pods a and b from the start, at resource
// versions 2 and 3.
type recovery struct {
	name string
	// atStart injects the fault before the informer starts. Otherwise the fault hits an open watch, and the table has the
	// requests and events from then on.
	atStart bool
	// paged uses paged lists, here with one object a page, instead of streaming lists.
	paged bool
	fault informertest.Fault
	// does, if not nil, then runs. Otherwise the open watches end, and pod b gets v=2.
	does func(o *outage)
	// requests are the informer's requests until it reaches the server's version. Each begins with the wait since the one
	// before: "0s", or from..to.
	requests []string
	events   []string
	// status has the counters that are not zero; "failures=some" stands for any number.
	status string
}

func at(wait, request string, rv ...any) string { return wait + " " + fmt.Sprintf(request, rv...) }

// The waits after the first, second and third failure.
const first, second, third = "0s..800ms", "0s..1.6s", "0s..3.2s"

func continued(r informertest.Request) bool { return r.Query.Has("continue") }
func fromVersion3(r informertest.Request) bool {
	return r.Query.Get("resourceVersion") == "3" && r.Query.Has("resourceVersionMatch")
}

var (
	updated  = []string{"update ns/b 1->2"}
	added    = []string{"add ns/a 1 initial=true", "add ns/b 1 initial=true"}
	watchOn  = []string{at("0s", watches, "3"), at(first, watches, "3")}
	restream = []string{at("0s", watches, "3"), at(first, streamsFrom, "3")}
	relist   = []string{at("0s", watches, "3"), at(first, listsFrom, "3"), at("0s", nextPage), at("0s", watches, "3")}
	fallback = []string{at("0s", streams), at("0s", lists), at("0s", watches, "3")}
	silence  = []string{at("0s", streams), at("10s", lists), at("0s", watches, "3")}
	again    = []string{at("0s", streams), at(first, streams)}
)

var recoveries = []recovery{
	// The watch ends.
	{name: "R7 clean end", does: (*outage).endWatches, requests: watchOn[:1], events: updated},
	{name: "R7 clean end at once", fault: informertest.Fault{Times: 1, AfterHeaders: true, End: true}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 reset", fault: informertest.Fault{Times: 1, AfterHeaders: true, Drop: true}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 reset inside a frame", fault: informertest.Fault{Times: 1, AfterBytes: 20, Drop: true}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 end inside a frame", fault: informertest.Fault{Times: 1, AfterBytes: 20, End: true}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 reset of the streaming list", atStart: true, fault: informertest.Fault{Times: 1, AfterEvents: 1, Drop: true}, requests: again, events: added, status: "failures=1"},
	{name: "R12 connection refused", does: (*outage).stopServer, requests: []string{at("5m0s..5m31s", watches, "3")}, events: updated, status: "failures=some"},
	{name: "R18 silence in the watch", fault: informertest.Fault{Times: 1, AfterHeaders: true, Hang: true}, events: updated, status: "failures=1",
		requests: []string{at("0s", watches, "3"), at("5m30s..10m31s", watches, "3")}},

	// The server answers with an error.
	{name: "R8 500 on open", fault: informertest.Fault{Times: 1, Error: internal}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 503 on open", fault: informertest.Fault{Times: 1, Error: unavailable}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 504 on open", fault: informertest.Fault{Times: 1, Error: timedOut}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 503 again and again", fault: informertest.Fault{Times: 3, Error: unavailable}, events: updated, status: "failures=3",
		requests: append(watchOn, at(second, watches, "3"), at(third, watches, "3"))},
	{name: "R8 500 in the stream", fault: informertest.Fault{Times: 1, AfterHeaders: true, Error: internal}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R8 504 in the stream", fault: informertest.Fault{Times: 1, AfterEvents: 1, Error: timedOut}, events: updated, status: "failures=1",
		requests: []string{at("0s", watches, "3"), at(first, watches, "4")}},
	{name: "R8 503 on the streaming list", atStart: true, fault: informertest.Fault{Times: 1, Error: unavailable}, requests: again, events: added, status: "failures=1"},
	{name: "R8 503 on the list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Error: unavailable}, events: added, status: "failures=1",
		requests: []string{at("0s", lists), at(first, lists), at("0s", watches, "3")}},
	{name: "R9 410 on open", fault: informertest.Fault{Times: 1, Error: expired}, requests: restream, events: updated, status: "failures=1"},
	{name: "R9 410 on open, paged", paged: true, fault: informertest.Fault{Times: 1, Error: expired}, requests: append(relist[:3:3], at("0s", watches, "4")), events: updated, status: "failures=1"},
	{name: "R9 410 in the stream", fault: informertest.Fault{Times: 1, AfterHeaders: true, Error: expired}, requests: restream, events: updated, status: "failures=1"},
	{name: "R9 410 again and again", fault: informertest.Fault{Match: notStreamed, Times: 1, Error: expired}, events: updated, status: "failures=2",
		does: func(o *outage) {
			o.server.Inject(informertest.Fault{Match: streamed, Times: 1, AfterEvents: 3, Error: expired})
			o.endWatches()
		},
		requests: append(restream, at(second, streamsFrom, "4"))},
	{name: "R9 410 on the streaming list", atStart: true, fault: informertest.Fault{Match: streamed, Times: 2, Error: expired}, events: added, status: "failures=1",
		requests: []string{at("0s", streams), at("0s", streams), at(first, streams)}},
	{name: "R10 StoreReadError in the stream", fault: informertest.Fault{Times: 1, AfterHeaders: true, Error: storeError}, requests: restream, events: updated, status: "failures=1"},
	{name: "R11 429 on the watch", fault: informertest.Fault{Times: 1, Error: throttled}, events: updated, status: "failures=1",
		requests: []string{at("0s", watches, "3"), at("100s..110s", watches, "3")}},
	{name: "R11 429 in the stream", fault: informertest.Fault{Times: 1, AfterHeaders: true, Error: throttled}, events: updated, status: "failures=1",
		requests: []string{at("0s", watches, "3"), at("100s..110s", watches, "3")}},
	{name: "R11 429 on the streaming list", atStart: true, fault: informertest.Fault{Times: 1, Error: throttled}, events: added, status: "failures=1",
		requests: []string{at("0s", streams), at("100s..110s", streams)}},
	{name: "R11 429 on the list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Error: throttled}, events: added, status: "failures=1",
		requests: []string{at("0s", lists), at("100s..110s", lists), at("0s", watches, "3")}},
	{name: "R13 401 on the watch", fault: informertest.Fault{Times: 1, Error: apierrors.NewUnauthorized("who?")}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R13 401 on the list", atStart: true, fault: informertest.Fault{Times: 1, Error: apierrors.NewUnauthorized("who?")}, requests: again, events: added, status: "failures=1"},
	{name: "R13 403 on the watch", fault: informertest.Fault{Times: 1, Error: forbidden}, requests: watchOn, events: updated, status: "failures=1"},
	{name: "R13 403 on the list", atStart: true, fault: informertest.Fault{Times: 1, Error: forbidden}, requests: again, events: added, status: "failures=1"},
	{name: "R14 404 at first, but listed", atStart: true, fault: informertest.Fault{Verb: "watch", Times: 2, Error: absent}, events: added, status: "failures=2",
		requests: []string{at("0s", streams), at("0s", versions), at("0s", resources), at(first, streams), at("0s", versions), at("0s", resources), at(second, streams)}},
	{name: "R14 404 at first, but listed, paged", atStart: true, paged: true, fault: informertest.Fault{Verb: "list", Times: 1, Error: absent}, events: added, status: "failures=1",
		requests: []string{at("0s", lists), at("0s", versions), at("0s", resources), at(first, lists), at("0s", watches, "3")}},
	{name: "R14 404 later, but listed", fault: informertest.Fault{Verb: "watch", Times: 2, Error: absent}, events: updated, status: "failures=2",
		requests: []string{at("0s", watches, "3"), at("0s", versions), at("0s", resources), at(first, watches, "3"), at("0s", versions), at("0s", resources), at(second, watches, "3")}},
	{name: "R14 404 in the stream, but listed", fault: informertest.Fault{Verb: "watch", Times: 1, AfterHeaders: true, Error: absent}, events: updated, status: "failures=1",
		requests: []string{at("0s", watches, "3"), at("0s", versions), at("0s", resources), at(first, watches, "3")}},
	{name: "R14 404 of a relist, but listed", fault: informertest.Fault{Match: streamed, Times: 1, Error: absent}, does: (*outage).expireWatch, events: updated, status: "failures=2",
		requests: append(restream, at("0s", versions), at("0s", resources), at(second, streamsFrom, "3"))},
	{name: "R14 404 of a relist, but listed, paged", paged: true, fault: informertest.Fault{Verb: "list", Times: 1, Error: absent}, does: (*outage).expireWatch, events: updated, status: "failures=2",
		requests: append(relist[:2:2], at("0s", versions), at("0s", resources), at(second, listsFrom, "3"), at("0s", nextPage), at("0s", watches, "4"))},
	{name: "R14 404 for everything", fault: informertest.Fault{Times: 4, Error: absent}, events: updated, status: "failures=2",
		requests: []string{at("0s", watches, "3"), at("0s", versions), at(first, watches, "3"), at("0s", versions), at(second, watches, "3")}},

	// The streaming list does not complete.
	{name: "R2 400", atStart: true, fault: informertest.Fault{Match: streamed, Error: apierrors.NewBadRequest("what?")}, requests: fallback, events: added},
	{name: "R2 422", atStart: true, fault: informertest.Fault{Match: streamed, Error: apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)}, requests: fallback, events: added},
	{name: "R2 clean end without bookmark", atStart: true, fault: informertest.Fault{Match: streamed, AfterEvents: 2, End: true}, requests: fallback, events: added},
	{name: "R2 ordinary bookmark", atStart: true, fault: informertest.Fault{Match: streamed, Rewrite: bookmarkAt("3")}, requests: fallback, events: added},
	{name: "R2 silence in place of an answer", atStart: true, fault: informertest.Fault{Match: streamed, Hang: true}, requests: silence, events: added},
	{name: "R2 silence among the initial events", atStart: true, fault: informertest.Fault{Match: streamed, AfterEvents: 1, Hang: true}, requests: silence, events: added},
	{name: "R2 no bookmark behind the initial events", atStart: true, fault: informertest.Fault{OmitInitialEventsEnd: true}, requests: silence, events: added},
	{name: "R2 sendInitialEvents ignored", atStart: true, fault: informertest.Fault{IgnoreSendInitialEvents: true}, requests: silence, events: added},

	// Other failed lists.
	{name: "silence in place of a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Hang: true}, events: added, status: "failures=1",
		requests: []string{at("0s", lists), at("90s..90.8s", lists), at("0s", watches, "3")}},
	{name: "silence in a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, AfterBytes: 20, Hang: true}, events: added, status: "failures=1",
		requests: []string{at("0s", lists), at("90s..90.8s", lists), at("0s", watches, "3")}},
	{name: "reset in a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, AfterBytes: 300, Drop: true}, events: added, status: "failures=1",
		requests: []string{at("0s", lists), at(first, lists), at("0s", watches, "3")}},
	{name: "R4 continue token expired", paged: true, fault: informertest.Fault{Match: continued, Error: expired}, does: (*outage).expireWatch, events: updated, status: "failures=1",
		requests: append(relist[:3:3], at("0s", "list resourceVersion=4 resourceVersionMatch=NotOlderThan"), at("0s", watches, "4"))},
	{name: "R5 410 on the list", paged: true, fault: informertest.Fault{Match: fromVersion3, Error: expired}, does: (*outage).expireWatch, events: updated, status: "failures=1",
		requests: append(relist[:2:2], at("0s", listsLatest), at("0s", nextPage), at("0s", watches, "4"))},
	{name: "R5 too large resource version on the list", paged: true, fault: informertest.Fault{Match: fromVersion3, Error: tooLarge}, does: (*outage).expireWatch, events: updated, status: "failures=1",
		requests: append(relist[:2:2], at("0s", listsLatest), at("0s", nextPage), at("0s", watches, "4"))},
	{name: "R5 too large resource version on the streaming list", fault: informertest.Fault{Match: fromVersion3, Error: tooLarge}, does: (*outage).expireWatch, events: updated, status: "failures=1",
		requests: append(restream, at("0s", streams))},

	// The server goes back in time, so resource version 4 has other content than before.
	{name: "R6 list goes back", fault: informertest.Fault{Times: 1, Error: expired}, does: (*outage).restore, events: restored, status: "restored=1 failures=2",
		requests: []string{at("0s", watches, "5"), at(first, streamsFrom, "5"), at("3s", streams), at(second, streams)}},
	{name: "R6 list goes back, paged", paged: true, fault: informertest.Fault{Times: 1, Error: expired}, does: (*outage).restore, events: restored, status: "restored=1 failures=2",
		requests: []string{at("0s", watches, "5"), at(first, listsFrom, "5"), at("3s", listsLatest), at("0s", nextPage), at(second, listsLatest), at("0s", nextPage), at("0s", watches, "4")}},
	{name: "R6 watch from the future", fault: informertest.Fault{Match: notStreamed, Error: tooLarge}, does: (*outage).restore, events: restored, status: "restored=1 failures=3",
		requests: []string{at("0s", watches, "5"), at("1s..1.1s", watches, "5"), at("1s..1.1s", watches, "5"), at("1s..1.1s", streams)}},
	{name: "R6 watch from the future for a while", fault: informertest.Fault{Times: 2, Error: tooLarge}, events: updated, status: "failures=2",
		requests: []string{at("0s", watches, "3"), at("1s..1.1s", watches, "3"), at("1s..1.1s", watches, "3")}},
	{name: "R6 silence in a watch from the future", does: (*outage).restore, events: restored, status: "restored=1 failures=1",
		requests: []string{at("0s", watches, "5"), at("5m0s..10m0s", "list resourceVersion=5 resourceVersionMatch=NotOlderThan limit=1"), at("4s..4.1s", streams)}},
	{name: "R6 silence in a watch of a server that is as far", fault: informertest.Fault{Times: 1, OmitBookmarks: true}, events: updated,
		does: func(o *outage) {
			o.server.EndWatches()
			<-time.After(10*time.Minute + time.Second) // the first watch has ended, the second has not
			o.relabel("ns", "b", "2")
		},
		requests: []string{at("0s", watches, "3"), at("5m0s..10m0s", "list resourceVersion=3 resourceVersionMatch=NotOlderThan limit=1"), at("0s", watches, "3")}},
	{name: "R6 watch from the future, and another failure between", fault: informertest.Fault{Times: 2, Error: tooLarge}, events: updated, status: "failures=4",
		does: func(o *outage) {
			o.server.Inject(informertest.Fault{Skip: 2, Times: 1, Error: unavailable})
			o.server.Inject(informertest.Fault{Skip: 3, Times: 1, Error: tooLarge})
			o.endWatches()
			<-time.After(10 * time.Second)
		},
		requests: []string{at("0s", watches, "3"), at("1s..1.1s", watches, "3"), at("1s..1.1s", watches, "3"), at(third, watches, "3"), at("1s..1.1s", watches, "3")}},
	{name: "R6 watch from the future, twice for a while", fault: informertest.Fault{Times: 2, Error: tooLarge}, events: updated, status: "failures=4",
		does: func(o *outage) {
			o.endWatches()
			<-time.After(10 * time.Second)
			o.server.Inject(informertest.Fault{Times: 2, Error: tooLarge})
			o.server.EndWatches()
			<-time.After(10 * time.Second)
		},
		requests: []string{at("0s", watches, "3"), at("1s..1.1s", watches, "3"), at("1s..1.1s", watches, "3"),
			at("7.8s..8s", watches, "4"), at("1s..1.1s", watches, "4"), at("1s..1.1s", watches, "4")}},
	{name: "R6 bookmark goes back", fault: informertest.Fault{Times: 1, Rewrite: bookmarkAt("2")}, status: "restored=1 failures=1",
		does: func(o *outage) {
			o.server.EndWatches()
			<-time.After(2 * time.Minute)
			o.wantVersion("3")
		},
		requests: []string{at("0s", watches, "3"), at("1m0s..1m0.8s", streams)}},
	{name: "R6 event goes back", fault: informertest.Fault{Times: 1, Rewrite: podAt(keyB, "2")}, events: updated, status: "restored=1 failures=1",
		requests: []string{at("0s", watches, "3"), at(first, streams)}},

	// An object cannot be decoded.
	{name: "R17 corrupt in a streaming list", atStart: true, fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{keyB}}, requests: again[:1], events: added[:1], status: "stale=1 errors=1"},
	{name: "R17 corrupt in a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{keyB}}, events: added[:1], status: "stale=1 errors=1",
		requests: []string{at("0s", lists), at("0s", watches, "3")}},
	{name: "R17 corrupt in a relist", fault: informertest.Fault{Match: streamed, Corrupt: []informer.Key{keyB}}, does: (*outage).expireWatch, requests: restream, status: "failures=1 stale=1 errors=1"},
	{name: "R17 corrupt in a relist, paged", paged: true, fault: informertest.Fault{Verb: "list", Corrupt: []informer.Key{keyB}}, does: (*outage).expireWatch, status: "failures=1 stale=1 errors=1",
		requests: append(relist[:3:3], at("0s", watches, "4"))},
	{name: "R17 corrupt ADDED", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{{Namespace: "ns", Name: "c"}}}, requests: watchOn[:1], status: "stale=1 errors=1",
		does: func(o *outage) { o.server.EndWatches(); synctest.Wait(); o.create(newPod("ns", "c", "v=1")) }},
	{name: "R17 corrupt MODIFIED", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{keyB}}, requests: watchOn[:1], status: "stale=1 errors=1"},
	{name: "R17 corrupt DELETED", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{keyB}}, requests: watchOn[:1], events: []string{"delete ns/b 1 final=false"}, status: "errors=1",
		does: func(o *outage) { o.server.EndWatches(); synctest.Wait(); o.delete("ns", "b") }},
	{name: "R17 corrupt MODIFIED, then a good list", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{keyB}}, events: updated, status: "failures=1 errors=1",
		does: func(o *outage) {
			o.endWatches()
			o.wantStatus("stale=1 errors=1")
			o.server.Inject(informertest.Fault{Verb: "watch", Times: 1, Error: expired})
			o.server.EndWatches()
			<-time.After(time.Second)
		},
		requests: []string{at("0s", watches, "3"), at("0s", watches, "4"), at(first, streamsFrom, "4")}},
	{name: "R17 nameless in a relist", fault: informertest.Fault{Match: streamed, Rewrite: nameless(keyA, keyB)}, does: (*outage).expireWatch, requests: restream, status: "failures=1 stale=2 errors=2"},
	{name: "R17 nameless in a relist, paged", paged: true, fault: informertest.Fault{Verb: "list", Rewrite: nameless(keyA, keyB)}, does: (*outage).expireWatch, status: "failures=1 stale=2 errors=2",
		requests: append(relist[:3:3], at("0s", watches, "4"))},
	{name: "R17 nameless MODIFIED", fault: informertest.Fault{Times: 1, Rewrite: nameless(keyB)}, requests: watchOn[:1], status: "stale=1 errors=1"},
	{name: "R17 nameless DELETED", fault: informertest.Fault{Times: 1, Rewrite: nameless(keyB)}, events: []string{"delete ns/b 1 final=false"}, status: "failures=1 errors=1",
		does: func(o *outage) {
			o.server.EndWatches()
			synctest.Wait()
			o.delete("ns", "b")
			<-time.After(time.Second)
		},
		requests: []string{at("0s", watches, "3"), at(first, streamsFrom, "3")}},
	{name: "R17 corrupt MODIFIED, then DELETED", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{keyB}}, requests: watchOn[:1], events: []string{"delete ns/b 1 final=false"}, status: "errors=2",
		does: func(o *outage) { o.endWatches(); o.wantStatus("stale=1 errors=1"); o.delete("ns", "b") }},
}

// restored has the events of a handler after outage.restore.
var restored = []string{"update ns/a 2->other", "update ns/b 2->1"}

// outage runs a recovery.
type outage struct {
	world
	recovery
	inf   *informer.Informer[*corev1.Pod]
	rec   *recorder[*corev1.Pod]
	since time.Time
}

// endWatches ends the watches, lets the clients reconnect, and then changes b.
func (o *outage) endWatches() {
	o.server.EndWatches()
	synctest.Wait()
	o.relabel("ns", "b", "2")
	synctest.Wait()
}

// expireWatch ends the watches. The server then answers the next one with 410 Expired.
func (o *outage) expireWatch() {
	o.server.Inject(informertest.Fault{Verb: "watch", Match: notStreamed, Times: 1, Error: expired})
	o.server.EndWatches()
	o.relabel("ns", "b", "2")
}

func (o *outage) stopServer() {
	o.server.Stop()
	o.relabel("ns", "b", "2")
	<-time.After(5 * time.Minute)
	o.server.Start()
}

// restore lets the informer reach version 5, goes back to version 3, and creates a different version 4.
func (o *outage) restore() {
	backup := o.server.Snapshot()
	o.relabel("ns", "a", "2")
	o.relabel("ns", "b", "2")
	o.rec.Want(o.T, "update ns/a 1->2", "update ns/b 1->2")
	o.server.Restore(backup)
	o.relabel("ns", "a", "other")
}

func (o *outage) wantVersion(rv string) {
	o.Helper()
	if got := o.inf.Status().Reflectors[0].ResourceVersion; got != rv {
		o.Errorf("at resource version %s, want %s", got, rv)
	}
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
	if s.State != informer.ReflectorWatching || !s.WatchOpen {
		o.Errorf("status %+v", s)
	}
}

// wantRequests checks the requests and their times.
func (o *outage) wantRequests() {
	o.Helper()
	var got, asked []string
	last := o.since
	in := len(o.recovery.requests) == len(o.server.Requests())
	for i, r := range o.server.Requests() {
		asked = append(asked, fmt.Sprintf("%v %s", r.Time.Sub(last), o.world.requests()[i]))
		got = append(got, o.world.requests()[i])
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
	o.create(newPod("ns", "a", "v=1"), newPod("ns", "b", "v=1"))
	remove := func() {}
	inject := func() {
		if !reflect.ValueOf(o.fault).IsZero() {
			remove = o.server.Inject(o.fault)
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
		o.rec.Want(o.T, added...)
		<-time.After(10 * time.Second)
		o.server.ResetRequests()
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
	o.server.ResetRequests()
	o.server.EndWatches()
	synctest.Wait()
	for pod := range o.pods.All() {
		o.relabel("ns", pod.Name, "end")
	}
	o.catchUp(ctx)
	equalsServer(o.world, o.inf)
	if told := o.rec.Told(); len(told) != o.pods.Len() {
		o.Errorf("events afterwards: %q", told)
	}
	if requests := o.world.requests(); len(requests) != 1 {
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
		if err := o.inf.WaitForResourceVersion(ctx, o.server.ResourceVersion()); err != nil {
			o.Fatalf("%v: %+v", err, o.inf.Status())
		}
		synctest.Wait()
		if s := o.inf.Status().Reflectors[0]; s.WatchOpen && s.ResourceVersion == o.server.ResourceVersion() {
			return
		}
		<-time.After(10 * time.Second) // after a restore, WaitForResourceVersion counts the store's older state
	}
}

// TestRecovery checks the table "What happens when something goes wrong" of the README.
func TestRecovery(t *testing.T) {
	for _, r := range recoveries {
		for _, media := range []string{"json", "vnd.kubernetes.protobuf"} {
			t.Run(r.name+"/"+strings.TrimPrefix(media, "vnd.kubernetes."), func(t *testing.T) {
				bubble(t, func(w world) {
					config := quiet[*corev1.Pod]()
					config.PagedList, config.PageSize = r.paged, 1
					client := w.client(func(c *rest.Config) { c.ContentType = "application/" + media })
					o := &outage{world: w, recovery: r, inf: informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config), rec: &recorder[*corev1.Pod]{}}
					o.inf.Subscribe(o.rec)
					o.run()
				})
			})
		}
	}
}

// bookmarkAt returns a Fault.Rewrite that turns each bookmark into an ordinary one at version rv.
func bookmarkAt(rv string) func(informer.Key, []byte) []byte { return podAt(informer.Key{}, rv) }

// podAt returns a Fault.Rewrite that turns each object with that key into one at version rv.
func podAt(key informer.Key, rv string) func(informer.Key, []byte) []byte {
	return func(k informer.Key, object []byte) []byte {
		if k != key {
			return object
		}
		return encoded(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: rv}}, object)
	}
}

// nameless returns a Fault.Rewrite that removes all content, also the metadata, from those pods.
func nameless(keys ...informer.Key) func(informer.Key, []byte) []byte {
	return func(k informer.Key, object []byte) []byte {
		if !slices.Contains(keys, k) {
			return object
		}
		return encoded(&corev1.Pod{}, object)
	}
}

// encoded encodes pod in the format of like.
func encoded(pod *corev1.Pod, like []byte) []byte {
	var b []byte
	var err error
	if bytes.HasPrefix(like, []byte("{")) {
		b, err = json.Marshal(pod)
	} else {
		b, err = pod.Marshal()
	}
	if err != nil {
		panic(err)
	}
	return b
}

// held returns the pods in inf's store, by name.
func held(inf *informer.Informer[*corev1.Pod]) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for pod := range inf.Store().All() {
		pods[pod.Name] = pod
	}
	return pods
}

// Guarantees: R9, R19, R20, H5, H6
func TestRelistDecodesWhatHasChanged(t *testing.T) {
	forEachMode(t, func(w world, client *informer.Client, config informer.Config[*corev1.Pod]) {
		decoded := map[string]int{}
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			decoded[p.Name+"@"+p.ResourceVersion]++
			return p, nil
		}
		for i := range 20 {
			w.create(newPod("ns", fmt.Sprintf("p%02d", i), "v=1"))
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		rec := &recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer start(w.T, inf)()
		synctest.Wait()
		rec.Take()
		before := held(inf)

		w.server.Inject(informertest.Fault{Verb: "watch", Match: notStreamed, Times: 1, Error: expired})
		w.server.EndWatches()
		w.relabel("ns", "p03", "2")
		w.delete("ns", "p05")
		w.delete("ns", "p07")
		w.create(newPod("ns", "p07", "v=another"), newPod("ns", "p99", "v=1"))
		if err := inf.WaitForResourceVersion(w.Context(), w.server.ResourceVersion()); err != nil {
			w.Fatal(err)
		}
		rec.Want(w.T, "update ns/p03 1->2", "delete ns/p05 1 final=false",
			"delete ns/p07 1 final=false", "add ns/p07 another initial=false", "add ns/p99 1 initial=false")
		for name, pod := range held(inf) {
			if changed := name == "p03" || name == "p07" || name == "p99"; (pod == before[name]) == changed {
				w.Errorf("%s: the stored object is unchanged: %v", name, !changed)
			}
		}
		equalsServer(w, inf)
		if len(decoded) != 23 {
			w.Errorf("%d versions decoded", len(decoded))
		}
		for version, times := range decoded {
			if times != 1 {
				w.Errorf("%s decoded %d times", version, times)
			}
		}
		if n := inf.Status().Reflectors[0].Lists; n < 2 {
			w.Errorf("%d lists", n)
		}
	})
}

// A version that the store has is not decoded again, except in a deletion: the handler gets the object as sent.
// Guarantees: R19, H14
func TestSentAgain(t *testing.T) {
	forEachMode(t, func(w world, client *informer.Client, config informer.Config[*corev1.Pod]) {
		decoded := 0
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { decoded++; return p, nil }
		created := w.create(newPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		rec := &recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer start(w.T, inf)()
		rec.Want(w.T, "add ns/a 1 initial=true")
		uid, text := created.UID, "sent again"
		w.server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
			if key != keyA {
				return object
			}
			again := created.DeepCopy()
			again.Labels["v"], again.UID = text, uid
			return encoded(again, object)
		}})
		<-time.After(10 * time.Second) // an empty watch that ends sooner is not reopened at once
		w.server.EndWatches()
		synctest.Wait()
		w.relabel("ns", "a", "2")
		rec.Want(w.T)
		if decoded != 1 {
			w.Errorf("decoded %d times", decoded)
		}
		uid = "another" // now it is another object
		w.relabel("ns", "a", "3")
		rec.Want(w.T, "delete ns/a 1 final=false", "add ns/a sent again initial=false")
		text = "at the end"
		w.delete("ns", "a")
		rec.Want(w.T, "delete ns/a at the end final=true")
	})
}

// A restored server is then followed like any other: unchanged objects are not decoded again, and a second restoration is
// noticed.
// Guarantees: R6, R19
func TestServerIsRestoredTwice(t *testing.T) {
	forEachMode(t, func(w world, client *informer.Client, config informer.Config[*corev1.Pod]) {
		decoded := 0
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { decoded++; return p, nil }
		w.create(newPod("ns", "a", "v=1"), newPod("ns", "b", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		rec := &recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer start(w.T, inf)()
		rec.Want(w.T, added...)
		relist := func(before func()) {
			w.server.Inject(informertest.Fault{Verb: "watch", Match: notStreamed, Times: 1, Error: expired})
			before() // only now: it may end the watch, too
			w.server.EndWatches()
			<-time.After(3 * time.Minute) // a watch from a future version, an expired one and a list take the three longest backoffs
		}
		for i := range 2 {
			backup := w.server.Snapshot()
			w.relabel("ns", "a", "ahead")
			w.relabel("ns", "b", "ahead")
			synctest.Wait()
			rec.Take()
			relist(func() { w.server.Restore(backup) })
			rec.Want(w.T, "update ns/a ahead->1", "update ns/b ahead->1")
			if s := inf.Status().Reflectors[0]; s.Restored != i+1 {
				w.Errorf("restored %d times: status %+v", i+1, s)
			}
			before := decoded
			relist(func() {})
			rec.Want(w.T)
			if decoded != before {
				w.Errorf("%d unchanged objects were decoded", decoded-before)
			}
		}
	})
}

// Waiting for the client's own rate limit does not count as the server's silence.
// Guarantees: R2
func TestOwnRateLimitIsNoSilence(t *testing.T) {
	bubble(t, func(w world) {
		w.create(newPod("ns", "a", "v=1"))
		client := w.client(func(c *rest.Config) { c.QPS, c.Burst = 1.0/50, 1 })
		for range 2 {
			inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
			defer start(w.T, inf)()
		}
		w.wantRequests(streams, streams)
	})
}

// sinkOf is a sink that records the deltas it gets.
type sinkOf struct{ lines []string }

func (s *sinkOf) Put(_ context.Context, d informer.Delta[*corev1.Pod]) error {
	s.lines = append(s.lines, fmt.Sprintf("%v items=%d rv=%s restored=%v", d.Type, len(d.Items), d.ResourceVersion, d.Restored))
	return nil
}

// A sink gets the absence of a resource once, however often it is found again, and even if the collection was empty before.
// Guarantees: R14
func TestAbsenceIsToldOnce(t *testing.T) {
	for _, absentIsSynced := range []bool{false, true} {
		t.Run(fmt.Sprintf("AbsentIsSynced=%v", absentIsSynced), func(t *testing.T) {
			bubble(t, func(w world) {
				config := quiet[*corev1.Pod]()
				config.AbsentIsSynced = absentIsSynced
				sink := &sinkOf{}
				r, err := informer.NewReflector(w.client(), informer.Resource{GroupVersionResource: podGVR}, sink, config)
				if err != nil {
					w.Fatal(err)
				}
				w.pods.Unregister()
				ctx, cancel := context.WithCancel(w.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				want := []string{"Replaced items=0 rv= restored=false"}
				if !absentIsSynced {
					want = nil
				}
				for range 2 {
					<-time.After(10 * time.Minute)
					if s := r.Status(); s.State != informer.ReflectorAbsent && s.State != informer.ReflectorListing || s.ResourceVersion != "" || s.Failures < 10 || !apierrors.IsNotFound(s.LastError) {
						w.Errorf("status %+v", s)
					}
					w.pods = informertest.Register[*corev1.Pod](w.server, informertest.Resource{GroupVersionResource: podGVR})
					<-time.After(time.Minute)
					w.pods.Unregister()
					want = append(want, "Replaced items=0 rv=1 restored=false", "Replaced items=0 rv= restored=false")
				}
				<-time.After(time.Minute)
				if !slices.Equal(sink.lines, want) {
					w.Errorf("got %q, want %q", sink.lines, want)
				}
			})
		})
	}
}

// Guarantees: R2, R3
func TestStreamsAgainAfterAnHour(t *testing.T) {
	bubble(t, func(w world) {
		w.create(newPod("ns", "a", "v=1"))
		w.server.Inject(informertest.Fault{Match: streamed, Times: 1, Error: apierrors.NewBadRequest("what?")})
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		defer start(w.T, inf)()
		w.wantRequests(streams, "list resourceVersion=0 limit=500", "watch resourceVersion=2")
		relist := func() {
			w.server.Inject(informertest.Fault{Verb: "watch", Times: 1, Error: expired})
			w.server.ResetRequests()
			w.server.EndWatches()
			<-time.After(time.Second)
		}
		<-time.After(50 * time.Minute)
		relist()
		w.wantRequests("watch resourceVersion=2", "list resourceVersion=2 resourceVersionMatch=NotOlderThan limit=500", "watch resourceVersion=2")
		<-time.After(11 * time.Minute)
		relist()
		w.wantRequests("watch resourceVersion=2", "watch sendInitialEvents=true resourceVersion=2 resourceVersionMatch=NotOlderThan")
	})
}
