// Package table provides a persistent table: objects by namespace and name, with any number of indexes, for one writer
// and any number of readers.
//
// A [Version] is the state of a table at one moment. It is a small value and never changes. The writer makes the next
// version with an [Edit], in any number of steps:
//
//	next := *published
//	edit := table.Begin(&next)
//	edit.Add(key, obj)
//	edit.Remove(slot)
//	published = &next // readers see all of it, or none
//	edit.End()
//
// An update of an object copies three small nodes of an array, and no node of the tree of names. It changes an index
// only if a key of the object changes.
//
// An [Index] finds the objects that have a key. An [Ordered] has the objects in the order of their keys, and the number
// of those before each: a [Span] is a range of them.
//
// # Slots
//
// Each object has a slot, a small number, from its addition to its removal. A later object can have the same slot. The
// trees lead from names and keys to slots, and an array leads from slots to objects. So a new version of an object is
// one write to the array.
//
// # Readers of other objects
//
// A table can hold its objects in another form, for example compressed. Each read then makes the object for the reader.
// An [Opener] makes these objects: [Opened] returns a version for readers of them, and [OpenedIndex] adds an index of
// them to the table. [Version.Copies] is for readers that get a copy of each object.
//
// # Concurrency
//
// Any number of goroutines may read a version without a lock. Only one goroutine at a time may call the methods of a
// [Table] and its Edit. The caller synchronizes writers, and makes a new version visible to readers, for example by an
// atomic pointer. Only the writer may read the next version before it is published.
package table
