package intake

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

func podOf(namespace, name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
}

// Keys in the order of etcd are known to differ without a map of them.
func TestAscendingKeys(t *testing.T) {
	for _, c := range []struct {
		keys []string // namespace/name
		want bool
	}{
		{[]string{"a-b/x", "a/a", "a/b", "ab/a"}, true},
		{[]string{"a/x", "a-b/x"}, false},
		{[]string{"a/x", "a/x"}, false},
		{[]string{"a/y", "a/x"}, false},
		{[]string{"/a", "/b"}, true},
		{[]string{"a.b/x", "a/x"}, true},
		{nil, true},
	} {
		var pods []*corev1.Pod
		for _, key := range c.keys {
			slash := slices.Index([]byte(key), '/')
			pods = append(pods, podOf(key[:slash], key[slash+1:], "u"))
		}
		if got := ascending(pods); got != c.want {
			t.Errorf("%v: %v", c.keys, got)
		}
	}
}

// The memory for keys with several objects is bounded, and so is the number of reports.
// Guarantees: R29
func TestSharedKeysAreBounded(t *testing.T) {
	reports := 0
	d := &Decoder[*corev1.Pod]{ReportShared: func(error) { reports++ }}
	for turn := range 3 {
		for n := range 3 * maxShared {
			uid := types.UID(fmt.Sprint("u", turn%2))
			other := types.UID(fmt.Sprint("u", (turn+1)%2))
			r := &Result[*corev1.Pod]{Key: object.Key{Namespace: "ns", Name: fmt.Sprint(n)}, UID: string(uid)}
			d.share(r, other)
		}
	}
	if len(d.shared.keys) > maxShared || reports > maxReported {
		t.Errorf("%d keys, %d reports", len(d.shared.keys), reports)
	}
	for n := range 100 {
		d.share(&Result[*corev1.Pod]{Key: object.Key{Name: "one"}, UID: fmt.Sprint(n)}, "other")
	}
	for key, k := range d.shared.keys {
		if len(k.others) > maxReplaced {
			t.Errorf("%v: %d UIDs", key, len(k.others))
		}
	}
	var items []*corev1.Pod
	for n := range 2 * maxShared {
		items = append(items, podOf("ns", fmt.Sprint(n), "a"), podOf("ns", fmt.Sprint(n), "b"))
	}
	reports = 0
	if left := d.listed(items); len(left) != 2*maxShared || d.Shared() != 2*maxShared || len(d.shared.keys) > maxShared || reports != 1 {
		t.Errorf("%d items, %d keys are shared, %d are remembered, %d reports", len(left), d.Shared(), len(d.shared.keys), reports)
	}
}

// change is a change of the pod ns/a with that UID, as the decoder hands it on.
func change(uid string, version int) *Result[*corev1.Pod] {
	return &Result[*corev1.Pod]{Object: podOf("ns", "a", uid), Key: object.Key{Namespace: "ns", Name: "a"}, UID: uid, Version: fmt.Sprint(version)}
}

