// Package warmstart tests informers that start from a saved state, and what is saved.
package warmstart

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/source/snapshotfile"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

func TestMain(m *testing.M) { leak.Main(m) }

// life is one run of an informer of pods whose saved states are in a directory.
type life struct {
	*informer.Informer[*corev1.Pod]
	rec  *testkit.Recorder[*corev1.Pod]
	log  *testkit.Log
	stop func()
}

// live runs an informer until stop.
func live(w world.World, client *informer.Client, resource informer.Resource, config informer.Config[*corev1.Pod]) life {
	w.Helper()
	log := &testkit.Log{}
	config.Logger = log.Logger()
	l := life{informer.New(client, resource, config), &testkit.Recorder[*corev1.Pod]{}, log, nil}
	l.Subscribe(l.rec)
	l.stop = world.Start(w.T, l.Informer)
	return l
}

// warmStartDir returns a directory for saved states.
func warmStartDir(t *testing.T) informer.WarmStartConfig {
	return informer.WarmStartConfig{Storage: informer.WarmStartDir(t.TempDir())}
}

// saving returns a Config without a log, with a directory for saved states.
func saving(t *testing.T) informer.Config[*corev1.Pod] {
	config := world.Quiet[*corev1.Pod]()
	config.WarmStart = warmStartDir(t)
	return config
}

// files returns the saved states in a directory.
func files(t *testing.T, c informer.WarmStartConfig) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(string(c.Storage.(informer.WarmStartDir)), "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var pods = informer.Resource{GroupVersionResource: world.PodGVR}

// After a warm start, the store equals the server, whatever has changed meanwhile, and the server has sent only the
// changes.
// Guarantees: S4
func TestWarmStartEqualsAFreshList(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		config.WarmStart = warmStartDir(t)
		for i := range 40 {
			w.Create(world.NewPod("ns", fmt.Sprint("p", i), "v=1"))
		}
		first := live(w, client, pods, config)
		if s := first.status(); s.Loaded || !errors.Is(s.LoadError, fs.ErrNotExist) {
			t.Errorf("first start: %+v", s)
		}
		w.Relabel("ns", "p1", "2")
		world.EqualsServer(w, first.Informer)
		first.stop()
		if s := first.status(); s.Saves != 1 || s.SavedObjects != 40 || s.SavedVersion != w.Server.ResourceVersion() || s.SaveError != nil || s.SavedBytes == 0 {
			t.Errorf("saved: %+v", s)
		}

		w.Server.ResetRequests()
		unchanged := live(w, client, pods, config)
		synctest.Wait()
		got := w.Requests()
		world.EqualsServer(w, unchanged.Informer)
		told := unchanged.rec.Take()
		if slices.Sort(told); len(told) != 40 || told[1] != "add ns/p1 2 initial=true" {
			t.Errorf("%d calls: %q", len(told), told)
		}
		if s := unchanged.status(); !s.Loaded || s.LoadedObjects != 40 || s.LoadError != nil || s.CatchUpTo != "" {
			t.Errorf("second start: %+v", s)
		}
		if s := unchanged.Status().Reflectors[0]; s.Traffic.Lists != 1 || len(s.Traffic.ListsBy) != 0 || s.Traffic.WatchesBy[status.ReasonWarmStart] != 1 {
			t.Errorf("second start: %d lists %v, watches %v", s.Traffic.Lists, s.Traffic.ListsBy, s.Traffic.WatchesBy)
		}
		if !slices.Equal(got, []string{"list limit=1", "watch resourceVersion=" + w.Server.ResourceVersion()}) {
			t.Errorf("requests %q", got)
		}
		unchanged.stop()
		if s := unchanged.status(); s.Saves != 0 {
			t.Errorf("saved %d times what had not changed", s.Saves)
		}

		w.Relabel("ns", "p2", "2")
		w.Delete("ns", "p3")
		w.Create(world.NewPod("ns", "new", "v=1"))
		w.Delete("ns", "p4")
		w.Create(world.NewPod("ns", "p4", "v=again"))
		for i := range 60 {
			w.Create(world.NewPod("other", fmt.Sprint("q", i), "v=1"))
		}
		changed := live(w, client, pods, config)
		world.EqualsServer(w, changed.Informer)
		synctest.Wait()
		var initial int
		for _, line := range changed.rec.Take() {
			if strings.Contains(line, "add") && !strings.Contains(line, "initial=true") && !strings.Contains(line, "p4") {
				t.Errorf("before the sync: %s", line)
			}
			initial++
		}
		if s := changed.status(); !s.Loaded || s.LoadError != nil || initial < 100 {
			t.Errorf("third start: %d calls, %+v", initial, s)
		}
		w.Relabel("ns", "p2", "3")
		changed.rec.Want(t, "update ns/p2 2->3")
		changed.stop()
		if changed.rec.Broken() > 0 {
			t.Error("the events are no chain")
		}
	})
}

