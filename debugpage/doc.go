// Package debugpage shows what informers, controllers and queues are doing: as a page for the browser, and as JSON.
//
//	mux.Handle("/debug/informers/", debugpage.New(debugpage.Config{
//		Groups:      []func() []informer.InformerStatus{group.Status},
//		Controllers: []func() status.Controller{controller.Status},
//		Objects:     []debugpage.Source{debugpage.Objects(pods, debugpage.Index("node", byNode))},
//		Authorize:   reviewer.Authorize(review.Path("get", "/debug/informers")),
//	}))
//
// The page shows problems first, then informers with their audits, their watches with the history of their states,
// subscriptions, queues, controllers, clients, replicas that share objects, managers and electors. While it is open, it
// draws the events per second, the lag, the backlog and the memory. It polls every two seconds, and pauses in a hidden
// tab. The handler itself has no goroutine and keeps no history.
//
// # Who sees what
//
// Every caller that reaches the handler sees the status: the names and selectors of resources, namespaces, the names of
// handlers, queues and controllers, the identities of replicas, counts, times, and the kind of the last error, such as
// "403 Forbidden". As with net/http/pprof, do not mount the handler where the public can reach it. The handler answers
// only requests to localhost, to an address of loopback, to a host of Config.Hosts, and on a Unix socket. So no other
// web page can have a browser read it (DNS rebinding).
//
// Only callers whom Config.Authorize admits see the objects of Config.Objects, the keys of objects, indexes and queues,
// and the text of errors, which may come from the server, a proxy or a login plugin. Without Authorize, nobody does.
// Package review has an Authorize that asks the API server.
//
// The content of Secrets and ConfigMaps is masked for them, too: the page shows the names of their fields and the
// lengths of the values. The values of their annotations are masked, because
// kubectl.kubernetes.io/last-applied-configuration, and those of other tools, have a copy of the data. The keys of
// their indexes are hidden, because index functions compute keys from the content. So are the keys that their audits
// have found, also in the text of errors. The page recognizes Secrets and ConfigMaps by their resource, in any group,
// by their kind, or by their Go type. Objects that have none of these, such as metadata of Secrets under another
// resource, need Config.Mask. Config.Mask adds resources, and Config.Unmask shows the values. Other objects are shown
// whole: if a custom resource holds credentials, add it to Config.Mask.
//
// # Requests
//
// The last element of the path selects the answer:
//
//	(empty)        the page
//	status.json    Status
//	keys.json      Keys, the keys of an index
//	objects.json   ObjectKeys, the keys of objects
//	object.json    Object, one object
//
// All links are relative, so the handler works at any path that ends in a slash, with http.StripPrefix or without.
// Errors are JSON, too; see [Error]. Methods other than GET and HEAD receive 405.
//
// The page loads nothing from elsewhere. Its Content-Security-Policy allows only its own files, no inline code, and no
// frame around it. It shows all names, keys and errors as plain text. Nothing is cached.
package debugpage
