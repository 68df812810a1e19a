package informer

import (
	"fmt"
	"log/slog"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
)

// Config is the configuration of an [Informer] or a [Reflector]. The zero value is right for most.
//
// An informer calls Transform, Filter, OnDecodeError and OnFailure one at a time: no two of these calls overlap, even
// with several namespaces. If one of them panics, the program crashes. If one of them calls runtime.Goexit, as
// t.FailNow does, the list or watch fails, and the informer retries it after a backoff.
type Config[T Object] struct {
	// Transform is called once for each decoded object before it is stored, and returns the object to store: usually obj
	// itself without fields that nobody reads. It may write to obj. It must keep namespace, name, uid and resourceVersion.
	// It receives the objects of one namespace in the order in which the server sent them. An error counts as a decode
	// error of the object. The log and Status show its text, so it should not quote the object. Nil means that objects are
	// stored as the server sent them.
	Transform func(obj T) (T, error)
	// Filter restricts the informer to the objects for whose metadata it returns true. Other objects are not decoded any
	// further. An object that stops passing the filter is reported as deleted, with final=false. Filter is called once for
	// each version, in any order, and once for each object of an audit. The metadata lacks managedFields, and Filter may
	// keep or change it. The server still sends all objects, so prefer a selector of Resource where it can express the
	// same. Nil means all objects.
	Filter func(meta *metav1.PartialObjectMetadata) bool
	// KeepManagedFields keeps metadata.managedFields. False means that the decoder drops them: they are a third of a
	// typical object, and only server-side apply uses them.
	KeepManagedFields bool
	// Layout is how the informer holds objects in memory. The zero value is LayoutShared: objects share equal parts, so
	// code that writes to one changes others too.
	Layout Layout
	// Parts makes informers that have the same one share equal parts of their objects, for example those of clusters that
	// run the same programs; see [Parts]. Nil means that this informer shares nothing with others.
	Parts *Parts
	// Prototype is needed only if T is an interface type, for example in a program that learns the type of its objects at
	// run time. It is a pointer of the type to decode, such as &corev1.Pod{} for an Informer[client.Object]. Its content
	// does not matter, and it may be a nil pointer. The type of Prototype must be a valid T; see [Object]. Nil means T
	// itself.
	Prototype T
	// OnDecodeError is called when an object cannot be decoded, while later objects wait. The informer keeps the last good
	// version of the object and continues with the others; see [Store.Undecodable]. Nil means that the informer only logs
	// and counts the error.
	OnDecodeError func(*DecodeError)
	// OnFailure is called when a list or a watch has failed, before the informer waits and tries again, and when the
	// server turns out to give one key to several objects, or the program to have modified an object of the store; see
	// SharedKeys and Modified of [status.ReflectorTraffic]. The error is the one that status.Reflector.LastError then
	// has. Nil means that the informer only logs and counts the failure.
	OnFailure func(error)
	// PagedList reads the collection by LIST, page by page. False means that the informer uses a streaming list
	// (KEP-3157), and falls back to LIST if the server does not support it.
	PagedList bool
	// PageSize is the number of objects in a page of a LIST. Zero means 500.
	PageSize int
	// PollEvery is the pause between two lists of a collection that can be listed and not watched: the server refuses a
	// watch with 405 or 501, answers it with a list, or sends no resource versions; see [status.ReflectorPolled].
	// Unchanged objects raise no event. An hour later, the informer tries to watch again. Zero means 30 s. Negative means
	// that the informer syncs only after the server has accepted a watch. If the server cannot watch, Run and WaitSynced
	// return an error that wraps [ErrNoWatch].
	PollEvery time.Duration
	// AbsentIsSynced treats a resource that the server does not serve as empty, for example while its custom resource
	// definition is not installed. False means that the informer does not sync until the server serves the resource. In
	// both cases, a 404 counts only if discovery shows the absence; see [status.ReflectorState].
	AbsentIsSynced bool
	// MaxMemory is the memory that the objects may take when the store is first filled, in bytes. If an estimate from the
	// objects that have arrived exceeds it, the informer ends the list, logs an error that wraps [ErrMaxMemory] and says
	// what would take less, and stores nothing of the list. WaitSynced returns that error. The informer tries again after
	// one minute, and then after up to ten. The limit is for all namespaces or selections of the informer together, of
	// which the largest ends. Later changes and lists are not limited. Zero means no limit: the informer then only warns
	// when the process is going to use more memory than GOMEMLIMIT or its cgroup allows; see [status.Forecast].
	MaxMemory int64
	// AuditEvery is the period of audits, with a jitter of a tenth; see [Informer.Audit]. Zero means no periodic audits:
	// the informer audits only after a warm start, and after the server was away. A [Reflector] has none.
	AuditEvery time.Duration
	// WarmStart makes the informer save its objects and start from the saved ones; see [WarmStartConfig]. A [Reflector]
	// has no WarmStart. The zero value saves nothing.
	WarmStart WarmStartConfig
	// Logger receives failures. Nil means slog.Default().
	Logger *slog.Logger
}

