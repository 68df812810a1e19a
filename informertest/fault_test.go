package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// answer is a response as the client has read it.
type answer struct {
	code   int
	header http.Header
	body   string
	err    error // of the request or of the body
	took   time.Duration
}

// lines returns the frames of a watch in short form, "ADDED a", and the rest of an incomplete one.
func (a answer) lines() (short []string) {
	for line := range strings.Lines(a.body) {
		var event, name string
		if _, err := fmt.Sscanf(line, `{"type":%q`, &event); err != nil || !strings.HasSuffix(line, "\n") {
			short = append(short, line)
			continue
		}
		if _, rest, ok := strings.Cut(line, `"name":"`); ok {
			name, _, _ = strings.Cut(rest, `"`)
		}
		switch {
		case strings.Contains(line, metav1.InitialEventsAnnotationKey):
			name = "initial-events-end"
		case event == "ERROR":
			_, rest, _ := strings.Cut(line, `"reason":"`)
			name, _, _ = strings.Cut(rest, `"`)
		}
		short = append(short, strings.TrimSpace(event+" "+name))
	}
	return short
}

// ask sends a request and reads the response, for at most an hour of the bubble's time.
func ask(t *testing.T, server *informertest.Server, path string, header ...string) (a answer) {
	t.Helper()
	client, err := rest.HTTPClientFor(server.Config())
	must(t, err)
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", server.URL+path, nil)
	must(t, err)
	for _, h := range header {
		key, value, _ := strings.Cut(h, ": ")
		request.Header.Set(key, value)
	}
	start := time.Now()
	defer func() { a.took = time.Since(start) }()
	response, err := client.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer response.Body.Close()
	a.code, a.header = response.StatusCode, response.Header
	body, err := io.ReadAll(response.Body)
	a.body, a.err = string(body), err
	return a
}

