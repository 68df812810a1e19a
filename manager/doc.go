// Package manager runs a program: servers, informers and controllers. It starts them in order, answers probes, and
// stops them in the reverse order within a deadline.
//
//	func run() error {
//		ctx, stop := manager.SetupSignalHandler(context.Background())
//		defer stop()
//		m := manager.New(manager.Config{
//			Probes:  manager.Server{Addr: ":8081"},
//			Elector: elector, // from leader.New
//		})
//		m.AddGroup("cache", group)
//		m.AddController(controller)
//		return m.Run(ctx)
//	}
//
// # Order
//
// Run starts four phases, one after the other:
//
//	Servers        the server of the probes, other servers, and runnables that the informers need, such as a
//	               conversion webhook
//	Caches         informers and groups. Run waits until all have synced
//	EveryReplica   runnables for all replicas, such as an event recorder
//	LeaderOnly     controllers, and other runnables for one replica only. With Config.Elector, this replica must lead
//	               first
//
// Run stops when its context ends, or when something fails. Readiness probes fail from then on. It ends the context of
// each phase in the reverse order, and waits until everything in the phase has returned before it goes on with the next
// one:
//
//	LeaderOnly     controllers finish the calls of Reconcile under way, each within its Grace
//	               the lease is released
//	               the rest of Config.DrainDelay passes
//	EveryReplica
//	Caches
//	Servers        requests under way are answered; new connections are refused
//
// # Guarantees
//
//   - A runnable begins when everything in the earlier phases has begun, and all informers have synced.
//   - The context of a runnable ends only after everything in later phases has returned, or at the deadline.
//   - Run returns the first failure, with the name of its source. The log contains each failure as an error with that
//     name.
//   - At Config.GracefulShutdownTimeout, the contexts of all runnables have ended, and Run returns a [*ShutdownError],
//     which names the runnables that still run. Controllers end their calls of Reconcile a second earlier.
//   - If Run returns another error or nil, everything has returned, and every goroutine that Run started has ended.
//   - Leader-only runnables have returned before another replica can take the lease; see package leader.
//
// # What you must not assume
//
//   - That Run recovers a panic. A panic ends the program, as in every Go program. Controller.OnPanic recovers those of
//     Reconcile.
//   - That a runnable which returns nil before its context has ended stops the program. It may be a job that is done.
//   - That everything stops in time. Return from main when Run has returned: the end of the process stops the rest.
//   - That Run waits for a lost lease. It returns an error that wraps [leader.ErrLost], and the pod starts again. The
//     runnables have the time that package leader gives them, 4 s by default. Controllers end their calls of Reconcile
//     within it, even if their Grace is longer. After that, leader.Config.Fatal ends the process. An outage of the API
//     server loses the lease, unless leader.Config.Recover is set. Then controllers pause in an outage, and nothing
//     ends. Other leader-only runnables must respect the gate. Liveness does not fail, and readiness is that of a
//     candidate.
//   - That a pod receives no connection once it stops. The nodes learn some seconds later that it is no longer an
//     endpoint of its Service. Set Config.DrainDelay if a server is reached through a Service.
//   - That the replica becomes ready if an informer cannot sync. It stays unready, without a limit of time, unless
//     Config.CacheSyncTimeout is set.
//
// A conversion webhook in the same program has a trap: the API server needs it to list the objects for the informers,
// but a Service has no endpoint before the pod is ready. Set publishNotReadyAddresses in that Service.
package manager
