package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/set"
	"github.com/typedinformer/informer/status"
)

// Set follows many kinds of one cluster. Create one with [New]. All methods are safe for concurrent use. Handlers may
// call every method but Run.
type Set[T informer.Object] struct {
	client  *informer.Client
	config  Config[T]
	invalid error
	members *set.Set[schema.GroupResource, T]
	changes *changes
	known   chan struct{} // closed when the set has the members of the first discovery
	over    chan struct{} // closed when Run has returned

	turn sync.Mutex    // serializes changes of the members; taken before mu, and before the locks of members
	news run.Broadcast // sent after each change of the fields below

	mu      sync.Mutex // protects the fields below
	begun   bool       // Run was called
	held    map[schema.GroupResource]int
	kinds   map[schema.GroupResource]status.APIResource // of the members
	missing map[schema.GroupResource]time.Time          // members that discovery lacks, since when
	catalog *catalog                                    // the latest; nil before the first
	record  record
}

// New returns a set of the kinds of the server of client. It starts no goroutine and sends no request; Run does. If an
// argument is wrong, New logs the error, and Run and WaitSynced return it.
func New[T informer.Object](client *informer.Client, config Config[T]) *Set[T] {
	if config.Member.Parts == nil {
		config.Member.Parts = new(informer.Parts)
	}
	known := make(chan struct{})
	s := &Set[T]{
		client: client,
		config: config,
		known:  known,
		members: set.New(set.Config[schema.GroupResource, T]{
			Name:   schema.GroupResource.String,
			Starts: config.Starts,
			Known:  known,
			Logger: config.Logger,
		}),
		changes: newChanges(client, config.logger()),
		over:    make(chan struct{}),
		held:    map[schema.GroupResource]int{},
		kinds:   map[schema.GroupResource]status.APIResource{},
		missing: map[schema.GroupResource]time.Time{},
	}
	if s.invalid = config.validate(); client == nil {
		s.invalid = errors.New("the client is nil")
	}
	if s.invalid != nil {
		s.invalid = fmt.Errorf("kinds: %w", s.invalid)
		config.logger().Error("the set of kinds does not run", "err", s.invalid)
	}
	return s
}

// Run follows the kinds until ctx ends, and returns the cause of ctx. When it returns, everything that it started has
// ended, and no handler is called any more. A set runs once: later calls return an error that wraps
// [informer.ErrRunning].
func (s *Set[T]) Run(ctx context.Context) error {
	if s.invalid != nil {
		return s.invalid
	}
	s.mu.Lock()
	again := s.begun
	s.begun = true
	s.mu.Unlock()
	if again {
		return fmt.Errorf("kinds: %w", informer.ErrRunning)
	}
	defer close(s.over)
	ctx, end := context.WithCancelCause(ctx)
	var following sync.WaitGroup
	following.Go(func() { s.changes.run(ctx) })
	following.Go(func() { s.follow(ctx) })
	err := s.members.Run(ctx)
	end(nil)
	following.Wait()
	return err
}

// Hold makes the set have a kind, whether Config.Select wants it or not, until release is called. If several hold it,
// it stays until the last one releases it; handlers then receive its deletions, unless Config.Select wants the kind. If
// the server does not serve the kind, its member comes when it does. Calling release again does nothing.
func (s *Set[T]) Hold(kind schema.GroupResource) (release func()) {
	s.hold(kind, 1)
	return sync.OnceFunc(func() { s.hold(kind, -1) })
}

func (s *Set[T]) hold(kind schema.GroupResource, n int) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	if s.held[kind] += n; s.held[kind] == 0 {
		delete(s.held, kind)
	}
	latest := s.catalog
	s.mu.Unlock()
	if latest != nil {
		s.choose(latest, func(status.APIResource, time.Time) bool { return false }) // only a discovery shows that
	}
}

// take makes the members those of a new discovery. deleted has the names of definitions and APIServices that are gone.
// It reports whether kinds or what is not known have changed, and whether a kind is missing that is not gone yet.
func (s *Set[T]) take(d status.Discovery, deleted map[string]bool) (changed, missing bool) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.mu.Lock()
	latest := newCatalog(d, s.kinds)
	changed = s.catalog == nil || !maps.EqualFunc(s.catalog.kinds, latest.kinds, sameKind) ||
		!slices.EqualFunc(s.catalog.unknown, latest.unknown, sameUnknown)
	s.catalog = latest
	for id, member := range s.kinds {
		switch r, ok := latest.kinds[id]; {
		case ok && isFollowable(r) && sameMember(r, member) || !latest.knows(id.Group):
			delete(s.missing, id)
		case s.missing[id].IsZero():
			s.missing[id] = time.Now()
		}
	}
	s.mu.Unlock()
	missing = s.choose(latest, func(member status.APIResource, since time.Time) bool {
		return isGone(member, since, deleted)
	})
	if !run.IsClosed(s.known) {
		close(s.known)
	}
	return changed, missing
}

func sameKind(a, b status.APIResource) bool {
	return sameMember(a, b) && isFollowable(a) == isFollowable(b)
}

func sameUnknown(a, b Unknown) bool { return a.GroupVersion == b.GroupVersion }

