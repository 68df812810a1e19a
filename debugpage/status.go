package debugpage

import "time"

// Status is the JSON of status.json: everything that the page shows, except objects. Later versions may add fields;
// existing ones keep their names and meanings. Durations are in seconds, sizes in bytes, times as in RFC 3339. No list
// is null.
type Status struct {
	// Name is Config.Name.
	Name string `json:"name"`
	// Time is the time of the answer.
	Time time.Time `json:"time"`
	// Authorized says whether Config.Authorize has admitted the sender of the request.
	Authorized bool    `json:"authorized"`
	Process    Process `json:"process"`
	// Problems has everything that is wrong now, errors before warnings.
	Problems    []Problem    `json:"problems"`
	Informers   []Informer   `json:"informers"`
	Sets        []Set        `json:"sets"`
	Queues      []Queue      `json:"queues"`
	Controllers []Controller `json:"controllers"`
	Clients     []Client     `json:"clients"`
	Replicas    []Replica    `json:"replicas"`
	Managers    []Manager    `json:"managers"`
	Electors    []Elector    `json:"electors"`
	// CanAuthorize says that there is a Config.Authorize.
	CanAuthorize bool `json:"canAuthorize"`
	// Stores are the stores whose objects the page shows to authorized callers.
	Stores []Store `json:"stores"`
}

// Severity says how bad a problem is. Empty means that there is none.
type Severity string

// The severities.
const (
	// SeverityError: something does not work.
	SeverityError Severity = "error"
	// SeverityWarning: something is slow or incomplete.
	SeverityWarning Severity = "warning"
)

// Problem is something that is wrong.
type Problem struct {
	Severity Severity `json:"severity"`
	// Kind is informer, watch, subscription, set, queue, controller, client, replica, manager or elector, and Name says which
	// one.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Message says what is wrong. It has no text of an error, and no key.
	Message string `json:"message"`
	// Detail has the key and the text of the error. Only authorized callers receive it.
	Detail string `json:"detail,omitempty"`
}

// Process has the figures of the Go runtime.
type Process struct {
	// HeapBytes is the memory of objects: live ones, and dead ones that are not freed yet.
	HeapBytes uint64 `json:"heapBytes"`
	// TotalBytes is all memory that the Go runtime has from the operating system.
	TotalBytes uint64 `json:"totalBytes"`
	Goroutines uint64 `json:"goroutines"`
}

// Informer is the status of an informer.
type Informer struct {
	// Name describes the collection, as "apps/v1 deployments in a,b with labels app=web". Informers of the same collection
	// have the same name.
	Name string `json:"name"`
	// Set and Member are the set of informers to which the informer belongs, and its name there. They are empty for others.
	Set    string `json:"set,omitempty"`
	Member string `json:"member,omitempty"`
	// Group, Version and Resource identify the collection. Namespaces and the selectors restrict it.
	Group         string   `json:"group"`
	Version       string   `json:"version"`
	Resource      string   `json:"resource"`
	Namespaces    []string `json:"namespaces"`
	LabelSelector string   `json:"labelSelector"`
	FieldSelector string   `json:"fieldSelector"`
	// Severity is the worst of the problems of the informer, its watches and its subscriptions.
	Severity        Severity `json:"severity"`
	Synced          bool     `json:"synced"`
	ResourceVersion string   `json:"resourceVersion"`
	Objects         int      `json:"objects"`
	// MemoryBytes is an estimate of the memory that the store takes.
	MemoryBytes int64 `json:"memoryBytes"`
	// Modified counts the objects that the program has modified in the store, as far as that was found.
	Modified int `json:"modified"`
	// Queued is the number of changes that wait to enter the store. Blocked is the number of reflectors that wait because
	// that queue is full.
	Queued        int            `json:"queued"`
	Blocked       int            `json:"blocked"`
	Watches       []Watch        `json:"watches"`
	Subscriptions []Subscription `json:"subscriptions"`
	// Audit is absent until the informer has audited, or plans to.
	Audit *Audit `json:"audit,omitempty"`
}

