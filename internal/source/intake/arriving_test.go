package intake

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
)

func arrival(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
}

// Arriving shows the latest version of each object, in the order of arrival. It leaves out deleted objects.
// Guarantees: O10
func TestArriving(t *testing.T) {
	var a Arriving[*corev1.Pod]
	shown := func() (text string) {
		for pod := range a.All() {
			text += pod.Name + pod.ResourceVersion + " "
		}
		return text
	}
	var l listing[*corev1.Pod]
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { l.add(arrival("a", "1")); l.add(arrival("b", "2")) }, "a1 b2 "},
		{func() { l.add(arrival("a", "3")) }, "b2 a3 "},
		{func() { l.remove(object.KeyOf(arrival("b", ""))) }, "a3 "},
		{func() { l.add(arrival("b", "5")) }, "a3 b5 "},
		{func() { l = listing[*corev1.Pod]{} }, ""},
	} {
		before := shown()
		step.do()
		if got := shown(); got != before {
			t.Errorf("%q is shown before show is called, was %q", got, before)
		}
		a.show(&l)
		if got := shown(); got != step.want {
			t.Errorf("%q is shown, want %q", got, step.want)
		}
	}
}

// Readers see a whole prefix of the list while it grows, in the memory of the list.
// Guarantees: O10
func TestArrivingIsReadWhileTheListGrows(t *testing.T) {
	var a Arriving[*corev1.Pod]
	const all = 2000
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for n := 0; n < all; {
				n = 0
				for pod := range a.All() {
					if pod.Name != fmt.Sprint(n) {
						t.Errorf("%s is at place %d", pod.Name, n)
						return
					}
					n++
				}
			}
		})
	}
	var l listing[*corev1.Pod]
	for i := range all {
		l.add(arrival(fmt.Sprint(i), "1"))
		if i%7 == 0 {
			a.show(&l)
		}
	}
	a.show(&l)
	readers.Wait()
}
