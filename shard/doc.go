// Package shard divides the objects of a collection among the replicas of a program. Each replica holds and reconciles
// a part of them, and the parts move when replicas join and leave. Each replica has a Lease that shows which parts it
// has. The API server can send each replica only its part.
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
// measured figures. Each replica renews a Lease with the slots that it claims, and watches the Leases of the others. A
// slot moves in these steps:
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
//     its own claim in its Lease, at a resource version at which no other Lease claims the slot. It gives up the claim
//     only after all calls have returned.
//   - A replica that cannot renew its Lease ends its calls of Reconcile before another one takes over. At RenewDeadline
//     it stops starting reconciles, and ends the contexts of those under way. If they have not returned [Margin] before
//     the end of the lease, Config.Fatal ends the process. Other replicas delete a Lease only if it has not changed for
//     its duration, with its resource version as a precondition.
//   - An outage of the API server ends no replica whose calls return in time: without a lease, it owns nothing. When
//     the server is back, it joins again, and its informers go on with what they have. So it needs no [informer.Gate].
//   - The clocks of the replicas may differ by any amount; see package leader, which measures the age of a lease in the
//     same way.
//   - Within LeaseDuration + RetryPeriod and the time of one list after the last fault, every slot has an owner that
//     reconciles it. A fault is, for example, a replica that was killed or lost its lease. After an outage of the API
//     server, a list may begin up to 30 s late, the longest backoff of an informer. A slot that moves between working
//     replicas has no owner until its calls of Reconcile have returned: for at most Config.Grace, plus the time that a
//     call needs after its context has ended. The same holds when a replica shuts down, if another one lists the
//     objects within Config.HandOverTimeout. See docs/scale.md for figures.
//   - A call of Reconcile that never returns cannot keep a slot for ever. After a lost lease, its replica does not
//     renew before all calls have returned, so Fatal ends the process [Margin] before the end of the lease. If the slot
//     of the call moves to another replica, the context of the call ends after Config.Grace. Config.StuckAfter later,
//     its replica hands over all other slots within Config.HandOverTimeout and then stops renewing. The bound of the
//     previous item starts then. Status.Overdue has the keys.
//   - A replica that cannot list the objects of its planned slots yields these slots to others after
//     Config.ListTimeout, and takes them back when it can list them. A slot that has an owner stays with that owner.
//     Status.Yielded counts the yielded slots.
//   - The new owner of a slot reconciles every key of it at least once. No change is lost: the new owner's store has
//     it, or receives it.
//   - A replica that was suspended beyond the end of its lease starts no reconcile when it resumes, even if it cannot
//     reach the server.
//
// # What you must not assume
//
//   - That a suspended process abandons its calls. When it resumes, their contexts end within a quarter of a second. A
//     request sent before that may arrive after another replica has taken over; see below.
//   - That a call of Reconcile that ignores its context is harmless. As long as its slot stays on this replica, it
//     blocks only its key and a worker; see Controller.Timeout. If the slot has to move and the call does not return in
//     time, Fatal ends the process.
//   - That a replica gives up slots when the watch of an informer fails after the list. It keeps them, with outdated
//     objects. The status of the informer shows the failure.
//   - That a controller sees the deletion of an object while its slot moves. As after a restart, it may not, so use a
//     finalizer.
//   - That the store of a new owner has the last writes of the old one. As in every informer, they may arrive later.
//     Write with a resourceVersion.
//   - That shards are of equal size. A replica has at most 1.1 times the mean number of slots, rounded up: 11 slots if
//     the mean is ten. With [informer.ShardByNamespace], namespaces differ in size. The hash of KEP-5866 also puts
//     names that differ only in their last three characters into few slots.
//   - That more slots are better. A request names at most 64 ranges, so a replica whose slots form more ranges also
//     holds objects of other replicas.
//   - That Config.Slots or Config.Field can change in a rolling update. While the Leases of old replicas exist, new
//     ones own nothing.
//   - That every slot has an owner while no replica can list its objects. An old owner keeps the slot. If that replica
//     ends, the slot has no owner until a list succeeds.
//   - That you may restore a backup of etcd while replicas run. Their Leases then go back in time, and for a few
//     seconds a joining replica may take a slot that has an owner.
//   - That you may edit or delete a Lease by hand. Its replica loses its slots at once, while its last calls may still
//     be under way.
//   - That handlers receive owned objects only: the informers hold objects before and after the replica owns them. A
//     handler can ask [Replica.Owns].
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
// Outside of the cluster, use a fence of that system. For example, send the resourceVersion of an object that this call
// of Reconcile has just updated, and let the system reject smaller ones. If keys have a UID, two objects with the same
// name have two keys, which two replicas may reconcile at the same time; see [Key].
//
// Only kube-apiserver from 1.36 with the feature gate ShardedListAndWatch sends each replica only its own part. Other
// servers send everything to every replica. The replicas then still divide the memory and the work, but not the
// traffic; see [informer.Shard].
package shard
