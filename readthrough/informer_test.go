package readthrough_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/readthrough"
	"github.com/typedinformer/informer/status"
)

// Events come for all objects, with metadata. A whole object costs one request until it changes. A deleted one costs
// none.
// Guarantees: T1, T2, T3
func TestObjectsAreReadWhenTheyAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secret("a", "one", nil)
		w.secret("b", "two", nil)
		i, _ := w.start(readthrough.Config[*corev1.Secret]{})
		var events []string
		i.Metadata().Subscribe(informer.HandlerFuncs[*metav1.PartialObjectMetadata]{
			AddFunc:    func(obj *metav1.PartialObjectMetadata, _ bool) { events = append(events, "add "+obj.Name) },
			UpdateFunc: func(_, obj *metav1.PartialObjectMetadata) { events = append(events, "update "+obj.Name) },
			DeleteFunc: func(obj *metav1.PartialObjectMetadata, _ bool) { events = append(events, "delete "+obj.Name) },
		})
		for range 3 {
			if s := w.want(i, "a", "one"); s.ManagedFields != nil || s.Name != "a" {
				t.Errorf("metadata %+v", s.ObjectMeta)
			}
		}
		if n := w.requests("get"); n != 1 {
			t.Errorf("%d requests", n)
		}
		w.secret("a", "three", nil)
		w.secret("b", "four", nil)
		settle()
		if s := i.CacheStatus(); s.Held != 0 || s.Bytes != 0 || s.Changed != 1 {
			t.Errorf("status after a change: %+v", s)
		}
		w.want(i, "a", "three")
		w.want(i, "a", "three")
		w.delete("a")
		settle()
		if _, err := i.Get(t.Context(), key("a")); !apierrors.IsNotFound(err) {
			t.Errorf("%v for a deleted object", err)
		}
		first := w.secret("a", "five", nil)
		settle()
		if s := w.want(i, "a", "five"); s.UID != first.UID {
			t.Errorf("UID %s, want %s", s.UID, first.UID)
		}
		if n := w.requests("get"); n != 3 {
			t.Errorf("%d requests", n)
		}
		if want := []string{"add a", "add b", "update a", "update b", "delete a", "add a"}; !slices.Equal(events, want) {
			t.Errorf("events %v, want %v", events, want)
		}
		if s := i.CacheStatus(); s.Held != 1 || s.Requests != 3 || s.Hits != 3 || s.Failures != 0 {
			t.Errorf("status %+v", s)
		}
		if n := w.requests("list") + w.requests("watch"); n != 0 {
			t.Errorf("%d lists and watches of whole objects", n)
		}
	})
}

// Before the watch has a change, a read returns an object that is newer than its metadata, or that it is gone. A caller
// that waits for its write reads it.
// Guarantees: T1, T2
func TestReadAheadOfTheWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secret("a", "one", nil)
		w.secret("b", "one", nil)
		i, _ := w.start(readthrough.Config[*corev1.Secret]{})
		w.server.Inject(informertest.Fault{Verb: "watch", Error: apierrors.NewInternalError(errors.New("down")), Times: 1})
		w.server.EndWatches()
		settle()
		written := w.secret("a", "two", nil)
		w.delete("b")
		w.want(i, "a", "two")
		if s := i.CacheStatus(); s.Held != 0 {
			t.Errorf("status %+v", s)
		}
		if _, err := i.Get(t.Context(), key("b")); !apierrors.IsNotFound(err) {
			t.Errorf("%v for an object that was deleted behind the watch", err)
		}
		if err := i.Metadata().WaitForObject(t.Context(), written); err != nil {
			t.Fatal(err)
		}
		w.want(i, "a", "two")
		w.want(i, "a", "two")
		if n := w.requests("get"); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

