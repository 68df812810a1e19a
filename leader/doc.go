// Package leader makes one of several replicas do the work. The replicas contend for a Lease, as those of client-go's
// tools/leaderelection do, and both kinds can contend for the same one. It needs an [informer.Client] and no clientset.
//
//	elector, err := leader.New(client, leader.Config{Namespace: "shop", Name: "shop-controller"})
//	if err != nil {
//		return err
//	}
//	return elector.Run(ctx, ctl.Run) // ctl is an informer.Controller
//
// # Guarantees
//
//   - The work of a replica has returned, or its process has ended, before another replica can take the lease. The
//     context of the work ends some seconds earlier.
//   - Work whose context ends because of a lost lease has LeaseDuration - RenewDeadline - [Margin] to return: 4 s by
//     default. The cause of its context contains that time; see [ErrLost]. An informer.Controller ends its calls of
//     Reconcile a second before, even if its Grace is longer. Only the end of the process can stop work that takes
//     longer, so Config.Fatal ends it.
//   - A lease that has passed RenewDeadline is lost for good, even if a renewal succeeds later. With Config.Recover,
//     the work may go on by a new renewal. The first two items then hold for calls of Reconcile and for writes; see
//     Outages.
//   - After the context of Run has ended, the replica renews the lease until the work has returned. It then releases
//     the lease, so the next replica need not wait until it expires.
//   - The clocks of the replicas may differ by any amount. Each replica measures time spans on its own clock, and none
//     compares its clock with a time in the Lease. Their speeds may differ by Margin in each LeaseDuration.
//   - Neither a slow response nor a clock that is set back lets a replica work longer.
//
// A replica measures the age of its lease from the time at which it sent the last successful renewal. That is before
// the server wrote the renewal, and before the other replicas saw it:
//
//	0 s                             10 s            14 s     15 s
//	| renewal sent                  | the context   | the    | the others may
//	|                               | of the work   | work   | take the lease
//	|                               | ends          | ended  |
//	|<------- RenewDeadline ------->|<------------->|<------>| Margin
//	|<------------------- LeaseDuration -------------------->|
//
// leaderelection alone does not ensure this. It stops leading RenewDeadline after its first failing renewal. That
// renewal begins RetryPeriod after the last response, which may itself have taken RenewDeadline. With 15 s, 10 s and 2
// s, this is up to 22 s after the write from which the others count 15 s. With ReleaseOnCancel, it releases the lease
// before the work has returned.
//
// # Outages
//
// By default, an outage of the API server that lasts longer than RenewDeadline ends the work. In a program of package
// manager, it ends the process, and then all controllers of a cluster start at once and list everything. With
// Config.Recover, the work pauses instead, and goes on if nobody has taken the lease, as KEP-6361 does for the
// components of Kubernetes:
//
//	gate := new(informer.Gate)
//	writer := informer.NewTypedClient[*appsv1.Deployment](client.WithGate(gate), deployments)
//	elector, err := leader.New(leaseClient, leader.Config{Namespace: "shop", Name: "shop-controller", Recover: gate})
//
// The elector closes the gate at RenewDeadline, and enters Paused. The context of the work goes on:
//
//   - A Controller whose Run has the context of the work hands out no key. Its calls of Reconcile have the time that
//     they have after a lost lease. Their keys run again afterwards, without a backoff.
//   - A client of [informer.Client.WithGate] refuses writes, and cancels those under way. Informers go on.
//   - If a call or a write has not ended LeaseDuration - [Margin] after the last renewal, Config.Fatal ends the
//     process.
//   - When all have ended, the elector tries every RetryPeriod to renew the lease. If that succeeds while the Lease
//     still names this replica, nobody has taken it: the gate opens, and the state is Leading again.
//   - If another replica has taken the lease, or somebody has deleted it, the context of the work ends with [ErrLost],
//     as without Config.Recover.
//   - A candidate with Config.Recover that could not read the Lease for RenewDeadline counts the LeaseDuration of its
//     holder anew. So after an outage, the replica that led before usually goes on, unless it has ended. A candidate
//     without Config.Recover may be faster.
//
// The gate is open only while this replica leads, also while the work returns after the end of Run's context. If that
// ends during a pause, the gate stays closed.
//
// Work that is not a Controller goes on during a pause, while another replica may lead. So it must write through a
// client with the gate, or take a pass itself, and leave it when the context of the pass ends:
//
//	pass, leave, err := gate.Enter(ctx)
//	if err != nil {
//		return err // closed: wait with gate.Wait
//	}
//	defer leave()
//	… // with the context pass
//
// # Limits
//
// Do not assume that a suspended process can stop its work. When the process continues, the replica checks the age of
// the lease within a quarter of a second, by the monotonic clock or by the wall clock, because one of them may have
// stopped too. It then ends the context of the work, and the process if another replica may take the lease; with
// Config.Recover, it closes the gate, and ends the process only if passes are left then. If both
// clocks stopped, as in a virtual machine that was paused, it finds the new holder at the next renewal, at most
// RetryPeriod later. A gate looks at the clocks before each pass. Work that runs in the meantime may check Status
// before a critical step. A wall clock that is set forward looks like a suspended process.
//
// No lease can stop a request that was sent in time and arrives late. If the request has a resourceVersion, it fails
// once the next leader has written.
//
// The guarantees hold while nobody else deletes or writes the Lease, and while identities are unique. A replica that
// finds the Lease deleted, or held by another one, ends the context of its work at once.
package leader
