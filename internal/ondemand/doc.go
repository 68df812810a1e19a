// Package ondemand reads whole objects for a store that has their metadata, and holds those that are in use.
//
// # Invariant
//
// After a [Reader] has received an object, it reads the metadata store. It returns the object only if the store then
// has metadata of the key that are not newer: with the same UID and resource version, or with a lower resource version.
// So a reader never returns
//
//   - an object that the store has seen deleted, even if the deletion arrived while the object was on its way,
//   - a version before the one that the store has, whatever server answered,
//   - an object that was deleted and created again under the name, once the store has the new one.
//
// A key without metadata is "not found", without a request. If the server says that an object does not exist whose
// metadata the store has, the watch is behind: the reader returns "not found" too, unless the metadata changed since.
// Any other failure is an error. After a failure, the reader never returns an object that the store knows to be old.
//
// An object is held only while it is at exactly the UID and the resource version of its metadata. A request adds its
// object and then reads the store; each change of the store is followed by [Reader.Changed]. So the last of the two
// finds an object that is out of date, and drops it. An object that is newer than its metadata is returned, not held.
//
// # Requests
//
// Readers that ask for the same version of an object at the same time share one request. It ends when the last of them
// no longer waits. A request asks for a version that is not older than the metadata, which kube-apiserver answers from
// its watch cache. If the server cannot, or ignores that, one more request asks for the latest version, from etcd.
package ondemand
