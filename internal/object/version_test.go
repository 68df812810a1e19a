package object

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestVersionsAreNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b           string
		older, reached bool // a before b, a at or after b
	}{
		{"9", "10", true, false}, {"10", "9", false, true}, {"9", "9", false, true},
		{"", "9", true, false}, {"0", "9", true, false}, {"9", "", false, false}, {"", "", false, false}, {"0", "", false, false},
		{"x", "9", false, false}, {"9", "x", false, false},
	} {
		if older, reached := Older(c.a, c.b), Reached(c.a, c.b); older != c.older || reached != c.reached {
			t.Errorf("%q and %q: older %v, reached %v", c.a, c.b, older, reached)
		}
	}
}

// Two objects are the same version if they have the same UID and the same resource version, which must be known.
func TestSameVersion(t *testing.T) {
	newPod := func(uid types.UID, version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid, ResourceVersion: version}
	}
	for _, c := range []struct {
		name string
		a, b *metav1.ObjectMeta
		want bool
	}{
		{"the same", newPod("u", "1"), newPod("u", "1"), true},
		{"another version", newPod("u", "1"), newPod("u", "2"), false},
		{"another object", newPod("u", "1"), newPod("v", "1"), false},
		{"no version", newPod("u", ""), newPod("u", ""), false},
		{"no UID", newPod("", "1"), newPod("", "1"), true},
	} {
		if got := SameVersion(c.a, c.b); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	if id, key := IDOf(newPod("u", "1")), KeyOf(newPod("u", "1")); id != (ID{"u", "1"}) || key.String() != "ns/a" {
		t.Errorf("%+v of %s", id, key)
	}
}
