package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/typedinformer/informer/internal/source/snapshotfile"
)

const (
	defaultSaveInterval = 5 * time.Minute
	defaultMaxAge       = time.Hour
)

// WarmStartConfig makes an [Informer] save its objects, and start from the saved ones: a warm start. Instead of a list
// of the whole collection, the server then sends the changes since the save. The zero value saves nothing.
//
//	config.WarmStart.Storage = informer.WarmStartDir("/var/cache/my-controller")
//
// The informer saves each namespace of Resource on its own: every Interval if something has changed, and when the
// context of Run ends, for which Run waits. A start reads the saved objects into the store, and watches from their
// resource version. OnAdd receives them as initial additions. The informer syncs when it has every change up to the
// resource version that the server had after the start.
//
// The informer lists if it cannot resume, and says why in the log and in [status.Reflector].WarmStart: nothing is
// saved; the saved state is older than MaxAge, damaged, or from another server, resource, selector, shard, Go type or
// Revision; the server rejects the requests that check it; or the server no longer has the changes since the save. A
// kube-apiserver keeps the changes of at least the last 75 seconds, and usually of some minutes. If only the watch
// shows that changes are lost, the store already has the saved objects, and the list changes only those that differ.
//
// It also lists if the last list of the whole collection was more than 24 hours ago, in this or an earlier process. A
// server that was restored from a backup may have reached the version of the saved state again. The versions do not
// show that, so the informer audits the store within half a minute after a warm start; see [Informer.Audit]. Until
// then, the store may lack the changes by the restore. To avoid that, restore etcd with --bump-revision and
// --mark-compacted: a warm start then always lists.
//
// The informer identifies a server by its URL, its certificate authority and the UID of the namespace kube-system. If
// it may not get that namespace, it compares only the URL and the certificate authority.
//
// A warm start costs one more request for each namespace, a list with a limit of one object, and one request for
// kube-system for each Client.
//
// The informer saves nothing while the newest version of an object cannot be decoded, or if an object changes when it
// is encoded and decoded again, for example because a field is not encoded. [status.WarmStart] then has the error, and
// the last saved state stays. With LayoutCompact, most objects need no such check, since the informer holds them as
// the server sent them.
type WarmStartConfig struct {
	// Storage keeps the saved states. Nil means that the informer saves nothing and starts with a list.
	Storage WarmStartStorage
	// Interval is the time between two saves, less up to a tenth at random. A shorter one makes it more likely that a
	// start after a crash can resume. Zero means 5 minutes.
	Interval time.Duration
	// MaxAge is the age at which a saved state is too old for a start. Zero means an hour.
	MaxAge time.Duration
	// Revision identifies the code of Config.Transform and Config.Filter: change it whenever they change. The informer
	// does not load a saved state of another revision. It must not be empty if Transform or Filter is set.
	Revision string
	// Secrets allows saved states of Secrets, also of their metadata. Saved states are not encrypted. False means that an
	// informer of secrets with a Storage is invalid.
	Secrets bool
}

// WarmStartStorage keeps saved states by name. [WarmStartDir] is one. Two informers that save the same collection, in
// one process or in two, need separate storages: otherwise the last save wins.
type WarmStartStorage interface {
	// Load returns the saved state with that name. If there is none, the error wraps [os.ErrNotExist].
	Load(ctx context.Context, name string) (io.ReadCloser, error)
	// Save calls write with a writer for the saved state with that name. It replaces the previous one in one step, after
	// write has returned nil: Load never returns a part. If write or anything else fails, Save returns the error and the
	// previous saved state stays. The context is canceled when the context of Run ends, except for the save at the end.
	Save(ctx context.Context, name string, write func(io.Writer) error) error
}

// validate names the field that is wrong. An informer of objects of type t, a pointer, in resource would use c.
func (c *WarmStartConfig) validate(resource Resource, t reflect.Type, functions bool) error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("Config.WarmStart.Interval is %v: it must not be negative", c.Interval)
	case c.MaxAge < 0:
		return fmt.Errorf("Config.WarmStart.MaxAge is %v: it must not be negative", c.MaxAge)
	case c.Storage == nil:
		return nil
	case !c.Secrets && isSecrets(resource, t):
		return errors.New("Config.WarmStart.Secrets is false: set it to save secrets; saved states are not encrypted")
	case functions && c.Revision == "":
		return errors.New("Config.WarmStart.Revision is empty: it must identify what Transform and Filter do, " +
			"so that a program with other functions does not load the saved objects")
	}
	return nil
}

// isSecrets reports whether resource is that of secrets, or t is their type.
func isSecrets(resource Resource, t reflect.Type) bool {
	return resource.Group == "" && resource.Resource == "secrets" || isSecret(t)
}

// isSecret reports whether t is *corev1.Secret, a type that this package does not import.
func isSecret(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "k8s.io/api/core/v1" && t.Elem().Name() == "Secret"
}

func (c *WarmStartConfig) interval() time.Duration {
	if c.Interval > 0 {
		return c.Interval
	}
	return defaultSaveInterval
}

func (c *WarmStartConfig) maxAge() time.Duration {
	if c.MaxAge > 0 {
		return c.MaxAge
	}
	return defaultMaxAge
}

// WarmStartDir is a directory with one file for each saved state, which only the user of the process may read. Save
// creates the directory if there is none. It writes a temporary file first, and replaces the saved state when all of it
// is on the disk. Files may be deleted at any time.
type WarmStartDir string

// Load implements [WarmStartStorage]. Anything but a regular file under that name, such as a named pipe, is an error.
func (d WarmStartDir) Load(_ context.Context, name string) (io.ReadCloser, error) {
	return snapshotfile.Dir(d).Load(name)
}

// Save implements [WarmStartStorage].
func (d WarmStartDir) Save(_ context.Context, name string, write func(io.Writer) error) error {
	return snapshotfile.Dir(d).Save(name, write)
}
