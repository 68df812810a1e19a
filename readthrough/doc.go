// Package readthrough has an informer for large collections that a program rarely reads, such as Secrets and
// ConfigMaps. It follows the metadata of all objects, and reads a whole object on demand. A Secret is then in memory
// only while it is used.
//
//	resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets")}
//	secrets := readthrough.New(client, resource,
//		readthrough.Config[*corev1.Secret]{KeepLabelSelector: "app.kubernetes.io/part-of=my-operator"})
//	ctl.Watch(informer.EnqueueObject(secrets.Metadata()))
//	go secrets.Run(ctx)
//
//	secret, err := secrets.Get(ctx, key)
//
// # Memory on demand
//
// Metadata take about a tenth of a kilobyte to one kilobyte for each object, whatever its data. Whole objects take
// Config.MaxBytes at most. The informer drops those that nobody reads after Config.MaxIdle, and those that change. It
// always holds whole objects that Config.KeepLabelSelector and KeepFieldSelector select: use these for objects that the
// program reads all the time.
//
// The first read of an object costs a request, and so does the first one after each change. If a program reads most
// objects again and again, and they change often, use an [informer.Informer]: it needs one watch and no requests. Its
// LayoutCompact and a struct with just the fields that are needed save memory too.
//
// The user of the program needs the permission to get the objects, as well as to list and watch them.
//
// # What it guarantees
//
//   - Get never returns an object that is older than the metadata in the store. An object counts as newer only by its
//     resource version, compared as KEP-5504 defines it.
//   - An object that was deleted is "not found" as soon as the store has seen that, also if it was on its way. So is an
//     object that is missing on the server, although the store still has its metadata. Get never takes an object that
//     was deleted and created again for the one before.
//   - A failure is an error of Get, never an old object, and never "not found". While the server is away, Get returns
//     the objects that are held at the version of their metadata, and errors for others. The watch of the metadata is
//     then broken too, so the store may not know of a change; see Status.
//   - Reads of one version at the same time share one request. Each read waits until its own context ends; the request
//     ends when none waits.
//   - Held objects are at exactly the version of their metadata. A change of the metadata drops the object.
//   - Whole objects take at most MaxBytes, in addition to those that callers have, those under way and those that a
//     selector names.
//
// # What it does not do
//
// Handlers and indexes have metadata only. To index by another field, use an informer of structs with just that field.
//
// Get may return an object that is newer than its metadata, and the next Get one that is older than the first, if
// another API server answers. To read at least a version that you know, such as that of your own write, wait for it
// first:
//
//	err := secrets.Metadata().WaitForObject(ctx, written)
//
// A list of whole objects needs many of them in memory, and requests for those that are not: [Informer.List] returns
// what it cost, and [Informer.CostOf] what it would cost.
//
// A server that was restored from a backup can reach a resource version once more, with other content. The informer
// drops all held objects when metadata go back to an earlier version.
package readthrough
