package shard

import (
	"fmt"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leaseOf returns the Lease of a replica with these claims.
func leaseOf(name string, c Config, claims slotSet, generation, version int) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &name}}
	lease.Name, lease.UID, lease.ResourceVersion = name, types.UID("uid of "+name), fmt.Sprint(version)
	lease.Annotations = map[string]string{
		layoutAnnotation: c.layout(), claimsAnnotation: claims.String(), generationAnnotation: fmt.Sprint(generation),
	}
	return lease
}

// A directory that reads the Leases after each change returns the same group as one that reads them for the first time.
func TestDirectoryForgetsWhatHasChanged(t *testing.T) {
	c := Config{Namespace: "ns", Name: "group"}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	a, b := leaseOf("a", c, setOf(c.Slots, 1, 2), 1, 1), leaseOf("b", c, setOf(c.Slots, 3), 1, 2)
	renewed := leaseOf("a", c, setOf(c.Slots, 1, 2), 1, 3)
	claimed := leaseOf("a", c, setOf(c.Slots, 1, 2, 4), 2, 4)
	leaving := leaseOf("a", c, setOf(c.Slots, 1, 2, 4), 3, 5)
	leaving.Annotations[leavingAnnotation] = "true"
	broken := leaseOf("b", c, nil, 2, 6)
	broken.Annotations[claimsAnnotation] = "x"
	again := leaseOf("b", c, setOf(c.Slots, 5), 1, 7)
	again.UID = "another uid"
	var d directory
	for i, leases := range [][]*coordinationv1.Lease{{a}, {a, b}, {renewed, b}, {claimed, b}, {leaving, b}, {leaving, broken}, {leaving, again}, {again}, {}} {
		for round := range 2 {
			got, want := d.read(leases, "uid of b", &c), new(directory).read(leases, "uid of b", &c)
			if got.own != want.own || !slices.Equal(got.planned, want.planned) || len(got.members) != len(want.members) {
				t.Fatalf("step %d, round %d: the group is %+v, want %+v", i, round, got, want)
			}
			for j, m := range got.members {
				w := want.members[j]
				if m.name != w.name || m.uid != w.uid || m.resourceVersion != w.resourceVersion || m.leaving != w.leaving || m.generation != w.generation ||
					!slices.Equal(m.claims, w.claims) || (m.claims == nil) != (w.claims == nil) || (m.cause == nil) != (w.cause == nil) {
					t.Errorf("step %d, round %d: member %d is %+v, want %+v", i, round, j, m, w)
				}
			}
		}
	}
}

// BenchmarkDirectory reads the Leases of 100 replicas after one of them has changed its claims. With "first", they are read for the
// first time.
func BenchmarkDirectory(b *testing.B) {
	const replicas, slots = 100, 1024
	c := Config{Namespace: "ns", Name: "group", Slots: slots}
	if err := c.complete(); err != nil {
		b.Fatal(err)
	}
	names := numbered("group-%03d", 1, replicas)
	claims := make([]slotSet, replicas)
	for i := range claims {
		claims[i] = make(slotSet, slots)
	}
	for slot, i := range plan(names, slots) {
		claims[i][slot] = true
	}
	var leases []*coordinationv1.Lease
	for i, name := range names {
		leases = append(leases, leaseOf(name, c, claims[i], 1, i))
	}
	b.Run("change", func(b *testing.B) {
		var d directory
		for i := 0; b.Loop(); i++ {
			leases[0] = leaseOf(names[0], c, claims[0], 1+i, i)
			d.read(leases, leases[0].UID, &c)
		}
	})
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			new(directory).read(leases, leases[0].UID, &c)
		}
	})
}
