package status

import "time"

// ReflectorState is what a reflector is doing.
//
//	Idle -- Run --> Listing -- whole list in the sink --> Watching
//	                 ^ |  ^ |                              ^ |  |
//	                 | |  | | version too old or too new,  | |  | changes are lost:
//	                 | |  | | no streaming: list otherwise | |  | wait in Backoff, then
//	                 | |  +-+                              | |  +--------------> Listing
//	                 | |                                   | |
//	                 | +-- failed --> Backoff              | +-- failed --> Backoff
//	                 |                 |                   |                 |
//	                 +-- after a while +                   +-- after a while +
//	                 |
//	                 +-- after a while -- Absent <-- not served -- Listing or Watching
//	                 |
//	                 +-- after a while -- Polled <-- cannot be watched -- Listing or Watching
//
// The server does not serve the resource if it answers 404 and its discovery shows that no version of the API group has
// the resource. Any other 404 is a failure. When the server ends a watch normally, the reflector opens the next one.
// From every state, the end of Run's context leads to Idle.
type ReflectorState uint8

const (
	// ReflectorIdle is the state before Run and after it.
	ReflectorIdle ReflectorState = iota
	// ReflectorListing reads the whole collection, from the server or from a saved state.
	ReflectorListing
	// ReflectorWatching follows the changes; Reflector.WatchOpen reports whether a watch is open.
	ReflectorWatching
	// ReflectorBackoff waits before a retry.
	ReflectorBackoff
	// ReflectorAbsent waits until the server serves the resource, whose custom resource definition is not installed. The
	// reflector lists every 0 to 30 s, and asks discovery again every five minutes.
	ReflectorAbsent
	// ReflectorPolled lists every informer.Config.PollEvery: the server cannot watch the collection. It also lasts while
	// a list is under way. An hour later, the reflector tries to watch again.
	ReflectorPolled
)

