package intake

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
)

// largeObject is an object over the size limit. Without a UID, its first bytes do not have that.
func largeObject(name, uid string) *decode.LargeError {
	id := decode.Identity{Namespace: []byte("ns"), Name: []byte(name), ResourceVersion: []byte("7")}
	if uid != "" {
		id.UID = []byte(uid)
	}
	return &decode.LargeError{ID: id}
}

// An object over the size limit is one that cannot be decoded, with its key and version. One from outside the shard is not
// reported. If its first bytes do not tell, it may be in the shard.
// Guarantees: R26, S1
func TestLargeObjectAndShard(t *testing.T) {
	d := newDecoder[*corev1.Pod](t)
	var reported []string
	d.Report = func(key object.Key, err error) { reported = append(reported, key.Name) }
	var got []string
	in := newTestIntake(d, func(r Result[*corev1.Pod]) error {
		text := fmt.Sprintf("%s %s@%s", r.Key, r.UID, r.Version)
		for name, set := range map[string]bool{"outside": r.Outside && r.Filtered && r.Err == nil, "large": errors.Is(r.Err, decode.ErrTooLarge), "deleted": r.Deleted} {
			if set {
				text += " " + name
			}
		}
		got = append(got, text)
		return nil
	})
	in.asked.Shard = allBut("out")
	in.AddLarge(largeObject("a", "in"), false)
	in.AddLarge(largeObject("b", "out"), false)
	in.AddLarge(largeObject("c", ""), false)
	if err := in.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"ns/a in@7 large", "ns/b out@7 outside", "ns/c @7 large"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(reported, []string{"a", "c"}) || d.Outside() != 1 {
		t.Errorf("reported %q, %d outside", reported, d.Outside())
	}
}

// An audit compares objects over the size limit, too: the server has them. Those from outside the shard are left out.
// Guarantees: R23, R26
func TestIdentitiesOfLargeObjects(t *testing.T) {
	d := newDecoder[*corev1.Pod](t)
	var got []string
	asked := Asked{Shard: allBut("out")}
	ids := d.Identities(asked, func(key object.Key, uid, version string) { got = append(got, key.Name+" "+uid+" "+version) })
	in := ids.Intake(decode.JSON, func(error) {})
	in.AddLarge(largeObject("a", "in"), false)
	in.AddLarge(largeObject("b", "out"), false)
	if err := in.Wait(); err != nil || !slices.Equal(got, []string{"a in 7"}) {
		t.Errorf("got %q, %v", got, err)
	}
	d.Namespace = "other"
	in = ids.Intake(decode.JSON, func(error) {})
	if in.AddLarge(largeObject("a", "in"), false); in.Wait() == nil {
		t.Error("an object of another namespace is accepted")
	}
}
