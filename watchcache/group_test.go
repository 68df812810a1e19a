package watchcache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
)

// grouped is a cache of pods with watchers, without HTTP.
type grouped struct {
	*testing.T
	cache *Cache[*corev1.Pod]
	rv    int
}

func newGrouped(t *testing.T, window int) *grouped {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	g := &grouped{T: t, cache: New[*corev1.Pod](Config{GroupVersionResource: gvr, Kind: "Pod", Window: window}), rv: 1}
	g.put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, ResourceVersion: "1"})
	return g
}

func (g *grouped) put(d informer.Delta[*corev1.Pod]) {
	g.Helper()
	if err := g.cache.Put(context.Background(), d); err != nil {
		g.Fatal(err)
	}
}

// change creates, updates or deletes a pod.
func (g *grouped) change(t informer.DeltaType, namespace, name, app, node string) {
	g.Helper()
	g.rv++
	g.put(informer.Delta[*corev1.Pod]{Type: t, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app},
			ResourceVersion: strconv.Itoa(g.rv)},
		Spec: corev1.PodSpec{NodeName: node},
	}})
}

// follower is a watcher and the events that it has received.
type follower struct {
	*watcher[*corev1.Pod]
	selector selector[*corev1.Pod]
	received []string
	wake     <-chan struct{}
}

func (g *grouped) follow(namespace, labelSelector, fieldSelector string) *follower {
	g.Helper()
	f := &follower{selector: selector[*corev1.Pod]{namespace: namespace, values: g.cache.fields.values}}
	var err error
	if labelSelector != "" {
		if f.selector.labels, err = labels.Parse(labelSelector); err != nil {
			g.Fatal(err)
		}
	}
	if fieldSelector != "" {
		if f.selector.fields, err = fields.ParseSelector(fieldSelector); err != nil {
			g.Fatal(err)
		}
	}
	f.watcher, _, _, err = g.cache.startWatch(context.Background(), start{rv: uint64(g.rv)}, f.selector.group(), func() {})
	if err != nil {
		g.Fatal(err)
	}
	return f
}

// read receives all events until the follower has to wait. It reports whether the follower has not ended.
func (f *follower) read() bool {
	for {
		var events [3]*event[*corev1.Pod]
		batch, _, wake, ok := f.take(events[:0])
		if !ok || len(batch) == 0 {
			f.wake = wake
			return ok
		}
		for _, e := range batch {
			f.see(e)
			f.done(e)
		}
	}
}

func (f *follower) see(e *event[*corev1.Pod]) {
	if text := seen(&f.selector, e); text != "" {
		f.received = append(f.received, text)
	}
}

// seen describes an event as a watcher with a selector receives it. Empty means that it does not.
func seen(s *selector[*corev1.Pod], e *event[*corev1.Pod]) string {
	eventType, el := s.see(e)
	if eventType == "" {
		return ""
	}
	return fmt.Sprint(eventType, " ", el.GetName(), " ", el.GetResourceVersion())
}

func (f *follower) woken() bool {
	select {
	case <-f.wake:
		return true
	default:
		return false
	}
}