// validate names the field that is wrong.
func (c *Config[T]) validate() error {
	if c.AuditEvery < 0 {
		return fmt.Errorf("Config.AuditEvery is %v: it must not be negative", c.AuditEvery)
	}
	if c.MaxMemory < 0 {
		return fmt.Errorf("Config.MaxMemory is %d: it must not be negative", c.MaxMemory)
	}
	if c.PageSize < 0 {
		return fmt.Errorf("Config.PageSize is %d: it must not be negative", c.PageSize)
	}
	if t := reflect.TypeFor[T](); c.goType() == t && t.Kind() == reflect.Interface {
		return fmt.Errorf("Config.Prototype is nil: %v is an interface, so the prototype must name the type of the objects",
			t)
	}
	return c.Layout.validate()
}

// goType returns the type to decode, a pointer.
func (c *Config[T]) goType() reflect.Type {
	if !object.IsNil(c.Prototype) {
		return reflect.TypeOf(c.Prototype)
	}
	return reflect.TypeFor[T]()
}

func (c *Config[T]) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.Default()
}

// DecodeError indicates that an object from the server could not be decoded, or that Config.Transform failed for it.
// Other objects are not affected, and the last good version of this one stays in the store.
type DecodeError struct {
	// Resource is the collection of the object.
	Resource Resource
	// Key is the key of the object, as far as it could be decoded.
	Key Key
	// UID and ResourceVersion are those of the version that could not be decoded. Empty means unknown.
	UID, ResourceVersion string
	// Raw is the encoded object: JSON, or the protobuf message without envelope. It may hold secrets. Only
	// Config.OnDecodeError receives it; it is nil in a status and in other errors, and for an object over the size limit.
	Raw []byte
	// Err is the reason. Its text quotes nothing of the object, unless it is the error of Config.Transform.
	Err error
}

// Error implements error. It names the object, and does not show Raw.
func (e *DecodeError) Error() string {
	// a server can send a long key or value
	return fmt.Sprintf("decode %s %.600s: %.1000v", e.Resource.Resource, e.Key, e.Err)
}

// Unwrap returns Err.
func (e *DecodeError) Unwrap() error { return e.Err }

// collection is a Resource as the collection of the objects that a decoder decodes.
type collection struct{ resource Resource }

// DecodeError implements intake.Collection.
func (c *collection) DecodeError(key Key, why error) error {
	return &DecodeError{Resource: c.resource, Key: key, Err: why}
}

// observed returns a copy of c for an informer whose objects observe receives. Each object has memory of its own.
func (c Config[T]) observed(observe func(obj Object)) Config[T] {
	transform := c.Transform
	if c.Layout.validate() == nil { // if it is not, the error stays
		c.Layout = LayoutSeparate
	}
	if transform == nil && c.Filter == nil && c.WarmStart.Revision == "" {
		c.WarmStart.Revision = "observed" // a Transform needs one
	}
	c.Transform = func(obj T) (T, error) {
		var err error
		if transform != nil {
			obj, err = transform(obj)
		}
		if err == nil {
			observe(obj)
		}
		return obj, err
	}
	return c
}
