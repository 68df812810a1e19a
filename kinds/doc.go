// Package kinds follows every kind of a cluster by informers: those that a rule selects, and those that somebody holds.
// It is for programs that do not know the kinds beforehand, such as garbage collectors, backups, policies and
// inventories.
//
//	set := kinds.New(client, kinds.Config[*metav1.PartialObjectMetadata]{
//		Select: func(r status.APIResource) bool { return r.Namespaced },
//	})
//	byOwner := kinds.NewIndex(set, func(_ schema.GroupResource, obj *metav1.PartialObjectMetadata) []types.UID {
//		return ownersOf(obj)
//	})
//	go set.Run(ctx)
//	err := set.WaitSynced(ctx)
//	for kind, obj := range byOwner.Lookup(uid) { … }
//
// # Members
//
// A member of the set is an informer of one kind, in one version. Its identifier is the group and the plural name of
// the kind, a schema.GroupResource, since the objects are the same in every version. A kind that cannot be listed or
// watched is never a member. A member that hangs or is forbidden delays no other; [Set.WaitSynced] and [Set.Status]
// name it.
//
// # Versions and groups
//
// The set sees each object once. Of the versions of a kind, it takes the first one in the server's order of preference,
// and stays with it while the server serves it. If that version goes and another one is there, the member is replaced:
// handlers receive deletions with final=false, and then additions.
//
// Some kinds of Kubernetes are in two groups, with the same objects. The set takes events of the core group, not those
// of events.k8s.io, and any other group before the old group extensions. Every function takes the name in the other
// group for the member. Kinds of other API servers that show the same objects, such as those of OpenShift's
// authorization, cannot be recognized: leave them out by Config.Select.
//
// # Changes
//
// The set watches the metadata of CustomResourceDefinitions and of APIServices. Changes within a second cause one
// discovery, of two requests; see informer.Client.Discover. So a new kind is listed within seconds. A discovery that
// shows nothing new is repeated once, five seconds later, since an API server may lag. Without changes, the set asks
// every Config.DiscoverEvery.
//
// A kind that the server no longer serves is removed: handlers receive a deletion for each object, with final=false.
// The server does not serve a kind if discovery says so, and its definition was deleted, or discovery has said so for
// ten seconds. If discovery fails, or the API server of a group is away, what is not known stays: the members go on,
// and Status says what is not known.
package kinds