func TestFault_WhatAClientSees(t *testing.T) {
	const (
		list    = "/api/v1/pods"
		watch   = "/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=600"
		streams = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=600"
	)
	hang := context.DeadlineExceeded
	for _, test := range []struct {
		name  string
		fault informertest.Fault
		path  string
		code  int
		lines string // of a watch
		err   error
		took  time.Duration
		also  func(t *testing.T, a answer)
	}{
		{name: "410", fault: informertest.Fault{Error: apierrors.NewResourceExpired("gone")}, path: watch, code: 410},
		{name: "429", fault: informertest.Fault{Error: apierrors.NewTooManyRequests("later", 3)}, path: list, code: 429, also: func(t *testing.T, a answer) {
			if a.header.Get("Retry-After") != "3" || !strings.Contains(a.body, `"reason":"TooManyRequests"`) {
				t.Errorf("%v %s", a.header, a.body)
			}
		}},
		{name: "500", fault: informertest.Fault{Error: errors.New("disk on fire")}, path: list, code: 500},
		{name: "503", fault: informertest.Fault{Error: apierrors.NewServiceUnavailable("down")}, path: list, code: 503},
		{name: "504", fault: informertest.Fault{Error: apierrors.NewTimeoutError("slow", 1)}, path: list, code: 504},
		{name: "drop at once", fault: informertest.Fault{Drop: true}, path: watch, err: io.EOF},
		{name: "drop after the headers", fault: informertest.Fault{AfterHeaders: true, Drop: true}, path: watch, code: 200, err: io.ErrUnexpectedEOF},
		{name: "drop after an event", fault: informertest.Fault{AfterEvents: 1, Drop: true}, path: watch, code: 200, lines: "ADDED a", err: io.ErrUnexpectedEOF},
		{name: "drop in a frame", fault: informertest.Fault{AfterEvents: 1, AfterBytes: 14, Drop: true}, path: watch, code: 200, lines: `ADDED a,{"type":"ADDED`, err: io.ErrUnexpectedEOF},
		{name: "drop in a list", fault: informertest.Fault{AfterBytes: 20, Drop: true}, path: list, code: 200, err: io.ErrUnexpectedEOF, also: func(t *testing.T, a answer) {
			if a.body != `{"kind":"PodList","a` {
				t.Errorf("body %q", a.body)
			}
		}},
		{name: "end at once", fault: informertest.Fault{End: true}, path: watch, code: 200},
		{name: "end after the headers", fault: informertest.Fault{AfterHeaders: true, End: true}, path: list, code: 200},
		{name: "end after an event", fault: informertest.Fault{AfterEvents: 2, End: true}, path: watch, code: 200, lines: "ADDED a,ADDED b"},
		{name: "end in a frame", fault: informertest.Fault{AfterBytes: 3, End: true}, path: watch, code: 200, lines: `{"t`},
		{name: "hang at once", fault: informertest.Fault{Hang: true}, path: list, err: hang, took: time.Hour},
		{name: "hang after the headers", fault: informertest.Fault{AfterHeaders: true, Hang: true}, path: watch, code: 200, err: hang, took: time.Hour},
		{name: "hang after an event", fault: informertest.Fault{AfterEvents: 1, Hang: true}, path: watch, code: 200, lines: "ADDED a", err: hang, took: time.Hour},
		{name: "lose an event", fault: informertest.Fault{LoseEvents: 1}, path: watch, code: 200, lines: "ADDED b", took: 10 * time.Minute},
		{name: "lose an event after one", fault: informertest.Fault{AfterEvents: 1, LoseEvents: 1}, path: watch, code: 200, lines: "ADDED a", took: 10 * time.Minute},
		{name: "ERROR event", fault: informertest.Fault{AfterEvents: 1, Error: apierrors.NewResourceExpired("gone")}, path: watch, code: 200, lines: "ADDED a,ERROR Expired"},
		{name: "ERROR event at the head", fault: informertest.Fault{AfterHeaders: true, Error: apierrors.NewTimeoutError("", 0)}, path: watch, code: 200, lines: "ERROR Timeout"},
		{name: "error in the body of a list", fault: informertest.Fault{AfterHeaders: true, Error: apierrors.NewTimeoutError("", 0)}, path: list, code: 200, err: io.ErrUnexpectedEOF},
		{name: "none in a list after events", fault: informertest.Fault{AfterEvents: 1, Drop: true}, path: list, code: 200},
		{name: "no fault", fault: informertest.Fault{Verb: "create", Drop: true}, path: streams, code: 200, took: 10 * time.Minute,
			lines: "ADDED a,ADDED b,BOOKMARK initial-events-end" + strings.Repeat(",BOOKMARK", 10)},
		{name: "no bookmarks", fault: informertest.Fault{OmitBookmarks: true}, path: streams, code: 200, took: 10 * time.Minute, lines: "ADDED a,ADDED b"},
		{name: "no end of the initial events", fault: informertest.Fault{OmitInitialEventsEnd: true}, path: streams, code: 200, took: 10 * time.Minute,
			lines: "ADDED a,ADDED b" + strings.Repeat(",BOOKMARK", 10)},
		{name: "sendInitialEvents ignored", fault: informertest.Fault{IgnoreSendInitialEvents: true}, path: streams, code: 200, took: 10 * time.Minute,
			lines: "ADDED a,ADDED b" + strings.Repeat(",BOOKMARK", 10)},
		{name: "late", fault: informertest.Fault{Delay: time.Minute}, path: list, code: 200, took: time.Minute},
		{name: "slow", fault: informertest.Fault{BytesPerSecond: 100, AfterBytes: 250, End: true}, path: list, code: 200, took: 2500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
				for _, name := range []string{"a", "b"} {
					_, err := pods.Create(newPod("ns", name))
					must(t, err)
				}
				remove := server.Inject(test.fault)
				a := ask(t, server, test.path)
				if a.code != test.code || !errors.Is(a.err, test.err) {
					t.Errorf("answer %d %v, want %d %v", a.code, a.err, test.code, test.err)
				}
				if got := strings.Join(a.lines(), ","); strings.Contains(test.path, "watch") && test.code == 200 && got != test.lines {
					t.Errorf("events:\n%s\nwant:\n%s", got, test.lines)
				}
				if a.took != test.took {
					t.Errorf("it took %v, want %v", a.took, test.took)
				}
				if test.also != nil {
					test.also(t, a)
				}
				remove()
				if a := ask(t, server, list); a.code != 200 || a.err != nil || !strings.HasSuffix(a.body, "]}\n") {
					t.Errorf("without the fault: %+v", a)
				}
			})
		})
	}
}

func TestFault_FramesOfProtobuf(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		for _, name := range []string{"a", "b"} {
			_, err := pods.Create(newPod("ns", name))
			must(t, err)
		}
		api := clientset(t, server, runtime.ContentTypeProtobuf).CoreV1().Pods("")
		defer server.Inject(informertest.Fault{Verb: "watch", AfterEvents: 2, OmitInitialEventsEnd: true, Error: apierrors.NewResourceExpired("gone")})()
		yes := true
		events, err := api.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
		must(t, err)
		wantEvents(t, events, "ADDED a 2", "ADDED b 3")
		wantEvents(t, events, "ERROR 410 Expired")
		if e, ok := <-events.ResultChan(); ok {
			t.Errorf("an event after the error: %v", e)
		}
	})
}

func TestFault_WhichRequests(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		registerWidgets(server)
		down := apierrors.NewServiceUnavailable("down")
		try := func(fault informertest.Fault, want string) {
			t.Helper()
			fault.Error = down
			remove := server.Inject(fault)
			defer remove()
			var got strings.Builder
			for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/ns/pods", "/api/v1/namespaces/other/pods", "/api/v1/pods?watch=1&timeoutSeconds=1", "/apis/example.com/v1/widgets", "/api/v1/pods"} {
				if a := ask(t, server, path); a.code == 503 {
					got.WriteByte('x')
				} else {
					got.WriteByte('.')
				}
			}
			if got.String() != want {
				t.Errorf("%+v: %s, want %s", fault, got.String(), want)
			}
		}
		try(informertest.Fault{}, "xxxxxx")
		try(informertest.Fault{Verb: "watch"}, "...x..")
		try(informertest.Fault{Resource: "widgets"}, "....x.")
		try(informertest.Fault{Namespace: "ns"}, ".x....")
		try(informertest.Fault{Match: func(r informertest.Request) bool { return r.Query.Has("timeoutSeconds") }}, "...x..")
		try(informertest.Fault{Resource: "pods", Skip: 1}, ".xxx.x")
		try(informertest.Fault{Resource: "pods", Skip: 1, Times: 2}, ".xx...")
		try(informertest.Fault{Verb: "list", Times: 1}, "x.....")

		// Two faults at once.
		defer server.Inject(informertest.Fault{Verb: "list", Delay: time.Second})()
		defer server.Inject(informertest.Fault{Verb: "list", Times: 1, Error: down})()
		if a := ask(t, server, "/api/v1/pods"); a.code != 503 || a.took != time.Second {
			t.Errorf("%d after %v", a.code, a.took)
		}
		if a := ask(t, server, "/api/v1/pods"); a.code != 200 || a.took != time.Second {
			t.Errorf("%d after %v", a.code, a.took)
		}
	})
}

func TestFault_MustMakeSense(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	for name, fault := range map[string]informertest.Fault{
		"no effect": {Verb: "list"},
		"two":       {Drop: true, Hang: true},
		"a place":   {AfterEvents: 3},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			server.Inject(fault)
		}()
	}
}

func TestFault_Corrupt(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		for _, name := range []string{"a", "b", "c"} {
			_, err := pods.Create(newPod("ns", name))
			must(t, err)
		}
		remove := server.Inject(informertest.Fault{Corrupt: []informer.Key{{Namespace: "ns", Name: "b"}}})
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			for _, paged := range []bool{false, true} {
				api := clientset(t, server, contentType).CoreV1().Pods("ns")
				if _, err := api.List(ctx, metav1.ListOptions{}); err == nil {
					t.Errorf("%s: client-go could decode the list", contentType)
				}
				if _, err := api.Get(ctx, "b", metav1.GetOptions{}); err == nil {
					t.Errorf("%s: client-go could decode the object", contentType)
				}
				_, err := api.Get(ctx, "a", metav1.GetOptions{})
				must(t, err)

				config := server.Config()
				config.ContentType = contentType
				client, err := informer.NewClient(config)
				must(t, err)
				var failed []string
				inf := informer.New(client, informer.Resource{GroupVersionResource: podResource.GroupVersionResource}, informer.Config[*corev1.Pod]{
					PagedList:     paged,
					Logger:        slog.New(slog.DiscardHandler),
					OnDecodeError: func(err *informer.DecodeError) { failed = append(failed, err.Key.String()) },
				})
				run, cancel := context.WithCancel(ctx)
				ended := make(chan error)
				go func() { ended <- inf.Run(run) }()
				must(t, inf.WaitSynced(ctx))
				updated, err := pods.Update(newPod("ns", "b"))
				must(t, err)
				c := newPod("ns", "c")
				c.Labels["at"] = updated.ResourceVersion
				updated, err = pods.Update(c)
				must(t, err)
				must(t, inf.WaitForResourceVersion(ctx, updated.ResourceVersion))
				if inf.Store().Len() != 2 || len(failed) == 0 || failed[0] != "ns/b" {
					t.Errorf("%s, paged=%v: %d objects, failed %v", contentType, paged, inf.Store().Len(), failed)
				}
				cancel()
				<-ended
			}
		}
		remove()
		_, err := clientset(t, server, runtime.ContentTypeProtobuf).CoreV1().Pods("ns").Get(ctx, "b", metav1.GetOptions{})
		must(t, err)
	})
}