// The informer is synced only when it has what the server had after the start.
// Guarantees: S4
func TestWarmStartIsSyncedWhenItHasCaughtUp(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		live(w, w.Client(), pods, config).stop()
		w.Relabel("ns", "a", "2")
		w.Create(world.NewPod("ns", "c", "v=1"))
		w.Delete("ns", "b")
		open := make(chan struct{})
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if world.AsksToWatch(r) {
				<-open
			}
			return false
		})
		inf, rec := w.PodInformer(config)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go inf.Run(ctx)
		rec.Want(t, "add ns/a 1 initial=true", "add ns/b 1 initial=true")
		if s := world.StatusOf(inf).WarmStart; inf.HasSynced() || s.CatchUpTo != w.Server.ResourceVersion() {
			t.Errorf("synced %v before the watch: %+v", inf.HasSynced(), s)
		}
		short, cancelShort := context.WithTimeout(ctx, time.Second)
		defer cancelShort()
		if err := inf.WaitSynced(short); err == nil || !strings.Contains(err.Error(), "catching up from a saved state at resource version") {
			t.Errorf("WaitSynced: %v", err)
		}
		close(open)
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		rec.Want(t, "update ns/a 1->2", "add ns/c 1 initial=true", "delete ns/b 1 final=true")
		if s := world.StatusOf(inf).WarmStart; s.CatchUpTo != "" {
			t.Errorf("caught up: %+v", s)
		}
		w.Create(world.NewPod("ns", "d", "v=1"))
		rec.Want(t, "add ns/d 1 initial=false")
		cancel()
		synctest.Wait()
	})
}

// A bookmark before the end of a short watch confirms the version, if only other resources have changed.
// Guarantees: S4
func TestWarmStartOfAQuietCollection(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		nodes := informertest.Register[*corev1.Node](w.Server, informertest.Resource{GroupVersionResource: world.NodeGVR, ClusterScoped: true})
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		live(w, w.Client(), pods, config).stop()
		if _, err := nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		warm := live(w, w.Client(), pods, config)
		if d, s := time.Since(began), warm.status(); d > 3*time.Second || !s.Loaded || s.LoadError != nil {
			t.Errorf("synced after %v: %+v", d, s)
		}
		world.EqualsServer(w, warm.Informer)
		warm.stop()

		// A server that never sends a bookmark confirms nothing.
		if _, err := nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m"}}); err != nil {
			t.Fatal(err)
		}
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if world.AsksToWatch(r) && !world.AsksToStream(r) {
				q := r.URL.Query()
				q.Del("allowWatchBookmarks")
				r.URL.RawQuery = q.Encode()
			}
			return false
		})
		inf, rec := w.PodInformer(config)
		stop := make(chan struct{})
		ctx, cancel := context.WithCancel(w.Context())
		go func() { defer close(stop); inf.Run(ctx) }()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		if s := world.StatusOf(inf); s.WarmStart.LoadError == nil || !strings.Contains(s.WarmStart.LoadError.Error(), "has not confirmed") || s.Traffic.ListsBy[status.ReasonBehind] != 1 {
			t.Errorf("without bookmarks: %+v %v", s.WarmStart, s.Traffic.ListsBy)
		}
		rec.Want(t, "add ns/a 1 initial=true")
		cancel()
		<-stop
	})
}