// String returns the name of the state, such as "Listing".
func (s ReflectorState) String() string {
	return nameOf(s, "ReflectorState", "Idle", "Listing", "Watching", "Backoff", "Absent", "Polled")
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (s ReflectorState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reflector is the status of an informer.Reflector.
type Reflector struct {
	// Namespace is the namespace that the reflector follows. Empty means the whole collection.
	Namespace string
	State     ReflectorState
	// Since is the time at which the reflector entered State.
	Since time.Time
	// Awaits is what the reflector waits for.
	Awaits Awaiting
	// RetryAt is the time of the next try in the states ReflectorBackoff and ReflectorAbsent, and of the next list in the
	// state ReflectorPolled. Zero in other states.
	RetryAt time.Time
	// Transitions are the latest states that the reflector entered, the oldest first, at most 16.
	Transitions []Transition
	// LastError is the last failure. Nil means that there was none. A success does not clear it. An
	// *informer.DecodeError in it has no Raw.
	LastError error `json:"-"`
	// LastErrorTime is the time of LastError.
	LastErrorTime time.Time
	// ResourceVersion is the resource version up to which the sink has every change. Empty before the first list.
	ResourceVersion string
	// ResourceVersionTime is the time at which the reflector received ResourceVersion. While nothing changes, the server
	// sends a newer version about every minute, or every ten minutes.
	ResourceVersionTime time.Time
	// WatchOpen is true while a watch is open.
	WatchOpen bool
	// NoWatchSince is when the last watch ended, or when Run began if no watch was open yet. In the state ReflectorPolled,
	// it is when the last list ended. Zero while a watch is open, and before Run.
	NoWatchSince time.Time
	// Traffic counts requests and received data.
	Traffic ReflectorTraffic
	// Restored counts how often the reflector found that the server went back in time, as after a restore from a backup.
	Restored int
	// Failures is the number of consecutive failures, which determines the backoff. Two minutes without a failure reset
	// it, and a watch that delivered an event or a bookmark, or stood for ten seconds, makes the next one the first.
	Failures int
	// DecodeErrors counts objects and events that could not be decoded.
	DecodeErrors int
	// Stale is the number of objects whose newest version could not be decoded. The store has an older version of each,
	// or none; see informer.InformerStatus.Missing. In the status of an informer, it matches the present content of the
	// store.
	Stale int
	// OutsideShard counts the objects and events from outside the shard that the server sent. Zero means that the server
	// filters by shard, or that no shard is set.
	OutsideShard int64
	// List is the progress of the list under way, or of the last one.
	List List
	// WarmStart is the status of informer.Config.WarmStart.
	WarmStart WarmStart
}

// ReflectorTraffic counts the requests and the received data of a [Reflector].
type ReflectorTraffic struct {
	// Lists and Watches count requests. A streaming list counts as both.
	Lists, Watches int
	// ListsBy counts the lists that the reflector began, each of one or several requests, by reason. WatchesBy counts the
	// watches that it requested at a resource version. Reasons that did not occur are missing.
	ListsBy, WatchesBy map[Reason]int
	// SharedKeys is the number of keys that the server gives to several objects with different UIDs at once, as a proxy of
	// several clusters can. The store keeps one object of each, and ignores the others until the server deletes that one.
	// Then another one takes its place.
	SharedKeys int
	// Modified counts the objects that a program has modified in the store, as far as the reflector found it. Nobody may
	// do so, since others read these objects, and later versions and other objects have parts of them. The reflector
	// decodes about one of a thousand objects that have such parts once more, and takes the right one. After a finding,
	// it does so with 4,096 in a row.
	Modified int
	// Bytes counts the bytes of the bodies of lists and watches, without compression. Events counts the events of watches,
	// also bookmarks and the initial events of streaming lists. Late counts the events that were older than the resource
	// version before them, but not older than the object in the store. The informer applies them, and from then on audits
	// whenever a watch resumes: the server may lose such events when a watch ends.
	Bytes, Events, Late int64
	// AuditID names the latest watch in the server's audit log: the Audit-Id of its response, empty if there was none.
	AuditID string
	// CutAfter is the time after which something between client and server cuts watches, often a proxy: the age of a
	// watch, or the silence in it, at two cuts in a row. The reflector then asks the server to end watches before that.
	// Zero means that it has learned of no such limit, or that a later watch stood for longer.
	CutAfter time.Duration
}

// Transition is a change of the state of a [Reflector].
type Transition struct {
	Time  time.Time
	State ReflectorState
	// Reason is why the reflector lists or watches.
	Reason Reason
	// Err is the failure after which the reflector waits. It is nil in the states ReflectorListing and ReflectorWatching,
	// and after Run.
	Err error `json:"-"`
}

// Reason is why a [Reflector] lists or watches.
type Reason uint8

const (
	// ReasonFirst: the first list of a Run, or the first watch after a list.
	ReasonFirst Reason = iota
	// ReasonEnded: the server ended the watch normally.
	ReasonEnded
	// ReasonFailed: the request before failed, or the watch broke.
	ReasonFailed
	// ReasonExpired: the server no longer has the changes since the resource version of the watch.
	ReasonExpired
	// ReasonRestored: the server went back in time, as after a restore from a backup.
	ReasonRestored
	// ReasonBehind: the server has not reached the resource version, so the reflector asks for any version.
	ReasonBehind
	// ReasonRefused: the server refused a streaming list.
	ReasonRefused
	// ReasonAbsent: the server did not serve the resource, as discovery showed.
	ReasonAbsent
	// ReasonUnclear: the watch sent a deletion or an object that the reflector cannot assign to a key, or a version that
	// is not a number.
	ReasonUnclear
	// ReasonShard: the shard has changed.
	ReasonShard
	// ReasonWarmStart: the watch resumes from a saved state.
	ReasonWarmStart
	// ReasonAudit: an audit found that the store differs from the server; see informer.Informer.Audit.
	ReasonAudit
	// ReasonUpdated: the client was updated; see informer.Client.Update.
	ReasonUpdated
	// ReasonPolled: the server cannot watch the collection; see informer.Config.PollEvery.
	ReasonPolled
)

// String returns the name of the reason in lower case, such as "expired".
func (r Reason) String() string {
	return nameOf(r, "Reason", "first", "ended", "failed", "expired", "restored", "behind", "refused", "absent", "unclear",
		"shard", "warm start", "audit", "updated", "polled")
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Awaiting is what a reflector waits for.
type Awaiting uint8

const (
	// AwaitingNothing: the reflector processes data, or does not run.
	AwaitingNothing Awaiting = iota
	// AwaitingRateLimit: the client's own rate limit delays a request.
	AwaitingRateLimit
	// AwaitingResponse: the server has not begun to answer a request.
	AwaitingResponse
	// AwaitingData: a list or a watch is open. A watch without changes stays in this state.
	AwaitingData
	// AwaitingSink: the sink has not accepted a list; see informer.InformerStatus.Blocked.
	AwaitingSink
	// AwaitingRetry: the wait after a failure, or between two lists, has not ended.
	AwaitingRetry
	// AwaitingWarmStart: the storage of informer.Config.WarmStart has not sent all of the saved state.
	AwaitingWarmStart
)

// String returns what the reflector waits for, such as "the response".
func (a Awaiting) String() string {
	return nameOf(a, "Awaiting", "nothing", "the rate limit of the client", "the response", "data of the server",
		"room for the list", "the next try", "the saved state")
}

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (a Awaiting) MarshalText() ([]byte, error) { return []byte(a.String()), nil }
