package status

import "time"

// Subscription is the status of an informer.Subscription.
type Subscription struct {
	Name string
	// Backlog is the number of keys with changes that wait for the handler. With informer.DeliverEvery, it is the number
	// of changes.
	Backlog int
	// Busy is how long the current call has taken so far. Zero means that no call is under way. The informer logs a
	// warning after 10 s, and then whenever a call takes twice as long as at the last warning.
	Busy time.Duration
	// Oldest is how long the oldest waiting change has waited. Changes of one key that fold wait since the first of them.
	Oldest time.Duration
	// Delays has the times from a change in the store to its call, for each call. Calls has the times that calls took; its
	// Max is the slowest call. For an iteration with informer.Informer.Changes, the body of the loop is the call.
	Delays, Calls Durations
	// Synced is true once the handler has processed the whole initial list.
	Synced bool
	// Blocking is true while the informer waits for the handler; see informer.DeliverEveryBlocking.
	Blocking bool
	// Durable is the status of the state of a durable subscription, and nil for others; see informer.DurableConfig.
	Durable *Durable
}