// A start that cannot resume lists and says why. The store equals the server.
// Guarantees: S4
func TestColdStartSaysWhy(t *testing.T) {
	type saved struct {
		world.World
		config   informer.Config[*corev1.Pod]
		resource informer.Resource
		change   func(*rest.Config)
		uid      string // of kube-system; empty if it is forbidden
		backup   *informertest.Snapshot
	}
	shard := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}}
	for _, test := range []struct {
		name   string
		before func(*saved)
		after  func(*saved)
		why    string // empty for a warm start
	}{
		{name: "nothing changed"},
		{name: "old", after: func(s *saved) { time.Sleep(61 * time.Minute) }, why: "it was saved 1h1m0s ago"},
		{name: "older than MaxAge", after: func(s *saved) { s.config.WarmStart.MaxAge = time.Minute; time.Sleep(2 * time.Minute) }, why: "MaxAge is 1m0s"},
		{name: "younger than MaxAge", after: func(s *saved) { s.config.WarmStart.MaxAge = 2 * time.Hour; time.Sleep(100 * time.Minute) }},
		{name: "other URL", after: func(s *saved) { s.change = func(c *rest.Config) { c.Host = "http://elsewhere" } }, why: "it is from the server http://"},
		{name: "other certificate authority", after: func(s *saved) { s.change = func(c *rest.Config) { c.CAData = certificate(t) } }, why: "another certificate authority"},
		{name: "other cluster", before: func(s *saved) { s.uid = "u1" }, after: func(s *saved) { s.uid = "u2" }, why: "has the UID u1, not u2"},
		{name: "same cluster", before: func(s *saved) { s.uid = "u1" }},
		{name: "unknown cluster", before: func(s *saved) { s.uid = "u1" }, after: func(s *saved) { s.uid = "" }, why: "cannot get that namespace"},
		{name: "restored server", before: func(s *saved) { s.backup = s.Server.Snapshot(); s.Relabel("ns", "a", "2") }, after: func(s *saved) { s.Server.Restore(s.backup) }, why: "the server was restored to resource version"},
		{name: "expired", after: func(s *saved) { s.Relabel("ns", "a", "2"); s.Delete("ns", "b"); s.Server.Compact() }, why: "the watch cannot resume at resource version"},
		{name: "other revision", after: func(s *saved) { s.config.WarmStart.Revision = "2" }, why: `it has the revision "", not "2"`},
		{name: "transform", after: func(s *saved) {
			s.config.WarmStart.Revision = "2"
			s.config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		}, why: "Config.Transform has changed"},
		{name: "filter", after: func(s *saved) {
			s.config.WarmStart.Revision = "2"
			s.config.Filter = func(*metav1.PartialObjectMetadata) bool { return true }
		}, why: "Config.Filter has changed"},
		{name: "managed fields", after: func(s *saved) { s.config.KeepManagedFields = true }, why: "KeepManagedFields has changed"},
		{name: "other shard", after: func(s *saved) { s.resource.Shard = shard }, why: "another shard"},
		{name: "same shard", before: func(s *saved) { s.resource.Shard = shard }},
		{name: "other selector", after: func(s *saved) { s.resource.LabelSelector = "v" }, why: "there is no saved state yet"},
		{name: "other namespace", after: func(s *saved) { s.resource.Namespaces = []string{"ns"} }, why: "there is no saved state yet"},
		{name: "same namespaces", before: func(s *saved) { s.resource.Namespaces = []string{"ns", "other"} }},
		{name: "shared", after: func(s *saved) { s.config.Layout = informer.LayoutShared }},
		{name: "separate", after: func(s *saved) { s.config.Layout = informer.LayoutSeparate }},
		{name: "compact", after: func(s *saved) { s.config.Layout = informer.LayoutCompact }},
		{name: "paged", after: func(s *saved) { s.config.PagedList = true }},
		{name: "not a saved state", after: func(s *saved) { overwrite(s.World, []byte("hello, world"), s.config.WarmStart) }, why: "it is not a saved state"},
		{name: "empty", after: func(s *saved) { overwrite(s.World, nil, s.config.WarmStart) }, why: "the file ends early"},
		{name: "another kind", after: func(s *saved) {
			rewrite(s.World, s.config.WarmStart, func(r *snapshotfile.Record) { r.Kind, r.APIVersion = "NodeList", "v1" })
		}, why: `damaged: a NodeList: the server sent another kind than requested: "Node" instead of "Pod"`},
		{name: "objects of another kind", after: func(s *saved) {
			rewrite(s.World, s.config.WarmStart, func(r *snapshotfile.Record) {
				*r = snapshotfile.Record{Raw: []byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n","uid":"u","resourceVersion":"1"}}`)}
			})
		}, why: `damaged: the server sent another kind than requested: "Node" instead of "Pod"`},
		{name: "the kind of before", after: func(s *saved) {
			rewrite(s.World, s.config.WarmStart, func(r *snapshotfile.Record) { r.Kind, r.APIVersion = "PodList", "v1" })
		}},
		{name: "other format", after: func(s *saved) { overwrite(s.World, []byte("informer\x07"), s.config.WarmStart) }, why: "written in version 7 of the format"},
	} {
		forEachPodLayout(t, test.name, func(w world.World, config informer.Config[*corev1.Pod]) {
			s := &saved{World: w, config: config, resource: pods, change: func(*rest.Config) {}}
			w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
				if s.uid == "" || !strings.HasSuffix(r.URL.Path, "/namespaces/kube-system") {
					return false
				}
				rw.Header().Set("Content-Type", world.JSONType)
				fmt.Fprintf(rw, `{"kind":"PartialObjectMetadata","metadata":{"name":"kube-system","uid":%q}}`, s.uid)
				return true
			})
			w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"))
			if test.before != nil {
				test.before(s)
			}
			live(w, w.Client(s.change), s.resource, s.config).stop()
			if test.after != nil {
				test.after(s)
			}
			again := live(w, w.Client(s.change), s.resource, s.config)
			got := again.status().LoadError
			switch {
			case test.why == "" && (got != nil || !again.status().Loaded):
				t.Errorf("not loaded: %v", got)
			case test.why != "" && (got == nil || !strings.Contains(got.Error(), test.why)):
				t.Errorf("the reason is %v, want %s", got, test.why)
			}
			log := strings.Join(again.log.Take(), "\n")
			if n := strings.Count(log, "listing instead of a warm start"); n != min(1, len(test.why)) {
				t.Errorf("the log has the reason %d times:\n%s", n, log)
			}
			if !s.config.KeepManagedFields && s.resource.LabelSelector == "" {
				world.EqualsServer(w, again.Informer)
			}
			again.stop()
			if again.rec.Broken() > 0 {
				t.Error("the events are no chain")
			}
		})
	}
}