// While the server is away, held objects are read, and others are an error that is not "not found". What fails reaches
// the caller, and the next read tries again.
// Guarantees: T3
func TestFailuresReachTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secret("a", "one", nil)
		w.secret("b", "two", nil)
		i, _ := w.start(readthrough.Config[*corev1.Secret]{})
		w.want(i, "a", "one")
		for name, c := range map[string]struct {
			fault error
			class func(error) bool
		}{
			"403": {apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "b", errors.New("no")), apierrors.IsForbidden},
			//lint:ignore SA1019 servers still answer it
			"410":    {apierrors.NewGone("gone"), apierrors.IsGone},
			"429":    {apierrors.NewTooManyRequests("slow down", 1), apierrors.IsTooManyRequests},
			"a page": {apierrors.NewNotFound(schema.GroupResource{}, ""), func(err error) bool { return strings.Contains(err.Error(), "not about the object") }},
		} {
			remove := w.server.Inject(informertest.Fault{Verb: "get", Error: c.fault})
			if s, err := i.Get(t.Context(), key("b")); s != nil || err == nil || !c.class(err) || apierrors.IsNotFound(err) {
				t.Errorf("%s: %v, %v", name, s, err)
			}
			w.want(i, "a", "one")
			remove()
		}
		remove := w.server.Inject(informertest.Fault{Verb: "get", Corrupt: []informer.Key{key("b")}})
		if s, err := i.Get(t.Context(), key("b")); s != nil || err == nil || apierrors.IsNotFound(err) {
			t.Errorf("undecodable: %v, %v", s, err)
		}
		remove()
		w.server.Stop()
		w.want(i, "a", "one")
		if s, err := i.Get(t.Context(), key("b")); s != nil || err == nil || apierrors.IsNotFound(err) {
			t.Errorf("stopped: %v, %v", s, err)
		}
		w.secret("a", "three", nil)
		w.server.Start()
		time.Sleep(time.Minute) // the watch is back
		w.want(i, "a", "three")
		w.want(i, "b", "two")
	})
}

// A server that was restored from a backup sends older objects than the store has metadata: an error, until the store
// has followed. No object of the lost time is held then.
// Guarantees: T1, T3
func TestRestoredServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secret("a", "one", nil)
		w.secret("b", "one", nil)
		backup := w.server.Snapshot()
		i, _ := w.start(readthrough.Config[*corev1.Secret]{})
		w.secret("a", "two", nil)
		w.secret("b", "two", nil)
		settle()
		w.want(i, "b", "two")
		remove := w.server.Inject(informertest.Fault{Verb: "watch", Error: apierrors.NewInternalError(errors.New("down"))})
		w.server.Restore(backup)
		settle()
		if s, err := i.Get(t.Context(), key("a")); !errors.Is(err, readthrough.ErrStale) {
			t.Errorf("%v, %v of a server that was restored", s, err)
		}
		remove()
		time.Sleep(10 * time.Minute)
		w.want(i, "a", "one")
		w.want(i, "b", "one")
	})
}

// The objects that a selector names are whole always, and need no requests. The limit does not count them.
// Guarantees: T6
func TestKeptObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		mine := map[string]string{"mine": "yes"}
		w.secret("a", "one", mine)
		w.secret("b", "two", nil)
		i, _ := w.start(readthrough.Config[*corev1.Secret]{
			KeepLabelSelector: "mine=yes", KeepFieldSelector: "metadata.name!=x", MaxBytes: 1,
		})
		w.want(i, "a", "one")
		w.secret("a", "three", mine)
		settle()
		w.want(i, "a", "three")
		if n := w.requests("get"); n != 0 {
			t.Errorf("%d requests", n)
		}
		w.want(i, "b", "two")
		w.want(i, "b", "two") // larger than the limit
		if s := i.CacheStatus(); s.Kept != 1 || s.Held != 0 || s.Requests != 2 {
			t.Errorf("status %+v", s)
		}
		w.secret("a", "four", nil)
		settle()
		w.want(i, "a", "four")
		if s := i.CacheStatus(); s.Kept != 0 || s.Requests != 3 {
			t.Errorf("status %+v", s)
		}
	})
}

