package informer

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/typedinformer/informer/internal/informer/durable"
)

// DurableConfig makes a subscription durable: after a restart of the program, it continues where it stopped. Each
// change reaches the handler at least once, also a deletion while the program did not run, and objects that have not
// changed do not reach it again. The zero value is for a subscription that is not durable.
//
//	config.Durable = informer.DurableConfig{Name: "audit", Storage: informer.WarmStartDir("/var/lib/my-shipper")}
//
// The state of the subscription is which version of each object the handler has acknowledged, which it does when it
// returns from the call. Once the informer has synced, the subscription compares that with the store, and the handler
// receives, ordered by key and without a gap before later changes:
//
//   - OnUpdate for an object with another resource version. Objects without versions are compared by content
//   - OnAdd with initial=false for a new object
//   - OnDelete with final=false for an object that is gone
//   - OnDelete and OnAdd for a new object under the name of another one
//
// At the first start, it receives all objects as initial additions. Subscription.WaitSynced returns when the handler
// has processed the difference.
//
// The old object of such an update, and the last one of such a deletion, are what the storage has: the metadata without
// managedFields in an otherwise empty object, or the whole object with Objects. If its type has changed since, they
// have what it can decode, at least the metadata.
//
// The process may end at any moment. Then the handler receives again what it had received since the last save. It may
// then receive an OnAdd for an object that it has, an OnUpdate for one whose OnDelete it has received, because it
// passes the filter again, and an OnDelete for an object whose OnAdd it has not received: before the handler receives
// an addition, the storage must know of it, so that the deletion cannot be lost. An addition, and all changes behind
// it, therefore wait for a save, which notes all additions that wait, and which begins when Interval has passed since
// the save before. While the storage fails, they wait as long; see [status.Durable]. In the status of the subscription,
// this wait is not a part of the call, but of Oldest. After a call that has panicked, the next version of the object
// comes as the first one would have.
//
// The state does not depend on warm starts, on the resource versions of lists, or on the version of the resource: it
// continues after a 410, with another version of a custom resource, and after a restore of etcd. The restored versions
// of objects are then updates. A restore that leads to other content under the same UID and resource version does not
// show. After a change of Config.Transform, unchanged objects do not come again, and what Filter, Config.Filter, a
// selector, the namespaces or the shard of the informer no longer select is deleted. So do not use it with an informer
// that begins without its Selections, or with a shard that moves between replicas, unless that is what you want.
//
// A deletion is only delivered if the object is gone: not for one that exists and cannot be decoded, nor for a
// selection that the server refuses, nor for up to a minute while a resource is absent, or while the store has no
// resource version, because its selections do not agree yet on an object that moves. If the server is behind what the
// handler has, for example because another API server answers, or if the store has no resource version yet, the
// comparison waits for up to 30 s. What is not known when the informer is retired stays in the state.
//
// A state that is damaged, incomplete, or of another cluster ends the subscription with an error that wraps
// [ErrDurableState] and names the files. To begin anew, delete them. Clusters are compared as by [WarmStartConfig], but
// if the UID of the namespace kube-system is known, the address may change.
//
// A process holds 100 bytes for each key, and 220 while it differs from the base.
type DurableConfig struct {
	// Name identifies the subscription in Storage, beside the resource. It has up to 100 letters, digits, '-', '_' and
	// '.', and begins with a letter or digit. Two subscriptions to one resource, in one process or in two, need different
	// names or different storages, also if they run at the same time for only a moment: otherwise changes can be lost. It
	// must not be empty if Storage is set.
	Name string
	// Storage keeps the state, in two files whose names begin with the resource and Name. It may be the one of
	// Config.WarmStart. Nil means that the subscription is not durable.
	Storage WarmStartStorage
	// Objects saves whole objects. False means that the state has only their metadata, which takes less room.
	Objects bool
	// Interval is the time between two saves. Zero means a second.
	Interval time.Duration
	// Secrets allows states of Secrets, whole or of their metadata, which can have annotations with the content. States
	// are not encrypted. False means that a durable subscription to secrets is invalid.
	Secrets bool
}

// ErrDurableState indicates that a durable subscription has ended because its state cannot be used: it is damaged,
// incomplete, or of another cluster, or the storage could not read it. The text names the files.
var ErrDurableState = durable.ErrState

const (
	defaultDurableInterval = time.Second
	maxDurableName         = 100
)

var durableName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]*$`)

// validate names the field that is wrong.
func (c *DurableConfig) validate() error {
	switch {
	case c.Interval < 0:
		return fmt.Errorf("SubscriptionConfig.Durable.Interval is %v: it must not be negative", c.Interval)
	case c.Storage == nil && c.Name != "":
		return errors.New("SubscriptionConfig.Durable.Storage is nil: a durable subscription needs a storage for its state")
	case c.Storage == nil:
		return nil
	case len(c.Name) > maxDurableName || !durableName.MatchString(c.Name):
		return fmt.Errorf("SubscriptionConfig.Durable.Name is %.200q: it must have 1 to %d letters, digits, '-', '_' and '.', "+
			"and begin with a letter or digit", c.Name, maxDurableName)
	}
	return nil
}