// certificate returns a new certificate.
func certificate(t *testing.T) []byte {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// forEachPodLayout runs test with each layout, with a directory for saved states.
func forEachPodLayout(t *testing.T, name string, test func(w world.World, config informer.Config[*corev1.Pod])) {
	for _, layout := range world.Layouts {
		t.Run(fmt.Sprintf("%s,%s", name, layout), func(t *testing.T) {
			config := saving(t)
			config.Layout = layout
			world.Bubble(t, func(w world.World) { test(w, config) })
		})
	}
}

// overwrite replaces the only saved state.
func overwrite(w world.World, content []byte, c informer.WarmStartConfig) {
	w.Helper()
	names := files(w.T, c)
	if len(names) != 1 {
		w.Fatalf("saved states %q", names)
	}
	if err := os.WriteFile(names[0], content, 0o600); err != nil {
		w.Fatal(err)
	}
}

// rewrite changes the records of the only saved state, which stays whole.
func rewrite(w world.World, c informer.WarmStartConfig, change func(*snapshotfile.Record)) {
	w.Helper()
	must := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	body, err := os.ReadFile(files(w.T, c)[0])
	must(err)
	in, err := snapshotfile.NewReader(bytes.NewReader(body))
	must(err)
	var changed bytes.Buffer
	out, err := snapshotfile.NewWriter(&changed, in.Header)
	must(err)
	for {
		rest, err := in.Next(nil)
		if err == io.EOF {
			break
		}
		must(err)
		for len(rest) > 0 {
			var r snapshotfile.Record
			r, rest, err = snapshotfile.Cut(rest)
			must(err)
			change(&r)
			must(out.Append(r))
		}
	}
	must(out.Close())
	overwrite(w, changed.Bytes(), c)
}

// Objects of each kind of type are as after a fresh list.
// Guarantees: S4
func TestWarmStartOfEachType(t *testing.T) {
	t.Run("pod", testWarmType[*corev1.Pod])
	t.Run("metadata", testWarmType[*metav1.PartialObjectMetadata])
	t.Run("unstructured", testWarmType[*unstructured.Unstructured])
	t.Run("slim", testWarmType[*world.SlimPod])
}

func testWarmType[T informer.Object](t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		for _, layout := range world.Layouts {
			for _, transformed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,%s,transformed=%v", media, layout, transformed), func(t *testing.T) {
					world.Bubble(t, func(w world.World) {
						w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
						config := world.Quiet[T]()
						config.Layout = layout
						config.WarmStart = warmStartDir(t)
						calls := 0
						if transformed {
							config.WarmStart.Revision = "1"
							config.Transform = func(obj T) (T, error) { calls++; return obj, nil }
						}
						client := w.Client(func(c *rest.Config) { c.ContentType = media })
						first := informer.New(client, pods, config)
						stop := world.Start(w.T, first)
						w.Relabel("ns", "a", "2") // a version that came in an event
						w.Create(world.NewPod("ns", "c", "v=1"))
						if err := first.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
						stop()
						if s := first.Status().Reflectors[0].WarmStart; s.SavedVersion != w.Server.ResourceVersion() || s.SaveError != nil {
							t.Errorf("saved: %+v", s)
						}
						want := first.Store().List()
						calls = 0
						again := informer.New(client, pods, config)
						world.Start(w.T, again)()
						if s := again.Status().Reflectors[0].WarmStart; !s.Loaded || s.LoadedObjects != 3 {
							t.Errorf("%+v", s)
						}
						if got := again.Store().List(); !reflect.DeepEqual(got, want) {
							t.Errorf("warm start (-first +warm):\n%s", cmp.Diff(want, got))
						}
						config.WarmStart = informer.WarmStartConfig{}
						if calls > 0 {
							t.Errorf("Transform was called %d times for saved objects", calls)
						}
						fresh := informer.New(client, pods, config)
						world.Start(w.T, fresh)()
						for obj := range fresh.Store().All() {
							if warm, _ := again.Store().Get(informer.KeyOf(obj)); !reflect.DeepEqual(obj, warm) {
								t.Errorf("fresh list (-fresh +warm):\n%s", cmp.Diff(obj, warm))
							}
						}
					})
				})
			}
		}
	}
}