// Set is a set of informers, such as those of the clusters of a fleet. Informers has those of 100 of its members at most:
// first those with errors, then those with warnings.
type Set struct {
	Name string `json:"name"`
	// Severity is the worst of the problems of all members.
	Severity Severity `json:"severity"`
	// Members is the number of members, and States that of each state. Bad is the number of those with problems.
	Members int            `json:"members"`
	States  map[string]int `json:"states"`
	Bad     int            `json:"bad"`
	// Objects, MemoryBytes, Events, Watches and Open are the sums of all members: Open is the number of open watches, and
	// Events that of events that they have received. Backlog is the number of changes that wait, and LagSeconds the age of
	// the oldest one.
	Objects     int     `json:"objects"`
	MemoryBytes int64   `json:"memoryBytes"`
	Events      int64   `json:"events"`
	Watches     int     `json:"watches"`
	Open        int     `json:"open"`
	Backlog     int     `json:"backlog"`
	LagSeconds  float64 `json:"lagSeconds"`
}

// Audit is the status of the audits of an informer, which compare its store with the server.
type Audit struct {
	// Equal, Different and Failed count audits by result. Differ is the number of objects that differed in all of them.
	Equal     int `json:"equal"`
	Different int `json:"different"`
	Failed    int `json:"failed"`
	Differ    int `json:"differ"`
	// Last is the last audit that could compare. LastEqual is when the last one without a difference began.
	Last      *AuditResult `json:"last,omitempty"`
	LastEqual time.Time    `json:"lastEqual,omitzero"`
	// LastError is the last failure or difference, without a time. A success does not clear it.
	LastError *Failure `json:"lastError,omitempty"`
	// Next is when the informer audits next by itself.
	Next time.Time `json:"next,omitzero"`
}

// AuditResult is what an audit has found.
type AuditResult struct {
	// Time is when the audit began.
	Time            time.Time `json:"time"`
	TookSeconds     float64   `json:"tookSeconds"`
	ResourceVersion string    `json:"resourceVersion"`
	// Objects is the number of objects of the server. Unclear ones could not be compared, and Differ is the number of
	// those that differ.
	Objects int   `json:"objects"`
	Unclear int   `json:"unclear"`
	Differ  int   `json:"differ"`
	Bytes   int64 `json:"bytes"`
	// Differences are the first objects that differ, 100 at most. Only authorized callers receive them, and those of
	// masked objects only callers whom Config.Unmask admits.
	Differences []Difference `json:"differences"`
}

// Difference is an object that differs between the store and the server.
type Difference struct {
	Key string `json:"key"`
	// Kind is missing, superfluous, recreated or outdated.
	Kind string `json:"kind"`
}

// Watch is the status of a reflector: the list and watch of one namespace, or of the whole collection.
type Watch struct {
	// Namespace is empty for the whole collection.
	Namespace string   `json:"namespace"`
	Severity  Severity `json:"severity"`
	// State is Idle, Listing, Watching, Backoff or Absent, since the time Since.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Awaits is what the watch waits for, as "the response".
	Awaits       string    `json:"awaits"`
	RetryAt      time.Time `json:"retryAt,omitzero"`
	Open         bool      `json:"open"`
	NoWatchSince time.Time `json:"noWatchSince,omitzero"`
	// ResourceVersion is the version up to which the store has every change, received at ResourceVersionTime.
	ResourceVersion     string    `json:"resourceVersion"`
	ResourceVersionTime time.Time `json:"resourceVersionTime,omitzero"`
	// Lists and Watches count requests. ListsBy and WatchesBy count lists and watches by reason.
	Lists     int            `json:"lists"`
	Watches   int            `json:"watches"`
	ListsBy   map[string]int `json:"listsBy"`
	WatchesBy map[string]int `json:"watchesBy"`
	// Bytes counts the bytes received, and Events the events of watches.
	Bytes  int64 `json:"bytes"`
	Events int64 `json:"events"`
	// Late counts the events that were older than the resource version before them, and were applied.
	Late int64 `json:"late"`
	// SharedKeys is the number of keys that the server gives to several objects at once.
	SharedKeys int `json:"sharedKeys"`
	// CutAfterSeconds is the time after which something between client and server cuts watches. Zero means that none is
	// known.
	CutAfterSeconds float64 `json:"cutAfterSeconds"`
	// Restored counts how often the server went back in time.
	Restored int `json:"restored"`
	// Failures is the number of consecutive failures.
	Failures     int `json:"failures"`
	DecodeErrors int `json:"decodeErrors"`
	Stale        int `json:"stale"`
	ListProgress
	LastError *Failure `json:"lastError,omitempty"`
	// WarmStart is absent unless the watch has loaded a saved state or saved one, or has tried to.
	WarmStart *WarmStart `json:"warmStart,omitempty"`
	// Transitions are the latest states, the oldest first, 16 at most.
	Transitions []Transition `json:"transitions"`
}

