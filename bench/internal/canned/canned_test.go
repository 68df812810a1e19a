package canned

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/test/fleet"
)

const pods, changes = 100, 30

func start(t *testing.T) (*httptest.Server, Control) {
	t.Helper()
	server, err := New(Config{Pods: pods, Changes: changes, Formats: []string{JSON, Protobuf, Metadata}})
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(server)
	t.Cleanup(http.Close)
	return http, Control{http.URL}
}

// open requests pods, and returns the body of the response.
func open(t *testing.T, server *httptest.Server, media, query string) io.Reader {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/pods?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", media+";q=1, text/plain")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	typ, _, _ := strings.Cut(media, ";")
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || !strings.HasPrefix(got, typ) {
		t.Fatalf("%s: %s in %q", query, response.Status, got)
	}
	return response.Body
}

func read(t *testing.T, from io.Reader, n int) []byte {
	t.Helper()
	content := make([]byte, n)
	if _, err := io.ReadFull(from, content); err != nil {
		t.Fatal(err)
	}
	return content
}

func formats(t *testing.T, test func(t *testing.T, media string)) {
	for _, media := range []string{JSON, Protobuf} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) { test(t, media) })
	}
}

// TestListsAreThoseOfTheFleet compares whole lists and pages with the output of the fleet's own encoders.
func TestListsAreThoseOfTheFleet(t *testing.T) {
	server, _ := start(t)
	f := fleet.New(fleet.Config{Pods: pods})
	formats(t, func(t *testing.T, media string) {
		write := fleet.WriteListJSON
		if media == Protobuf {
			write = fleet.WriteListProtobuf
		}
		for _, list := range []struct {
			query    string
			from, to int
		}{
			{"", 0, pods},
			{"limit=30", 0, 30},
			{"limit=30&continue=30", 30, 60},
			{"limit=40&continue=60", 60, pods},
			{"limit=30&resourceVersion=0", 0, pods}, // like the watch cache
		} {
			meta := metav1.ListMeta{ResourceVersion: f.ResourceVersion()}
			if list.to < pods {
				meta.Continue, meta.RemainingItemCount = fmt.Sprint(list.to), new(int64(pods-list.to))
			}
			var want bytes.Buffer
			if err := write(&want, meta, some(f, list.from, list.to)); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(open(t, server, media, list.query))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%q: %d bytes differ from the %d wanted", list.query, len(got), want.Len())
			}
		}
	})
}

func some(f *fleet.Fleet, from, to int) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for i := from; i < to && yield(f.Pod(i)); i++ {
		}
	}
}

// TestWatchesAreThoseOfTheFleet compares streaming lists, changes and their end with the output of the fleet's own encoders.
func TestWatchesAreThoseOfTheFleet(t *testing.T) {
	server, control := start(t)
	f := fleet.New(fleet.Config{Pods: pods})
	formats(t, func(t *testing.T, media string) {
		info, err := control.Reset()
		if err != nil {
			t.Fatal(err)
		}
		if info.Pods != pods || info.ResourceVersion != f.ResourceVersion() || len(info.Keys) == 0 || info.InNamespace == 0 {
			t.Errorf("the server has %+v", info)
		}
		encode := fleet.AppendWatchEventJSON
		if media == Protobuf {
			encode = fleet.AppendWatchEventProtobuf
		}
		var want []byte
		add := func(typ watch.EventType, pod *corev1.Pod) {
			if want, err = encode(want, typ, pod); err != nil {
				t.Fatal(err)
			}
		}
		compare := func(what string, body io.Reader) {
			t.Helper()
			if got := read(t, body, len(want)); !bytes.Equal(got, want) {
				t.Errorf("%s: the frames differ", what)
			}
			want = nil
		}
		streaming := open(t, server, media, "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
		for pod := range f.All() {
			add(watch.Added, pod)
		}
		add(watch.Bookmark, fleet.Bookmark(f.ResourceVersion(), true))
		compare("streaming list", streaming)

		first, err := control.Release(10, 0)
		if err != nil || first != 0 {
			t.Fatal(first, err)
		}
		if first, err = control.Release(10, 1000); err != nil || first != 10 {
			t.Fatal(first, err)
		}
		var versions []string
		for change := range f.Updates(1) {
			if len(versions) == 20 {
				break
			}
			add(change.Type, change.Object)
			versions = append(versions, change.Object.ResourceVersion)
		}
		all := bytes.Clone(want)
		compare("changes", streaming)
		want = all
		compare("changes after a list", open(t, server, media, "watch=1&resourceVersion="+f.ResourceVersion()))

		released, err := control.Released(0, 20)
		if err != nil || fmt.Sprint(released.Versions) != fmt.Sprint(versions) {
			t.Errorf("released: %v, %v", released.Versions, err)
		}
		for i, sent := range released.Sent {
			if sent == 0 || i > 0 && sent < released.Sent[i-1] {
				t.Errorf("change %d was sent at %d", i, sent)
			}
		}
		if _, err := control.Release(changes, 0); err == nil {
			t.Error("released more changes than exist")
		}

		if err := control.Expire(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(streaming)
		if err != nil || !bytes.Contains(rest, []byte("ERROR")) || !bytes.Contains(rest, []byte(metav1.StatusReasonExpired)) {
			t.Errorf("the watch ended with %q, %v", rest, err)
		}
	})
}

// A client that asks for metadata gets nothing else, in lists and in watches.
func TestMetadataOnly(t *testing.T) {
	server, control := start(t)
	info, err := control.Reset()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := control.Release(1, 0); err != nil {
		t.Fatal(err)
	}
	f := fleet.New(fleet.Config{Pods: pods})
	body, err := io.ReadAll(open(t, server, Metadata, "limit=30"))
	if err != nil {
		t.Fatal(err)
	}
	var envelope runtime.Unknown
	var list metav1.PartialObjectMetadataList
	if err := envelope.Unmarshal(bytes.TrimPrefix(body, []byte(magic))); err != nil {
		t.Fatal(err)
	}
	if err := list.Unmarshal(envelope.Raw); err != nil || envelope.Kind != "PartialObjectMetadataList" || len(list.Items) != 30 {
		t.Fatalf("%s with %d items, %v", envelope.Kind, len(list.Items), err)
	}
	for i := range list.Items {
		want, _ := (&metav1.PartialObjectMetadata{ObjectMeta: f.Pod(i).ObjectMeta}).Marshal()
		if got, err := list.Items[i].Marshal(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("item %d is %v, %v", i, list.Items[i], err)
		}
	}
	frames := open(t, server, Metadata, "watch=1&resourceVersion="+info.ResourceVersion)
	for change := range f.Updates(1) {
		want, err := fleet.AppendMetadataEventProtobuf(nil, change.Type, change.Object)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, frames, len(want)); !bytes.Equal(got, want) {
			t.Error("the frame of a change differs")
		}
		break
	}
}

// Padding makes each pod larger, also those of changes.
func TestPadding(t *testing.T) {
	const padding = 10_000
	server, err := New(Config{Pods: pods, Changes: changes, Padding: padding, Formats: []string{JSON, Protobuf}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range server.formats {
		for _, pod := range f.pods {
			if len(pod.item) < padding {
				t.Errorf("%s: a pod has %d bytes", f.media, len(pod.item))
			}
		}
		for _, change := range f.changes {
			if len(change) < padding {
				t.Errorf("%s: a change has %d bytes", f.media, len(change))
			}
		}
	}
}

// TestDiscovery checks the discovery requests of client libraries about pods.
func TestDiscovery(t *testing.T) {
	server, _ := start(t)
	response, err := http.Get(server.URL + "/api/v1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list metav1.APIResourceList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	if len(list.APIResources) != 1 || list.APIResources[0].Name != "pods" || !list.APIResources[0].Namespaced {
		t.Errorf("%+v", list)
	}
}

// A client of each wire speaks it, and receives each event of a watch.
func TestWires(t *testing.T) {
	server, err := Start(Config{Pods: pods, Changes: changes, Formats: []string{JSON}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	control := Control{server.URL}
	info, err := control.Reset()
	if err != nil {
		t.Fatal(err)
	}
	for wire, want := range map[Wire]string{HTTP2: "HTTP/2.0 true", HTTP1: "HTTP/1.1 true", Plain: "HTTP/1.1 false"} {
		config, err := control.Client(info, wire, JSON)
		if err != nil {
			t.Fatal(err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Get(config.Host + "/api/v1/pods?watch=true&sendInitialEvents=true")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := fmt.Sprint(response.Proto, " ", response.TLS != nil); got != want {
			t.Errorf("%s: %s", wire, got)
		}
		frames := json.NewDecoder(response.Body)
		for i := range pods + 1 {
			var event struct{ Type string }
			if err := frames.Decode(&event); err != nil || (event.Type == "BOOKMARK") != (i == pods) {
				t.Fatalf("%s: event %d is %+v, %v", wire, i, event, err)
			}
		}
		client.CloseIdleConnections()
	}
	if _, err := control.Client(info, "HTTP/3", JSON); err == nil || !strings.Contains(err.Error(), `"HTTP/3"`) {
		t.Error(err)
	}
	if _, err := control.Client(Info{}, HTTP2, JSON); err == nil || !strings.Contains(err.Error(), string(HTTP2)) {
		t.Error(err)
	}
}