// A list says what it cost, selects by labels, and costs nothing for what is held.
// Guarantees: T7
func TestListSaysWhatItCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 40 {
			w.secret(fmt.Sprintf("%02d", n), fmt.Sprint(n), map[string]string{"odd": strconv.FormatBool(n%2 == 1)})
		}
		i, _ := w.start(readthrough.Config[*corev1.Secret]{})
		w.want(i, "01", "1")
		odd := labels.SelectorFromSet(labels.Set{"odd": "true"})
		for _, want := range []readthrough.Cost{{Objects: 20, Held: 1, Requests: 1}, {Objects: 20, Held: 20}} {
			if cost := i.CostOf("ns", odd); cost != want {
				t.Errorf("cost %+v beforehand, want %+v", cost, want)
			}
			all, cost, err := i.List(t.Context(), "ns", odd)
			if err != nil || cost != want || len(all) != 20 {
				t.Errorf("%d objects, %+v, %v, want %+v", len(all), cost, err, want)
			}
			for n, s := range all {
				if string(s.Data["text"]) != fmt.Sprint(2*n+1) || s.ManagedFields != nil {
					t.Errorf("object %d: %s, %q", n, s.Name, s.Data)
				}
			}
		}
		if all, cost, err := i.List(t.Context(), "other", nil); err != nil || len(all) != 0 || cost != (readthrough.Cost{}) {
			t.Errorf("%v, %+v, %v", all, cost, err)
		}
	})
}

// A list has the objects that can be decoded, and an error that names one of the others.
// Guarantees: T7
func TestListWithoutWhatCannotBeDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 20 {
			w.secret(fmt.Sprintf("%02d", n), fmt.Sprint(n), map[string]string{"few": strconv.FormatBool(n < 6)})
		}
		i, _ := w.start(readthrough.Config[*corev1.Secret]{Transform: func(s *corev1.Secret) (*corev1.Secret, error) {
			if s.Name == "05" {
				return nil, errors.New("no")
			}
			return s, nil
		}})
		few := labels.SelectorFromSet(labels.Set{"few": "true"})
		for _, verb := range []string{"list", "get"} {
			w.server.Inject(informertest.Fault{Verb: verb, Corrupt: []informer.Key{key("04")}})
		}
		for _, c := range []struct {
			selector labels.Selector
			want     int
		}{{few, 4}, {nil, 18}} {
			all, _, err := i.List(t.Context(), "ns", c.selector)
			var failed *informer.DecodeError
			if !errors.As(err, &failed) || failed.Key != key("04") || len(all) != c.want {
				t.Errorf("%d objects, %v, want %d", len(all), err, c.want)
			}
		}
	})
}

// Transform sees each object from the server once, and its error names the object.
func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secret("a", "one", nil)
		w.secret("b", "bad", nil)
		w.secret("c", "other", nil)
		i, _ := w.start(readthrough.Config[*corev1.Secret]{KeepManagedFields: true, Transform: func(s *corev1.Secret) (*corev1.Secret, error) {
			switch string(s.Data["text"]) {
			case "bad":
				return nil, errors.New("no")
			case "other":
				return &corev1.Secret{}, nil
			}
			s.Data["text"] = append(s.Data["text"], '!')
			return s, nil
		}})
		for range 2 {
			if s := w.want(i, "a", "one!"); len(s.ManagedFields) != 1 {
				t.Errorf("managedFields %v", s.ManagedFields)
			}
		}
		for _, name := range []string{"b", "c"} {
			var failed *informer.DecodeError
			if s, err := i.Get(t.Context(), key(name)); s != nil || !errors.As(err, &failed) || failed.Key != key(name) {
				t.Errorf("%v, %v", s, err)
			}
		}
	})
}