// A change of the shard during or after a warm start lists the shard. A saved state has the shard of its objects.
// Guarantees: S4
func TestWarmStartAndShards(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		for i := range 20 {
			w.Create(world.NewPod("ns", fmt.Sprint("p", i)))
		}
		half := func(i uint64) informer.Shard {
			return informer.Shard{Ranges: []informer.HashRange{{First: i << 63, Last: i<<63 | (1<<63 - 1)}}}
		}
		resource := pods
		resource.Shard = half(0)
		check := func(l life, shard informer.Shard) {
			t.Helper()
			if err := l.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
				t.Fatal(err)
			}
			var want []string
			for p := range w.Pods.All() {
				if shard.Has(p) {
					want = append(want, p.Name)
				}
			}
			var got []string
			for p := range l.Store().All() {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the store has %q, want %q", got, want)
			}
		}
		first := live(w, w.Client(), resource, config)
		check(first, half(0))
		if err := first.SetShard(w.Context(), half(1)); err != nil {
			t.Fatal(err)
		}
		check(first, half(1))
		first.stop()

		other := live(w, w.Client(), resource, config) // the saved state is of the other half
		if s := other.status(); s.Loaded || s.LoadError == nil {
			t.Errorf("%+v", s)
		}
		check(other, half(0))
		other.stop()
		w.Create(world.NewPod("ns", "q"), world.NewPod("ns", "r"))
		warm := live(w, w.Client(), resource, config)
		if s := warm.status(); !s.Loaded {
			t.Errorf("%+v", s)
		}
		check(warm, half(0))
		if err := warm.SetShard(w.Context(), half(1)); err != nil {
			t.Fatal(err)
		}
		check(warm, half(1))
		warm.stop()
	})
}

