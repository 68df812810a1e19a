// Package shard divides the objects of a collection among the replicas of a program. Each replica holds and reconciles
// a part of them, and the parts move when replicas come and go. Each replica has a Lease that shows which parts it has.
// The API server can send each replica only its part.
//
//	replica, err := shard.New(leaseClient, shard.Config{Namespace: "shop", Name: "shop-controller"})
//	if err != nil {
//		return err
//	}
//	ctl := &informer.Controller[shard.Key]{Reconcile: reconcile}
//	ctl.Watch(shard.EnqueueObject(orders))
//	replica.Follow(orders)                    // orders holds the objects of this replica
//	shard.Control(replica, ctl, shard.ByUID)  // and ctl reconciles them
//	return replica.Run(ctx, func(ctx context.Context) error {
//		group, ctx := errgroup.WithContext(ctx)
//		group.Go(func() error { return orders.Run(ctx) })
//		group.Go(func() error { return ctl.Run(ctx) })
//		return group.Wait()
//	})
//
// # How it works
//
// The hash of an object's UID or namespace selects one of Config.Slots slots. Rendezvous hashing over the replicas
// gives each slot a planned owner, so a replica that joins or leaves moves only its share; see docs/scale.md for
// measured figures. Each replica has a Lease with the slots that it claims, renews it, and watches those of the others.
// A slot moves in these steps:
//
//	the new owner    its informers list the objects of the slot
//	the new owner    claims the slot in its Lease
//	the old owner    starts no reconcile in the slot, and waits for those under way
//	                 after Config.Grace, their contexts end
//	the old owner    writes its Lease without the claim
//	the new owner    adds all keys of the slot to its queues, and reconciles
//
// # Guarantees
//
//   - At most one replica reconciles a key at a time. A replica reconciles the keys of a slot only after it has seen
//     its own claim in its Lease, at a version of the Leases at which no other one claims the slot. It gives up the
//     claim only after all calls have returned.
//   - A replica that cannot renew its Lease ends its calls of Reconcile before another one takes over. At RenewDeadline
//     it starts no reconcile, and the contexts of those under way end. If they have not returned [Margin] before the
//     end of the lease, Config.Fatal ends the process. Only a Lease that has not changed for its duration is deleted by
//     another replica, with its version as a precondition.
//   - The clocks of the replicas may differ by any amount; see package leader, which measures the age of a lease in the
//     same way.
//   - After the last fault, every slot has an owner that reconciles it within LeaseDuration + RetryPeriod and the time
//     of one list. That covers a replica that was killed, or lost its lease. After an outage of the API server, a list
//     may begin up to 30 s late, which is the longest backoff of an informer. A slot that moves between working
//     replicas has no owner while the calls of Reconcile in it return, which takes as long as the longest of them, or
//     Config.Grace and the time that a call needs after its context has ended. That holds for a replica that shuts
//     down, too, if another one has listed the objects within Config.HandOverTimeout. See docs/scale.md for figures.
//   - A call of Reconcile that does not return keeps no slot for ever. After a lost lease, its replica does not renew
//     before all calls have returned, so Fatal ends the process [Margin] before the end of the lease. If the call is in
//     a slot that moves to another replica, its context ends after Config.Grace. Config.StuckAfter later, its replica
//     hands over all other slots within Config.HandOverTimeout and then stops renewing. The bound of the previous item
//     starts then. Status.Overdue has the keys.
//   - A replica that cannot list the objects of its planned slots yields these slots to others after
//     Config.ListTimeout, and takes them back when it can. Slots that have an owner stay with it. Status.Yielded counts
//     them.
//   - Every key of a slot is reconciled by the new owner at least once. No change is lost: the new owner's store has
//     it, or receives it.
//   - A replica that is suspended starts no reconcile when it continues after its lease has ended, even if it cannot
//     reach the server.
//
// # What you must not assume
//
//   - That a suspended process stops in the middle of a call. When it continues, the contexts of its calls end within a
//     quarter of a second. A request that is sent before may arrive after another replica has taken over; see below.
//   - That a call of Reconcile that ignores its context is harmless. As long as its slot stays on this replica, it
//     blocks only its key and a worker; see Controller.Timeout. If the slot has to move, the call costs the process.
//   - That a replica notices an informer whose watch fails after it has listed. It keeps its slots, with objects that
//     get old. The status of the informer shows it.
//   - That a controller sees the deletion of an object whose slot moves meanwhile, as with every restart. Use a
//     finalizer.
//   - That the store of a new owner has the last writes of the old one. As in every informer, they may arrive later.
//     Write with a resourceVersion.
//   - That shards are equal. A replica has at most 1.1 times the mean number of slots, rounded up to a whole slot: with
//     ten slots for each replica, 11. With [informer.ShardByNamespace], namespaces differ in size. The hash of KEP-5866
//     also puts names that differ only in their last three characters into few slots.
//   - That more slots are better. A request names at most 64 ranges, so a replica with more slots holds objects of
//     others, too.
//   - That Config.Slots or Config.Field can change in a rolling update. While the Leases of old replicas exist, new
//     ones own nothing.
//   - That a slot has an owner if no replica can list its objects. Its old owner keeps it. If that replica ends, the
//     slot has no owner until a list succeeds.
//   - That a backup of etcd may be restored while replicas run. Their Leases then go back in time, and for a few
//     seconds a replica that joins may take a slot that has an owner.
//   - That a Lease may be edited or deleted by hand. Its replica loses its slots at once, while its last calls may
//     still be under way.
//   - That a handler of an informer is called for owned objects only: the informers hold objects before and after the
//     replica owns them. A handler can ask [Replica.Owns].
//
// # What is not fenced
//
// The server does not know the owners of slots. It rejects a late request of a former owner, after a suspension or in a
// slow network, only if the request names the version that it changes:
//
//	fenced once the next owner has written    not fenced
//	an update with a resourceVersion          an update without one
//	a patch with metadata.resourceVersion     a patch without it, and server-side apply
//	a deletion with Preconditions.UID and     a deletion by name, which may hit the next object of that name
//	  Preconditions.ResourceVersion
//	a creation, while the object exists       a creation after it was deleted
//	                                          everything outside of the cluster
//
// So write objects as the store has them, with their resourceVersion, and delete with both preconditions:
//
//	conditions := metav1.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion}
//	err := client.Delete(ctx, key, metav1.DeleteOptions{Preconditions: &conditions})
//
// Outside of the cluster, use a fence of that system: for example, send the resourceVersion of an object that this call
// of Reconcile has just updated, and reject smaller ones. With keys that have a UID, two objects of one name are two
// keys, which two replicas may reconcile at a time; see [Key].
//
// Only kube-apiserver from 1.36 with the feature gate ShardedListAndWatch sends each replica its own part. Others send
// everything to everyone. The replicas then still divide the memory and the work, but not the bytes; see
// [informer.Shard].
package shard