// TestAnEventWakesOnlyItsWatchers changes pods and checks which of the waiting watchers wake.
// Guarantees: W1, W4
func TestAnEventWakesOnlyItsWatchers(t *testing.T) {
	g := newGrouped(t, 100)
	followers := map[string]*follower{
		"all":            g.follow("", "", ""),
		"label":          g.follow("", "app=x", ""),
		"namespace":      g.follow("ns", "", ""),
		"otherNamespace": g.follow("other", "", ""),
		"name":           g.follow("ns", "", "metadata.name=a"),
		"otherName":      g.follow("ns", "", "metadata.name=b"),
		"node":           g.follow("", "", "spec.nodeName=n1"),
		"newNode":        g.follow("ns", "", "spec.nodeName=n2,status.phase!=Failed"),
		"otherNode":      g.follow("", "", "spec.nodeName=n3"),
	}
	read := func() {
		for name, f := range followers {
			if !f.read() {
				t.Fatalf("%s has ended", name)
			}
		}
	}
	woken := func(want ...string) {
		t.Helper()
		var got []string
		for name, f := range followers {
			if f.woken() {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v wake, want %v", got, want)
		}
		read()
	}
	read()
	woken()
	g.change(informer.Upserted, "ns", "a", "y", "n1")
	woken("all", "label", "namespace", "name", "node")
	g.change(informer.Upserted, "ns", "a", "y", "n2")
	woken("all", "label", "namespace", "name", "node", "newNode")
	g.change(informer.Removed, "ns", "a", "y", "n2")
	woken("all", "label", "namespace", "name", "newNode")
	g.change(informer.Upserted, "elsewhere", "b", "y", "n4")
	woken("all", "label")
	if got, want := followers["node"].received, []string{"ADDED a 2", "DELETED a 3"}; !slices.Equal(got, want) {
		t.Errorf("the watcher of n1 received %v, want %v", got, want)
	}
	if got, want := followers["newNode"].received, []string{"ADDED a 3", "DELETED a 4"}; !slices.Equal(got, want) {
		t.Errorf("the watcher of n2 received %v, want %v", got, want)
	}
	for _, f := range followers {
		f.stop()
	}
	if n := len(g.cache.groups.byKey) + len(g.cache.groups.fields); n != 0 {
		t.Errorf("%d groups are left without watchers", n)
	}
}

// TestAWatcherThatWaitsIsNotSlow lets the ring go round several times while a watcher waits for events of its node.
// Guarantees: W1, W8
func TestAWatcherThatWaitsIsNotSlow(t *testing.T) {
	g := newGrouped(t, 16)
	waiting, behind := g.follow("", "", "spec.nodeName=n1"), g.follow("", "", "spec.nodeName=n2")
	if !waiting.read() {
		t.Fatal("the watch has ended")
	}
	for i := range 50 {
		g.change(informer.Upserted, "ns", fmt.Sprint("b", i), "x", "n2")
	}
	if waiting.woken() {
		t.Error("events of another node wake it")
	}
	g.change(informer.Upserted, "ns", "a", "x", "n1")
	if !waiting.woken() || !waiting.read() || !slices.Equal(waiting.received, []string{"ADDED a 52"}) {
		t.Errorf("received %v", waiting.received)
	}
	if behind.read() {
		t.Error("a watcher of the other node that never read is still open")
	}
}

// TestGroupsHideNoEvent compares the events that watchers with random selectors receive with all events that their
// selectors select.
// Guarantees: W1, W4
func TestGroupsHideNoEvent(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	for range 50 {
		g := newGrouped(t, 1000)
		type expected struct {
			*follower
			from int // the number of changes before it began
		}
		var followers []expected
		exists := map[informer.Key]bool{}
		for range 200 {
			switch {
			case len(followers) < 8 && random.IntN(10) == 0:
				followers = append(followers, expected{g.follow(pick("", "", "n", "m"), pick("", "", "app=x"), pick("", "",
					"spec.nodeName=n1", "spec.nodeName=n2", "metadata.name=a", "spec.nodeName!=n1", "status.phase=",
					"metadata.name=a,spec.nodeName=n1", "metadata.namespace=m,spec.nodeName=n2")), int(g.cache.ring.next)})
			case len(followers) > 0 && random.IntN(3) == 0:
				if !followers[random.IntN(len(followers))].read() {
					t.Fatal("a watch has ended")
				}
			default:
				key := informer.Key{Namespace: pick("n", "m"), Name: pick("a", "b", "c")}
				change := informer.Upserted
				if exists[key] && random.IntN(4) == 0 {
					change = informer.Removed
				}
				exists[key] = change == informer.Upserted
				g.change(change, key.Namespace, key.Name, pick("x", "y"), pick("n1", "n2", "n3"))
			}
		}
		for i, f := range followers {
			if !f.read() {
				t.Fatal("a watch has ended")
			}
			var want []string
			for seq := f.from; seq < int(g.cache.ring.next); seq++ {
				if text := seen(&f.selector, g.cache.ring.at(uint64(seq))); text != "" {
					want = append(want, text)
				}
			}
			if !slices.Equal(f.received, want) {
				t.Fatalf("watcher %d of group %+v received %v, want %v", i, f.group.key, f.received, want)
			}
		}
	}
}