// ListProgress is the progress of the list under way, or of the last one.
type ListProgress struct {
	// Read is the number of objects read so far, and ListBytes that of received bytes.
	Read      int   `json:"read"`
	ListBytes int64 `json:"listBytes"`
	// ListTotal is the number of objects that the list will have. It is absent if that is not known.
	ListTotal int `json:"listTotal,omitempty"`
	// Progress describes a list under way, and what memory it will take if a limit is near.
	Progress string `json:"progress,omitempty"`
}

// Transition is a change of the state of a watch.
type Transition struct {
	Time  time.Time `json:"time"`
	State string    `json:"state"`
	// Why is the reason of a list or a watch, or the kind of a failure, as in Failure.Class. Authorized callers receive
	// the text of the failure instead.
	Why string `json:"why,omitempty"`
}

// Failure is an error.
type Failure struct {
	Time time.Time `json:"time,omitzero"`
	// Class says what kind of error it is, as "403 Forbidden" or "connection refused".
	Class string `json:"class"`
	// Text is the text of the error, shortened to 1 KiB. Only authorized callers receive it.
	Text string `json:"text,omitempty"`
}

// WarmStart is the status of the saved states of a watch.
type WarmStart struct {
	// Loaded says that the store began with the objects of a saved state: LoadedObjects, which were LoadedAgeSeconds old.
	Loaded           bool    `json:"loaded"`
	LoadedObjects    int     `json:"loadedObjects"`
	LoadedAgeSeconds float64 `json:"loadedAgeSeconds"`
	LoadSeconds      float64 `json:"loadSeconds"`
	// CatchUpTo is the resource version that the server had at the start. It is empty once the store has reached it.
	CatchUpTo string `json:"catchUpTo,omitempty"`
	// LoadFailure is why the store did not begin with a saved state. Only authorized callers receive it.
	LoadFailure string `json:"loadFailure,omitempty"`
	// Saves counts the saves. The last one has SavedObjects and SavedBytes, and took SaveSeconds.
	Saves        int       `json:"saves"`
	SavedAt      time.Time `json:"savedAt,omitzero"`
	SavedObjects int       `json:"savedObjects"`
	SavedBytes   int64     `json:"savedBytes"`
	SaveSeconds  float64   `json:"saveSeconds"`
	// SaveFailed says that the latest save failed. Only authorized callers receive SaveFailure, the text of the error.
	SaveFailed  bool   `json:"saveFailed"`
	SaveFailure string `json:"saveFailure,omitempty"`
}

// Subscription is the status of a handler.
type Subscription struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Synced   bool     `json:"synced"`
	// Blocking says that the informer waits for the handler.
	Blocking bool `json:"blocking"`
	Backlog  int  `json:"backlog"`
	// BusySeconds is how long the current call has taken so far.
	BusySeconds float64 `json:"busySeconds"`
	// OldestSeconds is how long the oldest waiting change has waited.
	OldestSeconds float64 `json:"oldestSeconds"`
	// Delays has the times from the store to the handler, and Calls the times that calls took.
	Delays Durations `json:"delays"`
	Calls  Durations `json:"calls"`
	// Durable has the state of a durable subscription.
	Durable *Durable `json:"durable,omitempty"`
}

// Durations is a histogram.
type Durations struct {
	Count      uint64  `json:"count"`
	SumSeconds float64 `json:"sumSeconds"`
	MaxSeconds float64 `json:"maxSeconds"`
	// Buckets has the buckets that are not empty. Longer durations than those of the last possible bucket, 268 seconds,
	// are only in Count.
	Buckets []Bucket `json:"buckets"`
}

// Bucket counts durations.
type Bucket struct {
	// AtMostSeconds is the upper bound of the bucket. The lower one is a quarter of it.
	AtMostSeconds float64 `json:"atMostSeconds"`
	Count         uint64  `json:"count"`
}

