// Package health answers the readiness and liveness probes of a program that uses informers, groups, controllers and
// queues.
//
//	config := health.Config{
//		Groups:      []func() []informer.InformerStatus{group.Status},
//		Controllers: []func() status.Controller{controller.Status},
//	}
//	mux.Handle("/readyz", health.Ready(config))
//	mux.Handle("/livez", health.Live(config))
//
// Readiness says whether the stores can be read. It fails when a restart would not help:
//
//	informer/<resource>/synced      the store has not received the whole collection
//	informer/<resource>/watch       no watch has been open for longer than Config.MaxNoWatch, or for half a minute because the
//	                                server answers 401 or 403; or an open one has received no resource version for longer
//	                                than Config.MaxVersionAge
//
// Liveness says whether the program makes progress. It fails when only a restart helps:
//
//	informer/<resource>/handlers    a call of a handler takes longer than Config.MaxHandlerCall
//	controller/<name>/queue         a key has been in work for longer than Config.MaxWork, or none is in work although one has
//	                                been ready for longer than Config.MaxReady
//	queue/<name>                    the same, for a queue without a Controller
//
// Config.ReadyChecks and Config.LiveChecks add checks of your own.
//
// A waiting key is not a failure: a replica that is not the leader adds keys to its queue, and reconciles none. So an
// outage of the API server makes a program unready, but never restarts it.
//
// Config.MaxVersionAge and Config.MaxReady are limits without a default. With MaxReady, a waiting key is a failure if
// no key of the queue is in work. Even then, a queue passes until its first key is done, because its sources may not
// have synced, and that of a controller while Run is not under way.
//
// The handlers answer like /readyz and /livez of Kubernetes: 200 and "ok", or 500. To callers that Config.Authorize
// admits, ?verbose, or a failure, shows one line for each check: "[+]name ok" or "[-]name failed: reason". Other
// callers see only whether the program is ready or live. No line contains the content of an object, its name, a message
// of the server or a credential. Lines contain resources, selectors and namespaces, the names of handlers, queues and
// controllers, and the HTTP status of the last failed request. Informer.Status and the log contain the whole error.
package health