// sameMember reports whether an informer of a can go on with b.
func sameMember(a, b status.APIResource) bool {
	return a.Version == b.Version && a.Namespaced == b.Namespaced
}

// choose makes the members those that a discovery and the holders want. It reports whether a kind is missing that is
// not gone yet. It needs turn.
func (s *Set[T]) choose(latest *catalog,
	isGone func(member status.APIResource, since time.Time) bool) (missing bool) {
	s.mu.Lock()
	wanted := s.wantedLocked(latest)
	var replaced []schema.GroupResource
	for id, member := range s.kinds {
		r, ok := wanted[id]
		since, isMissing := s.missing[id]
		switch {
		case isMissing && !isGone(member, since):
			wanted[id], missing = member, true
		case isMissing:
			delete(s.missing, id)
			if ok {
				replaced = append(replaced, id)
			}
		case !ok && !latest.knows(id.Group) && s.wantsLocked(latest, member):
			wanted[id] = member
		case ok && !sameMember(r, member): // what it had is not known: it stays
			r.Version, r.Namespaced = member.Version, member.Namespaced
			wanted[id] = r
		}
	}
	s.kinds = wanted
	s.mu.Unlock()
	for _, id := range replaced {
		s.members.Remove(id, set.Deliver)
	}
	s.want(wanted)
	s.news.Send()
	return missing
}

// settleTime is how long discovery must lack a kind, without a deletion of its definition, before it counts as gone.
// With several API servers, one may lag behind the others.
const settleTime = 10 * time.Second

// isGone reports whether a member is gone that discovery has lacked since that time.
func isGone(member status.APIResource, since time.Time, deleted map[string]bool) bool {
	return time.Since(since) >= settleTime || deleted[member.GroupResource().String()] ||
		deleted[member.Version+"."+member.Group]
}

// wantedLocked returns the kinds of a discovery that the set is to have.
func (s *Set[T]) wantedLocked(latest *catalog) map[schema.GroupResource]status.APIResource {
	wanted := map[schema.GroupResource]status.APIResource{}
	for id, r := range latest.kinds {
		if isFollowable(r) && s.wantsLocked(latest, r) {
			wanted[id] = r
		}
	}
	return wanted
}

// wantsLocked reports whether Select or a holder wants a kind.
func (s *Set[T]) wantsLocked(latest *catalog, r status.APIResource) bool {
	return s.config.Select == nil || s.config.Select(r) || s.holdersLocked(latest, r.GroupResource()) > 0
}

// holdersLocked returns the number of holders of a member, under any of its names.
func (s *Set[T]) holdersLocked(latest *catalog, id schema.GroupResource) (n int) {
	for held, holders := range s.held {
		if latest.canonical(held) == id {
			n += holders
		}
	}
	return n
}

// want makes the members those of the kinds. It needs turn.
func (s *Set[T]) want(kinds map[schema.GroupResource]status.APIResource) {
	all := make(map[schema.GroupResource]func() *informer.Informer[T], len(kinds))
	for id, r := range kinds {
		all[id] = func() *informer.Informer[T] {
			return informer.New(s.client, s.config.collection(r), s.config.member())
		}
	}
	s.members.Want(all, set.Deliver)
}

// Kind returns what discovery says about a member, with the version that the set follows.
func (s *Set[T]) Kind(kind schema.GroupResource) (r status.APIResource, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok = s.kinds[s.catalog.canonical(kind)]
	return r, ok
}

// Kinds returns the kinds of all members, sorted by group and name.
func (s *Set[T]) Kinds() []status.APIResource {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.kinds), func(a, b status.APIResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
}

// Store returns the store of a member. If the set does not have it, the error says why, and wraps [ErrNotMember].
func (s *Set[T]) Store(kind schema.GroupResource) (*informer.Store[T], error) {
	s.mu.Lock()
	id := s.catalog.canonical(kind)
	s.mu.Unlock()
	if store, err := s.members.Store(id); err == nil {
		return store, nil
	}
	_, err := s.why(kind)
	return nil, err
}

// ErrNotMember indicates that a set does not have a kind.
var ErrNotMember = set.ErrNotMember

// why returns why the set does not have a kind, and whether that can change without anybody else's doing.
func (s *Set[T]) why(kind schema.GroupResource) (canChange bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latest := s.catalog
	if latest == nil {
		return true, fmt.Errorf("%s: %w: there was no discovery yet", kind, ErrNotMember)
	}
	id := latest.canonical(kind)
	held := s.holdersLocked(latest, id) > 0
	r, ok := latest.kinds[id]
	unknown := latest.whyUnknown(id.Group)
	switch {
	case ok && !isFollowable(r):
		return false, fmt.Errorf("%s: %w: it lacks the verbs list and watch", kind, ErrNotMember)
	case !ok && unknown != nil:
		return true, fmt.Errorf("%s: %w: its group is not known: %w", kind, ErrNotMember, unknown)
	case !ok:
		return held, fmt.Errorf("%s: %w: the server does not serve it", kind, ErrNotMember)
	}
	return held, fmt.Errorf("%s: %w: neither Config.Select nor a holder wants it", kind, ErrNotMember)
}

// metadata is what the set reads of definitions and APIServices.
type metadata = *metav1.PartialObjectMetadata