// Queue is the status of a queue.
type Queue struct {
	Name string `json:"name"`
	// Controller is the name of the controller that the queue belongs to.
	Controller string   `json:"controller,omitempty"`
	Severity   Severity `json:"severity"`
	// State is Open, Draining or Closed.
	State string `json:"state"`
	// High, Normal and Low are the numbers of ready keys by priority, and Ready is their sum.
	High    int    `json:"high"`
	Normal  int    `json:"normal"`
	Low     int    `json:"low"`
	Ready   int    `json:"ready"`
	Delayed int    `json:"delayed"`
	InWork  int    `json:"inWork"`
	Adds    uint64 `json:"adds"`
	Retries uint64 `json:"retries"`
	Refused uint64 `json:"refused"`
	// Awaited is the number of keys that wait until they belong to this replica. Foreign counts those that were dropped
	// because they belong to another one.
	Awaited               int     `json:"awaited"`
	Foreign               uint64  `json:"foreign"`
	LongestRunningSeconds float64 `json:"longestRunningSeconds"`
	// LongestRunningKey is the key of that call. Only authorized callers receive it.
	LongestRunningKey string  `json:"longestRunningKey,omitempty"`
	UnfinishedSeconds float64 `json:"unfinishedSeconds"`
	// LongestReadySeconds is how long the oldest ready key has been ready.
	LongestReadySeconds float64 `json:"longestReadySeconds"`
	// Waits has the times from a key being ready to being handed out, and Works those from there to being done.
	Waits Durations `json:"waits"`
	Works Durations `json:"works"`
}

// Controller is the status of a controller. Its queue is in Status.Queues.
type Controller struct {
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	Running  bool     `json:"running"`
	// Workers is the number of calls of Reconcile that may run at the same time, and Active the number of those that do.
	Workers int `json:"workers"`
	Active  int `json:"active"`
	// The calls of Reconcile, by result. Terminal and Panicked are parts of Failed.
	Succeeded     uint64 `json:"succeeded"`
	RequeuedAfter uint64 `json:"requeuedAfter"`
	BackedOff     uint64 `json:"backedOff"`
	Failed        uint64 `json:"failed"`
	Terminal      uint64 `json:"terminal"`
	Panicked      uint64 `json:"panicked"`
	// Failing is the number of keys whose latest call failed. FailingKeys are those that have failed for longest, 10 at
	// most. Only authorized callers receive them.
	Failing     int          `json:"failing"`
	FailingKeys []FailingKey `json:"failingKeys,omitempty"`
	// LastSuccess is when a call last succeeded. LastError is the latest failure. Its key, LastErrorKey, is for authorized
	// callers only.
	LastSuccess  time.Time `json:"lastSuccess,omitzero"`
	LastError    *Failure  `json:"lastError,omitempty"`
	LastErrorKey string    `json:"lastErrorKey,omitempty"`
	// Reconciles has the times that the calls took.
	Reconciles Durations `json:"reconciles"`
}

// FailingKey is a key whose latest call of Reconcile failed: Failures times in a row, since the time Since.
type FailingKey struct {
	Key      string    `json:"key"`
	Since    time.Time `json:"since"`
	Failures int       `json:"failures"`
}

// Client is the status of a client.
type Client struct {
	// Host is the host and port of the API server.
	Host     string   `json:"host"`
	Severity Severity `json:"severity"`
	// RecentRequests is the number of requests of the last five minutes, and RecentFailures the number of those that
	// failed: without a response, or with the status 401, 403, 429 or 5xx.
	RecentRequests uint64    `json:"recentRequests"`
	RecentFailures uint64    `json:"recentFailures"`
	LastSuccess    time.Time `json:"lastSuccess,omitzero"`
	LastError      *Failure  `json:"lastError,omitempty"`
	// Requests are sorted by method, then code.
	Requests []Requests `json:"requests"`
	// Latencies has the times to the header of a response, by HTTP method.
	Latencies map[string]Durations `json:"latencies"`
	// Throttled has the times that requests waited for the client's own rate limit.
	Throttled Durations `json:"throttled"`
}

// Requests counts requests.
type Requests struct {
	Method string `json:"method"`
	// Code is the HTTP status. Zero means that there was no response.
	Code  int    `json:"code"`
	Count uint64 `json:"count"`
}

