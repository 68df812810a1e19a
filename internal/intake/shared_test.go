package intake

import (
	"fmt"
	"slices"
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
			at := slices.Index([]byte(key), '/')
			pods = append(pods, podOf(key[:at], key[at+1:], "u"))
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
			d.ignores(r, other)
		}
	}
	if len(d.shared.keys) > maxShared || reports > maxReported {
		t.Errorf("%d keys, %d reports", len(d.shared.keys), reports)
	}
	for n := range 100 {
		d.ignores(&Result[*corev1.Pod]{Key: object.Key{Name: "one"}, UID: fmt.Sprint(n)}, "other")
	}
	for key, k := range d.shared.keys {
		if len(k.replaced) > maxReplaced {
			t.Errorf("%v: %d UIDs", key, len(k.replaced))
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