// A read before the first list waits for it, and says why it waited in vain. After Run, reads fail and nothing is held.
// An informer runs once.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.secret("a", "one", nil)
		i := readthrough.New(w.client, resource, readthrough.Config[*corev1.Secret]{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := i.Get(ctx, key("a")); !errors.Is(err, informer.ErrNotStarted) || i.HasSynced() {
			t.Errorf("before Run: %v", err)
		}
		i, stop := w.start(readthrough.Config[*corev1.Secret]{})
		w.want(i, "a", "one")
		if err := i.Run(t.Context()); err != informer.ErrRunning {
			t.Errorf("the second Run: %v", err)
		}
		w.want(i, "a", "one")
		w.server.Inject(informertest.Fault{Verb: "get", Hang: true})
		w.secret("a", "two", nil)
		settle()
		failed := make(chan error)
		go func() {
			_, err := i.Get(context.Background(), key("a"))
			failed <- err
		}()
		settle()
		stop()
		if err := <-failed; !errors.Is(err, informer.ErrStopped) {
			t.Errorf("a read that was under way: %v", err)
		}
		if _, err := i.Get(t.Context(), key("a")); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("after Run: %v", err)
		}
		if s := i.CacheStatus(); s.Held != 0 || s.Bytes != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// Each method rejects a wrong configuration before it sends a request.
func TestInvalid(t *testing.T) {
	type funcs struct {
		metav1.ObjectMeta `json:"metadata"`
		Hook              func() `json:"hook"`
	}
	w := newWorld(t)
	silent := informer.Config[*metav1.PartialObjectMetadata]{Logger: slog.New(slog.DiscardHandler)}
	check := func(name, says string, errs ...error) {
		for _, err := range errs {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want an error with %q", name, err, says)
			}
		}
	}
	for says, config := range map[string]readthrough.Config[*corev1.Secret]{
		"MaxBytes is -1":  {MaxBytes: -1},
		"MaxIdle is -1ns": {MaxIdle: -1},
		"LabelSelector":   {KeepLabelSelector: "a in"},
		"FieldSelector":   {KeepFieldSelector: "a"},
	} {
		config.Metadata = silent
		i := readthrough.New(w.client, resource, config)
		_, get := i.Get(t.Context(), key("a"))
		_, _, list := i.List(t.Context(), "", nil)
		check(says, says, i.Run(t.Context()), i.WaitSynced(t.Context()), get, list)
		if i.HasSynced() || i.CostOf("", nil) != (readthrough.Cost{}) || i.CacheStatus() != (status.ReadThrough{}) {
			t.Errorf("%s: it works", says)
		}
	}
	noClient := readthrough.New(nil, resource, readthrough.Config[*corev1.Secret]{Metadata: silent})
	wrongType := readthrough.New(w.client, resource, readthrough.Config[*funcs]{Metadata: silent})
	check("no client", "the client is nil", noClient.Run(t.Context()))
	check("wrong type", "field Hook", wrongType.WaitSynced(t.Context()))
	elsewhere := resource
	elsewhere.Namespaces = []string{"other"}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		i := readthrough.New(w.client, elsewhere, readthrough.Config[*corev1.Secret]{Metadata: silent})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go i.Run(ctx)
		if err := i.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, get := i.Get(t.Context(), key("a"))
		_, _, list := i.List(t.Context(), "ns", nil)
		check("namespace", `does not follow namespace "ns"`, get, list)
	})
}