// Replica is the status of one replica of a program that shares objects with others.
type Replica struct {
	// Group is the namespace and the name of the group, as "kube-system/sites". Identity is the name of this replica.
	Group    string   `json:"group"`
	Identity string   `json:"identity"`
	Severity Severity `json:"severity"`
	// State is Idle, Joining, Member or Leaving.
	State string `json:"state"`
	// Replicas are the identities of all replicas that have a Lease in the group.
	Replicas []string `json:"replicas"`
	// Slots is the number of slots of the group. This replica should have Planned. Its informers hold the objects of Held,
	// its Lease has Claimed, and it reconciles the keys of Owned.
	Slots   int `json:"slots"`
	Planned int `json:"planned"`
	Held    int `json:"held"`
	Claimed int `json:"claimed"`
	Owned   int `json:"owned"`
	// Yielded slots are left to other replicas, because this one cannot list their objects.
	Yielded int `json:"yielded"`
	// Overdue are the calls of Reconcile that have not returned, although their slots move or the lease was lost. Only
	// authorized callers receive their keys.
	Overdue []OverdueCall `json:"overdue"`
	// The slots that the replica came to own, handed over, and lost with its lease, and how often it lost its lease.
	Gained     uint64 `json:"gained"`
	Released   uint64 `json:"released"`
	Lost       uint64 `json:"lost"`
	LeasesLost uint64 `json:"leasesLost"`
	// Renewed is when the last successful renewal of the lease was sent.
	Renewed   time.Time `json:"renewed,omitzero"`
	LastError *Failure  `json:"lastError,omitempty"`
}

// OverdueCall is a call of Reconcile that has not returned although its context has ended.
type OverdueCall struct {
	Key   string    `json:"key,omitempty"`
	Since time.Time `json:"since"`
}

// Manager is the status of a manager.
type Manager struct {
	Severity Severity `json:"severity"`
	// State is Idle, Starting, Running, Stopping or Stopped, since the time Since.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// StopBy is the deadline of a stop that has begun.
	StopBy time.Time `json:"stopBy,omitzero"`
	// Leading says that leader-only runnables may run.
	Leading bool `json:"leading"`
	// Failure is the first failure.
	Failure *Failure `json:"failure,omitempty"`
	// Tasks are the runnables in the order of their start.
	Tasks []Task `json:"tasks"`
}

// Task is the status of a runnable of a manager.
type Task struct {
	Name  string `json:"name"`
	Phase string `json:"phase"`
	// State is Waiting, Running, Stopping or Returned, since the time Since.
	State   string    `json:"state"`
	Since   time.Time `json:"since,omitzero"`
	Failure *Failure  `json:"failure,omitempty"`
}

// Elector is the status of an elector.
type Elector struct {
	// Lease is the namespace and the name of the Lease. Identity is the name of this replica, and Holder the identity in
	// the Lease.
	Lease    string   `json:"lease"`
	Identity string   `json:"identity"`
	Holder   string   `json:"holder"`
	Severity Severity `json:"severity"`
	// State is Idle, Candidate, Leading, Paused or Stopping, since the time Since.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Renewed is when the last successful renewal of the lease was sent. The work ends when the lease is
	// RenewDeadlineSeconds old, and has GraceSeconds to return.
	Renewed              time.Time `json:"renewed,omitzero"`
	RenewDeadlineSeconds float64   `json:"renewDeadlineSeconds"`
	GraceSeconds         float64   `json:"graceSeconds"`
	// Terms counts how often this replica has taken the lease, and Lost how often it has lost it.
	Terms uint64 `json:"terms"`
	Lost  uint64 `json:"lost"`
	// StopBy is the time by which the work must have returned, or all passes of its gate be left, if the lease is lost.
	StopBy    time.Time `json:"stopBy,omitzero"`
	LastError *Failure  `json:"lastError,omitempty"`
}

// Store is a store whose objects the page can show.
type Store struct {
	Name string `json:"name"`
	// Masked says that all objects of the store are masked, because of their resource or their type. Objects may be masked
	// in other stores, too.
	Masked bool `json:"masked"`
	// Indexes are the names of the indexes. IndexesHidden says that the sender of the request may not see their keys.
	Indexes       []string `json:"indexes"`
	IndexesHidden bool     `json:"indexesHidden"`
}
