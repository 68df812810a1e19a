package kinds

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

// Config configures a [Set]. The zero value is right for metadata of all kinds.
type Config[T informer.Object] struct {
	// Select reports whether the set has a kind. The server serves the kind with the verbs list and watch. Select is
	// called at each discovery, one call at a time. It must be fast, and must not call the set. Nil means all kinds.
	Select func(r status.APIResource) bool
	// Namespaces are the namespaces to follow, in kinds that have namespaces. Empty means all of them. Cluster-scoped
	// kinds are always whole.
	Namespaces []string
	// LabelSelector restricts each kind, in the syntax of metav1.ListOptions. Empty means all objects.
	LabelSelector string
	// Member is the configuration of the informer of each kind. Its functions are called concurrently for different kinds.
	// If T is an interface, Member.Prototype names the type to decode, which must fit each kind. If Member.Logger is nil,
	// informers use Logger, but write only warnings and errors, and few of those while a failure lasts. A nil Member.Parts
	// means one that all kinds share.
	Member informer.Config[T]
	// Starts is how many kinds may be in their first list at once. Zero means 8.
	Starts int
	// DiscoverEvery is the period of discoveries without a change of CustomResourceDefinitions or APIServices, with a
	// jitter of a tenth. Zero means five minutes.
	DiscoverEvery time.Duration
	// Logger receives failures of discovery, and of members. Nil means slog.Default.
	Logger *slog.Logger
}

const defaultDiscoverEvery = 5 * time.Minute

// validate names the field that is wrong.
func (c *Config[T]) validate() error {
	if c.DiscoverEvery < 0 {
		return fmt.Errorf("Config.DiscoverEvery is %v: it must not be negative", c.DiscoverEvery)
	}
	if c.Starts < 0 {
		return fmt.Errorf("Config.Starts is %d: it must not be negative", c.Starts)
	}
	if _, err := labels.Parse(c.LabelSelector); err != nil {
		return fmt.Errorf("Config.LabelSelector: %w", err)
	}
	if c.Member.WarmStart.Storage != nil {
		return errors.New("Config.Member.WarmStart is set: a set cannot save its members")
	}
	return nil
}

func (c *Config[T]) logger() *slog.Logger { return cmp.Or(c.Logger, slog.Default()) }

func (c *Config[T]) discoverEvery() time.Duration {
	return cmp.Or(c.DiscoverEvery, defaultDiscoverEvery)
}

// member returns the configuration of a member.
func (c *Config[T]) member() informer.Config[T] {
	member := c.Member
	if member.Logger == nil {
		member.Logger = quiet(c.logger())
	}
	return member
}

// collection returns what the member of a kind follows.
func (c *Config[T]) collection(r status.APIResource) informer.Resource {
	collection := informer.Resource{GroupVersionResource: r.GroupVersionResource, LabelSelector: c.LabelSelector}
	if r.Namespaced {
		collection.Namespaces = c.Namespaces
	}
	return collection
}
