package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/shard"
)

// The bytes of an event of a Lease are those of the Lease that package shard writes, with managedFields, as
// kube-apiserver sends them in protobuf. With -v, the test prints them.
func TestLeaseBytes(t *testing.T) {
	for _, g := range groups {
		got, claimed := 0, ""
		synctest.Test(t, func(t *testing.T) {
			lease := writtenLease(t, int(g.replicas), g.slots)
			for name, value := range lease.Annotations {
				if name == "shard.typedinformer.io/claims" {
					claimed = value
				}
			}
			got = len(frame(t, renewed(t, lease)))
		})
		t.Logf("%.0f replicas, %d slots: %d bytes, of which %d are claims: "+
			"%s", g.replicas, g.slots, got, len(claimed), claimed)
		if claimed == "" || math.Abs(float64(got)/g.leaseBytes-1) > 0.02 {
			t.Errorf("%.0f replicas, %d slots: an event of a Lease has %d bytes, not "+
				"%.0f", g.replicas, g.slots, got, g.leaseBytes)
		}
	}
}

// writtenLease returns the Lease of a replica that has its share of the slots in a group of this size. The Leases of
// the others are copies without claims.
func writtenLease(t *testing.T, replicas, slots int) *coordinationv1.Lease {
	t.Helper()
	server := informertest.NewServer(informertest.Options{InMemory: true})
	defer server.Close()
	leases := informertest.Register[*coordinationv1.Lease](server,
		informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
	run := func(identity string) (lease *coordinationv1.Lease) {
		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		replica, err := shard.New(client, shard.Config{Namespace: "shop", Name: "shop-controller", Identity: identity,
			Slots: slots, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
		if err != nil {
			t.Fatal(err)
		}
		replica.Follow(held{})
		err = replica.Run(t.Context(), func(ctx context.Context) error {
			time.Sleep(5 * time.Second)
			for lease = range leases.All() {
				if *lease.Spec.HolderIdentity == identity {
					return nil
				}
			}
			return fmt.Errorf("%s has no Lease", identity)
		})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	// what a Deployment and Config.Identity give
	identity := func(i int) string {
		return fmt.Sprintf("shop-controller-7d9c5b6f4d-%05d_%08d-61f7-4b8e-9d3c-0f2a64c1e7b5", i, i)
	}
	other := run(identity(0))
	for i := range replicas - 1 {
		lease := other.DeepCopy()
		lease.Name, lease.UID, lease.ResourceVersion = fmt.Sprintf("shop-controller-%016x", informer.HashOf(identity(i+1))), "", ""
		lease.Spec.HolderIdentity = new(identity(i + 1))
		maps.DeleteFunc(lease.Annotations, func(name, _ string) bool { return name == "shard.typedinformer.io/leaving" })
		lease.Annotations["shard.typedinformer.io/claims"] = ""
		if _, err := leases.Create(lease); err != nil {
			t.Fatal(err)
		}
	}
	return run(identity(replicas))
}

// held is an informer that has all objects of any shard.
type held struct{}

func (held) SetShard(ctx context.Context, _ informer.Shard) error { return ctx.Err() }

// renewed returns a Lease as kube-apiserver has it after a renewal: with managedFields, and a resource version and a
// time of the usual length.
func renewed(t *testing.T, lease *coordinationv1.Lease) *coordinationv1.Lease {
	t.Helper()
	lease = lease.DeepCopy()
	lease.ManagedFields = nil
	manager := managedfieldstest.NewTestFieldManager(applyconfigurations.NewTypeConverter(scheme.Scheme),
		coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	for _, renewed := range []time.Time{time.Unix(1_800_000_000, 123_456_000), time.Unix(1_800_000_003, 123_456_000)} {
		lease.Spec.RenewTime = new(metav1.NewMicroTime(renewed))
		lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
		if err := manager.Update(lease, "shop-controller"); err != nil {
			t.Fatal(err)
		}
		lease.ManagedFields = manager.ManagedFields()
	}
	if len(lease.ManagedFields) != 1 {
		t.Fatalf("the managedFields are %v", lease.ManagedFields)
	}
	lease.UID = types.UID("6f6d0c4e-61f7-4b8e-9d3c-0f2a64c1e7b5")
	lease.ResourceVersion = "1234567890"
	lease.CreationTimestamp = metav1.Unix(1_800_000_000, 0)
	return lease
}

// frame returns the event of a watch that has lease.
func frame(t *testing.T, lease *coordinationv1.Lease) []byte {
	t.Helper()
	raw, err := lease.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	object := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, Raw: raw}
	encoded, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	event := metav1.WatchEvent{Type: string(watch.Modified),
		Object: runtime.RawExtension{Raw: slices.Concat([]byte("k8s\x00"), encoded)}}
	body, err := event.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}
