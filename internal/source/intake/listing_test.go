package intake

import (
	"errors"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/fetch"
)

// A server that sends any number of objects without names takes little memory.
// Guarantees: R22
func TestListingIsBounded(t *testing.T) {
	var l listing[*corev1.Pod]
	for range 2 * maxNameless {
		l.fail(Failure{Err: errors.New("test")})
	}
	n := 0
	for range l.undecoded {
		n++
	}
	if n != maxNameless {
		t.Errorf("a list has %d objects without a name", n)
	}
}

// The last of an object's changes among initial events counts: its version, why that could not be decoded, that it was
// deleted, or that it no longer passes the filter. In a list, there are no changes.
// Guarantees: R17
func TestLastChangeOfAnObjectCounts(t *testing.T) {
	pod := func(name string) Result[*corev1.Pod] {
		return Result[*corev1.Pod]{Key: object.Key{Name: name}, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}}
	}
	failed := func(name string) Result[*corev1.Pod] {
		return Result[*corev1.Pod]{Key: object.Key{Name: name}, Err: errors.New("broken")}
	}
	deleted := func(r Result[*corev1.Pod]) Result[*corev1.Pod] { r.Deleted = true; return r }
	filtered := Result[*corev1.Pod]{Key: object.Key{Name: "a"}, Filtered: true}
	outside := Result[*corev1.Pod]{Key: object.Key{Name: "a"}, Filtered: true, Outside: true}
	nameless := Result[*corev1.Pod]{Filtered: true}
	for _, c := range []struct {
		events           bool
		results          []Result[*corev1.Pod]
		items, undecoded []string
	}{
		{true, nil, nil, nil},
		{true, []Result[*corev1.Pod]{pod("a"), pod("b"), pod("a")}, []string{"a", "b", "a"}, nil},
		{true, []Result[*corev1.Pod]{failed("a"), pod("a")}, []string{"a"}, nil},
		{true, []Result[*corev1.Pod]{pod("a"), failed("a")}, []string{"a"}, []string{"a"}},
		{true, []Result[*corev1.Pod]{failed("a"), failed("")}, nil, []string{"", "a"}},
		{true, []Result[*corev1.Pod]{pod("a"), pod("b"), deleted(pod("a"))}, []string{"b"}, nil},
		{true, []Result[*corev1.Pod]{pod("a"), deleted(failed("a")), pod("a")}, []string{"a"}, nil},
		{true, []Result[*corev1.Pod]{failed("a"), filtered}, nil, nil},
		{true, []Result[*corev1.Pod]{pod("a"), filtered}, nil, nil},
		{true, []Result[*corev1.Pod]{pod("a"), outside}, []string{"a"}, nil},
		{true, []Result[*corev1.Pod]{pod("a"), nameless}, []string{"a"}, []string{""}},
		{false, []Result[*corev1.Pod]{pod("a"), filtered, nameless, failed("b")}, []string{"a"}, []string{"b"}},
	} {
		list := budget.New().Account(0).List("pods", slog.New(slog.DiscardHandler))
		read := func() int { return list.Status(0).Objects }
		progress := &Progress[*corev1.Pod]{List: list, Source: fetch.NewSource(fetch.Config{})}
		l := newDecoder[*corev1.Pod](t).Collector(Asked{}, c.events, progress)
		for _, r := range c.results {
			if err := l.take(r); err != nil {
				t.Fatal(err)
			}
		}
		var items []string
		for _, obj := range l.Items() {
			items = append(items, obj.Name)
		}
		why := slices.Collect(l.Undecoded())
		var undecoded []string
		for _, f := range why {
			undecoded = append(undecoded, f.Key.Name)
		}
		slices.Sort(undecoded)
		if !slices.Equal(items, c.items) || !slices.Equal(undecoded, c.undecoded) || read() != len(c.results) {
			t.Errorf("%v, events %t: items %q, undecoded %v, %d read", c.results, c.events, items, why, read())
		}
		if l.Whole() != (len(c.undecoded) == 0) {
			t.Errorf("%v: whole %t", c.results, l.Whole())
		}
		if l.Reset(); len(l.Items()) > 0 || !l.Whole() || read() != 0 {
			t.Errorf("%v: something is left after Reset", c.results)
		}
	}
}

// Readers see the objects that have arrived until the list is taken. From then on, the store can have them.
// Guarantees: O10
func TestTakenListIsNotShown(t *testing.T) {
	list := budget.New().Account(0).List("pods", slog.New(slog.DiscardHandler))
	progress := &Progress[*corev1.Pod]{List: list, Source: fetch.NewSource(fetch.Config{}), first: true}
	l := newDecoder[*corev1.Pod](t).Collector(Asked{}, false, progress)
	if err := l.take(Result[*corev1.Pod]{Key: object.Key{Namespace: "ns", Name: "a"}, Object: arrival("a", "1")}); err != nil {
		t.Fatal(err)
	}
	if err := l.Complete(); err != nil {
		t.Fatal(err)
	}
	shown := func() int { return len(slices.Collect(progress.Arriving.All())) }
	if n := shown(); n != 1 {
		t.Errorf("%d objects are shown before the list is taken, want 1", n)
	}
	if n := len(l.Items()); n != 1 || shown() != 0 {
		t.Errorf("%d objects in the list, %d are still shown", n, shown())
	}
}