// The store has one object of a key, whatever becomes of the others. An object that Config.Filter rejects is there all the
// same, and no deletion of another one takes the object of the store.
// Guarantees: R29
func TestSharedKeyHasOneObject(t *testing.T) {
	type event struct {
		change string // the UID, and what happens
		want   string // "kept", "ignored", or "then" and the UID of the object that takes its place
	}
	for name, c := range map[string]struct {
		events []event
		shared int
		keys   int // that are remembered
	}{
		"by turns":                    {[]event{{"b", "kept"}, {"a", "ignored"}, {"b", "kept"}, {"a", "ignored"}}, 1, 1},
		"kept one deleted":            {[]event{{"b", "kept"}, {"a", "ignored"}, {"b deleted", "then a"}, {"a", "kept"}}, 0, 0},
		"kept one deleted, unknown":   {[]event{{"b", "kept"}, {"b deleted", "kept"}, {"a", "kept"}}, 0, 0},
		"kept one rejected":           {[]event{{"b", "kept"}, {"a", "ignored"}, {"b rejected", "then a"}, {"b", "ignored"}, {"a deleted", "then b"}}, 0, 0},
		"kept one rejected, for good": {[]event{{"b", "kept"}, {"a", "ignored"}, {"b rejected", "then a"}, {"b deleted", "ignored"}}, 0, 0},
		"other one deleted":           {[]event{{"b", "kept"}, {"a", "ignored"}, {"a deleted", "ignored"}, {"b deleted", "kept"}}, 0, 0},
		"other one rejected":          {[]event{{"b", "kept"}, {"a", "ignored"}, {"a rejected", "ignored"}, {"b deleted", "kept"}}, 0, 0},
		"other one broken":            {[]event{{"b", "kept"}, {"a", "ignored"}, {"a broken", "ignored"}, {"b deleted", "then a broken"}}, 0, 0},
		"lowest of three":             {[]event{{"b", "kept"}, {"c", "kept"}, {"b", "ignored"}, {"a", "ignored"}, {"c deleted", "then a"}, {"a deleted", "then b"}}, 0, 0},
		"third one, unknown":          {[]event{{"b", "kept"}, {"a", "ignored"}, {"c deleted", "ignored"}, {"c broken", "ignored"}, {"c rejected", "ignored"}}, 1, 1},
		"third one before they share": {[]event{{"b", "kept"}, {"c deleted", "kept"}}, 0, 1},
		"deletion of another one":     {[]event{{"b deleted", "kept"}, {"b broken", "kept"}}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			reports := 0
			d := &Decoder[*corev1.Pod]{ReportShared: func(error) { reports++ }}
			for n, e := range c.events {
				uid, what, _ := strings.Cut(e.change, " ")
				r := change(uid, n)
				switch what {
				case "deleted":
					r.Deleted = true
				case "rejected":
					r.Filtered, r.Object = true, nil
				case "broken":
					r.Err, r.Object = errors.New("broken"), nil
				}
				var other types.UID
				if n == 0 {
					other = "a"
				}
				got := "kept"
				next := d.share(r, other)
				if r.Ignored {
					got = "ignored"
				}
				if next != nil {
					got = "then " + next.UID
					if next.Err != nil {
						got += " broken"
					}
					if next.Ignored || next.Deleted || !next.Succeeds || next.Key != r.Key {
						t.Errorf("event %d: %+v", n, next)
					}
				}
				if got != e.want {
					t.Errorf("event %d, %s: %s, want %s", n, e.change, got, e.want)
				}
			}
			if d.Shared() != c.shared || len(d.shared.keys) != c.keys || reports > 1 {
				t.Errorf("%d keys are shared, %d are remembered, %d reports", d.Shared(), len(d.shared.keys), reports)
			}
		})
	}
}

// A list knows all objects of its keys, and nothing else: what was known before is forgotten. It reports each key once, until
// a list lacks the others.
// Guarantees: R29
func TestListKnowsTheObjectsOfAKey(t *testing.T) {
	reports := 0
	var held *corev1.Pod
	d := &Decoder[*corev1.Pod]{ReportShared: func(error) { reports++ }, Held: func(object.Key) (*corev1.Pod, bool) { return held, held != nil }}
	list := func(want int, uids ...string) {
		t.Helper()
		var items []*corev1.Pod
		for n, uid := range uids {
			items = append(items, podOf("ns", "a", uid))
			items[n].ResourceVersion = fmt.Sprint(n)
		}
		items = d.listed(items)
		if len(items) != 1 || reports != want {
			t.Fatalf("%v: %v, %d reports", uids, items, reports)
		}
		held = items[0]
	}
	list(1, "b", "a", "c", "b")
	if held.UID != "a" {
		t.Errorf("kept %s", held.UID)
	}
	list(1, "c", "b", "a", "b")
	if next := d.share(&Result[*corev1.Pod]{Key: object.KeyOf(held), UID: "a", Deleted: true}, ""); next == nil || next.UID != "b" || next.Version != "3" ||
		next.Object.ResourceVersion != "3" {
		t.Errorf("%+v takes its place", next)
	}
	list(1, "a", "b")
	list(1, "a")
	if r := change("b", 9); d.share(r, "") != nil || r.Ignored || d.Shared() != 0 || len(d.shared.keys) != 0 {
		t.Errorf("%d keys are shared, %d are remembered", d.Shared(), len(d.shared.keys))
	}
	list(2, "a", "b")
	held = podOf("ns", "a", "c")
	if list(2, "a", "c", "b"); held.UID != "c" {
		t.Errorf("kept %s instead of the object that is held", held.UID)
	}
	var many []string
	for n := range 3 * maxReplaced {
		many = append(many, fmt.Sprint("m", n))
	}
	held = nil
	list(2, many...)
	for _, k := range d.shared.keys {
		if len(k.others) != maxReplaced {
			t.Errorf("%d others", len(k.others))
		}
	}
}