func TestFault_Rewrite(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		_, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		defer server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
			return fmt.Appendf(nil, "<%s>", key)
		}})()
		for path, want := range map[string]string{
			"/api/v1/pods":                          `"items":[<ns/a>]}`,
			"/api/v1/namespaces/ns/pods/a":          "<ns/a>\n",
			"/api/v1/pods?watch=1&timeoutSeconds=1": `{"type":"ADDED","object":<ns/a>}`,
		} {
			if a := ask(t, server, path); !strings.Contains(a.body, want) {
				t.Errorf("%s: %s", path, a.body)
			}
		}
	})
}

func TestServer_StopAndStart(t *testing.T) {
	for _, inMemory := range []bool{true, false} {
		t.Run(fmt.Sprintf("inMemory=%v", inMemory), func(t *testing.T) {
			server := informertest.NewServer(informertest.Options{InMemory: inMemory})
			defer server.Close()
			pods := informertest.Register[*corev1.Pod](server, podResource)
			events, err := clientset(t, server, runtime.ContentTypeProtobuf).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
			must(t, err)
			server.Stop()
			server.Stop()
			if e, ok := <-events.ResultChan(); ok {
				t.Errorf("event %v", e)
			}
			_, err = pods.Create(newPod("ns", "a"))
			must(t, err)
			for range 2 {
				if a := ask(t, server, "/api/v1/pods"); !errors.Is(a.err, syscall.ECONNREFUSED) {
					t.Errorf("%d %v", a.code, a.err)
				}
			}
			server.Start()
			server.Start()
			if a := ask(t, server, "/api/v1/pods"); a.code != 200 || !strings.Contains(a.body, `"name":"a"`) {
				t.Errorf("%d %v", a.code, a.err)
			}
			server.Stop()
		})
	}
}

func TestServer_Restore(t *testing.T) {
	forEachEncoding(t, func(t *testing.T, clients *kubernetes.Clientset, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx := t.Context()
		api := clients.CoreV1().Pods("ns")
		_, err := pods.Create(newPod("ns", "a"))
		must(t, err)
		backup := server.Snapshot()
		_, err = pods.Create(newPod("ns", "b"))
		must(t, err)
		_, err = pods.Delete(informer.Key{Namespace: "ns", Name: "a"})
		must(t, err)
		late := registerWidgets(server)
		_, err = late.Create(widget("w"))
		must(t, err)
		events, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: "3"})
		must(t, err)
		wantEvents(t, events, "DELETED a 4")
		for range 2 {
			server.Restore(backup)
			if e, ok := <-events.ResultChan(); ok {
				t.Errorf("event %v after the restoration", e)
			}
			list, err := api.List(ctx, metav1.ListOptions{})
			must(t, err)
			if server.ResourceVersion() != "2" || list.ResourceVersion != "2" || len(list.Items) != 1 || list.Items[0].Name != "a" || late.Len() != 0 {
				t.Errorf("restored: %s, %+v, %d widgets", server.ResourceVersion(), list, late.Len())
			}
			_, err = api.List(ctx, metav1.ListOptions{ResourceVersion: "4", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
			if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
				t.Errorf("list at a version that was lost: %v", err)
			}
			created, err := api.Create(ctx, newPod("ns", "other"), metav1.CreateOptions{})
			must(t, err)
			if created.ResourceVersion != "3" {
				t.Errorf("version %s", created.ResourceVersion)
			}
		}
	})
}

func TestServer_Unregister(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		events, err := clientset(t, server, runtime.ContentTypeJSON).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		synctest.Wait()
		pods.Unregister()
		pods.Unregister()
		if e, ok := <-events.ResultChan(); ok {
			t.Errorf("event %v", e)
		}
		if a := ask(t, server, "/api/v1/pods"); a.code != 404 {
			t.Errorf("%d %s", a.code, a.body)
		}
		again := informertest.Register[*corev1.Pod](server, podResource)
		_, err = again.Create(newPod("ns", "a"))
		must(t, err)
		if a := ask(t, server, "/api/v1/pods"); a.code != 200 {
			t.Errorf("%d %s", a.code, a.body)
		}
	})
}