// Writers, failures and readers at random. No read is older than its metadata at the call, and each has a state that
// the server had. In the end, everything can be read, and what is held equals the server.
// Guarantees: T1, T2, T3
func TestReadsAgreeWithTheServer(t *testing.T) {
	for range testkit.Rounds(4, 20) {
		seed := rand.Uint64()
		synctest.Test(t, func(t *testing.T) { agree(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func agree(t *testing.T, seed uint64) {
	w := newWorld(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	kept := map[string]string{"mine": "yes"}
	i, stop := w.start(readthrough.Config[*corev1.Secret]{KeepLabelSelector: "mine=yes", MaxBytes: 4000, MaxIdle: 300 * time.Millisecond})
	defer stop()
	names := []string{"a", "b", "c", "d", "e", "f"}
	version := func(name string) int {
		m, ok := i.Metadata().Store().Get(key(name))
		if !ok {
			return 0
		}
		v, err := strconv.Atoi(m.ResourceVersion)
		if err != nil {
			t.Error(err)
		}
		return v
	}
	var reading sync.WaitGroup
	done := make(chan struct{})
	for reader := range 3 {
		reading.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(reader+1)))
			for {
				select {
				case <-done:
					return
				case <-testkit.After(time.Duration(rng.IntN(20)) * time.Millisecond):
				}
				name := names[rng.IntN(len(names))]
				least := version(name)
				s, err := i.Get(t.Context(), key(name))
				if err != nil {
					continue
				}
				if v, _ := strconv.Atoi(s.ResourceVersion); v < least || string(s.Data["text"]) != fmt.Sprint(name, s.Annotations["n"]) {
					t.Errorf("%s at version %d, %q: the store had %d", name, v, s.Data["text"], least)
				}
			}
		})
	}
	var ends []func()
	inject := func(f informertest.Fault) { ends = append(ends, w.server.Inject(f)) }
	for n := range 300 {
		name := names[rng.IntN(len(names))]
		switch r := rng.IntN(100); {
		case r < 75:
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"n": fmt.Sprint(n)}}, Data: map[string][]byte{"text": fmt.Append(nil, name, n)}}
			if rng.IntN(3) == 0 {
				s.Labels = kept
			}
			write := w.secrets.Create
			if old, ok := w.secrets.Get(key(name)); ok {
				s.UID, s.ResourceVersion, write = old.UID, old.ResourceVersion, w.secrets.Update
			}
			if _, err := write(s); err != nil {
				t.Error(err)
			}
		case r < 85:
			_, _ = w.secrets.Delete(key(name))
		case r < 90:
			w.server.EndWatches()
		case r < 95:
			inject(informertest.Fault{Verb: []string{"get", "watch"}[rng.IntN(2)], Times: 1 + rng.IntN(2), Error: apierrors.NewInternalError(errors.New("down"))})
		default:
			inject(informertest.Fault{Verb: "get", Times: 2, Delay: time.Duration(rng.IntN(50)) * time.Millisecond, OmitBookmarks: true})
		}
		time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
	}
	close(done)
	reading.Wait()
	for _, end := range ends {
		end()
	}
	time.Sleep(5 * time.Minute) // all watches are back
	for _, name := range names {
		want, exists := w.secrets.Get(key(name))
		for range 3 {
			s, err := i.Get(t.Context(), key(name))
			if exists != (err == nil) || exists && s.ResourceVersion != want.ResourceVersion || !exists && !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v, %v, want %v", name, s, err, want)
			}
		}
	}
	if s := i.CacheStatus(); s.Bytes > 4000 || s.Held > len(names) {
		t.Errorf("status %+v", s)
	}
}

// The objects that are kept have the layout of the metadata: with LayoutSeparate, a write to one changes no other.
func TestKeptObjectsHaveTheLayout(t *testing.T) {
	const secrets = 200 // a decoder starts to share after some dozen
	for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutSeparate} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			for n := range secrets {
				w.secret(fmt.Sprint(n), "equal", map[string]string{"mine": "yes"})
			}
			config := readthrough.Config[*corev1.Secret]{KeepLabelSelector: "mine=yes"}
			config.Metadata.Layout = layout
			i, _ := w.start(config)
			maps := map[uintptr]bool{}
			for n := range secrets {
				s, err := i.Get(t.Context(), key(fmt.Sprint(n)))
				if err != nil {
					t.Fatal(err)
				}
				maps[reflect.ValueOf(s.Data).Pointer()] = true
			}
			if separate := layout == informer.LayoutSeparate; separate && len(maps) != secrets || !separate && len(maps) > secrets/2 {
				t.Errorf("%s: %d objects have %d maps", layout, secrets, len(maps))
			}
		})
	}
}