// A resource that the server no longer serves has no objects, whatever a saved state has.
// Guarantees: S4
func TestWarmStartOfAnAbsentResource(t *testing.T) {
	forEachPodLayout(t, "absent", func(w world.World, config informer.Config[*corev1.Pod]) {
		config.AbsentIsSynced = true
		w.Create(world.NewPod("ns", "a", "v=1"))
		live(w, w.Client(), pods, config).stop()
		w.Pods.Unregister()
		again := live(w, w.Client(), pods, config)
		if s := again.status(); again.Store().Len() != 0 || s.Loaded || s.LoadError == nil {
			t.Errorf("%d objects, %+v", again.Store().Len(), s)
		}
		w.Pods = informertest.Register[*corev1.Pod](w.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
		w.Create(world.NewPod("ns", "b", "v=1"))
		world.EqualsServer(w, again.Informer)
		again.rec.Want(t, "add ns/b 1 initial=false")
		again.stop()
	})
}

// While the server is down, a start waits, and then resumes.
// Guarantees: S4
func TestWarmStartWhileTheServerIsDown(t *testing.T) {
	for _, test := range []struct {
		name string
		down func(world.World) (up func())
	}{
		{"unavailable", func(w world.World) func() { return w.Server.Inject(informertest.Fault{Error: world.Unavailable}) }},
		{"unreachable", func(w world.World) func() { w.Server.Stop(); return w.Server.Start }},
	} {
		t.Run(test.name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				config := saving(t)
				w.Create(world.NewPod("ns", "a", "v=1"))
				live(w, w.Client(), pods, config).stop()
				w.Relabel("ns", "a", "2")
				up := test.down(w)
				inf, rec := w.PodInformer(config)
				stop := world.Run(w, inf)
				time.Sleep(2 * time.Minute)
				rec.Want(t)
				if s := world.StatusOf(inf); inf.HasSynced() || s.WarmStart.LoadError != nil || s.Failures < 3 {
					t.Errorf("%+v", s)
				}
				up()
				if err := inf.WaitSynced(w.Context()); err != nil {
					t.Fatal(err)
				}
				world.EqualsServer(w, inf)
				if s := world.StatusOf(inf); !s.WarmStart.Loaded || len(s.Traffic.ListsBy) > 0 {
					t.Errorf("%+v", s)
				}
				stop()
			})
		})
	}
}

// The informers of a group, and those whose type is known at run time only, start from their saved states.
// Guarantees: S4
func TestWarmStartOfAGroup(t *testing.T) {
	for _, layout := range world.Layouts {
		t.Run(layout.String(), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("a", "a", "v=1"), world.NewPod("b", "b", "v=1"), world.NewPod("c", "c", "v=1"))
				config := world.Quiet[world.AnyObject]()
				config.Layout, config.Prototype = layout, &corev1.Pod{}
				config.WarmStart = warmStartDir(t)
				for i := range 3 {
					g := informer.NewGroup(w.Client())
					resource := informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"b", "a"}}
					inf, _, err := informer.Shared(g, resource, config)
					if err != nil {
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(w.Context())
					ended := make(chan struct{})
					go func() { defer close(ended); g.Run(ctx) }()
					if err := g.WaitSynced(w.Context()); err != nil {
						t.Fatal(err)
					}
					for _, r := range inf.Status().Reflectors {
						if r.WarmStart.Loaded != (i > 0) {
							t.Errorf("start %d: namespace %s: %+v", i, r.Namespace, r.WarmStart)
						}
					}
					if got := world.Names(inf.Store().List()); got != "a/a b/b" {
						t.Errorf("start %d: %s", i, got)
					}
					cancel()
					<-ended
				}
				if n := len(files(t, config.WarmStart)); n != 2 {
					t.Errorf("%d files", n)
				}
			})
		})
	}
}
