// Package durable makes a subscription continue after a restart: it saves which objects a handler has acknowledged, and
// compares them with the store at the next start.
//
//	store -- Compare --> backlog -- handler --> the handler of the program
//	             ^                     |
//	             +------- book <-------+  acknowledges
//	                       |
//	                     files
//
// An object is acknowledged when the handler has returned. The book never has what is not acknowledged, so that a
// process that ends at any moment repeats changes, and loses none.
//
// # Files
//
// The state has two files of package snapshotfile. The base has all keys. The other one has those that have changed
// since the base was written, also deletions. A save writes only the changes. When the files of changes have together
// cost as many bytes as the base, the next save writes a new base. So a save costs at most about twice what the best
// interval between two bases would cost, whatever the rate of changes.
//
// Each base has a number, and the changes have that of their base. Changes of an earlier base are older than the base,
// and do not count. There are never changes of a later base, nor a base without changes.
package durable

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/warmstart"
)

// ErrState indicates that a subscription ended because its state in the storage cannot be used.
var ErrState = errors.New("the state of a durable subscription cannot be used")

// Config describes the state of a subscription.
type Config struct {
	Name     string
	Resource schema.GroupResource
	Storage  warmstart.Storage
	Objects  bool          // save whole objects, not only their metadata
	Interval time.Duration // between two saves
	NewOnly  bool          // as in deliver.Config
	Recovers bool          // the subscription survives a panic: deliver.Config.OnPanic is set
	// Identify returns the UID of the cluster, or "" if the client may not know it, and the address of the server.
	Identify func(ctx context.Context) (uid, server string, err error)
	Decoders *decode.Pool // of the objects
	Metadata *decode.Pool // of *metav1.PartialObjectMetadata
	Log      *slog.Logger
}

// Store is the store of an informer.
type Store[T object.Object] struct {
	View      func() View[T]
	Published func() <-chan struct{} // returns a channel that is closed when View has changed
	// Lacks returns a function that reports whether View may lack objects of a namespace, although it is synced. It must
	// not be called with the lock of the hub.
	Lacks func() func(namespace string) bool
	// Retired reports whether View is empty because the informer ends for good, or is going to be.
	Retired func() bool
}

// View is the content of a store at one moment.
type View[T object.Object] interface {
	deliver.View[T]
	Get(key object.Key) (T, bool)
	ResourceVersion() string
	Undecodable(key object.Key) error
	// Absent reports whether it has no objects of a namespace because the server does not serve the resource.
	Absent(namespace string) bool
}
