// Package warmstart saves the objects of a collection, and loads them at the next start of the program.
//
// A saved state is a file of package snapshotfile: a [Header], and then the objects in an encoding from which the same
// objects are decoded. A start may use it only if a list would give the same store after the changes since.
// [State.Load] checks that: the state must be of the same collection, server, type and configuration, young enough, and
// not of a version that the server has not reached. If it cannot know, the error is a [Cold], and the caller lists. It
// does not compare objects: the caller audits the store later.
//
// The package is not generic: an [object.Object] is of any type.
package warmstart

import (
	"context"
	"hash/maphash"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

// Storage keeps saved states by name; see informer.WarmStartStorage.
type Storage interface {
	Load(ctx context.Context, name string) (io.ReadCloser, error)
	Save(ctx context.Context, name string, write func(io.Writer) error) error
}

// Source is the collection on the server.
type Source interface {
	// Current returns the resource version that the server has now.
	Current(ctx context.Context, shard string) (version string, err error)
	// Loading is called before a read of the storage.
	Loading()
}

// Packing is the form in which the collection holds its objects: as they are decoded, or in encoded form.
type Packing interface {
	// Encoded returns obj in encoded form, in the memory of buf[:cap(buf)] or of its own. ok is false if obj is not held
	// in encoded form; Whole returns the object to encode.
	Encoded(obj object.Object, buf []byte) (e decode.Encoded, ok bool, err error)
	// Whole returns obj decoded.
	Whole(obj object.Object) any
	// Restored returns the object of which e is the encoded form, as the collection holds it. If it has to be decoded,
	// d decodes it, and it shares memory with others if share is true.
	Restored(d *decode.Decoder, e decode.Encoded, share bool) (object.Object, error)
}

// Config describes a [State].
type Config struct {
	Storage  Storage
	MaxAge   time.Duration // the age at which a saved state is too old
	Identity Identity      // without Shard, Cluster, Server and CA
	Client   *transport.Client
	Cluster  *Cluster // of the server of Client
	Source   Source
	Decoders *decode.Pool // of the decoded objects
	Kind     *decode.Kind // of the objects in the storage; nil for any
	Packing  Packing
	Share    bool // objects share equal parts
	Log      *slog.Logger
}

// State is the saved state of one collection, or of one namespace of it. Load, GiveUp and CaughtUp are for one
// goroutine, and Save is for one; Status is for any.
type State struct {
	config Config
	name   string // in the storage

	failures int     // failed loads that count; only Load uses it
	encoder  encoder // only Save uses it

	mu     sync.Mutex // protects the fields below
	status status.WarmStart
	stored stored
}

// stored describes the last state that this process saved or loaded.
type stored struct {
	version, shard string
	listed, time   time.Time
}

// New returns the saved state that c describes.
func New(c Config) *State {
	return &State{config: c, name: c.Identity.name(), encoder: encoder{seed: maphash.MakeSeed(), decoders: c.Decoders,
		packing: c.Packing}}
}

// Namespace returns the namespace of the objects, or "" for all.
func (s *State) Namespace() string { return s.config.Identity.Namespace }

// Status returns the present status.
func (s *State) Status() status.WarmStart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// update changes the status, with the lock held.
func (s *State) update(change func(*status.WarmStart)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// CaughtUp notes that the store has every change that the server had after the load, or lists.
func (s *State) CaughtUp() { s.update(func(st *status.WarmStart) { st.CatchUpTo = "" }) }
