package informer

import (
	"fmt"
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config is the configuration of an [Informer] or a [Reflector]. The zero value is right for most.
//
// An informer calls Transform, Filter and OnDecodeError one at a time: no two calls of them overlap, also with several
// namespaces. A function that panics crashes the program. One that ends its goroutine (runtime.Goexit, as t.FailNow does)
// fails the list or watch, which is tried again after a backoff.
type Config[T Object] struct {
	// Transform is called once for each object as it was read, before it is stored, and returns what to store in its
	// place: usually obj itself with less in it. It may write to obj. It must keep namespace, name, uid and
	// resourceVersion. Objects of one namespace come in the order in which the server sent them. Its error is that
	// object's decode error; the log shows it and Status keeps it, so it should not quote the object. Nil means that
	// objects are stored as they come.
	Transform func(obj T) (T, error)
	// Filter restricts the informer to the objects for which it returns true, by their metadata. Other objects are not
	// decoded any further. An object that stops passing the filter is reported as deleted, with final=false. Filter is
	// called once for each version, in any order, with metadata that lacks managedFields and belongs to Filter. The
	// server sends all objects, so a selector of Resource is better where it can say the same. Nil means all.
	Filter func(meta *metav1.PartialObjectMetadata) bool
	// KeepManagedFields keeps metadata.managedFields. False means that they are dropped while decoding: they are a
	// third of a typical object, and only server-side apply looks at them.
	KeepManagedFields bool
	// Share makes equal parts of different objects one: a slice, map or pointer that is decoded from the same bytes is that of
	// another object. Pods of one Deployment then share most of their spec, which can halve their memory, and what is shared is
	// not decoded. Cached objects must never be written to. With Share, code that writes to one changes others too; in tests,
	// informertest.DetectMutations finds such code. Transform may write to the object that it receives: with Transform, objects
	// share with their versions before only, and Transform must return memory of its own. False means that an object shares
	// with its versions before, and only strings with others.
	Share bool
	// OnDecodeError is called when an object cannot be decoded, while the objects after it wait. The informer goes on
	// with the others and keeps the last good version of that one. Nil means that it is only logged and counted.
	OnDecodeError func(*DecodeError)
	// PagedList reads the collection by LIST, page by page. False means by a streaming list (KEP-3157) where the
	// server can do that, and by LIST otherwise.
	PagedList bool
	// PageSize is how many objects to ask for at a time with LIST. Zero means 500.
	PageSize int
	// AbsentIsSynced says that a resource that the server does not serve, because its custom resource definition is
	// not installed, counts as an empty one. False means that it counts as not synced.
	AbsentIsSynced bool
	// Logger receives failures. Nil means slog.Default().
	Logger *slog.Logger
}

// validate names the field that is wrong.
func (c *Config[T]) validate() error {
	if c.PageSize < 0 {
		return fmt.Errorf("Config.PageSize is %d: it must not be negative", c.PageSize)
	}
	return nil
}

func (c *Config[T]) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.Default()
}

// DecodeError reports that one object that the server sent could not be decoded, or that Config.Transform refused it.
// The other objects are not affected, and the last good version of this one stays in the store.
type DecodeError struct {
	// Resource is the collection of the object.
	Resource Resource
	// Key is the object's, as far as it could be read.
	Key Key
	// Raw is the object as it was sent: JSON, or the protobuf message without envelope. It may hold secrets. Only
	// Config.OnDecodeError gets it; it is nil in a status and in an error of WaitSynced.
	Raw []byte
	// Err is the reason. Its text quotes nothing of the object, unless it is the error of Config.Transform.
	Err error
}

// Error implements error. It names the object, and does not show Raw.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s %.600s: %.1000v", e.Resource.Resource, e.Key, e.Err) // a server can write them long
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }
